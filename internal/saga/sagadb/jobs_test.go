package sagadb_test

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"

	"github.com/skald-saga/skald/internal/dlq"
	"github.com/skald-saga/skald/internal/dlq/dlqdb"
	"github.com/skald-saga/skald/internal/jobrun"
	"github.com/skald-saga/skald/internal/page"
	"github.com/skald-saga/skald/internal/retry"
	"github.com/skald-saga/skald/internal/saga"
	"github.com/skald-saga/skald/internal/saga/sagadb"
	"github.com/skald-saga/skald/internal/saga/workflow"
	"github.com/skald-saga/skald/internal/tenant"
	"github.com/skald-saga/skald/internal/test/pgtest"
)

// jobSagas has the sagas and job runs of one database, and a workflow with jobs.
type jobSagas struct {
	pgtest.Jobs
	t     *testing.T
	sagas *sagadb.Sagas
	def   *workflow.Definition
}

// newJobSagas registers a workflow with the steps reserve (HTTP), settle (a job, compensated by a
// job) and notify (HTTP). The jobs give up at their first failure.
func newJobSagas(t *testing.T, change ...func(*workflow.Definition)) *jobSagas {
	t.Helper()
	k := &jobSagas{Jobs: pgtest.NewJobs(t), t: t}
	k.sagas = sagadb.NewSagasWith(k.Base)
	for _, name := range []string{"settle", "unsettle"} {
		k.Define(t, func(d *jobrun.Definition) {
			d.Name, d.Spec.CommandName, d.Spec.Retry = name, name, retry.Policy{MaxAttempts: 1}
		})
	}
	def := *pgtest.Order
	def.Name, def.Steps = "order-with-jobs", slices.Clone(pgtest.Order.Steps)
	def.Steps[1].Name = "settle"
	def.Steps[1].Action = workflow.Call{Job: "settle", Args: json.RawMessage(`{"order":"${payload.order}","reserved":"${steps.reserve.id}"}`)}
	def.Steps[1].Compensation = workflow.Compensation{Call: workflow.Call{Job: "unsettle"}}
	for _, c := range change {
		c(&def)
	}
	k.def = &def
	if _, _, err := sagadb.NewWorkflows(k.DB).Register(t.Context(), k.Tenant, k.def, false, pgtest.Now()); err != nil {
		t.Fatal(err)
	}
	return k
}

// begun stores a saga and applies events to it.
func (k *jobSagas) begun(events ...saga.Event) saga.Instance {
	k.t.Helper()
	spec := saga.Spec{ID: pgtest.NewID(), Tenant: tenant.Tenant{ID: k.Tenant}, Payload: json.RawMessage(`{"order":7}`)}
	s := saga.NewSaga{Saga: saga.New(spec, k.def, 1, new(int64(1)), pgtest.Now(), time.Minute)}
	if r, err := k.sagas.Create(k.t.Context(), []saga.NewSaga{s}); err != nil || r[0].Created != saga.Stored {
		k.t.Fatal(r, err)
	}
	return k.play(saga.NewInstance(s.Saga, k.def), events...)
}

func (k *jobSagas) play(run saga.Instance, events ...saga.Event) saga.Instance {
	k.t.Helper()
	for _, e := range events {
		c := pgtest.Applied(run, e)
		if c.Run != nil {
			c = c.Released(pgtest.Now()) // as the engine does
		}
		pgtest.Commit(k.t, k.sagas, []saga.Change{c})
		run = c.After
	}
	return run
}

// read returns the current state of a saga.
func (k *jobSagas) read(id uuid.UUID) saga.Instance {
	k.t.Helper()
	l, err := k.sagas.Load(k.t.Context(), []saga.Ref{{Tenant: k.Tenant, ID: id}})
	if err != nil || len(l) != 1 {
		k.t.Fatal(l, err)
	}
	return saga.Rebuild(l[0].Saga, k.def, l[0].Logs)
}

// workerStarts makes a worker start the run that a saga waits for.
func (k *jobSagas) workerStarts(run saga.Instance) jobrun.Run {
	k.t.Helper()
	id := run.JobRun()
	if id == uuid.Nil {
		k.t.Fatalf("the saga is %s at step %d and waits for no run", run.State, run.CurrentStep)
	}
	for _, set := range []string{
		`state = 'ASSIGNED', version = version + 1, attempt = attempt + 1, assigned_worker_id = gen_random_uuid(), assigned_at = now(),
		 lease_token = gen_random_uuid(), lease_expires_at = now() + interval '1 hour', leader_epoch = 1`,
		`state = 'RUNNING', version = version + 1, started_at = now()`,
	} {
		pgtest.Execute(k.t, k.DB.SQL(), `UPDATE jobs.job_runs SET `+set+` WHERE id = $1 OR retry_of_run_id = $1 AND state <> 'RUNNING'`, id)
	}
	return k.GetRun(k.t, id)
}

// finish makes the worker report the end of a run, and returns the saga's state afterwards.
func (k *jobSagas) finish(r jobrun.Run, value string, failure *jobrun.Error) saga.Instance {
	k.t.Helper()
	done,
		err := k.Finish(k.t.Context(),
		[]jobrun.Result{{TenantID: k.Tenant, RunID: r.ID, Fence: r.Fence(), Value: json.RawMessage(value), Error: failure}})
	if err != nil || done[0].Err != nil {
		k.t.Fatal(done, err)
	}
	return k.read(r.SagaID)
}

func (k *jobSagas) logs(id uuid.UUID) string {
	k.t.Helper()
	logs, err := k.sagas.StepLogs(k.t.Context(), k.Tenant, id, saga.Logs{})
	if err != nil {
		k.t.Fatal(err)
	}
	var out []string
	for _, l := range logs {
		out = append(out, l.StepName+" "+string(l.Action)+" "+string(l.Status))
	}
	return strings.Join(out, ", ")
}

func TestAStepThatIsAJobBeginsAndEndsWithItsRun(t *testing.T) {
	t.Parallel()
	k := newJobSagas(t)
	run := k.begun(pgtest.Answer(`{"id":"r-1"}`))
	if run.State != saga.Running || run.LeaseOwner != nil || run.NextRunAt == nil ||
		!run.NextRunAt.After(pgtest.Now().Add(30*time.Minute)) {
		t.Errorf("the saga is %s, owned by %v, due at %v; it should wait without an owner", run.State, run.LeaseOwner, run.NextRunAt)
	}
	r := k.workerStarts(k.read(run.ID))
	want := r
	want.Trigger, want.SagaID, want.SagaStep, want.SagaAction = jobrun.BySaga, run.ID, 1, "EXECUTE"
	want.IdempotencyKey = jobrun.SagaKey(uuid.Nil, run.ID, 1, "EXECUTE", 1)
	if diff := cmp.Diff(want, r); diff != "" {
		t.Errorf("the run (-want +got):\n%s", diff)
	}
	if args := pgtest.Compact(t, r.Args); args != `{"order":7,"reserved":"r-1"}` {
		t.Errorf("the run has the arguments %s", args)
	}
	run = k.finish(r, `{"settled": true}`, nil)
	if run.CurrentStep != 2 || run.State.Terminal() || run.LeaseOwner != nil {
		t.Errorf("the saga is %s at step %d, owned by %v", run.State, run.CurrentStep, run.LeaseOwner)
	}
	if run.NextRunAt == nil || run.NextRunAt.After(pgtest.Now().Add(time.Second)) {
		t.Errorf("the saga is due at %v; it should be due for step 2", run.NextRunAt)
	}
	if out := string(run.Outputs()["settle"]); out != `{"settled":true}` {
		t.Errorf("the output is %s", out)
	}
	if got, want := k.logs(run.ID), "reserve EXECUTE SUCCESS, settle EXECUTE SUCCESS"; got != want {
		t.Errorf("logs: %s; want %s", got, want)
	}
}

func TestAJobThatGivesUpCompensatesItsSaga(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name    string
		lost    int
		undoing int // the step that is compensated first
	}{
		{"it failed for sure", 0, 0},
		{"an attempt was lost before", 1, 1},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			k := newJobSagas(t)
			r := k.workerStarts(k.begun(pgtest.Answer(`{}`)))
			pgtest.Execute(t, k.DB.SQL(), `UPDATE jobs.job_runs SET losses_used = $2 WHERE id = $1`, r.ID, tt.lost)
			run := k.finish(r, "", &jobrun.Error{Code: "NO_FUNDS", Message: "the account is empty"})
			if run.State != saga.Compensating || run.CurrentStep != tt.undoing || run.Error == nil ||
				!strings.Contains(run.Error.Message, "the account is empty") {
				t.Errorf("the saga is %s at step %d with %+v", run.State, run.CurrentStep, run.Error)
			}
			if tt.undoing == 1 && run.JobRun() == uuid.Nil {
				t.Error("the compensating job was not started")
			}
		})
	}
}

func TestACompensationMayBeAJob(t *testing.T) {
	t.Parallel()
	k := newJobSagas(t)
	run := k.begun(pgtest.Answer(`{}`))
	run = k.finish(k.workerStarts(run), `{"n":1}`, nil)
	run = k.play(run, pgtest.Refusal("no"))
	r := k.workerStarts(k.read(run.ID))
	if run.State != saga.Compensating || r.CommandName != "unsettle" || r.SagaAction != "COMPENSATE" ||
		!strings.Contains(pgtest.Compact(t, r.Args), `"output":{"n":1}`) {
		t.Fatalf("the saga is %s, the run %+v with %s", run.State, r, r.Args)
	}
	run = k.finish(r, "", nil)
	if run.State != saga.Compensating || run.CurrentStep != 0 {
		t.Errorf("the saga is %s at step %d; want step 0 to be compensated", run.State, run.CurrentStep)
	}
}

func TestACompensationJobThatGivesUpLeavesOneLetter(t *testing.T) {
	t.Parallel()
	k := newJobSagas(t)
	run := k.finish(k.workerStarts(k.begun(pgtest.Answer(`{}`))), `{}`, nil)
	run = k.play(run, pgtest.Refusal("no"))
	run = k.finish(k.workerStarts(k.read(run.ID)), "", &jobrun.Error{Code: "CLOSED", Message: "the book is closed"})
	if run.State != saga.Failed || !run.NeedsAttention {
		t.Fatalf("the saga is %s", run.State)
	}
	letters := dlqdb.NewLetters(k.DB, dlq.DefaultPolicy)
	found, err := letters.List(t.Context(), k.Tenant, dlq.Query{ByTime: page.ByTime{Limit: 10}})
	if err != nil || len(found.Items) != 1 || found.Items[0].ID != run.DeadLetter() ||
		found.Items[0].Source != dlq.FromSaga {
		t.Fatalf("letters: %+v, %v; want only that of the saga", found.Items, err)
	}
	// Its retry is another run. When that run succeeds, the letter is resolved with it.
	run = k.play(run, pgtest.Resume())
	run = k.finish(k.workerStarts(k.read(run.ID)), `{}`, nil)
	l, err := letters.Get(t.Context(), k.Tenant, found.Items[0].ID)
	if err != nil || l.Status != dlq.Resolved || l.Resolution != dlq.Confirmed || run.DeadLetter() != uuid.Nil {
		t.Errorf("the letter is %s, %s, the saga's is %s: %v", l.Status, l.Resolution, run.DeadLetter(), err)
	}
}

func TestACompensatingSagaWaitsForItsRun(t *testing.T) {
	t.Parallel()
	k := newJobSagas(t)
	run := k.begun(pgtest.Answer(`{}`))
	r := k.workerStarts(run)
	run = k.play(run, saga.CancelRequested{By: "op"})
	if run.State != saga.Running || run.NextRunAt.After(pgtest.Now()) || run.Next(pgtest.Now()) != saga.CheckJobRun {
		t.Fatalf("the saga is %s, due at %v", run.State, run.NextRunAt)
	}
	c := run.JobCall(pgtest.Now())
	if !c.Stop || c.ID != r.ID {
		t.Errorf("the call for the run is %+v", c)
	}
	run = k.play(run, saga.JobRunChecked{Stopping: true})
	if run.Next(pgtest.Now()) != saga.Wait {
		t.Error("the saga is due again at once")
	}
	run = k.finish(r, `{}`, nil) // the run succeeded anyway
	if run.State != saga.Compensating || run.CurrentStep != 1 || run.JobRun() == uuid.Nil {
		t.Errorf("the saga is %s at step %d; want the run's effects to be compensated", run.State, run.CurrentStep)
	}
}

func TestARunThatEndsTwiceMovesItsSagaOnce(t *testing.T) {
	t.Parallel()
	k := newJobSagas(t)
	r := k.workerStarts(k.begun(pgtest.Answer(`{}`)))
	run := k.finish(r, `{}`, nil)
	again := k.finish(r, `{}`, nil)
	if again.Version != run.Version || again.CurrentStep != 2 {
		t.Errorf("the saga is at version %d, step %d; it was at %d", again.Version, again.CurrentStep, run.Version)
	}
}

// If the definition cannot be read, no run is created. The step fails, and the answer of the
// previous step, which came with the same change, is stored.
func TestASagaWhoseJobHasNoUsableDefinitionFailsItsStep(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ code, message, damage string }{
		{"job_not_defined", "there is no job definition", `UPDATE jobs.job_definitions SET deleted_at = now()`},
		{"job_definition_unreadable", "was damaged", `UPDATE jobs.job_definitions SET spec = '{"schedule":5}'`},
		{"job_definition_unreadable", "was damaged", `UPDATE jobs.job_definitions SET spec = '[]'`},
	} {
		t.Run(tt.damage, func(t *testing.T) {
			t.Parallel()
			k := newJobSagas(t)
			if _, err := k.DB.Write.ExecContext(t.Context(), tt.damage); err != nil {
				t.Fatal(err)
			}
			run := k.begun(pgtest.Answer(`{}`))
			run = k.read(run.ID)
			if run.NextRunAt.After(pgtest.Now()) || run.Next(pgtest.Now()) != saga.CheckJobRun {
				t.Fatalf("the saga is due at %v", run.NextRunAt)
			}
			o, err := k.sagas.CheckJobRun(t.Context(), run.JobCall(pgtest.Now()), nil)
			if err != nil || o == nil || o.Verdict != saga.Refused || o.Code != tt.code ||
				!strings.Contains(o.Message, tt.message) {
				t.Fatalf("checking its run returns %+v, %v", o, err)
			}
			run = k.play(run, saga.Answered{Outcome: *o})
			if run.State != saga.Compensating || run.CurrentStep != 0 {
				t.Errorf("the saga is %s at step %d", run.State, run.CurrentStep)
			}
		})
	}
}

func TestATakeoverLeavesJobRunsAlone(t *testing.T) {
	t.Parallel()
	k := newJobSagas(t)
	run := k.begun(pgtest.Answer(`{}`))
	r := k.workerStarts(run)
	dead, err := k.sagas.Register(t.Context(), "dead", "", time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	pgtest.Execute(t, k.DB.SQL(), `UPDATE saga.saga_states SET next_run_at = now() WHERE id = $1`, run.ID)
	if got, err := k.sagas.Claim(t.Context(), dead, 10); err != nil || len(got) != 1 {
		t.Fatal(got, err)
	}
	if err := k.sagas.Resign(t.Context(), dead); err != nil {
		t.Fatal(err)
	}
	next, err := k.sagas.Register(t.Context(), "next", "", time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	got, err := k.sagas.Claim(t.Context(), next, 10)
	if err != nil || len(got) != 1 {
		t.Fatal(got, err)
	}
	taken := saga.Rebuild(got[0].Saga, k.def, got[0].Logs)
	if taken.JobRun() != r.ID || taken.Attempt != 1 || taken.Uncertain || taken.Next(pgtest.Now()) != saga.CheckJobRun {
		t.Fatalf("after the takeover the saga waits for %s, attempt %d; want %s", taken.JobRun(), taken.Attempt, r.ID)
	}
	if run := k.finish(r, `{}`, nil); run.CurrentStep != 2 {
		t.Errorf("the saga is at step %d", run.CurrentStep)
	}
}
