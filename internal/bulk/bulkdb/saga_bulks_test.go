package bulkdb_test

import (
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/skald-saga/skald/internal/audit/operator"
	"github.com/skald-saga/skald/internal/bulk"
	"github.com/skald-saga/skald/internal/bulk/bulkdb"
	"github.com/skald-saga/skald/internal/fault"
	"github.com/skald-saga/skald/internal/jobrun"
	"github.com/skald-saga/skald/internal/page"
	"github.com/skald-saga/skald/internal/saga"
	"github.com/skald-saga/skald/internal/saga/sagabulk"
	"github.com/skald-saga/skald/internal/saga/sagadb"
	"github.com/skald-saga/skald/internal/tenant"
	"github.com/skald-saga/skald/internal/test/pgtest"
)

// manySagas contains sagas of a tenant that wait for their first call, and the bulks on them.
type manySagas struct {
	t     *testing.T
	j     pgtest.Jobs
	sagas *sagadb.Sagas
	bulks *bulkdb.SagaBulks
	ids   []uuid.UUID
}

func newManySagas(t *testing.T, n int) *manySagas {
	t.Helper()
	m := &manySagas{t: t, j: pgtest.NewJobs(t)}
	m.sagas = sagadb.NewSagasWith(m.j.Base)
	m.bulks = bulkdb.NewSagaBulks(m.j.Base, m.sagas)
	workflows := sagadb.NewWorkflows(m.j.DB)
	if _, _, err := workflows.Register(t.Context(), m.j.Tenant, pgtest.Order, false, pgtest.Now()); err != nil {
		t.Fatal(err)
	}
	for range n {
		m.ids = append(m.ids, m.start(nil))
	}
	return m
}

func (m *manySagas) start(key *string) uuid.UUID {
	m.t.Helper()
	spec := saga.Spec{ID: pgtest.NewID(), Tenant: tenant.Tenant{ID: m.j.Tenant}, BusinessKey: key}
	batch := []saga.NewSaga{{Saga: saga.New(spec, pgtest.Order, 1, nil, pgtest.Now(), 0)}}
	created, err := m.sagas.Create(m.t.Context(), batch)
	if err != nil || created[0].Created != saga.Stored {
		m.t.Fatal(created, err)
	}
	return spec.ID
}

// create stores a bulk with defaults.
func (m *manySagas) create(b sagabulk.Bulk) sagabulk.Bulk {
	m.t.Helper()
	b.Head = bulk.Head{ID: pgtest.NewID(), TenantID: m.j.Tenant, Version: 1, State: bulk.Running,
		Actor: "ann", Reason: "a bad release", CreatedAt: pgtest.Now()}
	b.Before = pgtest.Now().Add(time.Minute)
	b.Pace()
	if err := sagabulk.Check(&b); err != nil {
		m.t.Fatal(err)
	}
	by := operator.By{}.Did(pgtest.NewID(), m.j.Tenant, pgtest.Now(), operator.SagaBulk, b.ID.String(), "create", nil)
	b, created, err := m.bulks.Create(m.t.Context(), b, by)
	if err != nil || !created {
		m.t.Fatal(created, err)
	}
	return b
}

func (m *manySagas) sweep(limit int) {
	m.t.Helper()
	for more := true; more; {
		swept, err := m.bulks.Bulk(m.t.Context(), m.j.Term(m.t), jobrun.Settings{}, limit)
		if err != nil {
			m.t.Fatal(err)
		}
		more = swept.More
	}
}

func (m *manySagas) get(id uuid.UUID) sagabulk.Bulk {
	m.t.Helper()
	b, err := m.bulks.Get(m.t.Context(), m.j.Tenant, id)
	if err != nil {
		m.t.Fatal(err)
	}
	return b
}

func (m *manySagas) items(id uuid.UUID, o sagabulk.Outcome) []sagabulk.Item {
	m.t.Helper()
	found, err := m.bulks.Items(m.t.Context(), m.j.Tenant, id, o, page.Request[int64]{Limit: 1000})
	if err != nil {
		m.t.Fatal(err)
	}
	return found.Items
}

func TestABulkOnSagasActsOnEachOnceWhoeverLeads(t *testing.T) {
	t.Parallel()
	m := newManySagas(t, 40)
	b := m.create(sagabulk.Bulk{Action: saga.SuspendVerb, Filter: &saga.Filter{WorkflowName: pgtest.Order.Name}})
	term := m.j.Term(t)
	m.j.Lead(t, 2)
	if _, err := m.bulks.Bulk(t.Context(), term, jobrun.Settings{}, 7); !fault.IsCode(err, jobrun.CodeNoLeader) {
		t.Errorf("a leader whose term is over acts: %v", err)
	}
	if got := m.get(b.ID); got.Matched != 0 || got.Steps != 0 {
		t.Errorf("a leader whose term is over has made %+v", got)
	}
	term.Epoch = 2
	for round := 0; m.get(b.ID).State == bulk.Running && round < 100; round++ {
		var all sync.WaitGroup
		for range 6 { // this simulates that former leaders are still working
			all.Go(func() {
				if _, err := m.bulks.Bulk(t.Context(), term, jobrun.Settings{}, 7); err != nil {
					t.Error(err)
				}
			})
		}
		all.Wait()
	}
	got := m.get(b.ID)
	if got.State != bulk.Completed || got.Done != 40 || got.Skipped != 0 || got.Matched != 40 || got.EndedAt == nil {
		t.Errorf("it ended as %+v", got)
	}
	if n := m.j.Count(t, `SELECT count(*) FROM saga.saga_states WHERE tenant_id = $1 AND suspended_at IS NOT NULL AND version = 2`, m.j.Tenant); n != 40 {
		t.Errorf("%d sagas were suspended once, want 40", n)
	}
	if n := m.j.Count(t, `SELECT count(*) FROM saga.saga_events WHERE tenant_id = $1 AND actor = 'ann' AND request_id = $2`,
		m.j.Tenant, b.ID.String()); n != 40 {
		t.Errorf("%d events name who asked and the bulk, want 40", n)
	}
	items := m.items(b.ID, "")
	for i, item := range items {
		if item.Position != int64(i+1) || item.Outcome != sagabulk.Done || item.Workflow != "order" || item.State == nil {
			t.Errorf("item %d is %+v", i, item)
		}
	}
	if len(items) != 40 {
		t.Errorf("%d items, want 40", len(items))
	}
	if _, err := m.bulks.Get(t.Context(), pgtest.NewID(), b.ID); fault.KindOf(err) != fault.NotFound {
		t.Errorf("another tenant reads it: %v", err)
	}
	if other, err := m.bulks.Items(t.Context(), pgtest.NewID(), b.ID, "", page.Request[int64]{Limit: 9}); err != nil ||
		len(other.Items) > 0 {
		t.Errorf("another tenant reads its items: %+v, %v", other, err)
	}
}

func TestASagaThatRefusesIsSkippedWithTheReason(t *testing.T) {
	t.Parallel()
	m := newManySagas(t, 3)
	gone := pgtest.NewID()
	b := m.create(sagabulk.Bulk{Action: saga.ResumeVerb, IDs: append(m.ids, gone)})
	m.sweep(2)
	if got := m.get(b.ID); got.State != bulk.Completed || got.Skipped != 4 || got.Done != 0 {
		t.Errorf("%+v", got)
	}
	codes := map[uuid.UUID]string{}
	for _, i := range m.items(b.ID, sagabulk.Skipped) {
		codes[i.SagaID] = i.Code
	}
	for _, id := range m.ids {
		if codes[id] != saga.CodeStateConflict {
			t.Errorf("a saga that is not suspended is skipped with %q", codes[id])
		}
	}
	if codes[gone] != saga.CodeNotFound {
		t.Errorf("a saga that does not exist is skipped with %q", codes[gone])
	}
	if done := m.items(b.ID, sagabulk.Done); len(done) != 0 {
		t.Errorf("%d are done", len(done))
	}
}

// A suspended saga accepts a cancel, but does not show it until it is resumed. The item says so.
func TestASuspendedSagaThatAcceptsSaysWhatItWaitsFor(t *testing.T) {
	t.Parallel()
	m := newManySagas(t, 2)
	node, err := m.sagas.Register(t.Context(), "a", "process", time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := m.sagas.Claim(t.Context(), node, 10); err != nil { // otherwise a cancel would end them immediately
		t.Fatal(err)
	}
	m.create(sagabulk.Bulk{Action: saga.SuspendVerb, IDs: m.ids[:1]})
	m.sweep(2)
	b := m.create(sagabulk.Bulk{Action: saga.Cancel, IDs: m.ids})
	m.sweep(2)
	details := map[uuid.UUID]string{}
	for _, i := range m.items(b.ID, sagabulk.Done) {
		details[i.SagaID] = i.Detail
	}
	if len(details) != 2 || !strings.Contains(details[m.ids[0]], "once it is resumed") || details[m.ids[1]] != "" {
		t.Errorf("%v", details)
	}
}

// The database refuses one of three changes: the change of the failed saga whose business key now
// belongs to another saga. The other changes are stored.
func TestASagaThatCannotBeStoredDoesNotKeepTheOthers(t *testing.T) {
	t.Parallel()
	m := newManySagas(t, 2)
	first := m.start(new("order-7"))
	for _, id := range append(m.ids, first) { // this simulates a forced failure
		pgtest.Execute(t, m.j.DB.SQL(), `UPDATE saga.saga_states SET state = 6, completed_at = now(), clean = false, next_run_at = NULL,
			step_attempt = 1, step_failures = 1, interventions = '{"halted":true}' WHERE id = $1`, id)
	}
	m.start(new("order-7"))
	b := m.create(sagabulk.Bulk{Action: saga.RetryVerb, Filter: &saga.Filter{States: []saga.State{saga.Failed}}})
	m.sweep(100)
	if got := m.get(b.ID); got.State != bulk.Completed || got.Done != 2 || got.Skipped != 1 {
		t.Errorf("%+v", got)
	}
	if s := m.items(b.ID, sagabulk.Skipped); len(s) != 1 || s[0].SagaID != first || s[0].Code != saga.CodeBusinessKey {
		t.Errorf("skipped: %+v", s)
	}
}

func TestACanceledBulkOnSagasGoesNoFurther(t *testing.T) {
	t.Parallel()
	m := newManySagas(t, 5)
	b := m.create(sagabulk.Bulk{Action: saga.Cancel, Filter: &saga.Filter{WorkflowName: "order"}, Rate: 0.01})
	m.sweep(100)
	m.sweep(100)
	if got := m.get(b.ID); got.Done != 1 || got.State != bulk.Running {
		t.Errorf("at one in 100 s it has done %d", got.Done)
	}
	by := func(verb string) operator.Action {
		return operator.By{}.Did(pgtest.NewID(), m.j.Tenant, pgtest.Now(), operator.SagaBulk, b.ID.String(), verb, nil)
	}
	if _, err := m.bulks.SetRate(t.Context(), m.j.Tenant, b.ID, 9, 0, by("update")); !fault.IsCode(err,
		sagabulk.CodeStale) {
		t.Errorf("changed at another version: %v", err)
	}
	if got, err := m.bulks.SetRate(t.Context(), m.j.Tenant, b.ID, 1, 0.02, by("update")); err != nil || got.Rate != 0.02 {
		t.Errorf("%+v, %v", got, err)
	}
	if got, err := m.bulks.Move(t.Context(), m.j.Tenant, b.ID, bulk.Cancel, by("cancel")); err != nil ||
		got.State != bulk.Canceled {
		t.Errorf("%+v, %v", got, err)
	}
	m.sweep(100)
	if got := m.get(b.ID); got.Done != 1 || got.Rate != 0.02 || got.Version != 3 {
		t.Errorf("after it was canceled it is %+v", got)
	}
	for state, want := range map[bulk.State]int{bulk.Canceled: 1, bulk.Running: 0, "": 1} {
		if found, err := m.bulks.List(t.Context(), m.j.Tenant, state, page.ByTime{Limit: 9}); err != nil ||
			len(found.Items) != want {
			t.Errorf("%q: %s, %v", state, fmt.Sprint(len(found.Items)), err)
		}
	}
	pgtest.Execute(t, m.j.DB.SQL(), `UPDATE saga.saga_bulks SET ended_at = now() - interval '20 years'`)
	gone, err := m.j.Retain(t.Context())
	if err != nil || gone.SagaBulks != 1 || gone.SagaBulkItems != 1 {
		t.Errorf("retention deletes %+v, %v", gone, err)
	}
}
