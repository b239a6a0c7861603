// Package worker runs jobs of Skald in Go: it registers, sends heartbeats, claims and starts runs,
// keeps their leases, and reports their results over the HTTP API that docs/workers.md describes.
//
// A handler's context ends when the run no longer belongs to this process: its cancellation was
// requested, its lease was lost, it timed out, or the process is stopping. context.Cause returns
// the reason. What a handler returns after that is not reported as a failure, except for timeouts:
// a canceled run is acknowledged, the run of a stopping process is released, and a lost run is
// dropped, because another worker may already have it. A detached worker claims nothing more,
// confirms its runs, drains as a stopping one does, and registers under a new id. Runs of an older
// epoch than the newest one this process has seen are released: they were assigned in an abandoned
// database.
//
// Skald accepts one result per run. It cannot prevent two processes from doing the same work for a
// moment when one of them was cut off. Guard everything that must not happen twice with
// Run.FencingToken or Run.IdempotencyKey.
package worker
