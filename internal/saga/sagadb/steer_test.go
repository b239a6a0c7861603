package sagadb_test

import (
	"testing"

	"github.com/google/uuid"

	"github.com/skald-saga/skald/internal/jobrun"
	"github.com/skald-saga/skald/internal/retry"
	"github.com/skald-saga/skald/internal/saga"
	"github.com/skald-saga/skald/internal/saga/workflow"
	"github.com/skald-saga/skald/internal/test/pgtest"
)

// endRun has the events by which an operator ends the run that a saga waits for.
var endRun = map[string]struct {
	event saga.Event
	state saga.State // once the run has ended without a worker
	step  int
}{
	"completed by force": {saga.CompletionForced{By: "op"}, saga.Completed, 3},
	"forced to fail":     {saga.FailureForced{By: "op"}, saga.Failed, 1},
	"completed by hand":  {saga.StepOrdered{Step: 1, Order: saga.Order{Verb: saga.CompleteStep}}, saga.StepCompleted, 2},
	"failed by hand":     {saga.StepOrdered{Step: 1, Order: saga.Order{Verb: saga.FailStep}}, saga.Compensating, 0},
	"skipped by hand":    {saga.StepOrdered{Step: 1, Order: saga.Order{Verb: saga.SkipStep}}, saga.StepCompleted, 2},
	"canceled":           {saga.CancelRequested{By: "op"}, saga.Compensating, 0},
}

func TestAnOperatorsDecisionEndsTheRunInItsTransaction(t *testing.T) {
	t.Parallel()
	for name, tt := range endRun {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for _, worked := range []string{"PENDING", "ASSIGNED", "RUNNING"} {
				k := newJobSagas(t)
				run := k.begun(pgtest.Answer(`{}`))
				id := run.JobRun()
				switch worked {
				case "ASSIGNED":
					k.Lead(t, 1)
					if got := k.ClaimRuns(t, k.NewWorker(t)); len(got) != 1 {
						t.Fatalf("claimed %d runs", len(got))
					}
				case "RUNNING":
					k.workerStarts(run)
				}
				k.play(run, tt.event)
				r, run := k.GetRun(t, id), k.read(run.ID)
				if worked == "RUNNING" {
					if r.State != jobrun.Running || r.CancelRequestedAt == nil {
						t.Errorf("%s: the run is %s, to be canceled since %v", worked, r.State, r.CancelRequestedAt)
					}
					if forced := tt.state.Terminal(); run.State.Terminal() != forced {
						t.Errorf("%s: the saga is %s before the run has ended", worked, run.State)
					}
					continue
				}
				if r.State != jobrun.Canceled {
					t.Errorf("%s: the run is %s, want CANCELED", worked, r.State)
				}
				// A run that a worker had may have had effects, so its step is compensated. Because
				// its outcome is unknown, it is compensated first.
				if doubted := worked == "ASSIGNED" && tt.state == saga.Compensating; run.State != tt.state ||
					run.CurrentStep != tt.step && !doubted {
					t.Errorf("%s: the saga is %s at step %d, want %s at %d", worked, run.State, run.CurrentStep, tt.state, tt.step)
				}
			}
		})
	}
}

func TestARefusedChangeLeavesTheRunAlone(t *testing.T) {
	t.Parallel()
	k := newJobSagas(t)
	run := k.begun(pgtest.Answer(`{}`))
	k.play(run, saga.SuspendRequested{})
	late := pgtest.Applied(run, saga.CompletionForced{By: "op"})
	if done, err := k.sagas.Commit(t.Context(), []saga.Change{late}); err != nil || done[0] == nil {
		t.Fatalf("a change of an old version was written: %v", err)
	}
	if r := k.GetRun(t, run.JobRun()); r.State != jobrun.Pending {
		t.Errorf("the run is %s", r.State)
	}
}

// TestASuspendedSagaBeginsNoRun is invariant I15 for steps that are job runs.
func TestASuspendedSagaBeginsNoRun(t *testing.T) {
	t.Parallel()
	k := newJobSagas(t)
	k.Lead(t, 1)
	w := k.NewWorker(t)
	run := k.begun(pgtest.Answer(`{}`))
	run = k.play(run, saga.SuspendRequested{})
	if got := k.ClaimRuns(t, w); len(got) != 0 {
		t.Fatal("a run of a suspended saga was claimed")
	}
	run = k.play(run, saga.UnsuspendRequested{})
	if got := k.ClaimRuns(t, w); len(got) != 1 || got[0].Run.ID != run.JobRun() {
		t.Fatalf("after the saga was resumed %d runs were claimed", len(got))
	}
}

func TestARunOfASuspendedSagaEndsButIsNotRetriedBeforeItIsResumed(t *testing.T) {
	t.Parallel()
	k := newJobSagas(t, func(d *workflow.Definition) { d.Steps[1].Action.Job = "patient" })
	k.Define(t, func(d *jobrun.Definition) {
		d.Name, d.Spec.CommandName, d.Spec.Retry = "patient", "patient", retry.Policy{MaxAttempts: 3, InitialIntervalMS: 1,
			MaxIntervalMS: 1, Multiplier: 1}
	})
	k.Lead(t, 1)
	w := k.NewWorker(t)
	run := k.begun(pgtest.Answer(`{}`))
	r := k.workerStarts(run)
	run = k.play(run, saga.SuspendRequested{})
	after := k.finish(r, "", &jobrun.Error{Code: "BUSY", Message: "not now", Retryable: true})
	if after.JobRun() != run.JobRun() {
		t.Fatalf("the saga is %s and waits for %s", after.State, after.JobRun())
	}
	var next uuid.UUID
	if err := k.DB.SQL().QueryRowContext(t.Context(), `SELECT id FROM jobs.job_runs WHERE retry_of_run_id = $1`, r.ID).Scan(&next); err != nil {
		t.Fatal(err)
	}
	pgtest.Execute(t, k.DB.SQL(), `UPDATE jobs.job_runs SET available_at = now(), admitted_at = now() WHERE id = $1`, next) // as the leader does
	if got := k.ClaimRuns(t, w); len(got) != 0 {
		t.Fatal("the retry of a suspended saga's run was claimed")
	}
	k.play(after, saga.UnsuspendRequested{})
	if got := k.ClaimRuns(t, w); len(got) != 1 || got[0].Run.ID != next {
		t.Fatalf("after the saga was resumed %d runs were claimed", len(got))
	}
}
