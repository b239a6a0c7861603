package pgtest

import (
	"bytes"
	"encoding/json"
	"fmt"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/skald-saga/skald/internal/idempotency"
	"github.com/skald-saga/skald/internal/postgres"
	"github.com/skald-saga/skald/internal/saga"
	"github.com/skald-saga/skald/internal/saga/sagadb"
	"github.com/skald-saga/skald/internal/saga/workflow"
	"github.com/skald-saga/skald/internal/secret/envelope"
	"github.com/skald-saga/skald/internal/tenant"
)

// Order is a workflow of three steps.
var Order = func() *workflow.Definition {
	d := &workflow.Definition{Name: "order"}
	for _, name := range []string{"reserve", "charge", "notify"} {
		call := workflow.Call{HTTP: &workflow.HTTPCall{Method: "POST", URL: "http://127.0.0.1/" + name}}
		d.Steps = append(d.Steps, workflow.Step{Name: name, Action: call, Compensation: workflow.Compensation{Call: call}})
	}
	return d
}()

func NewID() uuid.UUID { return uuid.Must(uuid.NewV7()) }

func Now() time.Time { return time.Now().UTC().Truncate(time.Microsecond) }

// RefsOf returns references to sagas of the tenant Big.
func RefsOf(ids ...uuid.UUID) []saga.Ref {
	refs := make([]saga.Ref, len(ids))
	for i, id := range ids {
		refs[i] = saga.Ref{Tenant: Big, ID: id}
	}
	return refs
}

// SomeSagas returns new sagas of the tenant Big, with idempotency keys.
func SomeSagas(n int) []saga.NewSaga {
	owner := int64(1)
	batch := make([]saga.NewSaga, n)
	for i := range batch {
		spec := saga.Spec{ID: NewID(), Tenant: tenant.Tenant{ID: Big}, Payload: json.RawMessage(`{"order":1}`)}
		batch[i].Saga = saga.New(spec, Order, 1, &owner, Now(), time.Minute)
		batch[i].Key = &idempotency.Key{TenantID: Big, Principal: "p", Route: "r", Key: fmt.Sprint(spec.ID),
			Hash: []byte("h")}
	}
	return batch
}

// SomeChanges returns the change with the first outcome of each of n sagas; every second change
// completes a RUNNING row.
func SomeChanges(n int) []saga.Change {
	changes := make([]saga.Change, n)
	for i, s := range SomeSagas(n) {
		run := saga.NewInstance(s.Saga, Order)
		if i%2 == 0 {
			run = Applied(run, saga.Slow{StartedAt: Now()}).After
		}
		changes[i] = Applied(run, Done())
	}
	return changes
}

// OnwardChanges returns the change with the first outcome of each of n sagas whose calls were not
// recorded as slow before.
func OnwardChanges(n int) []saga.Change {
	changes := make([]saga.Change, n)
	for i, s := range SomeSagas(n) {
		changes[i] = Applied(saga.NewInstance(s.Saga, Order), Done())
	}
	return changes
}

// Retried modifies the first change so that its saga waits for a retry.
func Retried(changes []saga.Change) []saga.Change {
	changes[0].After.NextRunAt = &changes[0].After.UpdatedAt
	return changes
}

// Operated turns the first change into an operator's.
func Operated(changes []saga.Change) []saga.Change {
	changes[0].Operated = &saga.Operated{DeadlineInMS: new(int64(1000))}
	return changes
}

func Done() saga.Event {
	return saga.Answered{Outcome: saga.Outcome{
		Verdict: saga.Done, Code: "http_200", Request: []byte(`{}`), Output: json.RawMessage(`{"n":1}`),
		StartedAt: Now(), EndedAt: Now(),
	}}
}

// Sent returns an outcome of the call in flight, together with its request.
func Sent(run saga.Instance, e saga.Event) saga.Event {
	a, call := e.(saga.Answered), run.Call(saga.Defaults{})
	a.Request, a.Parts = call.Body, call.Parts
	return a
}

func Applied(run saga.Instance, e saga.Event) saga.Change {
	c, err := saga.Apply(run, e, saga.Moment{Now: Now(), NewID: NewID})
	if err != nil {
		panic(err)
	}
	return c
}

// Registered stores the workflow order for the tenant Big.
func Registered(t *testing.T, db *postgres.DB) {
	t.Helper()
	if _, _, err := sagadb.NewWorkflows(db).Register(t.Context(), Big, Order, false, Now()); err != nil {
		t.Fatal(err)
	}
}

// Commit commits changes, none of which may be refused.
func Commit(t *testing.T, st *sagadb.Sagas, batch []saga.Change) {
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

// Unkeyed returns new sagas without idempotency keys.
func Unkeyed() []saga.NewSaga {
	batch := SomeSagas(1)
	batch[0].Key = nil
	return batch
}

// Big is the tenant that most sagas in the large table belong to.
var Big = uuid.MustParse("b1900000-0000-4000-8000-000000000000")

func Keyring(t testing.TB, text string) *envelope.Keyring {
	t.Helper()
	keys, err := envelope.Parse(text)
	if err != nil {
		t.Fatal(err)
	}
	return keys
}

const Canary = "canary-c0ffee"

func Says(what string) json.RawMessage { return json.RawMessage(`{"` + what + `":"` + Canary + `"}`) }

func Compact(t *testing.T, doc []byte) string {
	t.Helper()
	var b bytes.Buffer
	if err := json.Compact(&b, doc); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

func Answer(output string) saga.Event {
	return saga.Answered{Outcome: saga.Outcome{Verdict: saga.Done, Output: json.RawMessage(output), Request: []byte(`{}`),
		StartedAt: Now(), EndedAt: Now()}}
}

// Two master keys.
const (
	KeyOne = "one:AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAE="
	KeyTwo = "two:AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAI="
)

// Once archives every ended saga immediately.
var Once = saga.Expiry{Default: saga.Retention{Completed: time.Millisecond, Failed: time.Millisecond}}

// Ended stores n completed sagas of the tenant Big that ended an hour ago.
func Ended(t *testing.T, db *postgres.DB, n int) {
	t.Helper()
	Execute(t, db.SQL(), `INSERT INTO saga.saga_states (id, tenant_id, workflow_name, workflow_version, saga_type, total_steps, current_step, state, clean, created_at, completed_at, correlation_id)
		SELECT gen_random_uuid(), $1, 'order', 1, 'order', 3, 3, 3, true, now() - interval '2 hours', now() - interval '1 hour', 'c' || i FROM generate_series(1, $2::int) AS i`, Big, n)
	Execute(t, db.SQL(), `INSERT INTO saga.saga_step_logs (saga_id, step_index, step_name, action, status, completed_at, response_payload)
		SELECT s.id, k, 'step', 'EXECUTE', 'SUCCESS', now(), '{"b": [1, null]}' FROM saga.saga_states s, generate_series(0, 2) AS k`)
}
