package jobdb_test

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/skald-saga/skald/internal/fault"
	"github.com/skald-saga/skald/internal/jobrun"
	"github.com/skald-saga/skald/internal/secret/envelope"
	"github.com/skald-saga/skald/internal/test/pgtest"
)

func TestARunIsReadAsItWasCreated(t *testing.T) {
	t.Parallel()
	for name, keys := range map[string]*envelope.Keyring{"plain": nil, "sealed": pgtest.Keyring(t, pgtest.KeyOne)} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			j := pgtest.NewSealedJobs(t, keys)
			d := j.Define(t, func(d *jobrun.Definition) {
				d.Spec.Labels, d.Spec.Requires = map[string]string{"team": "a \"b\", c", "x": ""}, map[string]string{"gpu": "yes"}
				d.Spec.Concurrency, d.Spec.Priority, d.Spec.TimeoutMS, d.Spec.Queue = jobrun.Queue, -7, 1500, "slow"
			})
			r := j.NewRun(d, func(a *jobrun.Request) {
				a.Args, a.SagaID, a.SagaStep, a.SagaAction = json.RawMessage(`{"a": [1, "$skald_"]}`), pgtest.NewID(), 0, "EXECUTE"
				a.EventID, a.LetterID, a.BackfillID, a.RetryOfRunID = pgtest.NewID(), pgtest.NewID(), pgtest.NewID(), pgtest.NewID()
				a.CorrelationID, a.TraceID, a.RetryNumber = "c-1", "t-1", 2
				a.TraceState, a.Baggage = "congo=t61rcWkgMzE", "userId=7"
				a.ScheduledFor = pgtest.Now().Add(time.Hour)
			})
			r.Checkpoint, r.FailuresUsed, r.AdmittedAt = json.RawMessage(`{"at": 5}`), 1, new(pgtest.Now())
			j.CreateAll(t, r)
			got := j.GetRun(t, r.ID)
			if keys != nil { // the decrypted value is canonical
				r.Args, r.Checkpoint = json.RawMessage(`{"a":[1,"$skald_"]}`), json.RawMessage(`{"at":5}`)
			}
			if diff := cmp.Diff(r, got); diff != "" {
				t.Error(diff)
			}
			plain := j.Count(t, `SELECT count(*) FROM jobs.job_runs WHERE args ? 'a' OR checkpoint ? 'at'`)
			if want := map[bool]int{true: 0, false: 1}[keys != nil]; plain != want {
				t.Errorf("%d runs show what they carry, want %d", plain, want)
			}
		})
	}
}

func TestAnIdempotencyKeyMakesOneRun(t *testing.T) {
	t.Parallel()
	j := pgtest.NewJobs(t)
	first := j.CreateAll(t, j.NewRun(j.Job, func(a *jobrun.Request) { a.Key = "manual:k" }))[0]
	again := j.NewRun(j.Job, func(a *jobrun.Request) { a.Key = "manual:k" })
	stored, created, err := j.Create(t.Context(), again, j.Action(again))
	if err != nil || created || stored.ID != first.ID {
		t.Errorf("the same key gives run %s (created %v, %v), want %s", stored.ID, created, err, first.ID)
	}
	if n := j.Count(t, `SELECT count(*) FROM saga.audit_actions WHERE tenant_id = $1`, j.Tenant); n != 1 {
		t.Errorf("%d actions are on record, want 1", n)
	}
}

func TestARequestedRunWithPolicyForbidDoesNotWait(t *testing.T) {
	t.Parallel()
	j := pgtest.NewJobs(t)
	d := j.Define(t, func(d *jobrun.Definition) { d.Spec.Concurrency = jobrun.Forbid })
	later := j.NewRun(d, func(a *jobrun.Request) {
		a.Trigger, a.ScheduledFor, a.Key = jobrun.ByTime, pgtest.Now().Add(time.Minute), "time:1"
	})
	first := j.CreateAll(t, later, j.NewRun(d))[1] // the slot is not due yet and blocks nothing
	second := j.NewRun(d)
	_, _, err := j.Create(t.Context(), second, j.Action(second))
	if !fault.IsCode(err, jobrun.CodeForbidden) {
		t.Fatalf("a second run beside %s: %v", first.ID, err)
	}
	if _, err := j.Run(t.Context(), j.Tenant, second.ID); fault.KindOf(err) != fault.NotFound {
		t.Errorf("the run that was refused: %v", err)
	}
	j.CreateAll(t, j.NewRun(d, func(a *jobrun.Request) { a.Immediate = true }))
}

func TestRunsOfOtherTenantsAreNotFound(t *testing.T) {
	t.Parallel()
	j := pgtest.NewJobs(t)
	r := j.CreateAll(t, j.NewRun(j.Job))[0]
	if _, err := j.Run(t.Context(), pgtest.NewID(), r.ID); !fault.IsCode(err, jobrun.CodeRunNotFound) {
		t.Errorf("read by another tenant: %v", err)
	}
}
