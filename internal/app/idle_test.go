package app_test

import (
	"context"
	"database/sql"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/skald-saga/skald/internal/test/testdb"
)

// idleThroughout returns the transactions of the database that are idle at each of several
// samples: those that are held open while something else takes time.
func idleThroughout(t *testing.T, pool *sql.DB) map[string]bool {
	t.Helper()
	var held map[string]bool
	for range 6 {
		now := map[string]bool{}
		rows, err := pool.QueryContext(t.Context(), `SELECT application_name || ' since ' || xact_start FROM pg_stat_activity
			WHERE datname = current_database() AND state LIKE 'idle in transaction%'`)
		if err != nil {
			t.Fatal(err)
		}
		for rows.Next() {
			var who string
			if err := rows.Scan(&who); err != nil {
				t.Fatal(err)
			}
			if held == nil || held[who] {
				now[who] = true
			}
		}
		if err := rows.Err(); err != nil {
			t.Fatal(err)
		}
		held = now
		time.Sleep(30 * time.Millisecond)
	}
	return held
}

func TestNoTransactionIsHeldDuringACall(t *testing.T) {
	t.Parallel()
	calling, answer := make(chan struct{}), make(chan struct{})
	participant := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
		calling <- struct{}{}
		<-answer
	}))
	defer participant.Close()
	dsn := testdb.DSN(t)
	n := start(t, dsn, "a")
	pool, err := sql.Open("postgres", dsn)
	if err != nil {
		t.Fatal(err)
	}
	defer pool.Close()
	call(t, "POST", n.url+"/api/v1/workflows", strings.ReplaceAll(twoSteps, "URL", participant.URL))
	go func() {
		for range 2 {
			<-calling
			if held := idleThroughout(t, pool); len(held) > 0 {
				t.Errorf("during a call: %v", held)
			}
			answer <- struct{}{}
		}
	}()
	_, doc := call(t, "POST", n.url+"/api/v1/sagas?wait=4m", `{"workflow_name": "pair"}`)
	if doc["state"] != "completed" {
		t.Errorf("ended as %v", doc)
	}
	tx, err := pool.BeginTx(context.WithoutCancel(t.Context()), nil) // what the probe would find
	if err != nil {
		t.Fatal(err)
	}
	defer tx.Rollback() //nolint:errcheck // it did nothing
	if _, err := tx.ExecContext(t.Context(), `SELECT 1`); err != nil {
		t.Fatal(err)
	}
	if len(idleThroughout(t, pool)) != 1 {
		t.Error("the probe does not see a transaction that is held")
	}
}
