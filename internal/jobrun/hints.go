package jobrun

import (
	"context"
	"time"
)

// HeldRun is a run that a worker has, and how long its lease lasts without another
// heartbeat.
type HeldRun struct {
	RunFence
	TTL time.Duration // at least a millisecond
}

// LeaseHints is a cache of which worker has which run (J-24). Only the leases in the
// database decide; the cache may be stale or incomplete and returns no errors. An
// answer can save work, but neither permits nor refuses anything. No method blocks for
// more than about 50 ms, whatever the cache does.
type LeaseHints interface {
	// Hold records or refreshes that the workers have the runs, unless a later attempt
	// is recorded. It returns immediately; the record may be lost.
	Hold(runs ...HeldRun)
	// Release removes what Hold recorded for exactly these fences. It, too, returns
	// immediately and may be lost.
	Release(runs ...RunFence)
	// Alive tells for each run whether its worker, with exactly this fence, was seen
	// within its TTL. False means unknown.
	Alive(ctx context.Context, runs []RunFence) []bool
}
