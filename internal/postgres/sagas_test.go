package postgres_test

import (
	"context"
	"database/sql"
	"encoding/json"
	"fmt"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/lib/pq"

	"github.com/skald-saga/skald/internal/postgres"
	"github.com/skald-saga/skald/internal/saga"
	"github.com/skald-saga/skald/internal/saga/workflow"
)

// order is a workflow of three steps.
var order = func() *workflow.Definition {
	d := &workflow.Definition{Name: "order"}
	for _, name := range []string{"reserve", "charge", "notify"} {
		call := workflow.Call{HTTP: &workflow.HTTPCall{Method: "POST", URL: "http://127.0.0.1/" + name}}
		d.Steps = append(d.Steps, workflow.Step{Name: name, Action: call, Compensation: workflow.Compensation{Call: call}})
	}
	return d
}()

func newID() uuid.UUID { return uuid.Must(uuid.NewV7()) }

func now() time.Time { return time.Now().UTC().Truncate(time.Microsecond) }

// refsOf are sagas of the tenant big.
func refsOf(ids ...uuid.UUID) []saga.Ref {
	refs := make([]saga.Ref, len(ids))
	for i, id := range ids {
		refs[i] = saga.Ref{Tenant: big, ID: id}
	}
	return refs
}

// someSagas are new sagas of the tenant big, with keys.
func someSagas(n int) []saga.NewSaga {
	owner := int64(1)
	batch := make([]saga.NewSaga, n)
	for i := range batch {
		spec := saga.Spec{ID: newID(), Tenant: saga.Tenant{ID: big}, Payload: json.RawMessage(`{"order":1}`)}
		batch[i].Saga = saga.New(spec, order, 1, &owner, now(), time.Minute)
		batch[i].Key = &saga.IdempotencyKey{TenantID: big, Principal: "p", Route: "r", Key: fmt.Sprint(spec.ID), Hash: []byte("h"), SagaID: spec.ID}
	}
	return batch
}

// someChanges are the first outcomes of sagas; every second one completes a RUNNING row.
func someChanges(n int) []saga.Change {
	changes := make([]saga.Change, n)
	for i, s := range someSagas(n) {
		run := saga.NewInstance(s.Saga, order)
		if i%2 == 0 {
			run = applied(run, saga.Slow{StartedAt: now()}).After
		}
		changes[i] = applied(run, done())
	}
	return changes
}

// operated makes the first change an operator's.
func operated(changes []saga.Change) []saga.Change {
	changes[0].Operated = &saga.Operated{DeadlineInMS: new(int64(1000))}
	return changes
}

func done() saga.Event {
	return saga.Answered{Outcome: saga.Outcome{
		Verdict: saga.Done, Code: "http_200", Request: []byte(`{}`), Output: json.RawMessage(`{"n":1}`), StartedAt: now(), EndedAt: now(),
	}}
}

func applied(run saga.Instance, e saga.Event) saga.Change {
	c, err := saga.Apply(run, e, saga.Moment{Now: now(), NewID: newID})
	if err != nil {
		panic(err)
	}
	return c
}

// registered stores the workflow order for the tenant big.
func registered(t *testing.T, db *postgres.DB) {
	t.Helper()
	if _, _, err := postgres.NewWorkflows(db).Register(t.Context(), big, order, false, now()); err != nil {
		t.Fatal(err)
	}
}

// commit writes changes that cannot be refused.
func commit(t *testing.T, st *postgres.Sagas, batch []saga.Change) {
	t.Helper()
	errs, err := st.Commit(t.Context(), batch)
	for _, refused := range errs {
		if refused != nil {
			err = refused
		}
	}
	if err != nil {
		t.Fatal(err)
	}
}

// observer is a single connection beside the stores'.
func observer(t *testing.T, dsn string) *sql.DB {
	t.Helper()
	connector, err := pq.NewConnector(dsn)
	if err != nil {
		t.Fatal(err)
	}
	db := sql.OpenDB(connector)
	db.SetMaxOpenConns(1)
	t.Cleanup(func() { db.Close() })
	return db
}

// ask returns the one value that a query finds.
func ask[T any](t *testing.T, db *sql.DB, query string, args ...any) (v T) {
	t.Helper()
	if err := db.QueryRowContext(t.Context(), query, args...).Scan(&v); err != nil {
		t.Fatalf("%s: %v", query, err)
	}
	return v
}

// quiet waits until the observer is alone with its database: a session's
// statistics are complete when it has ended.
func quiet(t *testing.T, db *sql.DB) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	for others := 1; others > 0; {
		err := db.QueryRowContext(ctx, `SELECT count(*) FROM pg_stat_activity, pg_sleep(0.01)
			WHERE datname = current_database() AND pid <> pg_backend_pid() AND backend_type = 'client backend'`).Scan(&others)
		if err != nil {
			t.Fatalf("sessions do not end: %v", err)
		}
	}
}
