package auditdb_test

import (
	"strings"
	"testing"

	"github.com/google/uuid"

	"github.com/skald-saga/skald/internal/audit/auditdb"
	"github.com/skald-saga/skald/internal/audit/operator"
	"github.com/skald-saga/skald/internal/page"
	"github.com/skald-saga/skald/internal/test/pgtest"
	"github.com/skald-saga/skald/internal/test/testdb"
)

// TestActionsAreFoundByIndex: the actions of a request or of a rare operation are found
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
		`VACUUM (ANALYZE) saga.audit_actions`,
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

// TestSealingReadsOnlyNewEvents: for the role that seals, row-level security keeps
// every condition that is not LEAKPROOF out of the index; sealing then read all of the
// tenant's events every second.
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
