package redrive

import (
	"context"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/google/uuid"

	"github.com/skald-saga/skald/internal/dlq"
	"github.com/skald-saga/skald/internal/failpoint"
	"github.com/skald-saga/skald/internal/loop/lease"
)

// holding prolongs the leases of a batch until it is released.
type holding struct {
	r   *Redriver
	ctx context.Context

	mu    sync.Mutex
	held  []uuid.UUID // tokens; guarded by mu
	until time.Time   // their leases do not end before; guarded by mu
	stop  func()
}

// hold prolongs the leases of a batch until release is called, which waits for
// it to have stopped. They were asked for at claimed, by this node's clock, and so
// do not end before a lease's time after that.
func (r *Redriver) hold(ctx context.Context, batch []dlq.Drive, claimed time.Time) *holding {
	h := &holding{r: r, held: make([]uuid.UUID, len(batch)), until: claimed.Add(r.cfg.Lease)}
	for i := range batch {
		h.held[i] = batch[i].Token
	}
	var stop context.CancelFunc
	h.ctx, stop = context.WithCancel(ctx)
	var holder sync.WaitGroup
	holder.Go(func() {
		t := time.NewTicker(max(lease.Interval(r.cfg.Lease), time.Second))
		defer t.Stop()
		for {
			select {
			case <-h.ctx.Done():
				return
			case <-t.C:
				h.prolong(h.ctx)
			}
		}
	})
	h.stop = func() { stop(); holder.Wait() }
	return h
}

func (h *holding) prolong(ctx context.Context) {
	h.mu.Lock()
	defer h.mu.Unlock()
	asked := time.Now()
	held, err := h.r.cfg.Queue.Extend(ctx, h.held, h.r.cfg.Lease)
	if err != nil {
		h.r.warn(ctx, "cannot renew the leases of dead letters", err)
		return
	}
	h.until = asked.Add(h.r.cfg.Lease)
	if len(held) < len(h.held) {
		h.r.cfg.Log.InfoContext(ctx, "lost the leases of dead letters during a retry", slog.Int("count", len(h.held)-len(held)))
		h.held = held
	}
}

// has tells which letters of a batch are held until the next renewal at least.
func (h *holding) has(ctx context.Context, batch []dlq.Drive, members []int) []int {
	if h.left() < lease.Interval(h.r.cfg.Lease) { // the node slept, or waited long for its turn
		h.prolong(ctx)
	}
	if h.left() < lease.Interval(h.r.cfg.Lease) {
		return nil
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if len(h.held) == len(batch) {
		return members
	}
	return slices.DeleteFunc(slices.Clone(members), func(i int) bool { return !slices.Contains(h.held, batch[i].Token) })
}

func (h *holding) left() time.Duration {
	h.mu.Lock()
	defer h.mu.Unlock()
	return time.Until(h.until)
}

// Why letters of a batch are not sent after all.
const (
	notHeld    = "its lease expired before it was sent"
	notNoted   = "the intent to send it could not be recorded"
	notRunning = "the redrive was stopped before it was sent"
)

// handoverBatch is where the letters of a batch are handed over: durably noted as about to
// be sent, before they are. What it does not let pass is certainly not sent.
type handoverBatch struct {
	r        *Redriver
	batch    []dlq.Drive
	held     *holding
	redrive  uuid.UUID // zero: it is no redrive's
	progress *progress // nil: nobody asks

	mu     sync.Mutex
	passed []uuid.UUID // the hand-over of each letter, zero while there is none; guarded by mu
}

// pass hands letters over, and returns of each why it is not to be sent, "" when it is.
func (d *handoverBatch) pass(ctx context.Context, members []int) []string {
	allowed, why := d.handOver(ctx, members)
	reasons := make([]string, len(members))
	for i, m := range members {
		if !slices.Contains(allowed, m) {
			reasons[i] = why
		}
	}
	return reasons
}

// handOver notes that letters are about to be sent, and returns those that are to
// be; why tells of the others.
func (d *handoverBatch) handOver(ctx context.Context, members []int) (allowed []int, why string) {
	held := d.held.has(ctx, d.batch, members)
	if len(held) == 0 {
		return nil, notHeld
	}
	id := d.r.cfg.NewID()
	h := dlq.Handover{ID: id, RedriveID: d.redrive}
	for _, i := range held {
		h.Tenants, h.Tokens = append(h.Tenants, d.batch[i].TenantID), append(h.Tokens, d.batch[i].Token)
	}
	call, cancel := context.WithTimeout(context.WithoutCancel(ctx), storing)
	defer cancel()
	ok, err := d.r.cfg.Queue.HandOver(call, h)
	switch {
	case err != nil:
		d.r.warn(ctx, "cannot record which dead letters are about to be sent", err)
		return nil, notNoted
	case !ok:
		return nil, notRunning
	case d.held.left() <= 0: // it took so long that somebody may have found no note of them
		return nil, notHeld
	case failpoint.Hit(failpoint.LetterAfterHandOver) != nil:
		return nil, notNoted
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, i := range held {
		d.passed[i] = id
	}
	return held, notHeld
}

// settle writes into ends which notes are to be taken back: not those of letters
// whose target tells later, which the others of theirs share.
func (d *handoverBatch) settle(ends []dlq.Finish) {
	needed := map[uuid.UUID]bool{}
	for i := range ends {
		if ends[i].Status == dlq.Retrying {
			needed[d.passed[i]] = true
		}
	}
	for i := range ends {
		if !needed[d.passed[i]] {
			ends[i].Handover = d.passed[i]
		}
	}
}

// progress is what is known of a redrive's batch before its ends are stored.
type progress struct{ handled atomic.Int64 }

// add notes results of which the target has said something.
func (n *progress) add(results []dlq.Result) {
	if n == nil {
		return
	}
	for i := range results {
		if r := &results[i]; r.Outcome == dlq.Acknowledged || r.Outcome == dlq.FailedDrive ||
			r.StatusCode != 0 || r.Accepted {
			n.handled.Add(1)
		}
	}
}

// tellEvery is how often a node tells what a redrive waits for.
const tellEvery = 2 * time.Second

// report tells, until done is closed, whether letters of a batch come through, and
// what the redrive waits for when none does.
func (r *Redriver) report(ctx context.Context, a *dlq.Redrive, waits string, n *progress, done <-chan struct{}) {
	t := time.NewTicker(tellEvery)
	defer t.Stop()
	for over := false; !over; {
		select {
		case <-done:
			if over = true; n.handled.Load() > 0 {
				return // what is stored of them tells
			}
		case <-t.C:
		}
		what := waits
		if n.handled.Swap(0) > 0 {
			what = ""
		}
		call, cancel := context.WithTimeout(context.WithoutCancel(ctx), storing)
		if err := r.cfg.Redrives.Waits(call, a.TenantID, a.ID, what); err != nil {
			r.warn(ctx, "cannot record what a redrive is waiting for", err)
		}
		cancel()
	}
}
