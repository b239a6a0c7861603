package overviewdb_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jmoiron/sqlx"

	"github.com/skald-saga/skald/internal/ops/overviewdb"
	"github.com/skald-saga/skald/internal/test/pgtest"
	"github.com/skald-saga/skald/internal/test/testdb"
)

// A search by correlation or trace ID read all letters: the operator of their terms is not
// known to leak nothing, so a table with a policy has no use for its index.
func TestASearchFindsLettersByTheirTerms(t *testing.T) {
	t.Parallel()
	dsn := testdb.DSN(t)
	db := pgtest.Connect(t, dsn)
	tenant := uuid.UUID{15: 7}
	pgtest.Execute(t, pgtest.Observer(t, dsn), `
		INSERT INTO dlq.dlq_messages (id, tenant_id, root_id, original_topic, error_message, terms, created_at)
		SELECT gen_random_uuid(), '`+tenant.String()+`', gen_random_uuid(), 'orders', 'boom', ARRAY[n],
		       now() - n * interval '1 minute'
		  FROM generate_series(1, 3000) AS n;
		SET session_replication_role = replica;
		INSERT INTO saga.saga_states (id, tenant_id, workflow_name, workflow_version, saga_type, total_steps, state,
		                              created_at, started_at, completed_at, clean)
		SELECT gen_random_uuid(), '`+tenant.String()+`', 'order', 1, 'ORDER', 1, CASE WHEN n % 100 < 97 THEN 3 ELSE 6 END,
		       now() - n * interval '10 s', now(), now(), n % 100 < 97
		  FROM generate_series(1, 3000) AS n;
		ANALYZE dlq.dlq_messages, saga.saga_states`)
	err := db.InTenant(t.Context(), tenant, func(tx *sqlx.Tx) error {
		plan := pgtest.Explain(t, tx, overviewdb.SearchText, tenant, "order-7", nil, "", 1, 2, true, true,
			"order-7", "order-8")
		if all := plan.Indexes(); !slices.Contains(all, "idx_dlq_messages_terms") {
			t.Errorf("the terms are not looked up: %v", all)
		}
		// Counting the letters of one hour does not read all letters of the tenant either.
		plan = pgtest.Explain(t, tx, overviewdb.LettersByMinute, tenant, time.Now().Add(-time.Hour), time.Now(), 10_001)
		if all := plan.Indexes(); !slices.Contains(all, "idx_dlq_messages_created_at") || plan.Has("Seq Scan") {
			t.Errorf("the letters of an hour are not read by an index of their arrival: %v", all)
		}
		plan = pgtest.Explain(t, tx, overviewdb.SagasByMinute, tenant, time.Now().Add(-time.Hour), time.Now(), 10_001)
		if strings.Contains(plan.String(), "Seq Scan on saga_s") {
			t.Errorf("all sagas are read to count those of an hour: %s", plan)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}
