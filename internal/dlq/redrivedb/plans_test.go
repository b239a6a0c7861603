package redrivedb_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/lib/pq"

	"github.com/skald-saga/skald/internal/dlq"
	"github.com/skald-saga/skald/internal/dlq/redrivedb"
	"github.com/skald-saga/skald/internal/test/pgtest"
)

// TestAClaimReadsNoMoreThanItTakes plans a claim of letters that have just arrived:
// PostgreSQL has not analysed them and expects few.
func TestAClaimReadsNoMoreThanItTakes(t *testing.T) {
	t.Parallel()
	m := newRedriving(t)
	letters := m.pushed(t, 1)
	columns := pgtest.Ask[string](t, m.DB.SQL(), `SELECT string_agg(column_name, ', ') FROM information_schema.columns
		WHERE table_schema = 'dlq' AND table_name = 'dlq_messages' AND is_generated = 'NEVER'`)
	names := strings.Split(columns, ",")
	for i, name := range names {
		switch names[i] = "m." + strings.TrimSpace(name); names[i] {
		case "m.id", "m.root_id":
			names[i] = "gen_random_uuid()"
		case "m.seq":
			names[i] = "m.seq + n"
		}
	}
	pgtest.Execute(t, m.DB.SQL(), fmt.Sprintf(`INSERT INTO dlq.dlq_messages (%s) OVERRIDING SYSTEM VALUE SELECT %s FROM dlq.dlq_messages m, generate_series(1, 3000) AS n`,
		columns, strings.Join(names, ", ")))
	r := m.create(t, m.redrive(t, dlq.BulkRetry))
	tx, err := m.DB.SQL().BeginTx(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer tx.Rollback() //nolint:errcheck // nothing must be stored
	if _, err := tx.ExecContext(t.Context(), redrivedb.LockRunning, r.TenantID, r.ID); err != nil {
		t.Fatal(err)
	}
	ids := slices.Repeat([]string{letters[0].ID.String()}, 500)
	p := pgtest.Explain(t, tx, redrivedb.ClaimChosen, r.TenantID, 60_000_000, pq.Array(ids), false, r.ID, 64<<20)
	p.Each(func(n pgtest.Plan) {
		byPlace, byID := n.Type == "Tid Scan", n.Index == "dlq_messages_pkey" && strings.Contains(n.Cond, "(id = ")
		if n.Relation == "dlq_messages" && n.Type != "ModifyTable" && !byPlace && !byID {
			t.Errorf("letters are found by %s:\n%s", n, p)
		}
	})
}
