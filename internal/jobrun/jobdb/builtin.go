package jobdb

import (
	"context"
	"fmt"

	"github.com/google/uuid"
	"github.com/jmoiron/sqlx"

	"github.com/skald-saga/skald/internal/audit/operator"
	"github.com/skald-saga/skald/internal/jobrun"
	"github.com/skald-saga/skald/internal/postgres"
)

// ensureBuiltIn stores a built-in definition unless it exists, and updates its spec if no operator
// has changed it. Several nodes may call it concurrently.
var ensureBuiltIn = postgres.Named(`
WITH kept AS (
	INSERT INTO jobs.job_definitions AS d (`+builtIn.Inserted()+`) VALUES (`+builtIn.Values("n")+`)
	ON CONFLICT (tenant_id, name) WHERE deleted_at IS NULL DO UPDATE
	   SET spec = excluded.spec,
	       type = excluded.type,
	       command_name = excluded.command_name,
	       spec_version = d.spec_version + 1,
	       version = d.version + 1,
	       next_due_at = excluded.next_due_at,
	       last_materialized_at = excluded.last_materialized_at,
	       updated_at = excluded.updated_at
	 WHERE d.built_in AND d.updated_by = '' AND d.spec <> excluded.spec
	RETURNING `+DefinitionColumns+`
), version AS (
	INSERT INTO jobs.job_definition_versions (definition_id, tenant_id, spec_version, spec, created_at)
	SELECT id, tenant_id, spec_version, spec, updated_at FROM kept
)
SELECT `+DefinitionColumns+` FROM kept d`, builtIn.As("n"))

// builtIn lists the columns that are set for a built-in definition.
var builtIn = DefinitionTable.Only("id", "tenant_id", "name", "type", "command_name", "spec", "built_in",
	"last_materialized_at", "next_due_at", "created_at", "updated_at")

// EnsureBuiltIns stores the missing built-in definitions of a tenant. It also updates those that
// have an outdated spec and that no operator has changed, together with the runs of their slots. It
// is idempotent.
func (st *Definitions) EnsureBuiltIns(ctx context.Context, tenant uuid.UUID, all []jobrun.Definition) error {
	const doing = "store the built-in job definitions"
	set, err := st.settings(ctx)
	if err != nil {
		return postgres.Wrap(doing, err)
	}
	followed, err := postgres.RetryCollision(func() (followed []jobrun.Run, err error) {
		err = st.db.InWrite(ctx, func(tx *sqlx.Tx) error {
			followed = nil
			for _, d := range all {
				d.TenantID, d.BuiltIn, d.CreatedAt, d.UpdatedAt = tenant, true, d.LastMaterializedAt, d.LastMaterializedAt
				runs, err := st.ensure(ctx, tx, &d, set)
				if err != nil {
					return err
				}
				followed = append(followed, runs...)
			}
			return nil
		})
		return followed, err
	})
	if err == nil {
		st.db.runsFollowed(followed)
	}
	return postgres.Wrap(doing, err)
}

// ensure stores one built-in definition and returns the runs that were updated with it.
func (st *Definitions) ensure(
	ctx context.Context, tx *sqlx.Tx, d *jobrun.Definition, set jobrun.Settings,
) ([]jobrun.Run, error) {
	stored, err := DefinitionTable.All(tx.QueryContext(ctx, ensureBuiltIn.Text, ensureBuiltIn.Args(builtIn.Row(d))...))
	if err != nil || len(stored) == 0 || stored[0].SpecVersion == 1 {
		return nil, err
	}
	return st.db.follow(ctx, tx, &stored[0], set, "")
}

// Expired counts the rows that Retain has deleted.
type Expired struct {
	Events int64 `json:"events"`
	Claims int64 `json:"claims"`
	Fences int64 `json:"fences"`
	// Workers that have been detached for longer than ended runs are kept.
	Workers int64 `json:"workers"`
	// Bulk operations on sagas, and their lists of sagas.
	SagaBulks     int64 `json:"saga_bulks"`
	SagaBulkItems int64 `json:"saga_bulk_items"`
	// Certifications of participants, except the latest ones (certify.Filter.Latest).
	Certifications int64 `json:"certifications"`
}

// retention lists the deletions, each of which one statement performs in batches: processed events
// and their deliveries, claims answered more than a day ago, fences that are no longer checked,
// and, after the retention of runs, detached workers and ended bulk operations on sagas.
var retention = []struct {
	// days names the setting that contains the retention in days.
	days string
	// told names the deleted rows in the audit trail; if it is empty, the deletion is not recorded.
	told string
	// statement deletes at most $2 rows that are older than $1 days, and counts them by tenant.
	statement string
	// count points to the counter of deleted rows.
	count func(*Expired) *int64
}{
	{jobrun.EventRetention, "job_events_deleted", `
WITH gone AS (
	DELETE FROM jobs.events v WHERE v.id IN (SELECT id FROM jobs.events WHERE processed_at < now() - $1 * interval '1 day'
	   AND NOT EXISTS (SELECT FROM jobs.event_publications p WHERE p.event_id = events.id AND p.ended_at IS NULL)
	    ORDER BY processed_at
	    LIMIT $2
	    FOR UPDATE SKIP LOCKED)
	RETURNING v.id, v.tenant_id
), deliveries AS (
	DELETE FROM jobs.event_deliveries d USING gone WHERE d.event_id = gone.id
), publications AS (
	DELETE FROM jobs.event_publications p USING gone WHERE p.event_id = gone.id
)
SELECT tenant_id, count(*) FROM gone GROUP BY tenant_id`, func(e *Expired) *int64 { return &e.Events }},
	// Claims are kept for a day so that a repeated claim gets the same answer.
	{jobrun.RunRetentionDays, "", `
WITH gone AS (
	DELETE FROM jobs.claims c
	 WHERE c.ctid IN (SELECT ctid FROM jobs.claims WHERE created_at < now() - interval '1 day' AND $1::float8 > 0 LIMIT $2)
	RETURNING c.tenant_id
)
SELECT tenant_id, count(*) FROM gone GROUP BY tenant_id`, func(e *Expired) *int64 { return &e.Claims }},
	{jobrun.RunRetentionDays, "fences_deleted", `
WITH gone AS (
	DELETE FROM jobs.fences f
	 WHERE (f.tenant_id, f.key) IN (SELECT tenant_id, key
	                                  FROM jobs.fences
	                                 WHERE checked_at < now() - $1 * interval '1 day'
	                                 LIMIT $2)
	RETURNING f.tenant_id
)
SELECT tenant_id, count(*) FROM gone GROUP BY tenant_id`, func(e *Expired) *int64 { return &e.Fences }},
	{jobrun.RunRetentionDays, "workers_deleted", `
WITH gone AS (
	DELETE FROM jobs.workers w
	 WHERE w.id IN (SELECT id
	                  FROM jobs.workers
	                 WHERE state` + Is(jobrun.WorkerDetached) + ` AND detached_at < now() - $1 * interval '1 day'
	                 LIMIT $2)
	RETURNING w.tenant_id
)
SELECT tenant_id, count(*) FROM gone GROUP BY tenant_id`, func(e *Expired) *int64 { return &e.Workers }},
	{jobrun.RunRetentionDays, "", `
WITH gone AS (
	DELETE FROM saga.saga_bulk_items i
	 WHERE (i.tenant_id, i.bulk_id, i.position) IN (SELECT o.tenant_id, o.bulk_id, o.position
	  FROM saga.saga_bulks b JOIN saga.saga_bulk_items o ON o.tenant_id = b.tenant_id AND o.bulk_id = b.id
	 WHERE b.ended_at < now() - $1 * interval '1 day' LIMIT $2)
	RETURNING i.tenant_id
)
SELECT tenant_id, count(*) FROM gone GROUP BY tenant_id`, func(e *Expired) *int64 { return &e.SagaBulkItems }},
	{jobrun.RunRetentionDays, "saga_bulks_deleted", `
WITH gone AS (
	DELETE FROM saga.saga_bulks b
	 WHERE b.id IN (SELECT id FROM saga.saga_bulks WHERE ended_at < now() - $1 * interval '1 day' LIMIT $2)
	RETURNING b.tenant_id
)
SELECT tenant_id, count(*) FROM gone GROUP BY tenant_id`, func(e *Expired) *int64 { return &e.SagaBulks }},
	{jobrun.RunRetentionDays, "certifications_deleted", `
WITH gone AS (
	DELETE FROM saga.certifications c
	 WHERE c.id IN (SELECT o.id FROM saga.certifications o WHERE o.ended_at < now() - $1 * interval '1 day'
	   AND (o.state <> 'COMPLETED' OR EXISTS (SELECT FROM saga.certifications n
	        WHERE n.tenant_id = o.tenant_id AND n.host = o.host AND n.state = 'COMPLETED'
	          AND (n.verdict <> 'INCOMPLETE' OR o.verdict = 'INCOMPLETE')
	          AND (n.created_at, n.id) > (o.created_at, o.id))) LIMIT $2)
	RETURNING c.tenant_id
)
SELECT tenant_id, count(*) FROM gone GROUP BY tenant_id`, func(e *Expired) *int64 { return &e.Certifications }},
}

// Retain deletes expired data of job runs, except the runs and their logs, which package joblog
// purges. It stops when ctx ends; the rows deleted by then stay deleted.
func (st *Jobs) Retain(ctx context.Context) (e Expired, err error) {
	s, err := st.settings(ctx)
	if err != nil {
		return e, err
	}
	const batch = 1000
	for _, r := range retention {
		days, count := s.Number(r.days), r.count(&e)
		for {
			var n int64
			gone, err := st.db.ExecByTenant(ctx, r.statement, days, batch)
			if err != nil {
				return e, postgres.Wrap("delete expired data", err)
			}
			for tenant, of := range gone {
				n += of
				if r.told != "" {
					operator.Took(ctx, tenant, r.told, of)
				}
			}
			if *count += n; n < batch {
				break
			}
		}
	}
	return e, nil
}

// Proof is an invariant with the number of rows that violate it.
type Proof struct {
	Name    string   `json:"name"`
	Broken  int64    `json:"broken"`
	Samples []string `json:"samples,omitempty"` // ids, at most five
}

// Invariants names the invariants that the view jobs.invariants checks, in the view's order.
var Invariants = []string{
	"I1 every unfinished saga is owned or due",
	"J1 a slot has one run",
	"J2 one run of a concurrency key is with a worker",
	"J3 what is with a worker has a fence",
	"J4 no epoch is ahead of the leader's",
	"J6 what has ended stays so",
	"J7 a failure with budget left has its retry once",
	"a saga whose run has ended does not wait for it",
	"a letter that is retried by a run waits for it",
	"I5 a saga is as its state says",
}

const proveOne = `SELECT count(*) OVER (), v.id FROM jobs.invariants v WHERE v.invariant = $1 LIMIT 5`

// Prove checks all invariants over all tenants.
func (st *Jobs) Prove(ctx context.Context) ([]Proof, error) {
	out := make([]Proof, len(Invariants))
	for i, name := range Invariants {
		out[i].Name = name
		rows, err := st.db.Read.QueryContext(ctx, proveOne, name)
		if err == nil {
			err = postgres.EachRow(rows, func() error {
				var id string
				err := rows.Scan(&out[i].Broken, &id)
				out[i].Samples = append(out[i].Samples, id)
				return err
			})
		}
		if err != nil {
			return nil, fmt.Errorf("check the invariant %q: %w", name, err)
		}
	}
	return out, nil
}
