package dlqdb_test

import (
	"testing"

	"github.com/lib/pq"

	"github.com/skald-saga/skald/internal/dlq"
	"github.com/skald-saga/skald/internal/dlq/dlqdb"
	"github.com/skald-saga/skald/internal/test/pgtest"
)

// TestLettersThatComeBackAreFoundByTheirIDs checks the plan in the middle of a flood. At the last
// ANALYZE, all letters were open, so the planner expects few RESOLVED ones, although there are now
// many. With the status index, a batch of 500 took ten seconds, and arriving letters waited for its
// locks.
func TestLettersThatComeBackAreFoundByTheirIDs(t *testing.T) {
	t.Parallel()
	m := pgtest.NewLetterStore(t)
	letters := make([]dlq.Letter, 400)
	for i := range letters {
		letters[i] = m.NewLetter()
	}
	letters = m.PushAll(t, letters...)
	db := pgtest.Observer(t, m.Dsn)
	pgtest.Execute(t, db, `ALTER TABLE dlq.dlq_messages SET (autovacuum_enabled = off)`)
	pgtest.Execute(t, db, `VACUUM ANALYZE dlq.dlq_messages`)
	pgtest.Execute(t, db, `UPDATE dlq.dlq_messages SET status = 'RESOLVED', resolution = 'REDRIVEN', terminal_at = now(), next_retry_at = NULL`)
	conn, err := db.Conn(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	var tenants, ids, redrives []string
	for _, l := range letters[:100] {
		tenants, ids, redrives = append(tenants, l.TenantID.String()), append(ids, l.ID.String()),
			append(redrives, pgtest.NewID().String())
	}
	for _, set := range []string{"enable_seqscan", "enable_hashjoin", "enable_mergejoin"} { // the writers' settings
		if _, err := conn.ExecContext(t.Context(), "SET "+set+" = off"); err != nil {
			t.Fatal(err)
		}
	}
	p := pgtest.Explain(t, conn, dlqdb.MarkBounced, pq.Array(tenants), pq.Array(ids), pq.Array(redrives))
	found := false
	p.Each(func(n pgtest.Plan) {
		if n.Relation == "dlq_messages" && n.Index != "" {
			found = true
			if n.Index != "dlq_messages_pkey" {
				t.Errorf("letters are found by %s:\n%s", n.Index, p)
			}
		}
	})
	if !found {
		t.Errorf("no letters are looked for:\n%s", p)
	}
}
