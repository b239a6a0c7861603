package measure

import (
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/skald-saga/skald/internal/page"
	"github.com/skald-saga/skald/internal/postgres"
	"github.com/skald-saga/skald/internal/postgres/devpg"
	"github.com/skald-saga/skald/internal/saga"
	"github.com/skald-saga/skald/internal/saga/sagadb"
	"github.com/skald-saga/skald/internal/saga/statistics"
)

const generatedHere = 4000

// generated is a database with a few thousand generated sagas.
func generated(t *testing.T) GenerateConfig {
	t.Helper()
	server := startPostgres(t, map[string]string{"fsync": "off", "synchronous_commit": "off"})
	cfg := GenerateConfig{DatabaseURL: server.DSN(devpg.Database), Sagas: generatedHere, LogsPerSaga: 3}
	if err := Generate(t.Context(), cfg); err != nil {
		t.Fatal(err)
	}
	return cfg
}

func TestGeneratedSagasAreAsTheRulesMakeThem(t *testing.T) {
	cfg := generated(t)
	store, err := postgres.Open(t.Context(), postgres.Config{DSN: cfg.DatabaseURL})
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	sagas, workflows := sagadb.NewSagas(store), sagadb.NewWorkflows(store)
	states := map[saga.State]int{}
	tenants := append([]string{defaultTenant.String()}, otherTenants...)
	for _, tenant := range tenants {
		var after *page.TimeID
		for more := true; more; {
			found, err := sagas.List(t.Context(), uuid.MustParse(tenant),
				saga.Filter{ByTime: page.ByTime{Limit: 200, After: after}})
			if err != nil {
				t.Fatal(err)
			}
			var refs []saga.Ref
			for _, s := range found.Items {
				refs = append(refs, s.Ref())
				after = &page.TimeID{At: s.CreatedAt, ID: s.ID}
			}
			loaded, err := sagas.Load(t.Context(), refs)
			if err != nil {
				t.Fatal(err)
			}
			for _, l := range loaded {
				def, err := workflows.Get(t.Context(), l.Saga.Tenant.ID, l.Saga.WorkflowName, l.Saga.WorkflowVersion)
				if err != nil {
					t.Fatal(err)
				}
				states[l.Saga.State]++
				checkGenerated(t, l, saga.Steps(saga.Rebuild(l.Saga, def.Definition, l.Logs), l.Logs))
			}
			more = found.More
		}
	}
	total := 0
	for _, state := range saga.States {
		if total += states[state]; states[state] == 0 {
			t.Errorf("no saga is %s", state)
		}
	}
	if share := float64(states[saga.Completed]) / float64(total); total != generatedHere || share < 0.955 ||
		share > 0.985 {
		t.Errorf("%d sagas, %.3f of them completed", total, share)
	}
	if stuck, _, err := sagas.Stuck(t.Context()); err != nil || stuck > 0 {
		t.Errorf("%d are stuck, %v", stuck, err)
	}
	statistics, err := sagas.Statistics(t.Context(), defaultTenant, statistics.StatisticsFilter{})
	if err != nil || len(statistics.Definitions) != len(generatedWorkflows) {
		t.Errorf("statistics of %d workflows, %v", len(statistics.Definitions), err)
	}
}

// checkGenerated checks that the steps, and so head and logs, match the state.
func checkGenerated(t *testing.T, l saga.Loaded, steps []saga.StepView) {
	t.Helper()
	s := l.Saga
	if at := time.Unix(s.ID.Time().UnixTime()); s.ID.Version() != 7 || at.Sub(s.CreatedAt).Abs() > time.Millisecond {
		t.Errorf("saga %s, of %v, has the id of %v", s.ID, s.CreatedAt, at)
	}
	count := map[saga.StepState]int{}
	for _, step := range steps {
		count[step.State]++
	}
	pending, compensated := count[saga.StepStatePending], count[saga.StepStateCompensated]
	completed, undoing := count[saga.StepStateCompleted], count[saga.StepStateCompensating]
	var ok bool
	switch s.State {
	case saga.Completed:
		ok = completed == len(steps)
	case saga.Pending:
		ok = pending == len(steps)
	case saga.Running:
		ok = count[saga.StepStateRunning] == 1 && completed == s.CurrentStep
	case saga.StepCompleted:
		ok = completed == s.CurrentStep && pending == len(steps)-completed
	case saga.Compensating, saga.Failed:
		ok = undoing >= 1 && s.NeedsAttention == (s.State == saga.Failed)
	default:
		ok = completed == 0 && undoing == 0 && compensated+count[saga.StepStateFailed]+pending == len(steps)
	}
	if !ok {
		t.Errorf("a %s saga at step %d has steps %v", s.State, s.CurrentStep, count)
	}
	for _, log := range l.Logs {
		if log.StartedAt.Before(s.CreatedAt) ||
			s.CompletedAt != nil && log.CompletedAt.After(s.CompletedAt.Add(time.Millisecond)) {
			t.Errorf("a call from %v to %v in a saga from %v to %v", log.StartedAt, log.CompletedAt, s.CreatedAt, s.CompletedAt)
		}
	}
}
