package redrive

import (
	"context"
	"fmt"
	"time"

	"github.com/skald-saga/skald/internal/dlq"
	"github.com/skald-saga/skald/internal/failpoint"
	"github.com/skald-saga/skald/internal/fault"
)

// Now retries one letter at once for an operator, and returns how that ended, which is stored. A
// failed drive is not an error: the letter is then PENDING or DEAD, and Finish.Attempt says why.
// RETRYING means that the target has accepted it and reports the result later. Claim.Routes is
// filled in.
//
// It does not end early when ctx does: a retry once begun is ended and stored. Faults:
// those of Queue.Take; Unavailable CodeNoKafka when this node cannot reach the target
// (nothing was claimed or counted); Invalid CodeTarget when the claim names a topic
// that ingestion reads; Conflict when the lease was lost during the drive, and only the
// attempt is stored.
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
		return end, fault.New(fault.Conflict, dlq.CodeConflict, "the retry took longer than its lease, and the dead letter has moved on")
	}
	return end, nil
}

// MayDrive returns the fault with which Now would refuse a claim at present, and claims nothing.
func (r *Redriver) MayDrive(ctx context.Context, c dlq.Claim) error {
	c.Routes = r.Routes()
	return r.cfg.Queue.MayTake(ctx, c)
}
