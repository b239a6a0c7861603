// Package worker runs jobs of Skald in Go: it registers, sends heartbeats, claims
// runs, starts them, keeps their leases, and reports how they ended, over the HTTP
// API that docs/workers.md describes.
//
// A handler's context ends when its run is no longer this process's to do: somebody
// asked to cancel it, its lease was lost, its time is over, or the process stops.
// context.Cause tells which. What a handler then returns is not reported as a
// failure, except for timeouts: a canceled run is acknowledged, one of a process
// that stops is given back, and one that was lost is dropped, since another worker
// may have it already.
//
// Skald accepts one result of each run. It cannot keep two processes from doing
// the same work for a moment, when one of them was cut off: what must not happen
// twice is to be guarded by Run.FencingToken or Run.IdempotencyKey.
package worker
