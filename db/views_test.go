package db_test

import (
	"database/sql"
	"encoding/json"
	"fmt"
	"maps"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"

	"github.com/skald-saga/skald/internal/postgres"
	"github.com/skald-saga/skald/internal/retry"
	"github.com/skald-saga/skald/internal/saga"
	"github.com/skald-saga/skald/internal/saga/sagadb"
	"github.com/skald-saga/skald/internal/saga/workflow"
	"github.com/skald-saga/skald/internal/tenant"
	"github.com/skald-saga/skald/internal/test/testdb"
)

func TestViewsHaveExactlyTheSeedsColumns(t *testing.T) {
	t.Parallel()
	pool := open(t, testdb.DSN(t))
	for view, want := range map[string][]string{
		// Seed 2, tables 1 and 2.
		"saga_instances": {
			"id", "definition_id", "name", "description", "state", "current_step", "total_steps", "created_at",
			"updated_at", "started_at",
			"completed_at", "timed_out_at", "initial_data", "current_data", "result_data", "error", "timeout_ms",
			"retry_policy", "metadata",
			"trace_id", "span_id",
		},
		"saga_steps": {
			"id", "saga_id", "step_index", "name", "state", "attempts", "max_attempts", "created_at",
			"started_at", "completed_at",
			"last_attempt_at", "input_data", "output_data", "error", "compensation_state", "metadata",
		},
		// Seed 2, table 3; the second row is an addition.
		"saga_events": {
			"id", "saga_id", "event_type", "step_id", "step_index", "timestamp", "event_data", "old_state", "new_state", "error",
			"trace_id", "span_id", "metadata",
			"tenant_id", "step_name", "attempt", "actor", "request_id", "digest", "txid",
		},
		// Seed 4.
		"sagas": {
			"transaction_id", "tenant_id", "tenant_region", "tenant_major", "tenant_minor", "saga_type", "initiated_by",
			"status", "saga_data",
			"version", "created_at", "updated_at", "timeout_at",
		},
		// Seed 2, views.
		"active_sagas": {
			"id", "definition_id", "name", "state", "current_step", "total_steps", "created_at", "updated_at", "started_at",
			"trace_id", "metadata",
		},
		"failed_sagas": {
			"id", "definition_id", "name", "state", "current_step", "total_steps", "created_at", "updated_at", "completed_at",
			"error", "trace_id",
		},
		"completed_sagas": {
			"id", "definition_id", "name", "current_step", "total_steps", "created_at", "started_at", "completed_at",
			"result_data", "trace_id",
		},
		// The last two are additions: without them, the counts do not add up (trap X36).
		"saga_statistics": {
			"definition_id", "total_instances", "completed_count", "failed_count", "active_count", "avg_duration_seconds",
			"last_execution",
			"pending_count", "compensated_count",
		},
	} {
		got := texts(t, pool, `SELECT column_name FROM information_schema.columns WHERE table_schema = 'saga' AND table_name = $1 ORDER BY ordinal_position`, view)
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s (-seed +database):\n%s", view, diff)
		}
	}
	// tenant_metadata, steps_by_tenant and steps_to_retry are also additions: seed 2 queries its
	// table of steps instead of steps_to_retry.
	if views := texts(t, pool, `SELECT viewname FROM pg_views WHERE schemaname = 'saga' AND viewname NOT IN ('tenant_metadata', 'tenant_metadata_archive', 'steps_by_tenant', 'steps_to_retry', 'every_audit_event', 'every_step_log', 'invariants')`); len(views) != 8 {
		t.Errorf("views %v, want the eight above", views)
	}
}

// story is a tenant whose sagas the test drives.
type story struct {
	t    *testing.T
	pool *sql.DB
	st   *sagadb.Sagas
	def  *workflow.Definition
	id   uuid.UUID // the tenant
	last time.Time
}

func tell(t *testing.T) *story {
	t.Helper()
	dsn := testdb.DSN(t)
	stores, err := postgres.Open(t.Context(), postgres.Config{DSN: dsn})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(stores.Close)
	def, err := workflow.ParseJSON([]byte(`{"name": "order", "retry": {"max_attempts": 2, "jitter": 0}, "compensation_retry": {"max_attempts": 7, "jitter": 0}, "steps": [
		{"name": "reserve", "action": {"http": {"url": "http://x/1"}}, "compensation": {"http": {"url": "http://x/2"}}},
		{"name": "label", "action": {"http": {"url": "http://x/3"}}, "compensation": "none", "retry": {"max_attempts": 5},
		 "metadata": {"owner": "depot", "page": 7}},
		{"name": "charge", "action": {"http": {"url": "http://x/4"}}, "compensation": {"http": {"url": "http://x/5"}}, "compensation_retry": {"max_attempts": 3}}
	]}`), workflow.Limits{})
	if err != nil {
		t.Fatal(err)
	}
	s := &story{t: t, pool: open(t, dsn), st: sagadb.NewSagas(stores), def: def, id: uuid.New()}
	if _, _, err := sagadb.NewWorkflows(stores).Register(t.Context(), s.id, def, false, s.now()); err != nil {
		t.Fatal(err)
	}
	return s
}

func (s *story) now() time.Time {
	now := time.Now().UTC().Truncate(time.Microsecond)
	if !now.After(s.last) {
		now = s.last.Add(time.Microsecond)
	}
	s.last = now
	return now
}

// begin stores a saga that is driven by node 1, or by none.
func (s *story) begin(owner *int64) saga.Instance {
	s.t.Helper()
	spec := saga.Spec{ID: uuid.Must(uuid.NewV7()), Tenant: tenant.Tenant{ID: s.id},
		Payload: json.RawMessage(`{"amount":1.50}`), Metadata: json.RawMessage(`{"region":"eu","owner":"shop"}`),
		Name: new("the first"), Description: new("of a test"), TraceID: new("trace"), SpanID: new("span")}
	results,
		err := s.st.Create(s.t.Context(), []saga.NewSaga{{Saga: saga.New(spec, s.def, 1, owner, s.now(), time.Minute)}})
	if err != nil || results[0].Created != saga.Stored {
		s.t.Fatalf("create: %+v, %v", results, err)
	}
	return saga.NewInstance(results[0].Saga, s.def)
}

// play applies and commits one event; release also releases the saga.
func (s *story) play(run saga.Instance, e saga.Event, release bool) saga.Instance {
	s.t.Helper()
	if _, passed := e.(saga.DeadlinePassed); passed {
		run.TimeoutAt = new(s.now())
		e = saga.DeadlinePassed{At: *run.TimeoutAt}
	}
	c, err := saga.Apply(run, e, saga.Moment{Now: s.now(), NewID: uuid.New})
	if err != nil {
		s.t.Fatal(err)
	}
	if release {
		c = c.Released(s.now())
	}
	errs, err := s.st.Commit(s.t.Context(), []saga.Change{c})
	if err != nil || errs[0] != nil {
		s.t.Fatalf("commit: %v, %v", errs, err)
	}
	return c.After
}

func (s *story) outcome(v saga.Verdict, class retry.Class, output string) saga.Event {
	o := saga.Outcome{Verdict: v, Class: class, Code: "code", Request: []byte(`{}`), StartedAt: s.now(), EndedAt: s.now()}
	if v == saga.Done {
		o.Output = json.RawMessage(output)
	} else {
		o.Message = "it did not work"
	}
	return saga.Answered{Outcome: o}
}

func (s *story) done(output string) saga.Event { return s.outcome(saga.Done, "", output) }
func (s *story) refused() saga.Event           { return s.outcome(saga.Refused, retry.Refused, "") }
func (s *story) unanswered() saga.Event        { return s.outcome(saga.Unknown, retry.Timeout, "") }
func (s *story) slow() saga.Event              { return saga.Slow{StartedAt: s.now()} }

// stories are paths through a saga, with the number of sagas by outcome that each adds.
func (s *story) stories() map[string][]saga.Event {
	return map[string][]saga.Event{
		"completed":              {s.done(`{"n":1}`), s.unanswered(), s.done(`[2]`), s.done(`"three"`)},
		"refused, undone":        {s.done(`{"n":1}`), s.done(`2`), s.refused(), s.unanswered(), s.done(`{}`)},
		"in doubt, undone":       {s.done(`{"n":1}`), s.done(`2`), s.unanswered(), s.unanswered(), s.done(`{}`), s.done(`{}`)},
		"slow":                   {s.slow(), s.done(`{"n":1}`), s.slow(), s.unanswered(), s.slow(), s.done(`2`), s.refused(), s.slow(), s.done(`{}`)},
		"cancelled":              {s.done(`{"n":1}`), saga.CancelRequested{By: "bob"}, s.done(`2`), s.done(`{}`)},
		"timed out":              {s.done(`{"n":1}`), saga.DeadlinePassed{}, s.refused(), s.done(`{}`)},
		"a compensation gave up": {s.done(`{"n":1}`), s.refused(), s.refused()},
		"resumed":                {s.done(`{"n":1}`), s.refused(), s.refused(), saga.ResumeRequested{By: "op"}},
		"turned back at once":    {s.refused()},
		"one step on":            {s.done(`{"n":1}`)},
		"waiting for a retry":    {s.done(`{"n":1}`), s.unanswered()},
		"waiting with an undo":   {s.done(`{"n":1}`), s.refused(), s.unanswered()},
	}
}

// interventions are paths through a saga with an action of an operator.
func (s *story) interventions() map[string][]saga.Event {
	order := func(v saga.OrderVerb, step int) saga.Event {
		return saga.StepOrdered{Step: step, Order: saga.Order{Verb: v, Output: json.RawMessage(`{"by":"hand"}`)}}
	}
	patch := json.RawMessage(`{"amount":2}`)
	return map[string][]saga.Event{
		"skipped":              {s.unanswered(), order(saga.SkipStep, 0), saga.Turned{}, s.done(`2`), s.refused(), s.done(`{}`)},
		"skipped undone":       {s.done(`1`), s.done(`2`), order(saga.SkipStep, 2), s.refused()},
		"skipped, then failed": {order(saga.SkipStep, 0), s.refused(), order(saga.SkipStep, 1), s.unanswered(), s.refused()},
		"done by hand":         {s.done(`1`), order(saga.CompleteStep, 1), saga.Turned{}, s.refused(), s.done(`{}`)},
		"failed by hand":       {s.done(`1`), order(saga.FailStep, 1), saga.Turned{}, order(saga.SkipStep, 0), saga.Turned{}},
		"undone by hand":       {s.done(`1`), s.refused(), s.refused(), order(saga.CompleteStep, 0)},
		"halted":               {s.done(`1`), saga.FailureForced{}, saga.RetryRequested{Patch: patch, NotApplied: true}},
		"halted in an undo":    {s.done(`1`), s.refused(), saga.FailureForced{}, saga.ResumeRequested{}},
		"retried":              {s.done(`1`), s.refused(), s.refused(), saga.RetryRequested{}},
		"from the first step":  {s.done(`1`), s.done(`2`), saga.FailureForced{}, saga.RetryRequested{FromStep: new(0), Patch: patch}, s.done(`{}`), s.unanswered(), s.done(`{}`)},
		"completed by force":   {s.done(`1`), saga.CompletionForced{}},
		"suspended":            {s.done(`1`), saga.SuspendRequested{}, s.unanswered(), saga.UnsuspendRequested{}},
	}
}

// stepRow is a row of saga.saga_steps, or what the rules require.
type stepRow struct {
	ID                     string
	Index                  int
	Name                   string
	State                  saga.StepState
	Attempts, MaxAttempts  int
	Started, Last, Ended   string
	Input, Output, Error   string
	Undo                   string // state, attempts, maximum attempts, error
	UndoStarted, UndoEnded string
}

func (s *story) rows(id uuid.UUID) []stepRow {
	s.t.Helper()
	rows, err := s.pool.QueryContext(s.t.Context(), `
		SELECT id, step_index, name, state, attempts, max_attempts, coalesce(started_at::text, ''), coalesce(last_attempt_at::text, ''),
		       coalesce(completed_at::text, ''), coalesce(input_data::text, ''), coalesce(output_data::text, ''), coalesce(error->>'message', ''),
		       concat_ws(' ', compensation_state->>'state', compensation_state->>'attempts', compensation_state->>'max_attempts',
		                 compensation_state->'error'->>'message'),
		       coalesce((compensation_state->>'started_at')::timestamptz::text, ''), coalesce((compensation_state->>'completed_at')::timestamptz::text, '')
		  FROM saga.saga_steps WHERE saga_id = $1 ORDER BY step_index`, id)
	if err != nil {
		s.t.Fatal(err)
	}
	defer rows.Close()
	var out []stepRow
	for rows.Next() {
		var r stepRow
		if err := rows.Scan(&r.ID, &r.Index, &r.Name, &r.State, &r.Attempts, &r.MaxAttempts,
			&r.Started, &r.Last, &r.Ended, &r.Input, &r.Output, &r.Error, &r.Undo, &r.UndoStarted, &r.UndoEnded); err != nil {
			s.t.Fatal(err)
		}
		out = append(out, r)
	}
	if err := rows.Err(); err != nil {
		s.t.Fatal(err)
	}
	return out
}

func (s *story) want(run saga.Instance) []stepRow {
	s.t.Helper()
	loaded, err := s.st.Load(s.t.Context(), []saga.Ref{run.Ref()})
	if err != nil || len(loaded) != 1 {
		s.t.Fatalf("load: %d sagas, %v", len(loaded), err)
	}
	var out []stepRow
	time := func(at *time.Time) string {
		if at == nil {
			return ""
		}
		return ask[string](s.t, s.pool, `SELECT $1::timestamptz::text`, *at)
	}
	text := func(j json.RawMessage) string {
		if j == nil {
			return ""
		}
		return ask[string](s.t, s.pool, `SELECT $1::jsonb::text`, string(j))
	}
	for _, v := range saga.Steps(saga.Rebuild(loaded[0].Saga, s.def, loaded[0].Logs), loaded[0].Logs) {
		r := stepRow{
			ID: v.ID, Index: v.Index, Name: v.Name, State: v.State, Attempts: v.Attempts, MaxAttempts: v.MaxAttempts,
			Started: time(v.StartedAt), Last: time(v.LastAttemptAt), Ended: time(v.CompletedAt), Input: text(v.Input),
			Output: text(v.Output),
		}
		if v.Error != nil {
			r.Error = v.Error.Message
		}
		if u := v.Compensation; u != nil {
			r.Undo = fmt.Sprint(int(u.State), " ", u.Attempts, " ", u.MaxAttempts)
			r.UndoStarted, r.UndoEnded = time(u.StartedAt), time(u.CompletedAt)
			if u.Error != nil {
				r.Undo += " " + u.Error.Message
			}
		}
		out = append(out, r)
	}
	return out
}

func TestStepsViewAgreesWithTheRules(t *testing.T) {
	t.Parallel()
	s := tell(t)
	node := int64(1)
	agree := func(t *testing.T, when string, run saga.Instance) {
		t.Helper()
		if diff := cmp.Diff(s.want(run), s.rows(run.ID)); diff != "" {
			t.Errorf("%s (-rules +view):\n%s", when, diff)
		}
	}
	stories := s.stories()
	maps.Copy(stories, s.interventions())
	for name, events := range stories {
		t.Run(name, func(t *testing.T) {
			s.t = t
			run := s.begin(&node)
			agree(t, "created", run)
			for i, e := range events {
				if r, is := e.(saga.RetryRequested); is {
					loaded, err := s.st.Load(t.Context(), []saga.Ref{run.Ref()})
					if err != nil {
						t.Fatal(err)
					}
					r.Logs = loaded[0].Logs
					e = r
				}
				run = s.play(run, e, false)
				agree(t, fmt.Sprintf("after %d events, the last is %T", i+1, e), run)
			}
		})
	}
	t.Run("nobody's", func(t *testing.T) {
		s.t = t
		agree(t, "created", s.begin(nil))
		agree(t, "released between steps", s.play(s.begin(&node), s.done(`1`), true))
		agree(t, "released in a wait", s.play(s.begin(&node), s.unanswered(), true))
		agree(t, "released between undos", s.play(s.play(s.play(s.begin(&node), s.done(`1`), false), s.done(`2`), false),
			s.refused(), true))
	})
}
