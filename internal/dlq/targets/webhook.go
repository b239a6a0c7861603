package targets

import (
	"context"
	"time"

	"github.com/google/uuid"

	"github.com/skald-saga/skald/internal/dlq"
	"github.com/skald-saga/skald/internal/event/webhook"
	"github.com/skald-saga/skald/internal/fault"
)

// Webhook repeats deliveries that were abandoned. It is a redrive.Driver: the result of the
// delivery is the result for the letter. All fields are required.
type Webhook struct {
	Webhooks   webhook.Store
	Deliveries webhook.Log
	Now        func() time.Time
	NewID      func() uuid.UUID
}

// Drive implements redrive.Driver.
func (d *Webhook) Drive(ctx context.Context, batch []dlq.Drive) []dlq.Result {
	results := make([]dlq.Result, len(batch))
	for i := range batch {
		results[i] = d.drive(ctx, &batch[i])
	}
	return results
}

func (d *Webhook) drive(ctx context.Context, l *dlq.Drive) dlq.Result {
	r := dlq.Result{StartedAt: d.Now()}
	hook, err := d.Webhooks.Get(ctx, l.TenantID, l.Link.WebhookID)
	switch {
	case err == nil && !hook.Enabled:
		// The delivery would wait indefinitely, through no fault of the letter.
		r.Fault = fault.New(fault.Conflict, webhook.CodeDisabled, "webhook %s is disabled (%s): enable it first", hook.ID, hook.DisabledReason)
		r.Outcome, r.Error = dlq.Withdrawn, r.Fault.Detail
	case err == nil:
		_, err = d.Deliveries.Redeliver(ctx, l.TenantID, l.Link.WebhookID, l.Link.DeliveryID,
			webhook.Moment{Now: d.Now(), NewID: d.NewID})
		r.Accepted, r.Outcome = true, dlq.Uncertain // even if the outcome is unknown: the lease then decides
	case fault.As(err) == nil:
		r.Outcome, r.Error = dlq.Withdrawn, "the webhook cannot be read"
	}
	if f := fault.As(err); f != nil {
		r.Accepted, r.Outcome, r.Error = false, dlq.FailedDrive, f.Detail
	}
	r.EndedAt = d.Now()
	return r
}
