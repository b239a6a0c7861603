package auditdb_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"

	"github.com/skald-saga/skald/internal/audit/auditdb"
	"github.com/skald-saga/skald/internal/audit/operator"
	"github.com/skald-saga/skald/internal/page"
	"github.com/skald-saga/skald/internal/test/pgtest"
	"github.com/skald-saga/skald/internal/test/testdb"
)

// TestActionsAreFoundByIndex checks that the actions of a request or of a rare operation are found
// without reading all actions of the tenant.
func TestActionsAreFoundByIndex(t *testing.T) {
	t.Parallel()
	dsn := testdb.DSN(t)
	fill := pgtest.Observer(t, dsn)
	tenant := uuid.MustParse("00000000-0000-4000-8000-000000000001")
	for _, s := range []string{
		`SET session_replication_role = replica`, // no digests
		`INSERT INTO saga.audit_actions (id, tenant_id, at, kind, subject, verb, actor, request_id, operation, digest)
		 SELECT gen_random_uuid(), t::uuid, now() - i * interval '1 s', 'dead_letter', 'letter-' || i, 'retry', 'user-' || i % 50, 'request-' || i / 3,
		        CASE WHEN i % 9000 = 9 THEN 'resetFence' ELSE 'retryDeadLetter' END, ''
		   FROM generate_series(1, 60000) AS i, unnest(ARRAY['` + tenant.String() + `', '00000000-0000-4000-8000-000000000002']) AS t`,
		`INSERT INTO saga.audit_events (saga_id, tenant_id, timestamp, event_type, actor, event_data, digest)
		 SELECT gen_random_uuid(), t::uuid, now() - i * interval '2 s' - interval '500 ms', CASE WHEN i % 600 = 0 THEN 'saga.suspended' WHEN i % 7 = 0 THEN 'saga.cancel_requested' ELSE 'saga.step.started' END, 'ann',
		        CASE WHEN i % 600 = 0 THEN '{"reason": "payments are down"}'::jsonb WHEN i % 7 = 0 THEN '{"bulk": "b"}' END, ''
		   FROM generate_series(1, 60000) AS i, unnest(ARRAY['` + tenant.String() + `', '00000000-0000-4000-8000-000000000002']) AS t`,
		`VACUUM (ANALYZE) saga.audit_actions, saga.audit_events`,
	} {
		if _, err := fill.ExecContext(t.Context(), s); err != nil {
			t.Fatalf("%s: %v", s, err)
		}
	}
	db := pgtest.Connect(t, dsn)
	for most, want := range map[int64]int64{0: 60_000, 10_000: 10_000, 60_000: 60_000} {
		found, err := auditdb.NewActions(db).Actions(t.Context(), tenant,
			operator.Filter{ByTime: page.ByTime{Limit: 1, Total: true, TotalCap: most}})
		if err != nil || found.Total != want || found.TotalCapped != (want < 60_000) {
			t.Errorf("60000 actions counted up to %d: %d, capped %v, %v", most, found.Total, found.TotalCapped, err)
		}
	}
	tx := pgtest.InTenant(t, db, tenant)
	for _, tt := range []struct {
		name, index string
		filter      operator.Filter
		found       int
	}{
		{"by request", "idx_audit_actions_request", operator.Filter{RequestID: "request-100", ByTime: page.ByTime{Limit: 50}}, 3},
		{"by rare operation", "idx_audit_actions_operation", operator.Filter{Operation: "resetFence", ByTime: page.ByTime{Limit: 50}}, 7},
		{"by operation that nobody has called", "idx_audit_actions_operation", operator.Filter{Operation: "stepDownLeader", ByTime: page.ByTime{Limit: 50}}, 0},
		{"the newest of a frequent operation", "idx_audit_actions_at|idx_audit_actions_operation", operator.Filter{Operation: "retryDeadLetter", ByTime: page.ByTime{Limit: 50}}, 51},
		{"with what was done to sagas", "idx_audit_actions_at|idx_event_operators", operator.Filter{Sagas: true, ByTime: page.ByTime{Limit: 50}}, 51},
		{"only what was done to sagas", "idx_event_operators", operator.Filter{Sagas: true, Kind: operator.Saga, ByTime: page.ByTime{Limit: 200}}, 100},
		{"after a place among both", "idx_audit_actions_at|idx_event_operators", operator.Filter{Sagas: true,
			ByTime: page.ByTime{Limit: 50, After: &page.TimeID{At: time.Now().Add(-time.Hour), ID: uuid.Max}}}, 51},
		{"what was done to a saga", "idx_event_saga_timestamp", operator.Filter{Sagas: true, Kind: operator.Saga, Subject: uuid.Max.String(), ByTime: page.ByTime{Limit: 50}}, 0},
		{"by subject", "idx_audit_actions_subject", operator.Filter{Subject: "letter-100", ByTime: page.ByTime{Limit: 50}}, 1},
	} {
		t.Run(tt.name, func(t *testing.T) {
			tt.filter.TotalCap = 10_000
			query, args, count, counted := auditdb.ActionsQuery(tenant, tt.filter)
			p := pgtest.Explain(t, tx, query, args...)
			pgtest.WantIndexes(t, p, tt.index)
			if p.Has("Seq Scan") {
				t.Errorf("the page reads everything:\n%s", p)
			}
			if p := pgtest.Explain(t, tx, count, counted...); p.Has("Seq Scan") {
				t.Errorf("the count reads everything:\n%s", p)
			}
			var n int
			if err := tx.QueryRowContext(t.Context(), "SELECT count(*) FROM ("+query+") AS page",
				args...).Scan(&n); err != nil || n != tt.found {
				t.Errorf("%d actions, %v, want %d", n, err, tt.found)
			}
		})
	}
}

// TestOneListOfWhatOperatorsDid checks that operators' actions on sagas are merged with all other
// actions, newest first, on pages that neither repeat nor omit any action, even if several have the
// same time.
func TestOneListOfWhatOperatorsDid(t *testing.T) {
	t.Parallel()
	dsn := testdb.DSN(t)
	fill := pgtest.Observer(t, dsn)
	tenant, of := uuid.MustParse("00000000-0000-4000-8000-000000000003"), uuid.MustParse("00000000-0000-4000-8000-00000000000a")
	verbs := []string{"cancel", "compensate", "resume-compensation", "retry", "skip-step", "complete-step", "fail-step",
		"suspend", "resume", "extend-deadline", "force-complete", "force-fail", "acknowledge", "restore", "erase", "note"}
	for _, s := range []string{
		`SET session_replication_role = replica`,
		`INSERT INTO saga.audit_actions (id, tenant_id, at, kind, subject, verb, actor, request_id, digest)
		 SELECT ('01a20558-0000-7000-8000-' || lpad(i::text, 12, '0'))::uuid, '` + tenant.String() + `', '2026-03-01'::timestamptz + i / 4 * interval '1 s', 'webhook', 'w', 'create', 'ann', '', ''
		   FROM generate_series(0, 19) AS i`,
		// Some have the same time as actions, one belongs to a bulk, one follows from a step's
		// success, and one comes from an engine.
		`INSERT INTO saga.audit_events (saga_id, tenant_id, timestamp, event_type, actor, event_data, step_name, digest)
		 SELECT '` + of.String() + `', '` + tenant.String() + `', '2026-03-01'::timestamptz + i / 4 * interval '1 s', type, 'bob', data::jsonb, step, ''
		   FROM unnest(ARRAY['saga.cancel_requested', 'saga.compensation_requested', 'saga.compensation_resumed', 'saga.retry_requested',
		               'saga.step.ordered', 'saga.step.ordered', 'saga.step.ordered', 'saga.suspended', 'saga.resumed', 'saga.deadline_changed',
		               'saga.end_forced', 'saga.end_forced', 'saga.attention_cleared', 'saga.restored', 'saga.erased', 'saga.note_changed',
		               'saga.cancel_requested', 'saga.attention_cleared', 'saga.step.started'],
		             ARRAY['{"reason": "wrong address"}', '{}', '{}', '{"from_step": "pay"}', '{"verb": "undone", "reason": "seen"}', '{"verb": "complete"}',
		               '{"verb": "fail"}', '{}', '{}', '{}', '{"verb": "force-complete"}', '{"verb": "force-fail"}', '{}', '{}', '{"erased_events": {"1": "aa"}}', '{"assignee": "eve"}',
		               '{"bulk": "b"}', NULL, '{}'], ARRAY[NULL, NULL, NULL, 'pay', 'pay', 'pay', 'pay']) WITH ORDINALITY AS e (type, data, step, i)`,
	} {
		if _, err := fill.ExecContext(t.Context(), s); err != nil {
			t.Fatalf("%s: %v", s, err)
		}
	}
	log := auditdb.NewActions(pgtest.Connect(t, dsn))
	list := func(f operator.Filter) (all []operator.Action) {
		t.Helper()
		if f.Limit == 0 {
			f.Limit = 100
		}
		f.Total, f.TotalCap = true, 1000
		found, err := log.Actions(t.Context(), tenant, f)
		if err != nil {
			t.Fatalf("%+v: %v", f, err)
		}
		if f.After == nil && f.Offset == 0 && !found.More && found.Total != int64(len(found.Items)) {
			t.Errorf("%+v: %d actions, and a total of %d", f, len(found.Items), found.Total)
		}
		return found.Items
	}
	var got []string
	for _, a := range list(operator.Filter{Sagas: true, Kind: operator.Saga}) {
		got = append(got, a.Verb)
		if a.Subject != of.String() || a.Actor != "bob" || a.Kind != operator.Saga {
			t.Errorf("%+v", a)
		}
		if a.Verb == "cancel" && (a.Reason != "wrong address" || a.Detail != nil) ||
			a.Verb == "retry" && string(a.Detail) != `{"step":"pay","from_step":"pay"}` || a.Verb == "erase" && a.Detail != nil {
			t.Errorf("%s because of %q: %s", a.Verb, a.Reason, a.Detail)
		}
	}
	slices.Reverse(got)
	if diff := cmp.Diff(verbs, got); diff != "" {
		t.Errorf("verbs (-want +got):\n%s", diff)
	}
	for _, verb := range verbs {
		if found := list(operator.Filter{Sagas: true, Verb: verb}); len(found) != 1 || found[0].Verb != verb {
			t.Errorf("by the verb %s: %+v", verb, found)
		}
	}
	both := list(operator.Filter{Sagas: true})
	newest := func(a, b operator.Action) int { return b.Place().Compare(a.Place()) }
	if len(both) != 20+len(verbs) || !slices.IsSortedFunc(both, newest) {
		t.Errorf("%d actions, or they are not in order: %+v", len(both), both)
	}
	for _, size := range []int{1, 2, 3, 7} {
		var paged, offset []operator.Action
		f := operator.Filter{Sagas: true, ByTime: page.ByTime{Limit: size}}
		for {
			next := list(f)
			if len(next) == 0 {
				break
			}
			paged = append(paged, next...)
			place := next[len(next)-1].Place()
			f.After = &place
		}
		for skip := 0; skip < len(both); skip += size {
			offset = append(offset, list(operator.Filter{Sagas: true, ByTime: page.ByTime{Limit: size, Offset: skip}})...)
		}
		if diff := cmp.Diff(both, paged) + cmp.Diff(both, offset); diff != "" {
			t.Errorf("pages of %d (-want +got):\n%s", size, diff)
		}
	}
	for name, tt := range map[string]struct {
		filter operator.Filter
		want   int
	}{
		"without sagas:read":              {operator.Filter{}, 20},
		"by another kind":                 {operator.Filter{Sagas: true, Kind: operator.Webhook}, 20},
		"by the saga, with its bulk":      {operator.Filter{Sagas: true, Subject: of.String()}, 17},
		"by a subject that is not a saga": {operator.Filter{Sagas: true, Subject: "w"}, 20},
		"by operation":                    {operator.Filter{Sagas: true, Operation: "cancelSaga"}, 0},
		"by actor":                        {operator.Filter{Sagas: true, Actor: "bob"}, 16},
		"by a verb that is not of sagas":  {operator.Filter{Sagas: true, Verb: "create"}, 20},
	} {
		if found := list(tt.filter); len(found) != tt.want {
			t.Errorf("%s: %d actions, want %d: %+v", name, len(found), tt.want, found)
		}
	}
}

// TestSealingReadsOnlyNewEvents guards against a performance regression. For the role that seals,
// row-level security keeps every condition that is not LEAKPROOF out of the index, and sealing then
// read all of the tenant's events every second.
func TestSealingReadsOnlyNewEvents(t *testing.T) {
	t.Parallel()
	dsn := testdb.DSN(t)
	fill := pgtest.Observer(t, dsn)
	tenant := uuid.MustParse("00000000-0000-4000-8000-000000000007")
	for _, s := range []string{
		`INSERT INTO saga.audit_events (saga_id, tenant_id, event_type, digest)
		 SELECT gen_random_uuid(), '` + tenant.String() + `', 'saga.started', '' FROM generate_series(1, 20000)`,
		`VACUUM (ANALYZE) saga.audit_events`,
	} {
		if _, err := fill.ExecContext(t.Context(), s); err != nil {
			t.Fatalf("%s: %v", s, err)
		}
	}
	tx := pgtest.InTenant(t, pgtest.Connect(t, dsn), tenant)
	p := pgtest.Explain(t, tx, auditdb.SealEvents, tenant)
	pgtest.WantIndexes(t, p, "idx_event_feed")
	p.Each(func(n pgtest.Plan) {
		if n.Relation != "audit_events" {
			return
		}
		for _, bound := range []string{"tenant_id =", "ROW(txid, id) >", "txid <"} {
			if !strings.Contains(n.Cond, bound) {
				t.Errorf("the index does not serve %q:\n%s", bound, p)
			}
		}
	})
}
