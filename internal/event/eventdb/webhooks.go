// Package eventdb stores outgoing events in PostgreSQL: webhooks, their deliveries
// (webhook_queue.go for the loop, webhook_log.go for users; tables.go for the rows of both),
// the dead letters of deliveries that gave up (webhook_letters.go), and the cursors of
// publications.
package eventdb

import (
	"bytes"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jmoiron/sqlx"

	"github.com/skald-saga/skald/internal/audit/auditdb"
	"github.com/skald-saga/skald/internal/audit/operator"
	"github.com/skald-saga/skald/internal/dlq"
	"github.com/skald-saga/skald/internal/dlq/dlqdb"
	"github.com/skald-saga/skald/internal/event/webhook"
	"github.com/skald-saga/skald/internal/fault"
	"github.com/skald-saga/skald/internal/page"
	"github.com/skald-saga/skald/internal/postgres"
)

// Webhooks is webhook.Store, webhook.Log and webhook.Queue on PostgreSQL. A transaction that locks
// both a subscription and its deliveries locks the subscription first.
type Webhooks struct {
	db   *postgres.DB
	tell *dlqdb.LetterUpdater // of dead letters
}

// NewWebhooks returns the webhooks of db. They update dead letters through tell; if it is nil,
// through an updater with the default policy.
func NewWebhooks(db *postgres.DB, tell *dlqdb.LetterUpdater) *Webhooks {
	return &Webhooks{db, tell.Or(db)}
}

// cursorNow returns a cursor for the current time. It never skips events of transactions that
// commit later. It skips events that have committed, except for a few that committed while an older
// transaction was open.
const cursorNow = `saga.feed_horizon()`

var createWebhook = postgres.Named(`
INSERT INTO saga.webhooks (`+webhookTable.Inserted()+`, cursor_txid, cursor_id)
SELECT `+webhookTable.Values("w")+`, CASE WHEN @beginning THEN '0'::xid8 ELSE `+cursorNow+` END, 0
 WHERE (SELECT count(*) FROM saga.webhooks WHERE tenant_id = @w.tenant_id) < @most`,
	webhookTable.As("w"), postgres.Single("beginning", "most"))

// Create implements webhook.Store.
func (st *Webhooks) Create(ctx context.Context, s webhook.Subscription, fromBeginning bool) error {
	return postgres.Wrap("create webhook", st.db.InTenant(ctx, s.TenantID, func(tx *sqlx.Tx) error {
		res, err := tx.ExecContext(ctx, createWebhook.Text, createWebhook.Args(webhookTable.Row(&s),
			postgres.Values{fromBeginning, webhook.MaxPerTenant})...)
		if err != nil {
			return err
		}
		switch n, err := res.RowsAffected(); {
		case err != nil:
			return err
		case n == 0:
			return fault.New(fault.Conflict, webhook.CodeLimit, "the tenant already has %d webhooks", webhook.MaxPerTenant)
		}
		if err := putSecrets(ctx, tx, s); err != nil {
			return err
		}
		return auditdb.Tell(ctx, tx, st.db.NewID(), s.TenantID, s.CreatedAt, operator.Webhook, s.ID.String(), "create", nil,
			s.Audited(), nil)
	}))
}

func putSecrets(ctx context.Context, tx *sqlx.Tx, s webhook.Subscription) error {
	if _, err := tx.ExecContext(ctx, `DELETE FROM saga.webhook_secrets
	 WHERE tenant_id = $1 AND webhook_id = $2`, s.TenantID, s.ID); err != nil {
		return err
	}
	for place, k := range s.Secrets {
		if _, err := tx.ExecContext(ctx, `
			INSERT INTO saga.webhook_secrets (tenant_id, webhook_id, place, key, created_at, expires_at)
			 VALUES ($1, $2, $3, $4, $5, $6)`,
			s.TenantID, s.ID, place, k.Key, k.CreatedAt, k.ExpiresAt); err != nil {
			return err
		}
	}
	return nil
}

// Get implements webhook.Store.
func (st *Webhooks) Get(ctx context.Context, tenant, id uuid.UUID) (webhook.Subscription, error) {
	var s webhook.Subscription
	err := st.db.InTenant(ctx, tenant, func(tx *sqlx.Tx) (err error) {
		s, err = getWebhook(ctx, tx, tenant, id, "")
		return err
	})
	return s, postgres.Wrap("get webhook", err)
}

// getWebhook reads one subscription. suffix locks the subscription or is empty.
func getWebhook(ctx context.Context, q sqlx.QueryerContext, tenant, id uuid.UUID,
	suffix string) (webhook.Subscription, error) {
	s, err := webhookTable.One(q.QueryRowxContext(ctx, `SELECT `+webhookColumns+`
	  FROM saga.webhooks w
	 WHERE w.tenant_id = $1 AND w.id = $2 `+suffix, tenant, id))
	if errors.Is(err, sql.ErrNoRows) {
		err = webhook.NotFound(id)
	}
	return s, err
}

// List implements webhook.Store.
func (st *Webhooks) List(ctx context.Context, tenant uuid.UUID,
	f webhook.Filter) (page.Of[webhook.Listed], error) {
	var total int64
	var read []webhook.Listed
	w := postgres.Where{}
	w.Add("w.tenant_id = ?", tenant)
	count, counted := `SELECT count(*) FROM saga.webhooks w WHERE `+w.Text(), w.Args
	if f.After != nil {
		w.Add("w.id > ?", *f.After)
	}
	query := fmt.Sprintf(`SELECT %s
	  FROM saga.webhooks w
	 WHERE %s
	 ORDER BY w.id
	 LIMIT %d
	 OFFSET %d`, webhookColumns, w.Text(), f.Limit+1, f.Offset)
	err := st.db.InTenant(ctx, tenant, func(tx *sqlx.Tx) error {
		if f.Total {
			if err := tx.GetContext(ctx, &total, count, counted...); err != nil {
				return err
			}
		}
		all, err := webhookTable.All(tx.QueryContext(ctx, query, w.Args...))
		if err != nil {
			return err
		}
		read, err = withBacklogs(ctx, tx, tenant, all)
		return err
	})
	found := page.Cut(f.Request, read)
	found.Total = total
	return found, postgres.Wrap("list webhooks", err)
}

// pendingByWebhook counts the pending deliveries of the given webhooks. The index of due deliveries
// contains only pending ones.
const pendingByWebhook = `
SELECT d.webhook_id, count(*) AS pending, min(d.created_at) AS oldest FROM saga.webhook_deliveries d
 WHERE d.tenant_id = $1 AND d.webhook_id = ANY($2::uuid[]) AND d.status = 'pending' GROUP BY d.webhook_id`

// withBacklogs reads the backlogs of subscriptions.
func withBacklogs(ctx context.Context, tx *sqlx.Tx, tenant uuid.UUID,
	all []webhook.Subscription) ([]webhook.Listed, error) {
	out, ids := make([]webhook.Listed, len(all)), make([]string, len(all))
	at := make(map[uuid.UUID]*webhook.Listed, len(all))
	for i, s := range all {
		out[i].Subscription, ids[i] = s, s.ID.String()
		at[s.ID] = &out[i]
	}
	var waiting []struct {
		ID      uuid.UUID `db:"webhook_id"`
		Pending int64     `db:"pending"`
		Oldest  time.Time `db:"oldest"`
	}
	if err := tx.SelectContext(ctx, &waiting, pendingByWebhook, tenant, postgres.ArrayOf(ids)); err != nil {
		return nil, fmt.Errorf("count pending deliveries: %w", err)
	}
	for i := range waiting {
		w := &waiting[i]
		w.Oldest = w.Oldest.UTC()
		at[w.ID].Pending, at[w.ID].Oldest = w.Pending, &w.Oldest
	}
	return out, nil
}

// Replace implements webhook.Store.
func (st *Webhooks) Replace(ctx context.Context, s webhook.Subscription, skip bool) error {
	return postgres.Wrap("change webhook", st.db.InTenant(ctx, s.TenantID, func(tx *sqlx.Tx) error {
		present, err := getWebhook(ctx, tx, s.TenantID, s.ID, "FOR NO KEY UPDATE")
		if err != nil {
			return err
		}
		if present.Version != s.Version-1 {
			return webhook.Stale(s.ID, present.Version)
		}
		if err := putWebhook(ctx, tx, s); err != nil {
			return err
		}
		if err := putSecrets(ctx, tx, s); err != nil {
			return err
		}
		var detail map[string]any
		if skip {
			detail = map[string]any{"from": "now"}
		}
		err = auditdb.Tell(ctx, tx, st.db.NewID(), s.TenantID, s.UpdatedAt, operator.Webhook, s.ID.String(),
			webhookVerb(&present, &s), present.Audited(), s.Audited(), detail)
		if err != nil || !skip {
			return err
		}
		if _, err := tx.ExecContext(ctx, `
			UPDATE saga.webhooks
			   SET cursor_txid = `+cursorNow+`, cursor_id = 0
			 WHERE tenant_id = $1 AND id = $2`, s.TenantID, s.ID); err != nil {
			return err
		}
		_, err = tx.ExecContext(ctx, `
			UPDATE saga.webhook_deliveries SET status = 'discarded', ended_at = $3
			 WHERE tenant_id = $1 AND webhook_id = $2 AND status = 'pending'`, s.TenantID, s.ID, s.UpdatedAt)
		if err != nil {
			return err
		}
		return st.dropLetters(ctx, tx, &s, dlq.SourceSkipped, "the delivery was skipped when the webhook was enabled")
	}))
}

// webhookVerb returns the verb of a subscription's change.
func webhookVerb(before, after *webhook.Subscription) string {
	switch {
	case len(before.Secrets) > 0 && len(after.Secrets) > 0 && !bytes.Equal(before.Secrets[0].Key, after.Secrets[0].Key):
		return "rotate-secret"
	case !before.Enabled && after.Enabled:
		return "enable"
	case before.Enabled && !after.Enabled:
		return "disable"
	}
	return "update"
}

// changedWebhook are the columns that a change writes.
var changedWebhook = webhookTable.Without("created_by", "created_at")

var updateWebhook = postgres.Named(`UPDATE saga.webhooks SET `+changedWebhook.Set("w", "tenant_id", "id")+`
 WHERE tenant_id = @w.tenant_id AND id = @w.id`, changedWebhook.As("w"))

// putWebhook writes all columns except the secrets and the cursor. The row must be locked.
func putWebhook(ctx context.Context, tx *sqlx.Tx, s webhook.Subscription) error {
	_, err := tx.ExecContext(ctx, updateWebhook.Text, updateWebhook.Args(changedWebhook.Row(&s))...)
	return err
}

// Delete implements webhook.Store.
func (st *Webhooks) Delete(ctx context.Context, tenant, id uuid.UUID, version int64) error {
	return postgres.Wrap("delete webhook", st.db.InTenant(ctx, tenant, func(tx *sqlx.Tx) error {
		present, err := getWebhook(ctx, tx, tenant, id, "FOR UPDATE")
		if err != nil {
			return err
		}
		if version != 0 && version != present.Version {
			return webhook.Stale(id, present.Version)
		}
		if _, err := tx.ExecContext(ctx, `DELETE FROM saga.webhooks
		 WHERE tenant_id = $1 AND id = $2`, tenant, id); err != nil {
			return err
		}
		if err := auditdb.Tell(ctx, tx, st.db.NewID(), tenant, st.db.Clock.Now(), operator.Webhook,
			id.String(), "delete", present.Audited(), nil, nil); err != nil {
			return err
		}
		return st.dropLetters(ctx, tx, &present, dlq.SourceGone, "the webhook was deleted")
	}))
}
