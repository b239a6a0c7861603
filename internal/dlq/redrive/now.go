package redrive

import (
	"context"
	"fmt"
	"time"

	"github.com/skald-saga/skald/internal/dlq"
	"github.com/skald-saga/skald/internal/failpoint"
	"github.com/skald-saga/skald/internal/fault"
)

// Now immediately retries one letter for an operator, stores the result, and returns it. A failed
// drive is not an error: the letter is then PENDING or DEAD, and Finish.Attempt states the reason.
// RETRYING means that the target has accepted the letter and reports the result later. Claim.Routes
// is filled in.
//
// It does not stop early when ctx ends, because a retry that has begun must be completed and
// stored. Faults: those of Queue.Take; Unavailable CodeNoKafka if this node cannot reach the target
// (nothing was claimed or counted); Invalid CodeTarget if the claim names a topic that ingestion
// reads; Conflict if the lease was lost during the drive, in which case only the attempt is stored.
func (r *Redriver) Now(ctx context.Context, c dlq.Claim) (dlq.Finish, error) {
	c.Routes = r.Routes()
	asked := time.Now()
	claimed, err := r.cfg.Queue.Take(ctx, c, r.cfg.Lease)
	if err != nil {
		return dlq.Finish{}, err
	}
	if err := failpoint.Hit(failpoint.LetterAfterClaim); err != nil {
		return dlq.Finish{}, err
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), max(r.cfg.Lease, storing))
	defer cancel()
	ends, ok := r.drive(ctx, []dlq.Drive{claimed}, driveOptions{claimed: asked, byHand: true})
	if !ok {
		return dlq.Finish{}, failpoint.ErrInjected
	}
	end := ends[0]
	if end.Status == dlq.Retrying {
		return end, nil
	}
	held := false
	err = r.store(ctx, func(ctx context.Context) error {
		kept, err := r.cfg.Queue.Finish(ctx, ends)
		held = err == nil && kept[0]
		return err
	})
	switch {
	case err != nil:
		return end, fmt.Errorf("store the end of a retry: %w", err)
	case !held:
		return end, fault.New(fault.Conflict, dlq.CodeConflict, "the retry took longer than its lease, and the dead letter has changed in the meantime")
	}
	return end, nil
}

// MayDrive returns the fault with which Now would currently reject a claim, without claiming
// anything.
func (r *Redriver) MayDrive(ctx context.Context, c dlq.Claim) error {
	c.Routes = r.Routes()
	return r.cfg.Queue.MayTake(ctx, c)
}
