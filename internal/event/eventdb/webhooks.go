// Package eventdb keeps on PostgreSQL how events leave: webhooks, their deliveries
// (webhook_queue.go for the loop, webhook_log.go for people) with the dead letters
// of those that were given up (webhook_letters.go), and the cursors of publications.
package eventdb

import (
	"bytes"
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jmoiron/sqlx"
	"github.com/lib/pq"

	"github.com/skald-saga/skald/internal/audit/auditdb"
	"github.com/skald-saga/skald/internal/audit/operator"
	"github.com/skald-saga/skald/internal/dlq"
	"github.com/skald-saga/skald/internal/dlq/dlqdb"
	"github.com/skald-saga/skald/internal/event/webhook"
	"github.com/skald-saga/skald/internal/fault"
	"github.com/skald-saga/skald/internal/postgres"
)

// Webhooks is webhook.Store, webhook.Log and webhook.Queue on PostgreSQL.
// Whoever locks both, locks the subscription before its deliveries.
type Webhooks struct {
	db   *postgres.DB
	tell *dlqdb.Teller // of dead letters
}

// NewWebhooks returns the webhooks of db, which tell dead letters by tell; nil: by
// the common policy.
func NewWebhooks(db *postgres.DB, tell *dlqdb.Teller) *Webhooks { return &Webhooks{db, tell.Or(db)} }

// webhookColumns are a subscription's columns in the order of webhookRow.dest.
const webhookColumns = `w.tenant_id, w.id, w.url, w.description, w.event_types, w.workflow_names, w.enabled, w.disabled_reason,
	w.disabled_at, w.created_by, w.created_at, w.updated_at, w.version, w.failing_since, w.given_up,
	(SELECT json_agg(json_build_object('key', translate(encode(k.key, 'base64'), E'\n', ''), 'created_at', k.created_at, 'expires_at', k.expires_at)
	                 ORDER BY k.place)
	   FROM saga.webhook_secrets k WHERE k.tenant_id = w.tenant_id AND k.webhook_id = w.id)`

// webhookRow receives webhookColumns.
type webhookRow struct {
	s       webhook.Subscription
	secrets []byte
}

func (r *webhookRow) dest() []any {
	s := &r.s
	return []any{
		&s.TenantID, &s.ID, &s.URL, &s.Description, pq.Array(&s.EventTypes), pq.Array(&s.WorkflowNames), &s.Enabled,
		&s.DisabledReason,
		&s.DisabledAt, &s.CreatedBy, &s.CreatedAt, &s.UpdatedAt, &s.Version, &s.Health.FailingSince,
		&s.Health.GivenUp, &r.secrets,
	}
}

func (r *webhookRow) subscription() (webhook.Subscription, error) {
	var secrets []struct {
		Key       []byte     `json:"key"`
		CreatedAt time.Time  `json:"created_at"`
		ExpiresAt *time.Time `json:"expires_at"`
	}
	if err := json.Unmarshal(r.secrets, &secrets); err != nil {
		return r.s, fmt.Errorf("stored secrets: %w", err)
	}
	postgres.UTC(&r.s.CreatedAt, &r.s.UpdatedAt, r.s.DisabledAt, r.s.Health.FailingSince)
	for _, k := range secrets {
		postgres.UTC(&k.CreatedAt, k.ExpiresAt)
		r.s.Secrets = append(r.s.Secrets, webhook.Secret(k))
	}
	return r.s, nil
}

// now for a cursor: everything that has ended before is passed over, and
// nothing that ends later. A few events of transactions that were committed
// while an older one was open come along.
const cursorNow = `saga.feed_horizon()`

// Create implements webhook.Store.
func (st *Webhooks) Create(ctx context.Context, s webhook.Subscription, fromBeginning bool) error {
	return postgres.Outage("create webhook", st.db.InTenant(ctx, s.TenantID, func(tx *sqlx.Tx) error {
		res, err := tx.ExecContext(ctx, `
			INSERT INTO saga.webhooks (tenant_id, id, url, description, event_types, workflow_names, enabled, disabled_reason, disabled_at,
			       created_by, created_at, updated_at, version, cursor_txid, cursor_id)
			SELECT $1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, CASE WHEN $14 THEN '0'::xid8 ELSE `+cursorNow+` END, 0
			 WHERE (SELECT count(*) FROM saga.webhooks WHERE tenant_id = $1) < $15`,
			s.TenantID, s.ID, s.URL, s.Description, postgres.ArrayOf(s.EventTypes), postgres.ArrayOf(s.WorkflowNames), s.Enabled,
			s.DisabledReason, s.DisabledAt,
			s.CreatedBy, s.CreatedAt, s.UpdatedAt, s.Version, fromBeginning, webhook.MaxPerTenant)
		if err != nil {
			return err
		}
		switch n, err := res.RowsAffected(); {
		case err != nil:
			return err
		case n == 0:
			return fault.New(fault.Conflict, webhook.CodeLimit, "there are already %d webhooks", webhook.MaxPerTenant)
		}
		if err := putSecrets(ctx, tx, s); err != nil {
			return err
		}
		return auditdb.Tell(ctx, tx, st.db.NewID(), s.TenantID, s.CreatedAt, operator.Webhook, s.ID.String(), "create", nil,
			s.Audited(), nil)
	}))
}

func putSecrets(ctx context.Context, tx *sqlx.Tx, s webhook.Subscription) error {
	if _, err := tx.ExecContext(ctx, `DELETE FROM saga.webhook_secrets WHERE tenant_id = $1 AND webhook_id = $2`, s.TenantID, s.ID); err != nil {
		return err
	}
	for place, k := range s.Secrets {
		if _, err := tx.ExecContext(ctx, `
			INSERT INTO saga.webhook_secrets (tenant_id, webhook_id, place, key, created_at, expires_at) VALUES ($1, $2, $3, $4, $5, $6)`,
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
	return s, postgres.Outage("get webhook", err)
}

// getWebhook reads one subscription; suffix locks it or is empty.
func getWebhook(ctx context.Context, q sqlx.QueryerContext, tenant, id uuid.UUID,
	suffix string) (webhook.Subscription, error) {
	var r webhookRow
	err := q.QueryRowxContext(ctx, `SELECT `+webhookColumns+` FROM saga.webhooks w WHERE w.tenant_id = $1 AND w.id = $2 `+suffix, tenant, id).Scan(r.dest()...)
	if errors.Is(err, sql.ErrNoRows) {
		return r.s, webhook.NotFound(id)
	}
	if err != nil {
		return r.s, err
	}
	return r.subscription()
}

// List implements webhook.Store.
func (st *Webhooks) List(ctx context.Context, tenant uuid.UUID, f webhook.Filter) (webhook.Page, error) {
	var p webhook.Page
	w := postgres.Where{}
	w.Add("w.tenant_id = ?", tenant)
	count, counted := `SELECT count(*) FROM saga.webhooks w WHERE `+w.Text(), w.Args
	if f.After != uuid.Nil {
		w.Add("w.id > ?", f.After)
	}
	query := fmt.Sprintf(`SELECT %s FROM saga.webhooks w WHERE %s ORDER BY w.id LIMIT %d OFFSET %d`, webhookColumns, w.Text(), f.Limit+1, f.Offset)
	err := st.db.InTenant(ctx, tenant, func(tx *sqlx.Tx) error {
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
			var r webhookRow
			if err := rows.Scan(r.dest()...); err != nil {
				return err
			}
			s, err := r.subscription()
			p.Subscriptions = append(p.Subscriptions, s)
			return err
		})
	})
	if p.More = len(p.Subscriptions) > f.Limit; p.More {
		p.Subscriptions = p.Subscriptions[:f.Limit]
	}
	return p, postgres.Outage("list webhooks", err)
}

// Replace implements webhook.Store.
func (st *Webhooks) Replace(ctx context.Context, s webhook.Subscription, skip bool) error {
	return postgres.Outage("change webhook", st.db.InTenant(ctx, s.TenantID, func(tx *sqlx.Tx) error {
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
			UPDATE saga.webhooks SET cursor_txid = `+cursorNow+`, cursor_id = 0 WHERE tenant_id = $1 AND id = $2`, s.TenantID, s.ID); err != nil {
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

// webhookVerb says what turned a subscription into another.
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

// putWebhook writes all but the secrets and the cursor; the row is locked.
func putWebhook(ctx context.Context, tx *sqlx.Tx, s webhook.Subscription) error {
	_, err := tx.ExecContext(ctx, `
		UPDATE saga.webhooks
		   SET url = $3, description = $4, event_types = $5, workflow_names = $6, enabled = $7, disabled_reason = $8, disabled_at = $9,
		       updated_at = $10, version = $11, failing_since = $12, given_up = $13
		 WHERE tenant_id = $1 AND id = $2`,
		s.TenantID, s.ID, s.URL, s.Description, postgres.ArrayOf(s.EventTypes), postgres.ArrayOf(s.WorkflowNames), s.Enabled,
		s.DisabledReason, s.DisabledAt,
		s.UpdatedAt, s.Version, s.Health.FailingSince, s.Health.GivenUp)
	return err
}

// Delete implements webhook.Store.
func (st *Webhooks) Delete(ctx context.Context, tenant, id uuid.UUID, version int64) error {
	return postgres.Outage("delete webhook", st.db.InTenant(ctx, tenant, func(tx *sqlx.Tx) error {
		present, err := getWebhook(ctx, tx, tenant, id, "FOR UPDATE")
		if err != nil {
			return err
		}
		if version != 0 && version != present.Version {
			return webhook.Stale(id, present.Version)
		}
		if _, err := tx.ExecContext(ctx, `DELETE FROM saga.webhooks WHERE tenant_id = $1 AND id = $2`, tenant, id); err != nil {
			return err
		}
		if err := auditdb.Tell(ctx, tx, st.db.NewID(), tenant, time.Now().UTC().Truncate(time.Microsecond), operator.Webhook,
			id.String(), "delete", present.Audited(), nil, nil); err != nil {
			return err
		}
		return st.dropLetters(ctx, tx, &present, dlq.SourceGone, "the webhook was deleted")
	}))
}
