package certificationdb

import (
	"context"
	"database/sql"
	"errors"
	"time"

	"github.com/google/uuid"
	"github.com/jmoiron/sqlx"

	"github.com/skald-saga/skald/internal/postgres"
	"github.com/skald-saga/skald/internal/saga/certification"
)

// next selects the oldest certification that a node can start. If two nodes choose two
// certifications of the same host at the same moment, uq_certifications_host lets only one of them
// start.
var next = `
SELECT ` + table.Selected("c") + `, clock_timestamp() FROM saga.certifications c
 WHERE (c.state = 'PENDING' OR c.state = 'RUNNING' AND c.lease_until < clock_timestamp())
   AND NOT EXISTS (SELECT FROM saga.certifications o WHERE o.host = c.host AND o.state = 'RUNNING' AND o.id <> c.id)
 ORDER BY c.created_at LIMIT 1 FOR UPDATE SKIP LOCKED`

// Take implements certification.Queue.
func (st *Certifications) Take(
	ctx context.Context, token uuid.UUID, lease time.Duration,
) (taken *certification.Certification, err error) {
	err = st.db.InRead(ctx, func(tx *sqlx.Tx) error {
		var now time.Time
		r, err := table.One(tx.QueryRowContext(ctx, next), &now)
		if errors.Is(err, sql.ErrNoRows) {
			return nil
		}
		if err != nil {
			return err
		}
		c, err := st.open(&r)
		if err != nil {
			return err
		}
		if c.Began(now.UTC()); c.State.Ended() {
			return put(ctx, tx, &r, &c)
		}
		if _, err := tx.ExecContext(ctx, `UPDATE saga.certifications c
		   SET state = $3, version = $4, attempt = $5, played = 0, planned = 0, started_at = $6, token = $7,
		       mail = NULL, lease_until = clock_timestamp() + $8 * interval '1 microsecond'
		 WHERE c.tenant_id = $1 AND c.id = $2`,
			c.TenantID, c.ID, c.State, c.Version, c.Attempt, c.StartedAt, token, lease.Microseconds()); err != nil {
			return err
		}
		taken = &c
		return nil
	})
	if postgres.Violates(err, "uq_certifications_host") {
		return nil, nil //nolint:nilnil // another node was first; the next poll finds what is left
	}
	if err != nil {
		taken = nil
	}
	return taken, postgres.Wrap("claim a certification", err)
}

// put stores the end of a locked certification.
func put(ctx context.Context, tx *sqlx.Tx, r *row, c *certification.Certification) error {
	_, err := tx.ExecContext(ctx, `UPDATE saga.certifications c
	   SET state = $3, version = $4, ended_at = $5, error = $6, verdict = $7, findings = $8, warnings = $9,
	       not_tried = $10, examiner = $11, played = $12, planned = $13, report = $14, token = NULL, lease_until = NULL,
	       mail = NULL
	 WHERE c.tenant_id = $1 AND c.id = $2`,
		c.TenantID, c.ID, c.State, c.Version, c.EndedAt, c.Error, c.Verdict, c.Findings, c.Warnings, c.NotTried,
		c.Examiner, c.Played, c.Planned, jsonOrNil(r.report))
	return err
}

func jsonOrNil(doc []byte) any {
	if doc == nil {
		return nil
	}
	return string(doc)
}

// Hold implements certification.Queue.
func (st *Certifications) Hold(
	ctx context.Context, c *certification.Certification, token uuid.UUID, lease time.Duration,
) (held bool, err error) {
	err = st.db.InRead(ctx, func(tx *sqlx.Tx) error {
		res, err := tx.ExecContext(ctx, `UPDATE saga.certifications c
		   SET played = $4, planned = $5, lease_until = clock_timestamp() + $6 * interval '1 microsecond'
		 WHERE c.tenant_id = $1 AND c.id = $2 AND c.token = $3 AND c.state = 'RUNNING'`,
			c.TenantID, c.ID, token, c.Played, c.Planned, lease.Microseconds())
		held, err = postgres.ChangedOne(res, "renew the lease of a certification", err)
		return err
	})
	return held, postgres.Wrap("renew the lease of a certification", err)
}

// End implements certification.Queue.
func (st *Certifications) End(ctx context.Context, c *certification.Certification, token uuid.UUID) error {
	r, err := st.sealed(c)
	if err != nil {
		return err
	}
	err = st.db.InRead(ctx, func(tx *sqlx.Tx) error {
		if held, err := lock(ctx, tx, c, token); err != nil || !held {
			return err
		}
		return put(ctx, tx, r, c)
	})
	return postgres.Wrap("end a certification", err)
}

// Return implements certification.Queue.
func (st *Certifications) Return(ctx context.Context, c *certification.Certification, token uuid.UUID) error {
	err := st.db.InRead(ctx, func(tx *sqlx.Tx) error {
		_, err := tx.ExecContext(ctx, `UPDATE saga.certifications c
		   SET state = 'PENDING', version = c.version + 1, attempt = c.attempt - 1, played = 0, token = NULL,
		       lease_until = NULL, mail = NULL
		 WHERE c.tenant_id = $1 AND c.id = $2 AND c.token = $3 AND c.state = 'RUNNING'`, c.TenantID, c.ID, token)
		return err
	})
	return postgres.Wrap("return a certification", err)
}

// lock locks a certification that a node holds.
func lock(ctx context.Context, tx *sqlx.Tx, c *certification.Certification, token uuid.UUID) (held bool, err error) {
	err = tx.GetContext(ctx, &held, `SELECT true FROM saga.certifications c
	  WHERE c.tenant_id = $1 AND c.id = $2 AND c.token = $3 AND c.state = 'RUNNING' FOR UPDATE`, c.TenantID, c.ID, token)
	if errors.Is(err, sql.ErrNoRows) {
		return false, nil
	}
	return held, err
}
