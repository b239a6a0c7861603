package postgres_test

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/skald-saga/skald/internal/fault"
	"github.com/skald-saga/skald/internal/jobrun"
	"github.com/skald-saga/skald/internal/secret/envelope"
)

func TestARunIsReadAsItWasMade(t *testing.T) {
	t.Parallel()
	for name, keys := range map[string]*envelope.Keyring{"plain": nil, "sealed": keyring(t, keyOne)} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			j := newSealedJobs(t, keys)
			d := j.define(t, func(d *jobrun.Definition) {
				d.Spec.Labels, d.Spec.Requires = map[string]string{"team": "a \"b\", c", "x": ""}, map[string]string{"gpu": "yes"}
				d.Spec.Concurrency, d.Spec.Priority, d.Spec.TimeoutMS, d.Spec.Queue = jobrun.Queue, -7, 1500, "slow"
			})
			r := j.run(d, func(a *jobrun.Request) {
				a.Args, a.SagaID, a.SagaStep, a.SagaAction = json.RawMessage(`{"a": [1, "$skald_"]}`), newID(), 0, "EXECUTE"
				a.EventID, a.LetterID, a.BackfillID, a.RetryOfRunID = newID(), newID(), newID(), newID()
				a.CorrelationID, a.TraceID, a.RetryNumber = "c-1", "t-1", 2
				a.ScheduledFor = now().Add(time.Hour)
			})
			r.Checkpoint, r.FailuresUsed, r.AdmittedAt = json.RawMessage(`{"at": 5}`), 1, new(now())
			j.create(t, r)
			got := j.get(t, r.ID)
			if keys != nil { // what is opened is canonical
				r.Args, r.Checkpoint = json.RawMessage(`{"a":[1,"$skald_"]}`), json.RawMessage(`{"at":5}`)
			}
			if diff := cmp.Diff(r, got); diff != "" {
				t.Error(diff)
			}
			plain := j.count(t, `SELECT count(*) FROM jobs.job_runs WHERE args ? 'a' OR checkpoint ? 'at'`)
			if want := map[bool]int{true: 0, false: 1}[keys != nil]; plain != want {
				t.Errorf("%d runs show what they carry, want %d", plain, want)
			}
		})
	}
}

func TestAnIdempotencyKeyMakesOneRun(t *testing.T) {
	t.Parallel()
	j := newJobs(t)
	first := j.create(t, j.run(j.job, func(a *jobrun.Request) { a.Key = "manual:k" }))[0]
	again := j.run(j.job, func(a *jobrun.Request) { a.Key = "manual:k" })
	stored, created, err := j.Create(t.Context(), again, j.action(again))
	if err != nil || created || stored.ID != first.ID {
		t.Errorf("the same key gives run %s (created %v, %v), want %s", stored.ID, created, err, first.ID)
	}
	if n := j.count(t, `SELECT count(*) FROM saga.audit_actions WHERE tenant_id = $1`, j.tenant); n != 1 {
		t.Errorf("%d actions are on record, want 1", n)
	}
}

func TestARunThatIsAskedForWaitsForNobodyWhosePolicyIsForbid(t *testing.T) {
	t.Parallel()
	j := newJobs(t)
	d := j.define(t, func(d *jobrun.Definition) { d.Spec.Concurrency = jobrun.Forbid })
	later := j.run(d, func(a *jobrun.Request) {
		a.Trigger, a.ScheduledFor, a.Key = jobrun.ByTime, now().Add(time.Minute), "time:1"
	})
	first := j.create(t, later, j.run(d))[1] // the slot is not due yet, and in nobody's way
	second := j.run(d)
	_, _, err := j.Create(t.Context(), second, j.action(second))
	if !fault.IsCode(err, jobrun.CodeForbidden) {
		t.Fatalf("a second run beside %s: %v", first.ID, err)
	}
	if _, err := j.Run(t.Context(), j.tenant, second.ID); fault.KindOf(err) != fault.NotFound {
		t.Errorf("the run that was refused: %v", err)
	}
	j.create(t, j.run(d, func(a *jobrun.Request) { a.Immediate = true }))
}

func TestOtherTenantsRunsAreNotThere(t *testing.T) {
	t.Parallel()
	j := newJobs(t)
	r := j.create(t, j.run(j.job))[0]
	if _, err := j.Run(t.Context(), newID(), r.ID); !fault.IsCode(err, jobrun.CodeRunNotFound) {
		t.Errorf("read by another tenant: %v", err)
	}
}
