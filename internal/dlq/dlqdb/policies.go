package dlqdb

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jmoiron/sqlx"

	"github.com/skald-saga/skald/internal/audit/auditdb"
	"github.com/skald-saga/skald/internal/audit/operator"
	"github.com/skald-saga/skald/internal/dlq"
	"github.com/skald-saga/skald/internal/fault"
	"github.com/skald-saga/skald/internal/postgres"
)

// policy reads the policy of exactly a topic; with Version 0 the one that serves
// it instead.
func (st *Letters) policy(ctx context.Context, tx *sqlx.Tx, tenant uuid.UUID, topic string) (dlq.Policy, error) {
	p := st.common
	rows, err := tx.QueryContext(ctx, `
		SELECT `+policyColumns+` FROM dlq.dlq_policies p WHERE p.tenant_id = $1 AND p.topic IN ($2, '') ORDER BY p.topic DESC LIMIT 1`, tenant, topic)
	if err != nil {
		return p, err
	}
	own := false
	err = postgres.EachRow(rows, func() (err error) {
		p, err = scanPolicy(rows)
		own = p.Topic == topic
		return err
	})
	if !own {
		p.Version, p.UpdatedBy, p.UpdatedAt, p.HoldAll = 0, "", time.Time{}, false
	}
	p.TenantID, p.Topic = tenant, topic
	return p, err
}

// PutPolicy implements dlq.Overview.
func (st *Letters) PutPolicy(ctx context.Context, p dlq.Policy, by operator.Action) error {
	backoff, err := json.Marshal(p.Backoff)
	if err != nil {
		return fmt.Errorf("encode backoff: %w", err)
	}
	alert, err := json.Marshal(p.Alert)
	if err != nil {
		return fmt.Errorf("encode alert: %w", err)
	}
	statement := `
		UPDATE dlq.dlq_policies p
		   SET version = $3, max_retries = $4, backoff = $5, auto_retry = $6, ordered = $7, retention_days = $8, archive_days = $9,
		       max_generations = $10, alert = $11, redact = $12, allowed_targets = $13, updated_by = $14, updated_at = $15, hold_all = $16
		 WHERE tenant_id = $1 AND topic = $2 AND version = $3 - 1 RETURNING ` + policyColumns
	if p.Version == 1 {
		statement = `
		INSERT INTO dlq.dlq_policies AS p (tenant_id, topic, version, max_retries, backoff, auto_retry, ordered, retention_days, archive_days,
		       max_generations, alert, redact, allowed_targets, updated_by, updated_at, hold_all)
		VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16)
		ON CONFLICT (tenant_id, topic) DO NOTHING RETURNING ` + policyColumns
	}
	return postgres.Outage("set the policy of a topic", st.db.InTenant(ctx, p.TenantID, func(tx *sqlx.Tx) error {
		// Locked, so that it is what the statement below replaces.
		before, err := scanPolicy(tx.QueryRowContext(ctx, `SELECT `+policyColumns+` FROM dlq.dlq_policies p WHERE p.tenant_id = $1 AND p.topic = $2 FOR UPDATE`, p.TenantID, p.Topic))
		if err != nil && !errors.Is(err, sql.ErrNoRows) {
			return err
		}
		after, err := scanPolicy(tx.QueryRowContext(ctx, statement, p.TenantID, p.Topic, p.Version, p.MaxRetries,
			string(backoff), p.AutoRetry, p.Ordered, p.RetentionDays, p.ArchiveDays,
			p.MaxGenerations, string(alert), postgres.ArrayOf(p.Redact), postgres.ArrayOf(p.AllowedTargets), p.UpdatedBy,
			p.UpdatedAt, p.HoldAll))
		switch {
		case errors.Is(err, sql.ErrNoRows):
			return fault.New(fault.Precondition, dlq.CodeStale, "the policy is no longer at version %d", p.Version-1)
		case err != nil:
			return err
		}
		return auditdb.PutAction(ctx, tx, by.From(before.Audited(), after.Audited()))
	}))
}
