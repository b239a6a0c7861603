package eventdb

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jmoiron/sqlx"

	"github.com/skald-saga/skald/internal/audit/auditdb"
	"github.com/skald-saga/skald/internal/audit/operator"
	"github.com/skald-saga/skald/internal/event/webhook"
	"github.com/skald-saga/skald/internal/page"
	"github.com/skald-saga/skald/internal/postgres"
)

var addDelivery = postgres.Named(`INSERT INTO saga.webhook_deliveries (`+addedDelivery.Inserted()+`)
 VALUES (`+addedDelivery.Values("d")+`)`,
	addedDelivery.As("d"))

// Add implements webhook.Log.
func (st *Webhooks) Add(ctx context.Context, d webhook.Delivery) error {
	return postgres.Wrap("add delivery", st.db.InTenant(ctx, d.TenantID, func(tx *sqlx.Tx) error {
		// The row is locked, so that the subscription cannot be deleted before the insert.
		if _, err := getWebhook(ctx, tx, d.TenantID, d.WebhookID, "FOR KEY SHARE"); err != nil {
			return err
		}
		_, err := tx.ExecContext(ctx, addDelivery.Text, addDelivery.Args(addedDelivery.Row(&d))...)
		if err != nil {
			return err
		}
		return auditdb.Tell(ctx, tx, st.db.NewID(), d.TenantID, d.CreatedAt, operator.Webhook, d.WebhookID.String(), "test",
			nil, nil, map[string]any{"delivery": d.ID})
	}))
}

// Delivery implements webhook.Log.
func (st *Webhooks) Delivery(ctx context.Context, tenant, webhookID, id uuid.UUID) (webhook.Delivery, error) {
	var d webhook.Delivery
	err := st.db.InTenant(ctx, tenant, func(tx *sqlx.Tx) (err error) {
		d, err = findDelivery(ctx, tx, tenant, webhookID, id, "")
		return err
	})
	return d, postgres.Wrap("get delivery", err)
}

// findDelivery is getDelivery with the faults of webhook.Log.
func findDelivery(ctx context.Context, tx *sqlx.Tx, tenant, webhookID, id uuid.UUID,
	suffix string) (webhook.Delivery, error) {
	d, err := getDelivery(ctx, tx, tenant, webhookID, id, suffix)
	if !errors.Is(err, sql.ErrNoRows) {
		return d, err
	}
	if _, err := getWebhook(ctx, tx, tenant, webhookID, ""); err != nil {
		return d, err
	}
	return d, webhook.DeliveryNotFound(id)
}

// getDelivery reads one delivery, or returns sql.ErrNoRows. suffix locks the delivery or is empty.
func getDelivery(ctx context.Context, q sqlx.QueryerContext, tenant, webhookID, id uuid.UUID,
	suffix string) (webhook.Delivery, error) {
	return deliveryTable.One(q.QueryRowxContext(ctx, `SELECT `+deliveryColumns+` FROM saga.webhook_deliveries d
		 WHERE d.tenant_id = $1 AND d.webhook_id = $2 AND d.id = $3 `+suffix, tenant, webhookID, id))
}

// Deliveries implements webhook.Log.
func (st *Webhooks) Deliveries(ctx context.Context, tenant, webhookID uuid.UUID,
	f webhook.Filter) (page.Of[webhook.Delivery], error) {
	var total int64
	var read []webhook.Delivery
	w := postgres.Where{}
	w.Add("d.tenant_id = ?", tenant)
	w.Add("d.webhook_id = ?", webhookID)
	switch f.Status {
	case "":
	case webhook.Failed: // the predicate of its index
		w.Add("d.status = 'failed'")
	case webhook.Pending:
		w.Add("d.status = 'pending'")
	default:
		w.Add("d.status = ?", f.Status)
	}
	count, counted := `SELECT count(*) FROM saga.webhook_deliveries d WHERE `+w.Text(), w.Args
	if f.After != nil {
		w.Add("d.id < ?", *f.After)
	}
	query := fmt.Sprintf(`SELECT %s FROM saga.webhook_deliveries d WHERE %s ORDER BY d.id DESC LIMIT %d OFFSET %d`,
		listedDelivery.Selected("d"), w.Text(), f.Limit+1, f.Offset)
	err := st.db.InTenant(ctx, tenant, func(tx *sqlx.Tx) error {
		if _, err := getWebhook(ctx, tx, tenant, webhookID, ""); err != nil {
			return err
		}
		if f.Total {
			if err := tx.GetContext(ctx, &total, count, counted...); err != nil {
				return err
			}
		}
		var err error
		read, err = listedDelivery.All(tx.QueryContext(ctx, query, w.Args...))
		return err
	})
	found := page.Cut(f.Request, read)
	found.Total = total
	return found, postgres.Wrap("list deliveries", err)
}

var settleDelivery = postgres.Named(`
UPDATE saga.webhook_deliveries
   SET `+settledDelivery.Set("d", "tenant_id", "webhook_id", "id")+`,
       lease_until = CASE WHEN @release THEN NULL ELSE lease_until END
 WHERE tenant_id = @d.tenant_id
   AND webhook_id = @d.webhook_id
   AND id = @d.id`, settledDelivery.As("d"), postgres.Single("release"))

// putDelivery writes the columns that rules change. The row must be locked. release ends the
// delivery's lease.
func putDelivery(ctx context.Context, tx *sqlx.Tx, d webhook.Delivery, release bool) error {
	_, err := tx.ExecContext(ctx, settleDelivery.Text,
		settleDelivery.Args(settledDelivery.Row(&d), postgres.Values{release})...)
	return err
}

// Redeliver implements webhook.Log.
func (st *Webhooks) Redeliver(ctx context.Context, tenant, webhookID, id uuid.UUID,
	m webhook.Moment) (webhook.Delivery, error) {
	var d webhook.Delivery
	err := st.db.InTenant(ctx, tenant, func(tx *sqlx.Tx) (err error) {
		if d, err = findDelivery(ctx, tx, tenant, webhookID, id, "FOR NO KEY UPDATE"); err != nil {
			return err
		}
		before := d
		d = webhook.Redeliver(d, m.Now)
		if err := putDelivery(ctx, tx, d, false); err != nil {
			return err
		}
		if err := st.tellRedelivered(ctx, tx, tenant, m, before); err != nil || operator.Acting(ctx) == (operator.By{}) {
			return err // a retry of its dead letter sends it again and records that
		}
		return auditdb.Tell(ctx, tx, m.NewID(), tenant, m.Now, operator.Webhook, webhookID.String(), "redeliver", nil, nil,
			map[string]any{"delivery": id})
	})
	return d, postgres.Wrap("redeliver", err)
}

// failedSince selects the deliveries of a webhook that failed and were created since the given
// time.
const failedSince = `
	  FROM saga.webhook_deliveries d
	 WHERE d.tenant_id = $1 AND d.webhook_id = $2 AND d.status = 'failed' AND d.created_at >= $3`

// redeliverFailed is webhook.Redeliver for many deliveries. It locks rows in id order.
var redeliverFailed = `
WITH chosen AS (
	SELECT d.id ` + failedSince + `
	 ORDER BY d.id LIMIT $5 FOR NO KEY UPDATE
)
UPDATE saga.webhook_deliveries d
   SET status = 'pending', round_start = d.attempt, ended_at = NULL, due_at = $4
  FROM chosen WHERE d.tenant_id = $1 AND d.webhook_id = $2 AND d.id = chosen.id
RETURNING ` + redeliveredTable.Selected("d")

// redeliveredTable has the columns that the update of a delivery's letter needs.
var redeliveredTable = deliveryTable.Only("id", "event_id")

// RedeliverFailed implements webhook.Log.
func (st *Webhooks) RedeliverFailed(ctx context.Context, tenant, webhookID uuid.UUID, since time.Time,
	m webhook.Moment) (count int, more bool, err error) {
	err = st.db.InTenant(ctx, tenant, func(tx *sqlx.Tx) error {
		if _, err := getWebhook(ctx, tx, tenant, webhookID, ""); err != nil {
			return err
		}
		before, err := redeliveredTable.All(tx.QueryContext(ctx, redeliverFailed, tenant, webhookID, since, m.Now,
			webhook.MaxRedeliver))
		for i := range before {
			before[i].Status = webhook.Failed
		}
		if err == nil {
			err = st.tellRedelivered(ctx, tx, tenant, m, before...)
		}
		if err == nil && len(before) > 0 {
			err = auditdb.Tell(ctx, tx, m.NewID(), tenant, m.Now, operator.Webhook, webhookID.String(), "redeliver", nil, nil,
				map[string]any{"deliveries": len(before), "since": since})
		}
		if count = len(before); err != nil || count < webhook.MaxRedeliver {
			return err
		}
		return tx.GetContext(ctx, &more, `SELECT EXISTS (SELECT 1 `+failedSince+`)`, tenant, webhookID, since)
	})
	return count, more, postgres.Wrap("redeliver", err)
}

// redeliverable selects the deliveries that redeliverFailed takes, and one more.
var redeliverable = `SELECT ` + redeliveredTable.Selected("d") + failedSince + ` ORDER BY d.id LIMIT $4`

// Redeliverable implements webhook.Log.
func (st *Webhooks) Redeliverable(ctx context.Context, tenant, webhookID uuid.UUID,
	since time.Time) (all []webhook.Delivery, more bool, err error) {
	err = st.db.InTenant(ctx, tenant, func(tx *sqlx.Tx) error {
		if _, err := getWebhook(ctx, tx, tenant, webhookID, ""); err != nil {
			return err
		}
		all, err = redeliveredTable.All(tx.QueryContext(ctx, redeliverable, tenant, webhookID, since, webhook.MaxRedeliver+1))
		return err
	})
	for i := range all {
		all[i].Status = webhook.Failed
	}
	if more = len(all) > webhook.MaxRedeliver; more {
		all = all[:webhook.MaxRedeliver]
	}
	return all, more, postgres.Wrap("list the deliveries that can be redelivered", err)
}
