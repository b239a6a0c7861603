package eventdb

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/jmoiron/sqlx"

	"github.com/skald-saga/skald/internal/audit/auditdb"
	"github.com/skald-saga/skald/internal/audit/operator"
	"github.com/skald-saga/skald/internal/audit/trail"
	"github.com/skald-saga/skald/internal/dlq"
	"github.com/skald-saga/skald/internal/event/webhook"
	"github.com/skald-saga/skald/internal/fault"
	"github.com/skald-saga/skald/internal/postgres"
)

// readyWebhooks makes two index look-ups for each enabled subscription: whether deliveries are due
// (idx_webhook_deliveries_due) and, if there is room, whether there are events after the cursor
// (idx_event_feed).
var readyWebhooks = `
SELECT ` + webhookColumns + `, w.cursor_txid, w.cursor_id, q.news, q.due
  FROM saga.webhooks w
 CROSS JOIN LATERAL (
	SELECT EXISTS (SELECT 1 FROM saga.webhook_deliveries d
	                WHERE d.tenant_id = w.tenant_id AND d.webhook_id = w.id AND d.status = 'pending'
	                  AND d.due_at <= $1 AND (d.lease_until IS NULL OR d.lease_until <= now())) AS due,
	       EXISTS (SELECT 1 FROM saga.audit_events e
	                WHERE e.tenant_id = w.tenant_id
	                  AND (e.txid, e.id) > (w.cursor_txid, w.cursor_id)
	                  AND ` + auditdb.Settled + `)
	       AND (SELECT count(*) FROM (SELECT 1 FROM saga.webhook_deliveries d
	                WHERE d.tenant_id = w.tenant_id AND d.webhook_id = w.id AND d.status = 'pending'
	                LIMIT $2) AS held) < $2 AS news
	) AS q
 WHERE w.enabled AND (q.news OR q.due)`

// Ready implements webhook.Queue.
func (st *Webhooks) Ready(ctx context.Context, now time.Time) ([]webhook.Work, error) {
	rows, err := st.db.Read.QueryContext(ctx, readyWebhooks, now, webhook.MaxPending)
	if err != nil {
		return nil, fmt.Errorf("find webhooks with work: %w", err)
	}
	var all []webhook.Work
	err = postgres.EachRow(rows, func() error {
		var w webhook.Work
		err := webhookTable.Scan(rows, &w.Subscription, &w.Cursor.TxID, &w.Cursor.ID, &w.FeedReady, &w.Due)
		all = append(all, w)
		return err
	})
	return all, postgres.Wrap("find webhooks with work", err)
}

// enqueueDeliveries moves the cursor unless another node has moved it. Only if it succeeds does it
// store the deliveries of the events in between.
var enqueueDeliveries = postgres.Named(`
WITH moved AS (
	UPDATE saga.webhooks SET cursor_txid = @to_txid, cursor_id = @to_id
	 WHERE tenant_id = @tenant
	   AND id = @webhook
	   AND enabled
	   AND version = @version
	   AND cursor_txid = @from_txid
	   AND cursor_id = @from_id
	RETURNING tenant_id, id
), added AS (
	INSERT INTO saga.webhook_deliveries (tenant_id, webhook_id, `+queuedDelivery.Inserted()+`)
	SELECT m.tenant_id, m.id, `+queuedDelivery.Stored("d")+`
	  FROM moved m CROSS JOIN `+postgres.Unnest("d", queuedDelivery.As("d"))+`
)
SELECT count(*) FROM moved`,
	postgres.Single("tenant", "webhook", "version", "from_txid", "from_id", "to_txid", "to_id"), queuedDelivery.As("d"))

// Enqueue implements webhook.Queue.
func (st *Webhooks) Enqueue(ctx context.Context, s *webhook.Subscription, from, to trail.Position,
	deliveries []webhook.Delivery) (bool, error) {
	batch := queuedDelivery.Batch(len(deliveries))
	for i := range deliveries {
		batch.Add(&deliveries[i])
	}
	rows, err := st.db.QueryWrite(ctx, enqueueDeliveries.Text, enqueueDeliveries.Args(
		postgres.Values{s.TenantID, s.ID, s.Version, xid(from), from.ID, xid(to), to.ID}, batch)...)
	if err != nil {
		return false, fmt.Errorf("enqueue deliveries: %w", err)
	}
	var moved int
	err = postgres.EachRow(rows, func() error { return rows.Scan(&moved) })
	return moved == 1, postgres.Wrap("enqueue deliveries", err)
}

// xid is a transaction id as a parameter. It is needed because lib/pq has no unsigned integers.
func xid(p trail.Position) string { return strconv.FormatUint(p.TxID, 10) }

// claimDeliveries leases due deliveries. It skips deliveries that another node holds. The lease is
// not in the index, so that a claim is a HOT update.
var claimDeliveries = `
WITH due AS (
	SELECT d.id FROM saga.webhook_deliveries d
	 WHERE d.tenant_id = $1 AND d.webhook_id = $2 AND d.status = 'pending'
	   AND d.due_at <= $4 AND (d.lease_until IS NULL OR d.lease_until <= now())
	   AND EXISTS (SELECT 1 FROM saga.webhooks w WHERE w.tenant_id = $1 AND w.id = $2 AND w.enabled AND w.version = $3)
	 ORDER BY d.due_at, d.id LIMIT $6
	 FOR NO KEY UPDATE SKIP LOCKED
)
UPDATE saga.webhook_deliveries d
   SET lease_until = now() + $5 * interval '1 microsecond', attempt = d.attempt + 1, last_attempt_at = $4
  FROM due WHERE d.tenant_id = $1 AND d.webhook_id = $2 AND d.id = due.id
RETURNING ` + deliveryColumns

// Claim implements webhook.Queue.
func (st *Webhooks) Claim(ctx context.Context, s *webhook.Subscription, now time.Time, lease time.Duration,
	limit int) ([]webhook.Delivery, error) {
	claimed, err := deliveryTable.All(st.db.Read.QueryContext(ctx, claimDeliveries, s.TenantID, s.ID, s.Version, now,
		lease.Microseconds(), limit))
	slices.SortFunc(claimed, func(a, b webhook.Delivery) int {
		if c := a.DueAt.Compare(b.DueAt); c != 0 {
			return c
		}
		return slices.Compare(a.ID[:], b.ID[:])
	})
	return claimed, postgres.Wrap("claim deliveries", err)
}

// Settle implements webhook.Queue. It locks the subscription first, so that the failures of an
// endpoint are counted one after the other.
func (st *Webhooks) Settle(ctx context.Context, d *webhook.Delivery, o webhook.Outcome, p webhook.Policy,
	m webhook.Moment) (r webhook.Result, stored bool, err error) {
	err = st.db.InWrite(ctx, func(tx *sqlx.Tx) error {
		s, err := getWebhook(ctx, tx, d.TenantID, d.WebhookID, "FOR NO KEY UPDATE")
		if err != nil {
			return err
		}
		present, err := getDelivery(ctx, tx, d.TenantID, d.WebhookID, d.ID, "FOR NO KEY UPDATE")
		if err != nil || present.Attempt != d.Attempt || present.Status != webhook.Pending {
			return err
		}
		stored, r = true, webhook.Settle(s, present, o, p, m)
		if err := putDelivery(ctx, tx, r.Delivery, true); err != nil {
			return err
		}
		if r.Changed {
			if err := putWebhook(ctx, tx, r.Subscription); err != nil {
				return err
			}
			if err := tellDisabled(ctx, tx, &s, &r.Subscription, m); err != nil {
				return err
			}
		}
		if r.Recovered {
			_, err = tx.ExecContext(ctx, `
				UPDATE saga.webhook_deliveries SET due_at = $3
				 WHERE tenant_id = $1 AND webhook_id = $2 AND status = 'pending' AND due_at > $3`, d.TenantID, d.WebhookID, m.Now)
		}
		if n := r.LetterUpdate(m); n != nil && err == nil {
			err = st.tellOf(ctx, tx, d.TenantID, m.Now, map[string]*dlq.SourceUpdate{d.LetterKey(): n})
		}
		return err
	})
	if errors.Is(err, sql.ErrNoRows) || fault.IsCode(err, webhook.CodeNotFound) { // deleted in the meantime
		return r, false, nil
	}
	return r, stored && err == nil, postgres.Wrap("settle delivery", err)
}

// tellDisabled records that Skald has disabled a webhook automatically.
func tellDisabled(ctx context.Context, tx *sqlx.Tx, before, after *webhook.Subscription, m webhook.Moment) error {
	if !before.Enabled || after.Enabled {
		return nil
	}
	ctx = operator.As(ctx, operator.By{Reason: after.DisabledReason})
	return auditdb.Tell(ctx, tx, m.NewID(), after.TenantID, m.Now, operator.Webhook, after.ID.String(), "disable",
		before.Audited(), after.Audited(), nil)
}

// expireDeliveries keeps a failed delivery as long as a retry of its letter may send it again.
const expireDeliveries = `
DELETE FROM saga.webhook_deliveries WHERE ctid = ANY (ARRAY(
	SELECT d.ctid FROM saga.webhook_deliveries d
	 WHERE d.created_at < $1 AND d.status <> 'pending'
	   AND (d.status <> 'failed' OR NOT EXISTS (
	        SELECT 1 FROM dlq.dlq_messages m
	         WHERE m.tenant_id = d.tenant_id
	           AND m.dedupe_key = 'skald:webhook:' || d.id
	           AND m.status <> 'RESOLVED'
	           AND m.resolution IS DISTINCT FROM 'DISCARDED'))
	 LIMIT 5000 FOR UPDATE OF d SKIP LOCKED))`

// Expire implements webhook.Queue, in batches.
func (st *Webhooks) Expire(ctx context.Context, before time.Time) (int64, error) {
	return st.db.ExecAll(ctx, "expire deliveries", expireDeliveries, before)
}

// webhookBacklog also looks at the events after each cursor, including those that the feed holds
// back. While a transaction is open, no deliveries are created for them.
const webhookBacklog = `
SELECT d.pending, least(d.oldest, news.oldest)
  FROM (SELECT count(*) AS pending, min(d.created_at) AS oldest
          FROM saga.webhook_deliveries d
          JOIN saga.webhooks w ON w.tenant_id = d.tenant_id AND w.id = d.webhook_id
         WHERE d.status = 'pending' AND w.enabled) AS d
 CROSS JOIN (SELECT min(next.timestamp) AS oldest
          FROM saga.webhooks w
         CROSS JOIN LATERAL (SELECT e.timestamp FROM saga.audit_events e
                 WHERE e.tenant_id = w.tenant_id AND (e.txid, e.id) > (w.cursor_txid, w.cursor_id)
                 ORDER BY e.txid, e.id LIMIT 1) AS next
         WHERE w.enabled) AS news`

// Backlog implements webhook.Queue.
func (st *Webhooks) Backlog(ctx context.Context) (pending int64, oldest time.Time, err error) {
	var at sql.NullTime
	err = st.db.Read.QueryRowContext(ctx, webhookBacklog).Scan(&pending, &at)
	if at.Valid {
		oldest = at.Time.UTC()
	}
	return pending, oldest, postgres.Wrap("count pending deliveries", err)
}
