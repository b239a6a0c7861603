package overviewdb_test

import (
	"slices"
	"testing"

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
		INSERT INTO dlq.dlq_messages (id, tenant_id, root_id, original_topic, error_message, terms)
		SELECT gen_random_uuid(), '`+tenant.String()+`', gen_random_uuid(), 'orders', 'boom', ARRAY[n]
		  FROM generate_series(1, 3000) AS n;
		ANALYZE dlq.dlq_messages`)
	err := db.InTenant(t.Context(), tenant, func(tx *sqlx.Tx) error {
		plan := pgtest.Explain(t, tx, overviewdb.SearchText, tenant, "order-7", nil, "", 1, 2, true, true,
			"order-7", "order-8")
		if all := plan.Indexes(); !slices.Contains(all, "idx_dlq_messages_terms") {
			t.Errorf("the terms are not looked up: %v", all)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}
