package jobdb

import (
	"context"
	"database/sql"

	"github.com/google/uuid"
	"github.com/lib/pq"

	"github.com/skald-saga/skald/internal/jobrun"
	"github.com/skald-saga/skald/internal/postgres"
)

// whySkipped joins e.reason, the reason why a run r of the tenant $1 is SKIPPED, from the run's
// events.
const whySkipped = `
  LEFT JOIN LATERAL (
	SELECT v.reason FROM jobs.job_run_events v
	 WHERE r.state = 'SKIPPED' AND v.tenant_id = $1 AND v.run_id = r.id AND v.kind = 'skipped'
	 ORDER BY v.id DESC LIMIT 1) AS e ON true`

// slotsOf reads the runs of slots with one query per definition, so that the index of slots serves
// each query. For a slot whose runs were all withdrawn it reads the last one.
const slotsOf = `
	SELECT r.definition_id, r.id, r.scheduled_for, r.state, coalesce(e.reason, ''), r.withdrawn
	  FROM unnest($2::uuid[]) AS d (id) CROSS JOIN LATERAL (
	       (SELECT j.definition_id, j.id, j.scheduled_for, j.state, j.withdrawn FROM jobs.job_runs j
	         WHERE j.tenant_id = $1
	           AND j.definition_id = d.id
	           AND j.trigger = 'TIME'
	           AND NOT j.withdrawn
	           AND j.scheduled_for >= $3
	           AND j.scheduled_for < $4
	         ORDER BY j.scheduled_for LIMIT $5)
	       UNION ALL
	       (SELECT DISTINCT ON (j.scheduled_for) j.definition_id, j.id, j.scheduled_for, j.state, j.withdrawn
	          FROM jobs.job_runs j
	         WHERE j.tenant_id = $1
	           AND j.definition_id = d.id
	           AND j.withdrawn
	           AND j.scheduled_for >= $3
	           AND j.scheduled_for < $4
	           AND NOT EXISTS (SELECT FROM jobs.job_runs o
	                            WHERE o.definition_id = j.definition_id
	                              AND o.scheduled_for = j.scheduled_for
	                              AND o.trigger = 'TIME'
	                              AND NOT o.withdrawn)
	         ORDER BY j.scheduled_for, j.id DESC LIMIT $5)) AS r
` + whySkipped + `
	 ORDER BY r.scheduled_for, r.definition_id`

// recentEnds reads the most recently ended runs of each definition, in the order of the
// definition's index.
var recentEnds = `
	SELECT d.id, r.id, r.state, r.finished_at
	  FROM unnest($2::uuid[]) WITH ORDINALITY AS d (id, n) CROSS JOIN LATERAL (
	       SELECT j.id, j.state, j.finished_at, j.created_at FROM jobs.job_runs j
	        WHERE j.tenant_id = $1 AND j.definition_id = d.id AND j.phase` + Finished + `
	        ORDER BY j.created_at DESC, j.id DESC LIMIT $3) AS r
	 ORDER BY d.n, r.created_at DESC, r.id DESC`

// RecentEnds implements jobrun.Runs.
func (st *Jobs) RecentEnds(
	ctx context.Context, tenant uuid.UUID, definitions []uuid.UUID, each int,
) (ends []jobrun.RunEnd, err error) {
	err = st.db.ListTenant(ctx, tenant, recentEnds, func(rows *sql.Rows) error {
		var e jobrun.RunEnd
		err := rows.Scan(&e.DefinitionID, &e.RunID, &e.State, &e.At)
		postgres.UTC(&e.At)
		ends = append(ends, e)
		return err
	}, tenant, pq.Array(definitions), each)
	return ends, postgres.Wrap("read the results of the last runs of jobs", err)
}

// Slots implements jobrun.Runs.
func (st *Jobs) Slots(ctx context.Context, tenant uuid.UUID, q jobrun.SlotQuery) (slots []jobrun.SlotRun, err error) {
	err = st.db.ListTenant(ctx, tenant, slotsOf, func(rows *sql.Rows) error {
		var s jobrun.SlotRun
		err := rows.Scan(&s.DefinitionID, &s.RunID, &s.At, &s.State, &s.Reason, &s.Withdrawn)
		slots = append(slots, s)
		return err
	}, tenant, pq.Array(q.Definitions), q.From, q.To, q.Each)
	return slots, postgres.Wrap("read the slots of jobs", err)
}
