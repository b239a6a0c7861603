package postgres_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/skald-saga/skald/internal/postgres"
	"github.com/skald-saga/skald/internal/saga"
	"github.com/skald-saga/skald/internal/saga/workflow"
	"github.com/skald-saga/skald/internal/secret/envelope"
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

// unkeyed is a new saga without an idempotency key.
func unkeyed() []saga.NewSaga {
	batch := someSagas(1)
	batch[0].Key = nil
	return batch
}

// big is the tenant of most of the large table's sagas.
var big = uuid.MustParse("b1900000-0000-4000-8000-000000000000")

func keyring(t testing.TB, text string) *envelope.Keyring {
	t.Helper()
	keys, err := envelope.Parse(text)
	if err != nil {
		t.Fatal(err)
	}
	return keys
}

const canary = "canary-c0ffee"

func says(what string) json.RawMessage { return json.RawMessage(`{"` + what + `":"` + canary + `"}`) }

func compact(t *testing.T, doc []byte) string {
	t.Helper()
	var b bytes.Buffer
	if err := json.Compact(&b, doc); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

func answer(output string) saga.Event {
	return saga.Answered{Outcome: saga.Outcome{Verdict: saga.Done, Output: json.RawMessage(output), Request: []byte(`{}`), StartedAt: now(), EndedAt: now()}}
}

// Two master keys.
const (
	keyOne = "one:AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAE="
	keyTwo = "two:AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAI="
)

// once selects everything that has ended, as soon as it has.
var once = saga.Expiry{Default: saga.Retention{Completed: time.Millisecond, Failed: time.Millisecond}}

// ended stores n completed sagas of the tenant big that ended an hour ago.
func ended(t *testing.T, db *postgres.DB, n int) {
	t.Helper()
	execute(t, db.SQL(), `INSERT INTO saga.saga_states (id, tenant_id, workflow_name, workflow_version, saga_type, total_steps, current_step, state, clean, created_at, completed_at, correlation_id)
		SELECT gen_random_uuid(), $1, 'order', 1, 'order', 3, 3, 3, true, now() - interval '2 hours', now() - interval '1 hour', 'c' || i FROM generate_series(1, $2::int) AS i`, big, n)
	execute(t, db.SQL(), `INSERT INTO saga.saga_step_logs (saga_id, step_index, step_name, action, status, completed_at, response_payload)
		SELECT s.id, k, 'step', 'EXECUTE', 'SUCCESS', now(), '{"b": [1, null]}' FROM saga.saga_states s, generate_series(0, 2) AS k`)
}
