// Package queuedb stores in PostgreSQL which queues of job runs people hold.
package queuedb

import (
	"context"
	"database/sql"
	"errors"
	"fmt"

	"github.com/google/uuid"
	"github.com/jmoiron/sqlx"

	"github.com/skald-saga/skald/internal/audit/auditdb"
	"github.com/skald-saga/skald/internal/audit/operator"
	"github.com/skald-saga/skald/internal/fault"
	"github.com/skald-saga/skald/internal/jobrun"
	"github.com/skald-saga/skald/internal/jobrun/jobdb"
	"github.com/skald-saga/skald/internal/page"
	"github.com/skald-saga/skald/internal/postgres"
)

// Queues is jobrun.Queues on PostgreSQL.
type Queues struct{ db *jobdb.DB }

// New returns the queues of db.
func New(db *jobdb.DB) *Queues { return &Queues{db} }

const readQueue = `
SELECT q.state, q.since, q.reason, q.held_by, q.version FROM jobs.queues q WHERE q.tenant_id = $1 AND q.name = $2`

// Queue implements jobrun.Queues.
func (st *Queues) Queue(ctx context.Context, tenant uuid.UUID, name string) (q jobrun.RunQueue, err error) {
	q = jobrun.RunQueue{TenantID: tenant, Name: name, State: jobrun.QueueOpen}
	err = st.db.InTenant(ctx, tenant, func(tx *sqlx.Tx) error {
		err := tx.QueryRowContext(ctx, readQueue, tenant, name).Scan(&q.State, &q.Since, &q.Reason, &q.HeldBy, &q.Version)
		if errors.Is(err, sql.ErrNoRows) {
			return nil
		}
		return err
	})
	postgres.UTC(q.Since)
	return q, postgres.Wrap("read a queue of job runs", err)
}

// usedQueues are the names of the queues that a tenant uses, with their stored state.
const usedQueues = `
  FROM (SELECT h.name FROM jobs.queues h WHERE h.tenant_id = $1 AND h.state = 'HELD'
        UNION
        SELECT coalesce(nullif(d.spec->>'queue', ''), 'default') COLLATE "C" FROM jobs.job_definitions d
         WHERE d.tenant_id = $1 AND d.deleted_at IS NULL
        UNION
        SELECT unnest(w.queues) COLLATE "C" FROM jobs.workers w WHERE w.tenant_id = $1 AND w.state = 'ACTIVE') AS n
  LEFT JOIN jobs.queues q ON q.tenant_id = $1 AND q.name = n.name
 WHERE ($2 = '' OR coalesce(q.state, 'OPEN') = $2)`

// ListQueues implements jobrun.Queues.
func (st *Queues) ListQueues(
	ctx context.Context, tenant uuid.UUID, state jobrun.QueueState, p page.Request[string],
) (page.Of[jobrun.RunQueue], error) {
	var total int64
	var read []jobrun.RunQueue
	query := fmt.Sprintf(`
SELECT n.name, coalesce(q.state, 'OPEN'), q.since, coalesce(q.reason, ''), coalesce(q.held_by, ''),
       coalesce(q.version, 0)`+usedQueues+`
   AND ($3::text IS NULL OR n.name > $3 COLLATE "C") ORDER BY n.name LIMIT %d OFFSET %d`, p.Limit+1, p.Offset)
	err := st.db.InTenant(ctx, tenant, func(tx *sqlx.Tx) error {
		if p.Total {
			if err := tx.GetContext(ctx, &total, `SELECT count(*)`+usedQueues, tenant, state); err != nil {
				return err
			}
		}
		rows, err := tx.QueryContext(ctx, query, tenant, state, p.After)
		if err != nil {
			return err
		}
		return postgres.EachRow(rows, func() error {
			q := jobrun.RunQueue{TenantID: tenant}
			err := rows.Scan(&q.Name, &q.State, &q.Since, &q.Reason, &q.HeldBy, &q.Version)
			postgres.UTC(q.Since)
			read = append(read, q)
			return err
		})
	})
	found := page.Cut(p, read)
	found.Total = total
	return found, postgres.Wrap("list queues of job runs", err)
}

const putQueue = `
INSERT INTO jobs.queues AS q (tenant_id, name, state, since, reason, held_by, version)
VALUES ($1, $2, $3, $4, $5, $6, $7)
ON CONFLICT (tenant_id, name) DO UPDATE
   SET state = excluded.state, since = excluded.since, reason = excluded.reason, held_by = excluded.held_by,
       version = excluded.version
 WHERE q.version = excluded.version - 1`

// PutQueue implements jobrun.Queues.
func (st *Queues) PutQueue(ctx context.Context, q jobrun.RunQueue, by operator.Action) error {
	err := st.db.InTenant(ctx, q.TenantID, func(tx *sqlx.Tx) error {
		done, err := tx.ExecContext(ctx, putQueue, q.TenantID, q.Name, q.State, q.Since, q.Reason, q.HeldBy, q.Version)
		if err != nil {
			return err
		}
		if n, err := done.RowsAffected(); err != nil || n == 0 {
			return errors.Join(err, fault.New(fault.Precondition, jobrun.CodeStale, "the queue %q was changed concurrently: read it again", q.Name))
		}
		return auditdb.PutAction(ctx, tx, by)
	})
	if err == nil && q.State == jobrun.QueueOpen {
		st.db.Hub.Admitted(q.TenantID, q.Name)
	}
	return postgres.Wrap("store a queue of job runs", err)
}

var countQueue = `
SELECT (SELECT count(*) FROM (SELECT FROM jobs.job_runs r
         WHERE r.tenant_id = $1 AND r.queue = $2 AND r.phase` + jobdb.Claimable + `
           AND r.admitted_at IS NOT NULL AND NOT r.held LIMIT $3) AS w),
       (SELECT count(*) FROM (SELECT FROM jobs.job_runs r
         WHERE r.tenant_id = $1 AND r.queue = $2 AND r.phase` + jobdb.WithWorker + ` LIMIT $3 - 1) AS h)`

// CountQueue implements jobrun.Queues.
func (st *Queues) CountQueue(ctx context.Context, tenant uuid.UUID, name string) (n jobrun.QueueCount, err error) {
	err = st.db.InTenant(ctx, tenant, func(tx *sqlx.Tx) error {
		return tx.QueryRowContext(ctx, countQueue, tenant, name, jobrun.QueueMost+1).Scan(&n.Waiting, &n.Running)
	})
	n.Waiting, n.Capped = min(n.Waiting, jobrun.QueueMost), n.Waiting > jobrun.QueueMost
	return n, postgres.Wrap("count the runs of a queue", err)
}
