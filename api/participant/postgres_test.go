package participant_test

import (
	"database/sql"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/skald-saga/skald/api/participant"
)

// twoNodes alternates calls between two processes.
type twoNodes struct {
	nodes [2]*participant.Handler
	n     atomic.Int64
}

func (n *twoNodes) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	n.nodes[n.n.Add(1)%2].ServeHTTP(w, r)
}

func open(t testing.TB, dsn string) *sql.DB {
	t.Helper()
	db, err := sql.Open("postgres", dsn)
	if err != nil {
		t.Fatal(err)
	}
	db.SetMaxOpenConns(4)
	t.Cleanup(func() { _ = db.Close() })
	return db
}

// together returns a store in a database of Open.
func together(t testing.TB, dsn string) participant.Store {
	t.Helper()
	db, err := participant.Open("postgres", dsn)
	if err != nil {
		t.Fatal(err)
	}
	db.SetMaxOpenConns(4)
	t.Cleanup(func() { _ = db.Close() })
	store, err := participant.SQL(db, participant.PostgreSQL)
	if err != nil {
		t.Fatal(err)
	}
	return store
}

func postgres(t testing.TB, dsn string) participant.Store {
	t.Helper()
	store, err := participant.SQL(open(t, dsn), participant.PostgreSQL)
	if err != nil {
		t.Fatal(err)
	}
	return store
}

func migrate(t testing.TB, dsn string) {
	t.Helper()
	_, err := open(t, dsn).ExecContext(t.Context(),
		participant.Migration(participant.PostgreSQL)+`CREATE TABLE effects (key text NOT NULL)`)
	if err != nil {
		t.Fatal(err)
	}
}

// effectsOf counts the effects of a vector's sagas by key.
func effectsOf(t *testing.T, dsn string, ids map[string]string) map[string]int {
	t.Helper()
	return effectsIn(t, open(t, dsn), ids)
}

func effectsIn(t *testing.T, db *sql.DB, ids map[string]string) map[string]int {
	t.Helper()
	rows, err := db.QueryContext(t.Context(), `SELECT * FROM effects`)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = rows.Close() }()
	all := map[string]int{}
	for rows.Next() {
		var key string
		if err := rows.Scan(&key); err != nil {
			t.Fatal(err)
		}
		if strings.Contains(key, ids["A"]) || strings.Contains(key, ids["B"]) {
			all[key]++
		}
	}
	if err := rows.Err(); err != nil {
		t.Fatal(err)
	}
	return all
}
