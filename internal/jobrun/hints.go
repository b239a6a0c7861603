package jobrun

import (
	"context"
	"time"
)

// HeldRun is a run that a worker has, and for how long it has it without being
// heard of again.
type HeldRun struct {
	RunFence
	TTL time.Duration // at least a millisecond
}

// LeaseHints is a cache of who has which run (J-24), in front of the leases in
// the database, which alone decide. What it tells may be old or missing, never
// an error: an answer of it saves work, and no answer of it is a permission or
// a refusal. No method waits for longer than some 50 ms, whatever the cache does.
type LeaseHints interface {
	// Hold notes, or notes again, that the workers have the runs, unless a later
	// attempt is noted. It returns at once; the note may be lost.
	Hold(runs ...HeldRun)
	// Release takes back what Hold noted of these very fences, likewise.
	Release(runs ...RunFence)
	// Alive tells for each run whether its worker, with this very fence, was heard
	// of within its TTL. False means that nothing is known.
	Alive(ctx context.Context, runs []RunFence) []bool
}
