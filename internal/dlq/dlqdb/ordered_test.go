package dlqdb_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/skald-saga/skald/internal/dlq"
	"github.com/skald-saga/skald/internal/dlq/dlqdb"
	"github.com/skald-saga/skald/internal/test/pgtest"
	"github.com/skald-saga/skald/internal/test/testdb"
)

// Letters with the same key are driven in the order of their arrival although their keys are
// sealed, whichever master key was current when they arrived (invariant D7).
func TestLettersOfASealedKeyAreClaimedAsTheyArrivedThroughARotation(t *testing.T) {
	t.Parallel()
	dsn := testdb.DSN(t)
	tenant := pgtest.NewID()
	// node starts a node with these keys, which also represents a restart.
	node := func(keys string) pgtest.LetterQueue {
		db := pgtest.ConnectWith(t, pgtest.PlainLogin(t, dsn), pgtest.Keyring(t, keys))
		if err := db.AdmitKeys(t.Context()); err != nil {
			t.Fatal(err)
		}
		letters := pgtest.LetterStore{Letters: dlqdb.NewLetters(db, dlq.DefaultPolicy), DB: db, Dsn: dsn, Tenant: tenant}
		return pgtest.LetterQueue{LetterStore: letters, Queue: dlqdb.NewQueue(db, dlq.DefaultPolicy)}
	}
	push := func(m pgtest.LetterQueue, key, payload string) {
		l := m.Due(func(l *dlq.Letter) { l.Content = dlq.Content{Key: []byte(key), Payload: []byte(payload)} })
		l.Ordered = true // because the policy says so
		m.PushAll(t, l)
	}
	before := node(pgtest.KeyOne)
	push(before, pgtest.Canary, "1")
	push(before, "another", "a")
	during := node(pgtest.KeyOne + "," + pgtest.KeyTwo)
	push(during, pgtest.Canary, "2")
	after := node(pgtest.KeyTwo + "," + pgtest.KeyOne)
	push(after, pgtest.Canary, "3")
	push(during, pgtest.Canary, "4") // a node that has not been restarted yet
	off := pgtest.ConnectWith(t, pgtest.PlainLogin(t, dsn), pgtest.Keyring(t, pgtest.KeyTwo+","+pgtest.KeyOne).OpenOnly())
	plain := pgtest.LetterStore{Letters: dlqdb.NewLetters(off, dlq.DefaultPolicy), DB: off, Dsn: dsn, Tenant: tenant}
	push(pgtest.LetterQueue{LetterStore: plain, Queue: dlqdb.NewQueue(off, dlq.DefaultPolicy)}, pgtest.Canary, "5")

	again := node(pgtest.KeyTwo + "," + pgtest.KeyOne)
	var driven [][]string
	for range 5 {
		batch := again.ClaimDue(t, 10)
		var at []string
		for _, d := range batch {
			at = append(at, string(d.Content.Payload))
		}
		driven = append(driven, at)
		if more := again.ClaimDue(t, 10); more != nil {
			t.Fatalf("%q was claimed while %q were being driven", more[0].Content.Payload, driven)
		}
		for _, d := range batch {
			again.End(t, d, dlq.Acknowledged)
		}
	}
	if diff := cmp.Diff([][]string{{"1", "a"}, {"2"}, {"3"}, {"4"}, {"5"}}, driven); diff != "" {
		t.Errorf("driven (-want +got):\n%s", diff)
	}
	sealed := pgtest.Ask[string](t, pgtest.RawTables(t, dsn), `SELECT string_agg(encode(m.order_key, 'escape') || encode(m.message_key, 'escape'), ' ')
		FROM dlq.dlq_messages m WHERE m.payload_raw <> '5'`)
	if strings.Contains(sealed, pgtest.Canary) {
		t.Errorf("the key is readable in the database: %s", sealed)
	}
	if n := pgtest.Ask[int](t, pgtest.RawTables(t, dsn), `SELECT count(*) FROM dlq.dlq_messages m WHERE m.order_key IS NULL
		OR m.order_key IN (sha256(m.message_key), sha256('another'::bytea), 'another'::bytea)`); n != 0 {
		t.Errorf("%d letters have a digest that anybody can compute, or none", n)
	}
	// The secret is sealed by the current key, so that the old one can be retired.
	pgtest.Execute(t, pgtest.RawTables(t, dsn), `DELETE FROM saga.deployment_secrets WHERE name = 'envelope:one'`)
	node(pgtest.KeyTwo)
}

// Letters from before the first key, or from nodes of earlier versions, have no digest.
func TestOpenLettersGetTheDigestOfTheirKey(t *testing.T) {
	t.Parallel()
	dsn := testdb.DSN(t)
	db := pgtest.ConnectWith(t, pgtest.PlainLogin(t, dsn), pgtest.Keyring(t, pgtest.KeyOne))
	m := pgtest.LetterStore{Letters: dlqdb.NewLetters(db, dlq.DefaultPolicy), DB: db, Dsn: dsn, Tenant: pgtest.NewID()}
	plain := m
	plain.DB = pgtest.Connect(t, pgtest.PlainLogin(t, dsn))
	plain.Letters = dlqdb.NewLetters(plain.DB, dlq.DefaultPolicy)
	for _, b := range []pgtest.LetterStore{plain, m, m} {
		l := b.NewLetter(func(l *dlq.Letter) { l.Content.Key = []byte("k") })
		l.Ordered = true
		b.PushAll(t, l)
	}
	raw := pgtest.RawTables(t, dsn)
	// Two letters as stored by an earlier version, one plain and one sealed.
	pgtest.Execute(t, raw, `UPDATE dlq.dlq_messages SET order_key = NULL, updated_at = '2026-01-02' WHERE seq < (SELECT max(seq) FROM dlq.dlq_messages)`)
	for _, want := range []int64{2, 0} {
		if n, err := dlqdb.NewQueue(db, dlq.DefaultPolicy).DigestKeys(t.Context()); err != nil || n != want {
			t.Errorf("%d letters got a digest, %v; want %d", n, err, want)
		}
	}
	if got := pgtest.Ask[string](t, raw, `SELECT concat_ws(' ', count(*), count(order_key), count(DISTINCT order_key), count(*) FILTER (WHERE updated_at = '2026-01-02'))
		FROM dlq.dlq_messages`); got != "3 3 1 2" {
		t.Errorf("letters, digests, different ones, untouched times: %s, want 3 3 1 2", got)
	}
}
