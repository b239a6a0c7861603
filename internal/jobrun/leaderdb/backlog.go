package leaderdb

import (
	"context"
	"database/sql"

	"github.com/skald-saga/skald/internal/jobrun"
	"github.com/skald-saga/skald/internal/jobrun/jobdb"
	"github.com/skald-saga/skald/internal/postgres"
)

// countBacklog counts the unfinished runs in their indexes, each kind up to a bound.
var countBacklog = `
SELECT (SELECT count(*) FROM (SELECT 1 FROM jobs.job_runs r
  WHERE r.admitted_at IS NULL AND (r.phase` + jobdb.WaitsAgain + ` OR r.phase` + jobdb.Waits + `
    AND r.concurrency_key IS NULL) LIMIT $1) AS w)
       + (SELECT count(*) FROM (SELECT 1 FROM jobs.job_runs r
         WHERE r.phase` + jobdb.Waits + ` AND r.concurrency_key IS NOT NULL AND r.admitted_at IS NULL LIMIT $1) AS w),
       c.n, c.oldest, h.assigned, h.running, h.doubted,
       (SELECT count(*) FROM (SELECT FROM jobs.queues q
          JOIN jobs.job_runs r ON r.tenant_id = q.tenant_id AND r.queue = q.name
         WHERE q.state = 'HELD' AND r.phase` + jobdb.Claimable + `
           AND r.admitted_at IS NOT NULL AND NOT r.held LIMIT $1) AS k)
  FROM (SELECT count(*) AS n, min(x.available_at) AS oldest FROM (
	SELECT r.available_at FROM jobs.job_runs r
	  WHERE r.phase` + jobdb.Claimable + ` AND r.admitted_at IS NOT NULL AND NOT r.held
	    AND NOT EXISTS (SELECT FROM jobs.queues q
	          WHERE q.tenant_id = r.tenant_id AND q.name = r.queue AND q.state = 'HELD')
	  LIMIT $1) AS x) AS c
 CROSS JOIN (SELECT count(*) FILTER (WHERE r.state` + jobdb.Is(jobrun.Assigned) + `) AS assigned,
   count(*) FILTER (WHERE r.state` + jobdb.Is(jobrun.Running) + `) AS running,
                    count(*) FILTER (WHERE r.continuation_state` + jobdb.Is(jobrun.Confirming) + `) AS doubted
               FROM jobs.job_runs r WHERE r.phase` + jobdb.WithWorker + `) AS h`

// Backlog implements jobrun.Sweeps. Oldest is the oldest of the runs that were counted.
func (st *Sweeps) Backlog(ctx context.Context) (b jobrun.Backlog, err error) {
	rows, err := st.db.QueryWrite(ctx, countBacklog, jobrun.BacklogCap)
	if err != nil {
		return b, postgres.Wrap("count job runs", err)
	}
	err = postgres.EachRow(rows, func() error {
		var oldest sql.NullTime
		err := rows.Scan(&b.Waiting, &b.Claimable, &oldest, &b.Assigned, &b.Running, &b.Doubted,
			&b.Held)
		b.Oldest = oldest.Time.UTC()
		if !oldest.Valid {
			b.Oldest = oldest.Time
		}
		return err
	})
	b.Waiting = min(b.Waiting, jobrun.BacklogCap)
	return b, postgres.Wrap("count job runs", err)
}
