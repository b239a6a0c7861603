// Package timelinedb reads the timeline of a correlation id from PostgreSQL.
package timelinedb

import (
	"context"
	"database/sql"
	"fmt"
	"strconv"
	"time"

	"github.com/google/uuid"
	"github.com/jmoiron/sqlx"

	"github.com/skald-saga/skald/internal/audit/timeline"
	"github.com/skald-saga/skald/internal/dlq/dlqdb"
	"github.com/skald-saga/skald/internal/page"
	"github.com/skald-saga/skald/internal/postgres"
	"github.com/skald-saga/skald/internal/saga"
)

// Timelines is timeline.Store on PostgreSQL.
type Timelines struct{ db *postgres.DB }

// NewTimelines returns the timelines of db.
func NewTimelines(db *postgres.DB) *Timelines { return &Timelines{db} }

// entryTable is the result of timelineOf.
var entryTable = postgres.NewTable(
	postgres.Time("at", func(e *timeline.Entry) *time.Time { return &e.At }),
	postgres.Text("key", func(e *timeline.Entry) *string { return &e.Key }),
	postgres.Text("kind", func(e *timeline.Entry) *timeline.Kind { return &e.Kind }),
	postgres.UUIDOrZero("saga_id", func(e *timeline.Entry) *uuid.UUID { return &e.SagaID }),
	postgres.UUIDOrZero("run_id", func(e *timeline.Entry) *uuid.UUID { return &e.RunID }),
	postgres.UUIDOrZero("letter_id", func(e *timeline.Entry) *uuid.UUID { return &e.Letter }),
	postgres.Text("name", func(e *timeline.Entry) *string { return &e.Name }),
	postgres.Text("action", func(e *timeline.Entry) *string { return &e.Action }),
	postgres.Int("number", func(e *timeline.Entry) *int { return &e.Number }),
	postgres.Text("state", func(e *timeline.Entry) *string { return &e.State }),
	postgres.Text("code", func(e *timeline.Entry) *string { return &e.Code }),
	postgres.TimeOrNil("ended_at", func(e *timeline.Entry) **time.Time { return &e.EndedAt }),
)

// runColumns are the columns of a run r that the timeline shows.
const runColumns = `r.id,
	       r.saga_id,
	       r.letter_id,
	       r.definition_name,
	       r.trigger,
	       r.state,
	       r.error_code,
	       r.created_at,
	       r.finished_at,
	       r.attempt,
	       r.assigned_at`

// timelineOf selects everything with a correlation id, both live and archived. Its parameters are
// whether sagas, runs and letters are shown, the position (at, key) of the cursor, and the term by
// which letters are found. A correlation id has few entries, so each part is found by its index and
// sorted as a whole. Letters are read through the tenant's views, because a row-level policy would
// keep the planner from using the index of their terms.
var timelineOf = postgres.Named(`
WITH sagas AS MATERIALIZED (
	SELECT s.id, s.workflow_name, s.state, s.created_at, s.completed_at, s.error->>'code' AS code, false AS archived
	  FROM saga.saga_states s WHERE s.tenant_id = @tenant AND s.correlation_id = @correlation AND @sagas
	UNION ALL
	SELECT s.id, s.workflow_name, s.state, s.created_at, s.completed_at, s.error->>'code', true
	  FROM saga.saga_states_archive s WHERE s.tenant_id = @tenant AND s.correlation_id = @correlation AND @sagas
), steps AS (
	SELECT l.* FROM sagas s CROSS JOIN LATERAL (
		SELECT l.id, l.saga_id, l.step_name, l.action, l.attempt, l.status, l.outcome_code, l.started_at, l.completed_at
		  FROM saga.saga_step_logs l WHERE l.saga_id = s.id AND l.tenant_id = @tenant AND NOT s.archived
		UNION ALL
		SELECT l.id, l.saga_id, l.step_name, l.action, l.attempt, l.status, l.outcome_code, l.started_at, l.completed_at
		  FROM saga.saga_step_logs_archive l WHERE l.saga_id = s.id AND l.tenant_id = @tenant AND s.archived) l
), runs AS MATERIALIZED (
	SELECT `+runColumns+`
	  FROM jobs.job_runs r WHERE r.tenant_id = @tenant AND r.correlation_id = @correlation AND @runs
	UNION
	SELECT `+runColumns+`
	  FROM sagas s JOIN jobs.job_runs r ON r.tenant_id = @tenant AND r.saga_id = s.id WHERE @runs
), letters AS MATERIALIZED (
	SELECT m.id, m.saga_id, m.job_run_id, m.original_topic, m.source, m.status, m.error_type, m.created_at, m.terminal_at
	  FROM dlq.tenant_messages m
	 WHERE m.tenant_id = @tenant AND m.terms @> ARRAY[@term::integer] AND m.correlation_id = @correlation AND @letters
	UNION ALL
	SELECT m.id, m.saga_id, m.job_run_id, m.original_topic, m.source, m.status, m.error_type, m.created_at, m.terminal_at
	  FROM dlq.tenant_messages_archive m
	 WHERE m.tenant_id = @tenant AND m.terms @> ARRAY[@term::integer] AND m.correlation_id = @correlation AND @letters
), entries AS (
	SELECT created_at AS at,
	       'saga:' || id AS key,
	       'saga' AS kind,
	       id AS saga_id,
	       NULL::uuid AS run_id,
	       NULL::uuid AS letter_id,
	       workflow_name::text AS name,
	       '' AS action,
	       0 AS number,
	       state::text AS state,
	       '' AS code,
	       completed_at AS ended_at
	         FROM sagas
	UNION ALL
	SELECT completed_at,
	       'saga_end:' || id,
	       'saga_end',
	       id,
	       NULL,
	       NULL,
	       workflow_name,
	       '',
	       0,
	       state::text,
	       coalesce(code, ''),
	       NULL
	  FROM sagas
	 WHERE completed_at IS NOT NULL
	UNION ALL
	SELECT started_at,
	       'step:' || id,
	       'step',
	       saga_id,
	       CASE WHEN outcome_code LIKE 'job\_%' THEN id END,
	       NULL,
	       step_name,
	       action,
	       attempt,
	       status,
	       coalesce(outcome_code, ''),
	       completed_at
	  FROM steps
	UNION ALL
	SELECT created_at, 'run:' || id, 'job_run', saga_id, id, letter_id, definition_name, trigger, 0, state, '', finished_at
	  FROM runs
	UNION ALL
	SELECT finished_at,
	       'run_end:' || id,
	       'job_run_end',
	       saga_id,
	       id,
	       letter_id,
	       definition_name,
	       trigger,
	       0,
	       state,
	       coalesce(error_code, ''),
	       NULL
	  FROM runs
	 WHERE finished_at IS NOT NULL
	UNION ALL
	SELECT a.assigned_at,
	       'attempt:' || r.id || ':' || a.attempt,
	       'job_attempt',
	       r.saga_id,
	       r.id,
	       r.letter_id,
	       r.definition_name,
	       r.trigger,
	       a.attempt,
	       a.outcome,
	       '',
	       a.ended_at
	  FROM runs r JOIN jobs.job_run_attempts a ON a.run_id = r.id AND a.tenant_id = @tenant
	UNION ALL
	SELECT r.assigned_at,
	       'attempt:' || r.id || ':' || r.attempt,
	       'job_attempt',
	       r.saga_id,
	       r.id,
	       r.letter_id,
	       r.definition_name,
	       r.trigger,
	       r.attempt,
	       r.state,
	       '',
	       r.finished_at
	  FROM runs r WHERE r.attempt > 0 AND r.assigned_at IS NOT NULL
	   AND NOT EXISTS (SELECT FROM jobs.job_run_attempts a
	                    WHERE a.run_id = r.id AND a.tenant_id = @tenant AND a.attempt = r.attempt)
	UNION ALL
	SELECT created_at,
	       'letter:' || id,
	       'dead_letter',
	       saga_id,
	       job_run_id,
	       id,
	       original_topic,
	       source,
	       0,
	       status,
	       coalesce(error_type, ''),
	       terminal_at
	  FROM letters
	UNION ALL
	SELECT t.started_at,
	       'retry:' || t.message_id || ':' || t.number,
	       'dead_letter_retry',
	       m.saga_id,
	       m.job_run_id,
	       m.id,
	       m.original_topic,
	       m.source,
	       t.number,
	       t.outcome,
	       '',
	       t.ended_at
	  FROM letters m JOIN dlq.dlq_attempts t ON t.message_id = m.id AND t.tenant_id = @tenant
)
SELECT `+entryTable.Selected("e")+` FROM entries e
 WHERE @at::timestamptz IS NULL OR (e.at, e.key COLLATE "C") > (@at, @key)
 ORDER BY e.at, e.key COLLATE "C" LIMIT @limit`,
	postgres.Single("tenant", "correlation", "sagas", "runs", "letters", "at", "key", "limit", "term"))

// Timeline implements timeline.Store.
func (st *Timelines) Timeline(ctx context.Context, tenant uuid.UUID, correlation string, show timeline.Shown,
	p page.Request[page.TimeKey]) (page.Of[timeline.Entry], error) {
	var list []timeline.Entry
	var at sql.NullTime
	key := ""
	if p.After != nil {
		at, key = sql.NullTime{Time: p.After.At, Valid: true}, p.After.Key
	}
	args := timelineOf.Args(postgres.Values{tenant, correlation, show.Sagas, show.Runs, show.Letters, at, key,
		p.Limit + 1, dlqdb.Term(tenant, dlqdb.TermCorrelation, correlation)})
	err := st.db.InSnapshot(ctx, tenant, func(tx *sqlx.Tx) (err error) {
		list, err = entryTable.All(tx.QueryContext(ctx, timelineOf.Text, args...))
		return err
	})
	for i := range list {
		e := &list[i]
		if e.Kind != timeline.Saga && e.Kind != timeline.SagaEnd {
			continue
		}
		n, bad := strconv.Atoi(e.State) // for a saga, the state is a number
		if bad != nil || n < 0 || n >= len(saga.States) {
			return page.Of[timeline.Entry]{}, fmt.Errorf("a stored saga has the unknown state %q", e.State)
		}
		e.State = saga.State(n).String()
	}
	return page.Cut(p, list), postgres.Wrap("read a timeline", err)
}
