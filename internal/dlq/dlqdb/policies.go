package dlqdb

import (
	"context"
	"database/sql"
	"errors"
	"time"

	"github.com/google/uuid"
	"github.com/jmoiron/sqlx"

	"github.com/skald-saga/skald/internal/audit/auditdb"
	"github.com/skald-saga/skald/internal/audit/operator"
	"github.com/skald-saga/skald/internal/dlq"
	"github.com/skald-saga/skald/internal/fault"
	"github.com/skald-saga/skald/internal/postgres"
)

// policy reads the policy of exactly this topic. If there is none, it returns the policy that
// applies instead, with Version 0.
func (st *Letters) policy(ctx context.Context, tx *sqlx.Tx, tenant uuid.UUID, topic string) (dlq.Policy, error) {
	p := st.common
	rows, err := tx.QueryContext(ctx, `
		SELECT `+policyColumns+`
		  FROM dlq.dlq_policies p
		 WHERE p.tenant_id = $1 AND p.topic IN ($2, '')
		 ORDER BY p.topic DESC
		 LIMIT 1`, tenant, topic)
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

var createPolicy = postgres.Named(`
INSERT INTO dlq.dlq_policies AS p (`+policyTable.Inserted()+`) VALUES (`+policyTable.Values("p")+`)
ON CONFLICT (tenant_id, topic) DO NOTHING RETURNING `+policyColumns, policyTable.As("p"))

var replacePolicy = postgres.Named(`
UPDATE dlq.dlq_policies p SET `+policyTable.Set("p", "tenant_id", "topic")+`
 WHERE tenant_id = @p.tenant_id AND topic = @p.topic AND version + 1 = @p.version
 RETURNING `+policyColumns, policyTable.As("p"))

// PutPolicy implements dlq.Overview.
func (st *Letters) PutPolicy(ctx context.Context, p dlq.Policy, by operator.Action) error {
	statement := replacePolicy
	if p.Version == 1 {
		statement = createPolicy
	}
	if st.changed != nil {
		defer st.changed(p.TenantID) // even after an error, because the policy may be stored
	}
	return postgres.Wrap("set the policy of a topic", st.db.InTenant(ctx, p.TenantID, func(tx *sqlx.Tx) error {
		// The row is locked, so that the statement below replaces the row that was read.
		before, err := scanPolicy(tx.QueryRowContext(ctx, `SELECT `+policyColumns+`
		  FROM dlq.dlq_policies p
		 WHERE p.tenant_id = $1 AND p.topic = $2
		 FOR UPDATE`, p.TenantID, p.Topic))
		if err != nil && !errors.Is(err, sql.ErrNoRows) {
			return err
		}
		after, err := scanPolicy(tx.QueryRowContext(ctx, statement.Text, statement.Args(policyTable.Row(&p))...))
		switch {
		case errors.Is(err, sql.ErrNoRows):
			return fault.New(fault.Precondition, dlq.CodeStale, "the policy is no longer at version %d", p.Version-1)
		case err != nil:
			return err
		}
		return auditdb.PutAction(ctx, tx, by.From(before.Audited(), after.Audited()))
	}))
}
