package delivery

import (
	"context"

	"github.com/skald-saga/skald/internal/event/webhook"
	"github.com/skald-saga/skald/internal/loop"
	"github.com/skald-saga/skald/internal/saga/registry"
)

func callerOf(s *webhook.Subscription) registry.Caller {
	return registry.Caller{TenantID: s.TenantID, Kind: registry.Webhook, ID: s.ID}
}

// turn requests one turn before a delivery is claimed if the gate of the endpoint is not open. If
// waits is true, the call must not be made, so no attempt begins.
func (l *deliverer) turn(ctx context.Context, s *webhook.Subscription) (t registry.Turn, waits bool) {
	if l.Gate == nil || l.Gate.Held(s.TenantID, s.URL) == nil {
		return t, false
	}
	t = l.Gate.Turn(ctx, callerOf(s), s.URL)
	return t, t.Waits != nil || t.Busy > 0
}

// send makes one attempt in its turn. An attempt that begins just when the gate closes is
// Abandoned: it is not made and does not count.
func (l *deliverer) send(
	ctx context.Context, s *webhook.Subscription, d *webhook.Delivery, t registry.Turn,
) webhook.Outcome {
	if l.Gate != nil && t.Leave == nil {
		for {
			if t = l.Gate.Turn(ctx, callerOf(s), s.URL); t.Busy == 0 {
				break
			}
			if !loop.Sleep(ctx, t.Busy) {
				return webhook.Outcome{Abandoned: true}
			}
		}
		if t.Waits != nil {
			return webhook.Outcome{Abandoned: true}
		}
	}
	started := l.Now()
	o := l.Send(ctx, s, d)
	if o.Abandoned {
		t.Left(nil)
		return o
	}
	t.Left(&registry.Heard{
		Status: o.Status, Unsendable: o.Unsendable, RetryAfter: o.RetryAfter, StartedAt: started, EndedAt: l.Now(),
	})
	return o
}
