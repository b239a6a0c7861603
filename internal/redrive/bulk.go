package redrive

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/google/uuid"

	"github.com/skald-saga/skald/internal/dlq"
	"github.com/skald-saga/skald/internal/failpoint"
)

// Redrives worked on at once on this node; others wait for their turn.
const (
	bulkPlaces = 8
	bulkSeen   = 200
	bulkRounds = 64 // of claiming before others get a turn
	// bulkPoll is how often an active redrive is asked for letters. A bucket that
	// holds a second's worth must be emptied several times a second, or what runs
	// over is lost.
	bulkPoll = 100 * time.Millisecond
)

// turns says which redrives are being worked on here, and when each was judged.
type turns struct {
	mu     sync.Mutex
	busy   map[uuid.UUID]bool      // guarded by mu
	judged map[uuid.UUID]time.Time // guarded by mu
	first  int                     // owned by the bulk loop: who is asked first, in turn
}

// begin tells whether id is free, and makes it busy.
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

// mustJudge tells whether a redrive is judged now: always after progress, else
// every so often.
func (t *turns) mustJudge(id uuid.UUID, progress bool, every time.Duration) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	now := time.Now()
	for other, at := range t.judged { // those that have ended are forgotten
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

// bulk works on all active redrives until ctx ends.
func (r *Redriver) bulk(ctx, drives context.Context) {
	places := make(chan struct{}, bulkPlaces)
	var working sync.WaitGroup
	defer working.Wait()
	for ctx.Err() == nil {
		active, err := r.cfg.Redrives.Active(ctx, bulkSeen)
		if err != nil {
			r.warn(ctx, "cannot look for redrives", err)
		} else {
			r.cfg.Observer.Loop(LoopBulk)
		}
		r.turns.first++
		for i := range active {
			a := active[(i+r.turns.first)%len(active)]
			if len(places) == cap(places) {
				break
			}
			if !r.turns.begin(a.ID) {
				continue
			}
			places <- struct{}{} // only this loop fills them
			working.Go(func() {
				r.work(ctx, drives, a)
				r.turns.end(a.ID)
				<-places
			})
		}
		wait := r.cfg.Poll
		if len(active) > 0 {
			wait = min(bulkPoll, r.cfg.Poll)
		}
		pause(ctx, r.wakes[LoopBulk], wait)
	}
}

// work goes on with one redrive as long as there is something to do at once.
func (r *Redriver) work(ctx, drives context.Context, a dlq.Redrive) {
	p := r.slowly()
	for range bulkRounds {
		if ctx.Err() != nil {
			return
		}
		progress, again, err := r.step(ctx, drives, a, p)
		if err != nil {
			r.warn(ctx, "a redrive cannot go on", err, slog.String("redrive_id", a.ID.String()))
			return
		}
		if r.turns.mustJudge(a.ID, progress, r.cfg.Poll) {
			before := a.State
			if a, err = r.cfg.Redrives.Judge(ctx, a.TenantID, a.ID); err != nil {
				r.warn(ctx, "cannot judge a redrive", err, slog.String("redrive_id", a.ID.String()))
				return
			}
			if a.State == dlq.RedriveHalted && before != a.State {
				r.cfg.Log.WarnContext(ctx, "redrive halted", slog.String("redrive_id", a.ID.String()), slog.String("reason", a.HaltReason))
			}
		}
		if !again || a.State != dlq.RedriveRunning {
			return
		}
	}
}

// step gathers, and does what is to be done to one batch. progress tells that
// something was done, again that more can be done at once.
func (r *Redriver) step(ctx, drives context.Context, a dlq.Redrive, p *pace) (progress, again bool, err error) {
	if a.State == dlq.RedrivePending || !a.Gathered {
		done, err := r.cfg.Redrives.Gather(ctx, a, 2*r.cfg.Batch)
		if err != nil {
			return false, false, fmt.Errorf("gather: %w", err)
		}
		progress, again = true, true
		if !done {
			return progress, again, nil
		}
	}
	if a.Action != dlq.BulkRetry {
		n, err := r.cfg.Redrives.Apply(ctx, a, r.cfg.Batch)
		return progress || n > 0, again || n > 0, err
	}
	full, n, err := r.take(ctx, drives, a, p)
	// In the order of keys the next letters wait for these.
	return progress || n > 0, again || full || n > 0 && a.Order == dlq.PerKey, err
}

// pace is how many letters of a redrive are claimed at once. What is claimed is
// driven to its end, however the redrive is paused meanwhile, so it begins with
// few, and grows while none of them goes to a target that may be slow.
type pace struct{ limit int }

// bulkMixed is how many letters are claimed when some may be for slow targets.
const bulkMixed = 64

func (r *Redriver) slowly() *pace { return &pace{min(bulkMixed, r.cfg.Batch)} }

func (r *Redriver) next(p *pace, batch []dlq.Drive) {
	p.limit = min(2*p.limit, r.cfg.Batch)
	for i := range batch {
		if r.atOnce(batch[i].To.Kind) < r.cfg.Batch {
			*p = *r.slowly()
			return
		}
	}
}

// take drives one batch of a redrive's letters; full tells that it was as many
// as may be claimed at once.
func (r *Redriver) take(ctx, drives context.Context, a dlq.Redrive, p *pace) (full bool, n int, err error) {
	call, cancel := context.WithTimeout(context.WithoutCancel(ctx), storing)
	batch, err := r.cfg.Redrives.TakeItems(call, a, r.kinds, r.cfg.Lease, p.limit)
	cancel()
	if err != nil {
		return false, 0, fmt.Errorf("take letters: %w", err)
	}
	full = len(batch) == p.limit
	r.next(p, batch)
	if len(batch) == 0 || failpoint.Hit(failpoint.LetterAfterClaim) != nil {
		return full, len(batch), nil
	}
	ends, ok := r.drive(drives, batch, how{prepare: transformed(a), httpAtOnce: a.Concurrency})
	if !ok {
		return full, len(batch), nil
	}
	if ends = settled(ends); len(ends) > 0 {
		err = r.store(drives, func(ctx context.Context) error { return r.cfg.Redrives.FinishItems(ctx, a.ID, ends) })
	}
	return full, len(batch), err
}

// transformed returns what changes the payloads of a redrive, nil: nothing does.
func transformed(a dlq.Redrive) func(*dlq.Drive) error {
	if a.Transform == nil {
		return nil
	}
	return func(d *dlq.Drive) error {
		payload, err := dlq.Patched(d.Send.Payload, a.Transform)
		if err != nil {
			return fmt.Errorf("the redrive's transform: %w", err)
		}
		d.Send.Payload = payload
		return nil
	}
}
