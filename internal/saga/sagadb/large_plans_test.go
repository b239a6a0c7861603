package sagadb_test

import (
	"database/sql"
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/lib/pq"

	"github.com/skald-saga/skald/internal/page"
	"github.com/skald-saga/skald/internal/saga"
	"github.com/skald-saga/skald/internal/saga/sagadb"
	"github.com/skald-saga/skald/internal/saga/statistics"
	"github.com/skald-saga/skald/internal/test/pgtest"
	"github.com/skald-saga/skald/internal/test/testdb"
)

// completedSaga is a completed saga of the large table with logs and events.
var completedSaga = uuid.MustParse("01900000-0000-7000-8000-00000000c000")

// testPlans shows that an index serves every purpose for which the seeds demand one
// (requirements/saga.md, numbers in the names).
func testPlans(t *testing.T, l large) {
	seen := map[string]bool{} // every index named by some purpose
	check := func(t *testing.T, p pgtest.Plan, want ...string) {
		t.Helper()
		for _, w := range want {
			for name := range strings.SplitSeq(w, "|") {
				seen[name] = true
			}
		}
		pgtest.WantIndexes(t, p, want...)
	}
	lists := pgtest.InTenant(t, l.db, pgtest.Big)
	for _, tt := range listPurposes(l) {
		t.Run("list: "+tt.name, func(t *testing.T) {
			tt.filter.Limit = 50
			query, args := sagadb.ListSagas(pgtest.Big, tt.filter)
			check(t, pgtest.Explain(t, lists, query, args...), tt.indexes...)
			if tt.few {
				tt.filter.TotalCap = 10_000
				query, args = sagadb.CountSagas(pgtest.Big, tt.filter)
				check(t, pgtest.Explain(t, lists, query, args...), tt.indexes...)
			}
		})
	}
	t.Run("list: S2-37, S2-44 sagas of one ended state come in order", func(t *testing.T) {
		query, args := sagadb.ListSagas(pgtest.Big,
			saga.Filter{ByTime: page.ByTime{Limit: 50}, States: []saga.State{saga.Failed}})
		if p := pgtest.Explain(t, l.db.SQL(), query, args...); p.Has("Sort") {
			t.Errorf("the plan reads all of them:\n%s", p)
		}
	})
	t.Run("list: the rows before a page are skipped in the index", func(t *testing.T) {
		query, args := sagadb.ListSagas(pgtest.Big, saga.Filter{ByTime: page.ByTime{Limit: 50, Offset: 100},
			States: saga.StatesOf(saga.StatusFailed)})
		if p := pgtest.Explain(t, l.db.SQL(), query, args...); !p.Has("Index Only Scan") {
			t.Errorf("the plan visits them:\n%s", p)
		}
	})
	t.Run("list: sagas found by metadata are not looked up again", func(t *testing.T) {
		query, args := sagadb.ListSagas(pgtest.Big,
			saga.Filter{ByTime: page.ByTime{Limit: 50}, Metadata: json.RawMessage(`{"team": 5}`)})
		if p := pgtest.Explain(t, lists, query, args...); p.Has("Nested Loop") || p.Has("Hash Join") || p.Has("Merge Join") {
			t.Errorf("the plan reads each of them twice:\n%s", p)
		}
	})
	for name, filter := range map[string]statistics.ErrorFilter{"": {}, "of a workflow": {WorkflowName: "workflow-3"},
		"ended lately": {EndedFrom: l.since.Add(time.Hour)}} {
		t.Run("errors "+name+" are grouped from the index alone", func(t *testing.T) {
			query, args := sagadb.GroupErrors(pgtest.Big, filter)
			p := pgtest.Explain(t, lists, query, args...)
			check(t, p, "idx_saga_state", "idx_sagas_status|idx_saga_states_status|idx_saga_runnable")
			if !p.Has("Index Only Scan") {
				t.Errorf("the plan visits every saga that went wrong:\n%s", p)
			}
		})
	}
	t.Run("list: a page after a cursor begins at the cursor", func(t *testing.T) {
		query, args := sagadb.ListSagas(pgtest.Big,
			saga.Filter{ByTime: page.ByTime{Limit: 50, After: &page.TimeID{At: l.since.Add(time.Hour), ID: completedSaga}}})
		p := pgtest.Explain(t, lists, query, args...)
		check(t, p, "idx_sagas_tenant")
		if p.Has("Sort") || !strings.Contains(p.String(), "ROW(created_at, id) < ROW(") {
			t.Errorf("the plan reads all rows before the cursor:\n%s", p)
		}
	})
	t.Run("calls to a participant are found by the newest sagas, and by key", func(t *testing.T) {
		p := pgtest.Explain(t, lists, sagadb.CallsTo, pgtest.Big, "workflow-3", "stock", completedSaga,
			statistics.MostCallers)
		check(t, p, "idx_saga_states_workflow_name", "idx_sagas_tenant", "idx_saga_step_logs_saga_id_step_index")
		if strings.Contains(p.String(), "Seq Scan on saga_s") {
			t.Errorf("the plan reads all sagas, or all their logs:\n%s", p)
		}
	})
	testTrailPlans(t, l, check)
	for _, group := range []struct {
		pool     *sql.DB
		purposes []pgtest.Purpose
	}{{l.db.Points(), tenantPurposes}, {l.db.SQL(), enginePurposes}} {
		readers := pgtest.Connection(t, group.pool)
		for _, tt := range group.purposes {
			t.Run(tt.Name, func(t *testing.T) {
				check(t, pgtest.Explain(t, readers, tt.Query, tt.Args...), tt.Indexes...)
				check(t, pgtest.ExplainGeneric(t, readers, tt.Query, tt.Args...), tt.Indexes...)
			})
		}
		readers.Close()
	}
	operator := pgtest.Observer(t, l.dsn)
	for _, tt := range handWritten {
		t.Run("by hand: "+tt.Name, func(t *testing.T) { check(t, pgtest.Explain(t, operator, tt.Query), tt.Indexes...) })
	}
	t.Run("S2-49, S2-106 retention finds what has ended", func(t *testing.T) {
		check(t, pgtest.Explain(t, l.db.SQL(), cleanupQuery(t, l.db.SQL()), time.Now().Add(-2*time.Hour)),
			"idx_saga_terminal_cleanup")
	})
	t.Run("keys are expired by their position in the table", func(t *testing.T) {
		if p := pgtest.Explain(t, l.db.SQL(), sagadb.ExpireKeys, 9000); !p.Has("Tid Scan") {
			t.Errorf("each batch reads the whole table once more:\n%s", p)
		}
	})
	writers := pgtest.Connection(t, l.db.Write.DB)
	for _, tt := range writePurposes(t) {
		t.Run(tt.Name, func(t *testing.T) {
			for _, p := range []pgtest.Plan{pgtest.Explain(t, writers, tt.Query, tt.Args...),
				pgtest.ExplainGeneric(t, writers, tt.Query, tt.Args...)} {
				check(t, p, tt.Indexes...)
				pgtest.WantNestedLoops(t, p)
				sortsNoBacklog(t, p)
			}
		})
	}
	t.Run("every index of the growing tables has a purpose", func(t *testing.T) {
		for _, name := range indexNames(t, l.db.SQL()) {
			if !seen[name] {
				t.Errorf("no query needs %s", name)
			}
		}
	})
}

type listPurpose struct {
	name    string
	filter  saga.Filter
	few     bool // the filter is selective: counting its sagas must not read others
	indexes []string
}

func listPurposes(l large) []listPurpose {
	live := []saga.State{saga.Pending, saga.Running, saga.StepCompleted, saga.Compensating}
	hour := l.since.Add(time.Hour)
	updated := []string{"idx_sagas_tenant", "idx_saga_updated_at|idx_saga_terminal_cleanup", "idx_saga_states_status|idx_saga_runnable", "idx_saga_state"}
	failed := []string{"idx_saga_state|idx_sagas_status", "idx_saga_states_status|idx_saga_runnable"}
	soon := "idx_sagas_tenant|idx_saga_states_created_at"
	ended := []string{soon, "idx_saga_updated_at"}
	return []listPurpose{
		{"S4-16 a tenant's sagas, newest first", saga.Filter{}, false, []string{"idx_sagas_tenant"}},
		{"a page far from the first", saga.Filter{ByTime: page.ByTime{Offset: 1000}}, false, []string{"idx_sagas_tenant", "saga_states_pkey"}},
		{"a page of failed ones far from the first", saga.Filter{States: saga.StatesOf(saga.StatusFailed), ByTime: page.ByTime{Offset: 100}}, false, []string{"idx_saga_state", "saga_states_pkey"}},
		{"S1-20, S2-38 by workflow", saga.Filter{WorkflowName: "workflow-3"}, true, []string{"idx_saga_states_workflow_name"}},
		{"S1-21, S2-42 the unfinished ones", saga.Filter{States: live}, true, []string{"idx_saga_states_status"}},
		{"S4-17 the compensating ones", saga.Filter{States: []saga.State{saga.Compensating}}, true, []string{"idx_saga_states_status"}},
		{"S2-37 the failed ones", saga.Filter{States: []saga.State{saga.Failed}}, true, []string{"idx_saga_state"}},
		{"S1-21 of one status, which is three states", saga.Filter{States: saga.StatesOf(saga.StatusFailed)}, true, []string{"idx_saga_state"}},
		{"running and failed ones", saga.Filter{States: []saga.State{saga.Running, saga.Failed}}, true, []string{"idx_saga_state", "idx_saga_runnable|idx_saga_states_status"}},
		{"S2-44 of one workflow and state", saga.Filter{WorkflowName: "workflow-3", States: []saga.State{saga.TimedOut}}, true, []string{"idx_saga_state"}},
		{"of one caller and state", saga.Filter{InitiatedBy: "caller-3", States: []saga.State{saga.TimedOut}}, true, []string{"idx_saga_state"}},
		{"of a workflow and a caller that never calls it", saga.Filter{WorkflowName: "workflow-3", InitiatedBy: "caller-3", CreatedTo: l.since}, true, []string{"idx_saga_initiated_by"}},
		{"those that need attention", saga.Filter{NeedsAttention: new(true)}, true, []string{"idx_sagas_status"}},
		{"S1-22 by correlation id", saga.Filter{CorrelationID: "correlation-300"}, true, []string{"idx_saga_states_correlation_id"}},
		{"S2-41, S2-113 by trace id", saga.Filter{TraceID: "trace-300"}, true, []string{"idx_saga_trace_id"}},
		{"by business key", saga.Filter{BusinessKey: "key-300"}, true, []string{"idx_saga_business_key"}},
		{"by the beginning of a business key, of few", saga.Filter{KeyPrefix: "key-30", Sort: saga.ByBusinessKey}, true, []string{"idx_saga_business_key"}},
		{"by the beginning of a business key, of nearly all", saga.Filter{KeyPrefix: "key", Sort: saga.ByBusinessKey, Ascending: true}, true, []string{"idx_saga_business_key"}},
		{"after a business key", saga.Filter{KeyPrefix: "key", Sort: saga.ByBusinessKey, AfterKey: "key-77", ByTime: page.ByTime{After: &page.TimeID{At: hour}}}, false, []string{"idx_saga_business_key"}},
		{"by the beginning of a correlation id", saga.Filter{CorrelationPrefix: "correlation", Sort: saga.ByCorrelation}, true, []string{"idx_saga_states_correlation_id"}},
		{"sorted by business key", saga.Filter{Sort: saga.ByBusinessKey}, false, []string{"idx_saga_business_key"}},
		{"sorted by correlation id, from a place on", saga.Filter{Sort: saga.ByCorrelation, Ascending: true, AfterKey: "correlation-5", ByTime: page.ByTime{After: &page.TimeID{At: hour}}}, false, []string{"idx_saga_states_correlation_id"}},
		{"sorted by their end", saga.Filter{Sort: saga.ByEnd}, false, []string{"idx_saga_terminal_cleanup"}},
		{"sorted by their end, from a place on", saga.Filter{Sort: saga.ByEnd, Ascending: true, ByTime: page.ByTime{After: &page.TimeID{At: hour}}}, false, []string{"idx_saga_terminal_cleanup"}},
		{"ended lately, sorted by that", saga.Filter{Sort: saga.ByEnd, EndedFrom: time.Now().Add(-time.Minute)}, false, []string{"idx_saga_terminal_cleanup|idx_saga_updated_at"}},
		{"S2-45 by metadata", saga.Filter{Metadata: json.RawMessage(`{"team": 5}`)}, true, []string{"idx_saga_metadata"}},
		{"S1-23, S2-39 created in a range", saga.Filter{CreatedFrom: hour, CreatedTo: hour.Add(time.Minute)}, true, []string{"idx_sagas_tenant"}},
		{"S2-40 updated lately", saga.Filter{UpdatedFrom: time.Now().Add(-time.Minute)}, true, updated},
		{"S2-40 updated in a range", saga.Filter{UpdatedFrom: hour, UpdatedTo: hour.Add(time.Minute)}, true, updated},
		{"S2-40 updated since hours", saga.Filter{UpdatedFrom: hour}, true, []string{"idx_sagas_tenant", "idx_saga_updated_at", "idx_saga_states_status|idx_saga_runnable", "idx_saga_state"}},
		{"S2-40 updated long ago", saga.Filter{UpdatedTo: l.since.Add(time.Minute)}, true, []string{"idx_sagas_tenant"}},
		{"completed ones", saga.Filter{States: []saga.State{saga.Completed}}, false, []string{"idx_sagas_tenant"}},
		{"by assignee", saga.Filter{Assignee: "ada"}, true, []string{"idx_saga_notes_assignee", "saga_states_pkey|idx_sagas_tenant"}},
		{"failed ones by assignee", saga.Filter{Assignee: "ada", States: []saga.State{saga.Failed}}, true, []string{"idx_saga_notes_assignee|idx_saga_state"}},
		{"by caller", saga.Filter{InitiatedBy: "caller-3"}, false, []string{"idx_saga_initiated_by"}},
		{"by a rare code of errors", saga.Filter{ErrorCode: "rare"}, true, failed},
		{"by a code that there is not, oldest first", saga.Filter{ErrorCode: "never", Ascending: true}, true, failed},
		{"failed ones by code", saga.Filter{ErrorCode: "rare", States: saga.StatesOf(saga.StatusFailed)}, true, failed[:1]},
		{"by step", saga.Filter{WorkflowName: "workflow-3", Step: "step-1"}, true, failed},
		{"by code, changed lately", saga.Filter{ErrorCode: "rare", UpdatedFrom: hour}, true, failed},
		{"ended lately", saga.Filter{EndedFrom: time.Now().Add(-time.Minute)}, true, ended},
		{"ended in a range", saga.Filter{EndedFrom: hour, EndedTo: hour.Add(time.Minute)}, true, ended},
		{"ended long ago", saga.Filter{EndedTo: l.since.Add(time.Minute)}, true, []string{soon}},
		{"failed since hours, oldest first", saga.Filter{EndedFrom: hour, States: saga.StatesOf(saga.StatusFailed), Ascending: true}, true, []string{"idx_saga_state", "idx_saga_updated_at"}},
		{"ended since hours, by metadata", saga.Filter{EndedFrom: hour, Metadata: json.RawMessage(`{"team": 5}`)}, true, []string{"idx_saga_metadata", "idx_saga_updated_at"}},
		{"that need attention for long, oldest first", saga.Filter{NeedsAttention: new(true), AttentionTo: hour, Ascending: true}, true, []string{"idx_sagas_status"}},
		{"that need attention since lately", saga.Filter{NeedsAttention: new(true), AttentionFrom: time.Now().Add(-time.Minute)}, true, []string{"idx_sagas_status"}},
	}
}

var tenantPurposes = []pgtest.Purpose{
	{Name: "a saga of a tenant", Query: sagadb.GetSaga, Args: []any{pgtest.Big, completedSaga}, Indexes: []string{"saga_states_pkey"}},
	{Name: "S1-39 the step logs of a saga, in order", Query: sagadb.StepLogs, Args: []any{pgtest.Big, completedSaga}, Indexes: []string{"idx_saga_step_logs_saga_id_step_index"}},
	{Name: "an idempotency key", Query: sagadb.GetKey, Args: []any{pgtest.Big, "p", "r", "k1"}, Indexes: []string{"idempotency_keys_pkey"}},
}

var enginePurposes = []pgtest.Purpose{
	{Name: "sagas for the engine", Query: sagadb.LoadSagas, Args: []any{array(completedSaga, pgtest.Big), array(pgtest.Big, pgtest.Big)}, Indexes: []string{"saga_states_pkey"}},
	{Name: "S1-39 step logs for the engine", Query: sagadb.LoadLogs, Args: []any{array(completedSaga, pgtest.Big), array(pgtest.Big, pgtest.Big)}, Indexes: []string{"idx_saga_step_logs_saga_id_step_index"}},
	{Name: "a node's due sagas", Query: sagadb.DueSagas, Args: []any{1, 5000, 100}, Indexes: []string{"idx_saga_runnable"}},
	{Name: "S2-43, S2-48, S2-109, S4-18 overdue sagas of both phases", Query: sagadb.OverdueSagas, Args: []any{100, "-infinity", uuid.Nil, uuid.Nil}, Indexes: []string{"idx_sagas_timeout", "idx_saga_filter_state_timeout"}},
	{Name: "live sagas by state", Query: sagadb.CountLive, Args: nil, Indexes: []string{"idx_saga_states_status|idx_saga_runnable"}},
	{Name: "releasing sagas", Query: sagadb.ReleaseSagas, Args: []any{array(completedSaga, pgtest.Big), array(pgtest.Big, pgtest.Big), 1}, Indexes: []string{"saga_states_pkey"}},
	{Name: "the unfinished saga of a business key", Query: sagadb.ActiveKey("$1::uuid", "$2", "$3"), Args: []any{pgtest.Big, "w1", "key-300"}, Indexes: []string{"uq_saga_business_key"}},
}

func array(ids ...uuid.UUID) string {
	v, err := pq.Array(ids).Value()
	if err != nil {
		panic(err)
	}
	return v.(string)
}

// handWritten are the queries that operators run directly on the database, which are the views and
// queries of the seeds, with the indexes that exist only for them.
var handWritten = []pgtest.Purpose{
	{Name: "S2-102, S2-108 the view of active sagas", Query: `SELECT * FROM saga.active_sagas`, Args: nil, Indexes: []string{"idx_saga_states_status|idx_saga_runnable"}},
	{Name: "S2-103, S2-43 the view of failed sagas, latest first", Query: `SELECT * FROM saga.failed_sagas LIMIT 20`, Args: nil, Indexes: []string{"idx_saga_state_updated"}},
	{Name: "S2-80, S2-112 steps to retry, next first", Query: `SELECT * FROM saga.steps_to_retry LIMIT 20`, Args: nil, Indexes: []string{"idx_saga_runnable|idx_saga_states_status", "saga_states_pkey"}},
	{Name: "S2-47, S2-104 the view of completed sagas, latest first", Query: `SELECT * FROM saga.completed_sagas LIMIT 20`, Args: nil, Indexes: []string{"idx_saga_terminal_cleanup"}},
	{Name: "S2-110 the steps of a saga, in order", Query: `SELECT * FROM saga.saga_steps WHERE saga_id = '` + completedSaga.String() + `' ORDER BY step_index`, Args: nil, Indexes: []string{"saga_states_pkey", "idx_saga_step_logs_saga_id_step_index"}},
	{Name: "S2-41, S2-113 instances of a trace", Query: `SELECT * FROM saga.saga_instances WHERE trace_id = 'trace-300'`, Args: nil, Indexes: []string{"idx_saga_trace_id"}},
	{Name: "S1-22 sagas of a correlation id, of all tenants", Query: `SELECT * FROM saga.saga_states WHERE correlation_id = 'correlation-300'`, Args: nil, Indexes: []string{"idx_saga_states_correlation_id"}},
	{Name: "a saga instance", Query: `SELECT * FROM saga.saga_instances WHERE id = '` + completedSaga.String() + `'`, Args: nil, Indexes: []string{"saga_states_pkey"}},
	{Name: "S4-15 a saga by transaction id", Query: `SELECT * FROM saga.sagas WHERE transaction_id = '` + completedSaga.String() + `'`, Args: nil, Indexes: []string{"saga_states_pkey"}},
	{Name: "S4-17 what needs a person, latest first", Query: `SELECT id FROM saga.saga_states WHERE tenant_id = '` + pgtest.Big.String() + `' AND needs_attention ORDER BY created_at DESC LIMIT 50`, Args: nil, Indexes: []string{"idx_sagas_status"}},
	{Name: "S2-46 started lately", Query: `SELECT count(*) FROM saga.saga_states WHERE started_at >= now() - interval '1 minute'`, Args: nil, Indexes: []string{"idx_saga_started_at"}},
	{Name: "S1-23 created in a range, of all tenants", Query: `SELECT * FROM saga.saga_states WHERE created_at BETWEEN now() - interval '2 minutes' AND now() - interval '1 minute'`, Args: nil, Indexes: []string{"idx_saga_states_created_at|idx_sagas_tenant"}}, // PostgreSQL 18 skips through the latter
	{Name: "S1-40 a step's trouble", Query: `SELECT * FROM saga.saga_step_logs WHERE step_name = 'step-1' AND status <> 'SUCCESS' ORDER BY started_at DESC LIMIT 50`, Args: nil, Indexes: []string{"idx_saga_step_logs_step_name"}},
	{Name: "S1-41 calls that timed out", Query: `SELECT * FROM saga.saga_step_logs WHERE status = 'TIMEOUT' ORDER BY started_at DESC LIMIT 50`, Args: nil, Indexes: []string{"idx_saga_step_logs_status"}},
	{Name: "S1-42 compensations", Query: `SELECT * FROM saga.saga_step_logs WHERE action = 'COMPENSATE' ORDER BY started_at DESC LIMIT 50`, Args: nil, Indexes: []string{"idx_saga_step_logs_action"}},
	{Name: "S1-43 calls of a minute", Query: `SELECT * FROM saga.saga_step_logs WHERE started_at BETWEEN now() - interval '2 minutes' AND now() - interval '1 minute'`, Args: nil, Indexes: []string{"idx_saga_step_logs_started_at"}},
	{Name: "S2-99, S2-100, S2-111 the history of a saga", Query: `SELECT * FROM saga.saga_events WHERE saga_id = '` + completedSaga.String() + `' ORDER BY id DESC`, Args: nil, Indexes: []string{"idx_event_saga_timestamp"}},
	{Name: "S2-99, S2-100 events of a type, latest first", Query: `SELECT * FROM saga.saga_events WHERE tenant_id = '` + pgtest.Big.String() + `' AND event_type = 'saga.failed' ORDER BY txid DESC, id DESC LIMIT 50`, Args: nil, Indexes: []string{"idx_event_type_timestamp"}},
	{Name: "S2-99 events of a minute", Query: `SELECT * FROM saga.saga_events WHERE timestamp BETWEEN now() - interval '2 minutes' AND now() - interval '1 minute'`, Args: nil, Indexes: []string{"idx_event_timestamp"}},
	{Name: "S2-101 events of a step", Query: `SELECT * FROM saga.saga_events WHERE saga_id = '` + completedSaga.String() + `' AND step_index = 1 ORDER BY id`, Args: nil, Indexes: []string{"idx_event_saga_timestamp"}},
	{Name: "S2-04, X8 the feed of a tenant", Query: `SELECT * FROM saga.saga_events WHERE tenant_id = '` + pgtest.Big.String() + `' AND (txid, id) > ('1', 0) AND txid < pg_snapshot_xmin(pg_current_snapshot()) ORDER BY txid, id LIMIT 200`, Args: nil, Indexes: []string{"idx_event_feed"}},
	{Name: "what operators did to sagas, newest first", Query: `SELECT * FROM saga.audit_events e WHERE tenant_id = '` + pgtest.Big.String() + `' AND event_type IN ('` + operatorTypes() + `') AND NOT jsonb_exists(event_data, 'bulk') ORDER BY timestamp DESC, id DESC LIMIT 50`, Args: nil, Indexes: []string{"idx_event_operators"}},
	{Name: "S2-101, S2-113 events of a trace", Query: `SELECT * FROM saga.saga_events WHERE trace_id = 'trace-12000' ORDER BY id`, Args: nil, Indexes: []string{"idx_event_trace_id"}},
}

const claiming = "S1-53, S2-112 claiming, from dead nodes too, in turns of the tenants"

// sortsNoBacklog checks that unowned sagas are read from an index in its order, because their
// number is unlimited. A dead node has no more sagas than it could drive, and those without a due
// time are sorted by age.
func sortsNoBacklog(t *testing.T, p pgtest.Plan) {
	t.Helper()
	p.Each(func(n pgtest.Plan) {
		for _, from := range n.Plans {
			if n.Type == "Sort" && from.Relation == "saga_states" && !strings.Contains(from.Cond, "(lease_owner = ") {
				t.Errorf("the plan sorts the whole backlog:\n%s", p)
			}
		}
	})
}

// writePurposes are statements prepared on the writers' connections.
func writePurposes(t *testing.T) []pgtest.Purpose {
	return []pgtest.Purpose{
		{Name: "committing a batch", Query: sagadb.CommitSagas, Args: sagadb.CommitParameters(t, pgtest.SomeChanges(64)), Indexes: []string{"saga_states_pkey", "idx_saga_step_logs_saga_id_step_index"}},
		{Name: "committing a batch with an intervention", Query: sagadb.CommitOperated, Args: sagadb.CommitParameters(t, pgtest.Operated(pgtest.SomeChanges(64))), Indexes: []string{"saga_states_pkey", "idx_saga_step_logs_saga_id_step_index"}},
		{Name: "committing a batch of sagas that go on", Query: sagadb.CommitOnward, Args: sagadb.CommitParameters(t, pgtest.OnwardChanges(64)), Indexes: []string{"saga_states_pkey"}},
		{Name: "committing a batch with a retry", Query: sagadb.CommitDriven, Args: sagadb.CommitParameters(t, pgtest.Retried(pgtest.OnwardChanges(64))), Indexes: []string{"saga_states_pkey"}},
		{Name: "creating a batch", Query: sagadb.CreateSagas, Args: sagadb.CreateParameters(t, pgtest.SomeSagas(64)), Indexes: []string{"workflows_pkey", "saga_states_archive_pkey"}},
		{Name: claiming, Query: sagadb.ClaimSagas, Args: []any{1, 64, uuid.Nil}, Indexes: []string{"idx_saga_runnable", "saga_states_pkey"}},
		{Name: claiming + ", the last one's", Query: sagadb.ClaimSagas, Args: []any{1, 64, uuid.Max}, Indexes: []string{"idx_saga_runnable", "saga_states_pkey"}},
	}
}

// cleanupQuery returns the query with which saga.cleanup_expired_sagas finds its next batch.
func cleanupQuery(t *testing.T, db *sql.DB) string {
	t.Helper()
	var source string
	if err := db.QueryRowContext(t.Context(), `SELECT prosrc FROM pg_proc WHERE oid = 'saga.cleanup_expired_sagas'::regproc`).Scan(&source); err != nil {
		t.Fatal(err)
	}
	m := regexp.MustCompile(`(?s)FROM \((SELECT .*?)\) f;`).FindStringSubmatch(source)
	if m == nil {
		t.Fatalf("no query in %s", source)
	}
	return strings.ReplaceAll(m[1], "older_than", "$1::timestamptz")
}

func operatorTypes() (joined string) {
	for i, t := range saga.OperatorTypes {
		if i > 0 {
			joined += "', '"
		}
		joined += string(t)
	}
	return joined
}

// indexNames returns the indexes of the tables that grow with every saga.
func indexNames(t *testing.T, db *sql.DB) []string {
	t.Helper()
	var names pq.StringArray
	err := db.QueryRowContext(t.Context(), `SELECT array_agg(indexname ORDER BY indexname) FROM pg_indexes
		WHERE schemaname = 'saga' AND tablename IN ('saga_states', 'saga_step_logs', 'audit_events')`).Scan(&names)
	if err != nil {
		t.Fatal(err)
	}
	// Primary keys also keep ids unique, which is enough of a purpose.
	return slices.DeleteFunc(names, func(name string) bool { return strings.HasSuffix(name, "_pkey") })
}

// TestWritersNeverJoinByHash checks the plans on young tables without statistics. There PostgreSQL
// would choose hash joins and scans, and would keep such a plan as the tables grow.
func TestWritersNeverJoinByHash(t *testing.T) {
	t.Parallel()
	db := pgtest.Connect(t, testdb.DSN(t))
	writers := pgtest.Connection(t, db.Write.DB)
	for _, tt := range writePurposes(t) {
		for mode, p := range map[string]pgtest.Plan{"custom": pgtest.Explain(t, writers, tt.Query, tt.Args...),
			"generic": pgtest.ExplainGeneric(t, writers, tt.Query, tt.Args...)} {
			t.Run(fmt.Sprint(tt.Name, ", ", mode, " plan"), func(t *testing.T) {
				pgtest.WantIndexes(t, p, tt.Indexes...)
				pgtest.WantNestedLoops(t, p)
				sortsNoBacklog(t, p)
			})
		}
	}
}
