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

// holding extends the leases of a batch until it is released.
type holding struct {
	r   *Redriver
	ctx context.Context

	mu    sync.Mutex
	held  []uuid.UUID // tokens; guarded by mu
	until time.Time   // earliest expiry of their leases; guarded by mu
	stop  func()
}

// hold extends the leases of a batch until release is called, which waits until the renewals have
// stopped. claimed is the time on this node before the claim was sent; the leases last for at least
// one full lease from then on.
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

// has reports which letters of a batch are held at least until the next renewal.
func (h *holding) has(ctx context.Context, batch []dlq.Drive, members []int) []int {
	if h.left() < lease.Interval(h.r.cfg.Lease) { // the node was suspended, or waited a long time for a slot
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

// Reasons why letters of a claimed batch are not sent.
const (
	notHeld    = "the lease expired before the letter was sent"
	notNoted   = "the intent to send the letter could not be recorded"
	notRunning = "the redrive was stopped before the letter was sent"
	notYet     = "the target asked not to be called for a while"
)

// handoverBatch hands over the letters of a batch: before they are sent, it stores a note that they
// are about to be sent. A letter that it does not pass is certainly not sent.
type handoverBatch struct {
	r        *Redriver
	batch    []dlq.Drive
	held     *holding
	redrive  uuid.UUID // zero: no redrive
	byHand   bool      // a person is waiting for the response
	progress *progress // nil: not counted

	mu     sync.Mutex
	passed []uuid.UUID // hand-over id of each letter, zero until it is handed over; guarded by mu
	pauses dlq.Pauses  // for a redrive, the targets that have asked for a pause since the claim; guarded by mu
}

// paused reports whether the target of a redrive's letter has asked not to be called since the
// batch was claimed. Automatic retries are not affected: each concerns a single letter, and waits
// separately.
func (d *handoverBatch) paused(i int) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.pauses.Hold(&d.batch[i].To, d.r.cfg.Now())
}

// heard records the pause that the target of a redrive's letter has asked for.
func (d *handoverBatch) heard(i int, r *dlq.Result) {
	if d.redrive == uuid.Nil || r.RetryAfter <= 0 {
		return
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	end := dlq.Finish{RetryAfter: r.RetryAfter, Attempt: dlq.Attempt{Target: d.batch[i].To}}
	d.pauses, _ = d.pauses.After([]dlq.Finish{end}, d.r.cfg.Now())
}

// pass hands letters over, and returns for each the reason why it must not be sent, or "" if it may
// be sent.
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

// handOver records that letters are about to be sent, and returns those that may be sent; why is
// the reason for the others.
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
	case d.held.left() <= 0: // it took so long that another node may have reclaimed them before the note
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

// settle records in ends which notes can be deleted. Notes of letters whose target reports later
// are kept, because they are shared with other letters of the same tenant.
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

// progress counts the results of a redrive's batch before they are stored.
type progress struct{ handled atomic.Int64 }

// add counts results of targets that have responded.
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

// reportEvery is the interval at which a node reports what a redrive is waiting for.
const reportEvery = 2 * time.Second

// report records, until done is closed, whether letters of a batch get through and, if none does,
// what the redrive is waiting for.
func (r *Redriver) report(ctx context.Context, a *dlq.Redrive, waits string, n *progress, done <-chan struct{}) {
	t := time.NewTicker(reportEvery)
	defer t.Stop()
	for over := false; !over; {
		select {
		case <-done:
			if over = true; n.handled.Load() > 0 {
				return // the stored results are the report
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
