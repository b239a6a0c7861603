package eventdb

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"

	"github.com/skald-saga/skald/internal/audit/auditdb"
	"github.com/skald-saga/skald/internal/audit/trail"
	"github.com/skald-saga/skald/internal/postgres"
)

// Publications is trail.Publications on PostgreSQL.
type Publications struct{ db *postgres.DB }

// NewPublications returns the publications of db.
func NewPublications(db *postgres.DB) *Publications { return &Publications{db} }

// Lead implements trail.Publications.
func (st *Publications) Lead(ctx context.Context, name, owner string, ttl time.Duration) (epoch int64, err error) {
	err = st.db.Read.GetContext(ctx, &epoch, `
		INSERT INTO saga.publications AS p (name, owner, epoch, lease_until)
		 VALUES ($1, $2, 1, now() + $3 * interval '1 microsecond')
		ON CONFLICT (name) DO UPDATE SET owner = excluded.owner, epoch = p.epoch + 1, lease_until = excluded.lease_until
		 WHERE p.lease_until <= now() OR p.owner = excluded.owner
		RETURNING epoch`, name, owner, ttl.Microseconds())
	if errors.Is(err, sql.ErrNoRows) {
		return 0, nil
	}
	return epoch, postgres.Wrap("acquire the publication lease", err)
}

// Renew implements trail.Publications.
func (st *Publications) Renew(ctx context.Context, name string, epoch int64, ttl time.Duration) (bool, error) {
	res, err := st.db.Read.ExecContext(ctx, `
		UPDATE saga.publications
		   SET lease_until = now() + $3 * interval '1 microsecond'
		 WHERE name = $1 AND epoch = $2`, name, epoch, ttl.Microseconds())
	return postgres.ChangedOne(res, "renew the publication lease", err)
}

// Resign implements trail.Publications.
func (st *Publications) Resign(ctx context.Context, name string, epoch int64) error {
	_, err := st.db.Read.ExecContext(ctx, `
		UPDATE saga.publications SET lease_until = now() WHERE name = $1 AND epoch = $2 AND lease_until > now()`, name, epoch)
	return postgres.Wrap("release the publication lease", err)
}

// unpublished finds the tenants in the trail by stepping over idx_event_feed. It also finds events
// that the feed holds back, because a publication that waits for them is behind.
var unpublished = `
WITH RECURSIVE ` + auditdb.TenantsWithEvents + `
SELECT t.tenant_id, coalesce(c.txid, '0'), coalesce(c.id, 0), next.timestamp, NOT next.settled
  FROM tenants t
  LEFT JOIN saga.publication_cursors c ON c.name = $1 AND c.tenant_id = t.tenant_id
 CROSS JOIN LATERAL (
	SELECT e.timestamp, ` + auditdb.Settled + ` AS settled FROM saga.audit_events e
	 WHERE e.tenant_id = t.tenant_id
	   AND (e.txid, e.id) > (coalesce(c.txid, '0'), coalesce(c.id, 0))
	 ORDER BY e.txid, e.id LIMIT 1
 ) AS next
 WHERE t.tenant_id IS NOT NULL`

// Unpublished implements trail.Publications.
func (st *Publications) Unpublished(ctx context.Context, name string) ([]trail.Unpublished, error) {
	rows, err := st.db.Read.QueryContext(ctx, unpublished, name)
	if err != nil {
		return nil, fmt.Errorf("find unpublished events: %w", err)
	}
	var all []trail.Unpublished
	err = postgres.EachRow(rows, func() error {
		var u trail.Unpublished
		err := rows.Scan(&u.TenantID, &u.After.TxID, &u.After.ID, &u.Since, &u.Held)
		postgres.UTC(&u.Since)
		all = append(all, u)
		return err
	})
	return all, postgres.Wrap("find unpublished events", err)
}

// advance locks the row of the term, so that it and the next leader's takeover run one after the
// other.
const advance = `
WITH term AS (
	SELECT p.name FROM saga.publications p WHERE p.name = $1 AND p.epoch = $2 FOR SHARE
)
INSERT INTO saga.publication_cursors (name, tenant_id, txid, id) SELECT name, $3, $4, $5 FROM term
ON CONFLICT (name, tenant_id) DO UPDATE SET txid = excluded.txid, id = excluded.id`

// Advance implements trail.Publications. It uses the engine's role, because the publisher works for
// all tenants.
func (st *Publications) Advance(ctx context.Context, name string, epoch int64, whose uuid.UUID,
	to trail.Position) (bool, error) {
	res, err := st.db.Read.ExecContext(ctx, advance, name, epoch, whose, xid(to), to.ID)
	return postgres.ChangedOne(res, "advance publication", err)
}
