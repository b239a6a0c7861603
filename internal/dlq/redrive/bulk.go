package redrive

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/google/uuid"

	"github.com/skald-saga/skald/internal/dlq"
	"github.com/skald-saga/skald/internal/failpoint"
	"github.com/skald-saga/skald/internal/loop"
	"github.com/skald-saga/skald/internal/page"
)

// Limits on the work on redrives. Redrives beyond bulkPlaces wait for their turn.
const (
	bulkPlaces = 8
	bulkSeen   = 200 // redrives read at once
	bulkRounds = 64  // rounds of claiming before other redrives get a turn
	// bulkPoll is the interval of claiming letters of an active redrive. A token bucket that holds
	// the tokens of one second must be emptied several times per second, or tokens are lost.
	bulkPoll = 100 * time.Millisecond
)

// begin marks a redrive as busy. It returns false if it was already busy.
func (t *turns) begin(id uuid.UUID) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.busy == nil {
		t.busy, t.judged = map[uuid.UUID]bool{}, map[uuid.UUID]time.Time{}
	}
	if t.busy[id] {
		return false
	}
	t.busy[id] = true
	return true
}

func (t *turns) end(id uuid.UUID) {
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.busy, id)
}

// mustJudge reports whether a redrive is due to be judged. It is due after any progress, and
// otherwise once per interval.
func (t *turns) mustJudge(id uuid.UUID, progress bool, every time.Duration) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	now := time.Now()
	for other, at := range t.judged { // forget redrives that have ended
		if now.Sub(at) > time.Minute+every {
			delete(t.judged, other)
		}
	}
	if !progress && now.Sub(t.judged[id]) < every {
		return false
	}
	t.judged[id] = now
	return true
}

// bulk works on all active redrives until ctx ends. Each redrive has its turn before any gets
// another one, no matter how many of them cannot continue. A round begins with the oldest redrive,
// and each read continues where the previous one ran out of places.
func (r *Redriver) bulk(ctx, drives context.Context) {
	places := make(chan struct{}, bulkPlaces)
	var working sync.WaitGroup
	defer working.Wait()
	for ctx.Err() == nil {
		active, err := r.cfg.Redrives.Active(ctx, r.turns.after, bulkSeen)
		if err != nil {
			r.warn(ctx, "cannot find active redrives", err)
		} else {
			r.cfg.Observer.Loop(LoopBulk)
		}
		over := err == nil && len(active) < bulkSeen
		for _, a := range active {
			if len(places) == cap(places) {
				over = false
				break
			}
			if r.turns.after = a.Place(); a.Unreadable || !r.turns.begin(a.ID) {
				continue
			}
			places <- struct{}{} // only this loop fills them
			working.Go(func() {
				more := r.work(ctx, drives, a)
				r.turns.end(a.ID)
				<-places
				if more {
					r.wake(LoopBulk)
				}
			})
		}
		wait := r.cfg.Poll
		if len(active) > 0 || r.turns.after.ID != uuid.Nil {
			wait = min(bulkPoll, r.cfg.Poll)
		}
		if over {
			r.turns.after = page.TimeID{}
		}
		loop.Await(ctx, loop.Jittered(wait), r.wakes[LoopBulk])
	}
}

// work continues one redrive as long as there is something to do. unfinished means that there is
// more to do once other redrives have had their turn.
//
// While one batch is in flight and its results are being stored, the next batch is claimed.
func (r *Redriver) work(ctx, drives context.Context, a dlq.Redrive) (unfinished bool) {
	p := r.startingPace()
	var under, next *flight
	more := true
	for round := 0; more || under != nil; round++ {
		stored := make(chan error, 1)
		if under != nil {
			go func() { stored <- r.storeEnds(drives, a.ID, under) }()
		}
		var progress, tried bool
		var err error
		if next = nil; more && ctx.Err() == nil {
			next, progress, more, err = r.step(ctx, drives, a, p, under)
			tried = true
		}
		if under != nil {
			err = errors.Join(err, <-stored)
			// In key order, the next letters depend on these. In addition, counting results locks
			// the redrive, so that a claim would get nothing in the meantime.
			progress, more = true, more || a.Order == dlq.PerKey || tried && next == nil
		}
		under = next
		if err != nil {
			r.complain(ctx, "a redrive cannot continue", a.ID, err)
			more = false
			continue
		}
		if r.turns.mustJudge(a.ID, progress, r.cfg.Poll) {
			before := a
			if a, err = r.cfg.Redrives.Judge(ctx, a.TenantID, a.ID, r.chance()); err != nil {
				r.complain(ctx, "cannot evaluate a redrive", a.ID, err)
				a, more = before, false
				continue
			}
			if a.State != before.State && a.State.Over() {
				r.cfg.Ended(a)
			}
			if a.State == dlq.RedriveHalted && before.State != a.State {
				r.cfg.Log.WarnContext(ctx, "redrive halted", slog.String("redrive_id", a.ID.String()),
					slog.String("reason", a.HaltReason))
			}
		}
		more = more && ctx.Err() == nil && a.State == dlq.RedriveRunning
		if more && round >= bulkRounds {
			unfinished, more = true, false
		}
	}
	return unfinished
}

// step gathers letters or processes one batch. progress means that something was done, and again
// that more can be done immediately. If a batch sent after the previous one is in flight, step
// returns it, and the caller stores its results.
func (r *Redriver) step(ctx, drives context.Context, a dlq.Redrive, p *pace,
	before *flight) (under *flight, progress, again bool, err error) {
	if a.State == dlq.RedrivePending || !a.Gathered {
		done, err := r.cfg.Redrives.Gather(ctx, a, 2*r.cfg.Batch)
		if err != nil {
			return nil, false, false, fmt.Errorf("gather: %w", err)
		}
		progress, again = true, true
		if !done {
			return nil, progress, again, nil
		}
	}
	if a.Action != dlq.BulkRetry {
		n, err := r.cfg.Redrives.Apply(ctx, a, r.cfg.Batch, r.chance())
		return nil, progress || n > 0, again || n > 0, err
	}
	under, full, n, err := r.take(ctx, drives, a, p, before)
	return under, progress || n > 0, again || full || n > 0 && a.Order == dlq.PerKey, err
}

// pace is the number of letters of a redrive that are claimed at once. Letters that were handed
// over are driven to completion even if the redrive is then paused, so pace starts low and grows
// while none of them goes to a target that may be slow.
type pace struct{ limit int }

// bulkMixed is the number of letters that are claimed if some targets may be slow.
const bulkMixed = 64

func (r *Redriver) startingPace() *pace { return &pace{min(bulkMixed, r.cfg.Batch)} }

// next adjusts the pace after a batch; fast means that the batch takes only a moment.
func (r *Redriver) next(p *pace, batch []dlq.Drive) (fast bool) {
	p.limit = min(2*p.limit, r.cfg.Batch)
	size := 0
	for i := range batch {
		size += len(batch[i].Send.Payload)
		if r.atOnce(batch[i].To.Kind) < r.cfg.Batch {
			*p = *r.startingPace()
			return false
		}
	}
	return size <= flightBytes
}

// flightBytes limits the size of the payloads in flight while the next batch is claimed, because
// two batches of large letters would not fit into a node's memory.
const flightBytes = 8 << 20

// flight is a batch in flight.
type flight struct {
	done chan struct{} // closed when all drives have ended
	told chan struct{} // closed when its progress is no longer reported
	ends []dlq.Finish  // the ends to store; read after told is closed
}

// take claims one batch of a redrive's letters and sends it, after the previous batch if order
// matters. full means that the batch was as large as allowed. If a batch may take long, take waits
// for it and returns a nil under.
func (r *Redriver) take(ctx, drives context.Context, a dlq.Redrive, p *pace,
	before *flight) (under *flight, full bool, n int, err error) {
	claimed := time.Now()
	call, cancel := context.WithTimeout(context.WithoutCancel(ctx), storing)
	waits := ""
	batch, err := r.cfg.Redrives.TakeItems(call, a, r.routes(&waits), r.cfg.Lease, p.limit)
	if err == nil && len(batch) == 0 && waits != "" && r.waits.due(a.ID, reportEvery) {
		err = r.cfg.Redrives.Waits(call, a.TenantID, a.ID, waits)
	}
	cancel()
	if err != nil {
		return nil, false, 0, fmt.Errorf("claim letters: %w", err)
	}
	full = len(batch) == p.limit
	fast := r.next(p, batch)
	if len(batch) == 0 || failpoint.Hit(failpoint.LetterAfterClaim) != nil {
		return nil, full, len(batch), nil
	}
	as := driveOptions{prepare: transformed(a), httpAtOnce: a.Concurrency, claimed: claimed, redrive: a.ID,
		progress: &progress{}}
	if before != nil {
		as.after = before.done
	}
	f := &flight{done: make(chan struct{}), told: make(chan struct{})}
	go func() {
		defer close(f.told)
		r.report(drives, &a, batch[0].To.Name(), as.progress, f.done)
	}()
	go func() {
		defer close(f.done)
		if ends, ok := r.drive(drives, batch, as); ok {
			f.ends = ends
		}
	}()
	if !fast {
		return nil, full, len(batch), r.storeEnds(drives, a.ID, f)
	}
	return f, full, len(batch), nil
}

// routes returns the targets that this node can reach, and records in held which participant is
// holding back letters.
func (r *Redriver) routes(held *string) dlq.Routes {
	routes := r.Routes()
	if r.cfg.Gate != nil {
		routes.Gate = func(tenant uuid.UUID, to *dlq.Target) string {
			p := r.cfg.Gate.Held(tenant, to.URL)
			if p == nil {
				return ""
			}
			*held = "the participant " + p.Name + ", which has been " + p.Gate.Sentence(r.cfg.Now())
			return p.Name
		}
	}
	return routes
}

// storeEnds waits for a batch in flight and stores its results.
func (r *Redriver) storeEnds(drives context.Context, redrive uuid.UUID, under *flight) error {
	<-under.done
	<-under.told
	if len(under.ends) == 0 {
		return nil
	}
	return r.store(drives, func(ctx context.Context) error { return r.cfg.Redrives.FinishItems(ctx, redrive, under.ends) })
}

// transformed returns the function that applies the redrive's transform to payloads, or nil if it
// has none.
func transformed(a dlq.Redrive) func(*dlq.Drive) error {
	if a.Transform == nil {
		return nil
	}
	return func(d *dlq.Drive) error {
		payload, err := dlq.Patched(d.Send.Payload, a.Transform)
		if err != nil {
			return fmt.Errorf("apply the redrive's transform: %w", err)
		}
		d.Send.Payload = payload
		return nil
	}
}
