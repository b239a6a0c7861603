// Package worker runs jobs of Skald in Go: it registers, sends heartbeats, claims runs,
// starts them, keeps their leases, and reports how they ended, over the HTTP API that
// docs/workers.md describes.
//
// A handler's context ends when the run no longer belongs to this process: its cancellation was
// requested, its lease was lost, it timed out, or the process stops. context.Cause tells which.
// What a handler returns after that is not reported as a failure, except for timeouts: a canceled
// run is acknowledged, the run of a stopping process is released, and a lost one is dropped, since
// another worker may have it already. A worker that was detached claims nothing more, confirms its
// runs, drains as a stopping one does, and registers under a new id. Runs of an older epoch than
// the process has seen are given back: they were assigned in an abandoned database.
//
// Skald accepts one result of each run. It cannot keep two processes from doing the
// same work for a moment when one of them was cut off: guard whatever must not happen
// twice by Run.FencingToken or Run.IdempotencyKey.
package worker
