package jobrun

import (
	"context"
	"time"
)

// HeldRun is a run that a worker holds, with the duration of its lease.
type HeldRun struct {
	RunFence
	TTL time.Duration // at least a millisecond
}

// LeaseHints is a cache of which worker holds which run (J-24). Only the leases in the database are
// authoritative; the cache may be stale or incomplete, and it returns no errors. A hint can save
// work but never permits or refuses anything. No method blocks for more than about 50 ms, even if
// the cache is unavailable.
type LeaseHints interface {
	// Hold records or refreshes which workers hold the runs, unless a later attempt is recorded. It
	// returns immediately; the record may be lost.
	Hold(runs ...HeldRun)
	// Release removes the records that Hold made for exactly these fences. It returns immediately
	// and may have no effect.
	Release(runs ...RunFence)
	// Alive reports for each run whether its worker, with exactly this fence, was seen within its
	// TTL. False means that this is unknown.
	Alive(ctx context.Context, runs []RunFence) []bool
}
