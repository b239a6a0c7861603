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
	"github.com/skald-saga/skald/internal/postgres"
)

// deliveryColumns are a delivery's columns in the order of scanDelivery.
const deliveryColumns = `d.tenant_id, d.webhook_id, d.id, d.event_id, d.event_type, d.saga_id, d.body, d.status, d.attempt, d.round_start,
	d.due_at, d.last_attempt_at, d.response_status, d.error, d.created_at, d.ended_at`

// listedDelivery are deliveryColumns without the body.
const listedDelivery = `d.tenant_id, d.webhook_id, d.id, d.event_id, d.event_type, d.saga_id, NULL, d.status, d.attempt, d.round_start,
	d.due_at, d.last_attempt_at, d.response_status, d.error, d.created_at, d.ended_at`

func scanDelivery(row postgres.Scanner) (webhook.Delivery, error) {
	var d webhook.Delivery
	var saga uuid.NullUUID
	var response sql.NullInt64
	var failure sql.NullString
	err := row.Scan(&d.TenantID, &d.WebhookID, &d.ID, &d.EventID, &d.EventType, &saga, &d.Body, &d.Status,
		&d.Attempt, &d.RoundStart,
		&d.DueAt, &d.LastAttemptAt, &response, &failure, &d.CreatedAt, &d.EndedAt)
	d.SagaID, d.ResponseStatus, d.Error = saga.UUID, int(response.Int64), failure.String
	postgres.UTC(&d.DueAt, d.LastAttemptAt, &d.CreatedAt, d.EndedAt)
	return d, err
}

// Add implements webhook.Log.
func (st *Webhooks) Add(ctx context.Context, d webhook.Delivery) error {
	return postgres.Outage("add delivery", st.db.InTenant(ctx, d.TenantID, func(tx *sqlx.Tx) error {
		// The lock: or somebody might delete the subscription before the insert.
		if _, err := getWebhook(ctx, tx, d.TenantID, d.WebhookID, "FOR KEY SHARE"); err != nil {
			return err
		}
		_, err := tx.ExecContext(ctx, `
			INSERT INTO saga.webhook_deliveries (tenant_id, webhook_id, id, event_id, event_type, saga_id, body, status, due_at, created_at)
			VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10)`,
			d.TenantID, d.WebhookID, d.ID, d.EventID, d.EventType, uuid.NullUUID{UUID: d.SagaID, Valid: d.SagaID != uuid.Nil},
			string(d.Body), d.Status, d.DueAt, d.CreatedAt)
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
	return d, postgres.Outage("get delivery", err)
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

// getDelivery reads one delivery, or sql.ErrNoRows; suffix locks it or is empty.
func getDelivery(ctx context.Context, q sqlx.QueryerContext, tenant, webhookID, id uuid.UUID,
	suffix string) (webhook.Delivery, error) {
	return scanDelivery(q.QueryRowxContext(ctx, `SELECT `+deliveryColumns+` FROM saga.webhook_deliveries d
		 WHERE d.tenant_id = $1 AND d.webhook_id = $2 AND d.id = $3 `+suffix, tenant, webhookID, id))
}

// Deliveries implements webhook.Log.
func (st *Webhooks) Deliveries(ctx context.Context, tenant, webhookID uuid.UUID,
	f webhook.Filter) (webhook.DeliveryPage, error) {
	var p webhook.DeliveryPage
	w := postgres.Where{}
	w.Add("d.tenant_id = ?", tenant)
	w.Add("d.webhook_id = ?", webhookID)
	switch f.Status {
	case "":
	case webhook.Failed: // in the words of its index
		w.Add("d.status = 'failed'")
	case webhook.Pending:
		w.Add("d.status = 'pending'")
	default:
		w.Add("d.status = ?", f.Status)
	}
	count, counted := `SELECT count(*) FROM saga.webhook_deliveries d WHERE `+w.Text(), w.Args
	if f.After != uuid.Nil {
		w.Add("d.id < ?", f.After)
	}
	query := fmt.Sprintf(`SELECT %s FROM saga.webhook_deliveries d WHERE %s ORDER BY d.id DESC LIMIT %d OFFSET %d`,
		listedDelivery, w.Text(), f.Limit+1, f.Offset)
	err := st.db.InTenant(ctx, tenant, func(tx *sqlx.Tx) error {
		if _, err := getWebhook(ctx, tx, tenant, webhookID, ""); err != nil {
			return err
		}
		if f.Total {
			if err := tx.GetContext(ctx, &p.Total, count, counted...); err != nil {
				return err
			}
		}
		rows, err := tx.QueryContext(ctx, query, w.Args...)
		if err != nil {
			return err
		}
		return postgres.EachRow(rows, func() error {
			d, err := scanDelivery(rows)
			p.Deliveries = append(p.Deliveries, d)
			return err
		})
	})
	if p.More = len(p.Deliveries) > f.Limit; p.More {
		p.Deliveries = p.Deliveries[:f.Limit]
	}
	return p, postgres.Outage("list deliveries", err)
}

// putDelivery writes what rules change; the row is locked. release ends its lease.
func putDelivery(ctx context.Context, tx *sqlx.Tx, d webhook.Delivery, release bool) error {
	_, err := tx.ExecContext(ctx, `
		UPDATE saga.webhook_deliveries
		   SET status = $4, round_start = $5, due_at = $6, response_status = $7, error = $8, ended_at = $9,
		       lease_until = CASE WHEN $10 THEN NULL ELSE lease_until END
		 WHERE tenant_id = $1 AND webhook_id = $2 AND id = $3`,
		d.TenantID, d.WebhookID, d.ID, d.Status, d.RoundStart, d.DueAt,
		sql.NullInt64{Int64: int64(d.ResponseStatus), Valid: d.ResponseStatus != 0}, sql.NullString{String: d.Error,
			Valid: d.Error != ""}, d.EndedAt, release)
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
			return err // a dead letter has it sent again, and has a record of its own
		}
		return auditdb.Tell(ctx, tx, m.NewID(), tenant, m.Now, operator.Webhook, webhookID.String(), "redeliver", nil, nil,
			map[string]any{"delivery": id})
	})
	return d, postgres.Outage("redeliver", err)
}

// redeliverFailed is webhook.Redeliver for many. Rows are locked in id order.
const redeliverFailed = `
WITH chosen AS (
	SELECT d.id FROM saga.webhook_deliveries d
	 WHERE d.tenant_id = $1 AND d.webhook_id = $2 AND d.status = 'failed' AND d.created_at >= $3
	 ORDER BY d.id LIMIT $5 FOR NO KEY UPDATE
)
UPDATE saga.webhook_deliveries d
   SET status = 'pending', round_start = d.attempt, ended_at = NULL, due_at = $4
  FROM chosen WHERE d.tenant_id = $1 AND d.webhook_id = $2 AND d.id = chosen.id
RETURNING d.id, d.event_id`

// RedeliverFailed implements webhook.Log.
func (st *Webhooks) RedeliverFailed(ctx context.Context, tenant, webhookID uuid.UUID, since time.Time,
	m webhook.Moment) (count int, more bool, err error) {
	err = st.db.InTenant(ctx, tenant, func(tx *sqlx.Tx) error {
		if _, err := getWebhook(ctx, tx, tenant, webhookID, ""); err != nil {
			return err
		}
		rows, err := tx.QueryContext(ctx, redeliverFailed, tenant, webhookID, since, m.Now, webhook.MaxRedeliver)
		if err != nil {
			return err
		}
		var before []webhook.Delivery
		err = postgres.EachRow(rows, func() error {
			d := webhook.Delivery{Status: webhook.Failed}
			err := rows.Scan(&d.ID, &d.EventID)
			before = append(before, d)
			return err
		})
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
		return tx.GetContext(ctx, &more, `
			SELECT EXISTS (SELECT 1 FROM saga.webhook_deliveries d
			 WHERE d.tenant_id = $1 AND d.webhook_id = $2 AND d.status = 'failed' AND d.created_at >= $3)`, tenant, webhookID, since)
	})
	return count, more, postgres.Outage("redeliver", err)
}
