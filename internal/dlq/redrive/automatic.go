package redrive

import (
	"context"
	"time"

	"github.com/skald-saga/skald/internal/dlq"
	"github.com/skald-saga/skald/internal/failpoint"
	"github.com/skald-saga/skald/internal/loop"
)

// automatic drives the due letters for one kind of target. Each kind has its own loop, so that dead
// endpoints do not delay letters for a broker.
func (r *Redriver) automatic(ctx, drives context.Context, kind dlq.TargetKind) {
	for ctx.Err() == nil {
		if !r.due(ctx, drives, kind) {
			loop.Await(ctx, loop.Jittered(r.cfg.Poll), r.wakes[string(kind)])
		}
	}
}

// due drives one batch; more means that there may be another batch.
func (r *Redriver) due(ctx, drives context.Context, kind dlq.TargetKind) (more bool) {
	// A claim is not canceled when the node stops. Otherwise, letters that were claimed but not
	// sent would wait for their lease to expire, and that would count as a retry.
	claimed := time.Now()
	call, cancel := context.WithTimeout(context.WithoutCancel(ctx), storing)
	batch, err := r.cfg.Queue.Due(call, []dlq.TargetKind{kind}, r.cfg.Lease, r.atOnce(kind))
	cancel()
	if err != nil {
		r.warn(ctx, "cannot claim dead letters", err)
		return false
	}
	r.cfg.Observer.Loop(LoopAutomatic)
	if len(batch) == 0 || failpoint.Hit(failpoint.LetterAfterClaim) != nil {
		return false
	}
	ends, ok := r.drive(drives, batch, driveOptions{claimed: claimed})
	if !ok {
		return false
	}
	if ends = settled(ends); len(ends) > 0 {
		err = r.store(drives, func(ctx context.Context) error {
			_, err := r.cfg.Queue.Finish(ctx, ends)
			return err
		})
		if err != nil {
			r.warn(ctx, "cannot store the outcomes of retries", err)
			return false
		}
	}
	return true
}
