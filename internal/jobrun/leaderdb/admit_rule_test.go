package leaderdb_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"

	"github.com/skald-saga/skald/internal/jobrun"
	"github.com/skald-saga/skald/internal/jobrun/jobdb"
	"github.com/skald-saga/skald/internal/test/pgtest"
)

// change is the effect of a decision on a run, with the events about it.
type change struct {
	State                    jobrun.State
	Version                  int64
	Losses, Failures         int
	Doubt                    jobrun.Continuation
	Confirm, Backoff         time.Duration // how long the run may be confirmed and how long it waits; 0: unchanged
	Admitted, LeaseOver      bool
	ErrorCode, Attempt, Told string
	Stop                     string // why its worker was asked to stop it
}

// about returns the change of a run, without events.
func about(before, r *jobrun.Run, now time.Time) change {
	g := change{
		State: r.State, Version: r.Version, Losses: r.LossesUsed, Failures: r.FailuresUsed, Doubt: r.Continuation,
		Admitted:  r.AdmittedAt != nil,
		LeaseOver: r.LeaseExpiresAt != nil && !r.LeaseExpiresAt.After(now),
	}
	if r.CancelRequestedAt != nil {
		g.Stop = "because " + r.CancelReason
	}
	if r.Error != nil {
		g.ErrorCode = r.Error.Code + ": " + r.Error.Message
	}
	if r.ConfirmDeadlineAt != nil && before.ConfirmDeadlineAt == nil {
		g.Confirm = r.ConfirmDeadlineAt.Sub(*r.ConfirmStartedAt).Round(time.Second)
	}
	if !r.AvailableAt.Equal(before.AvailableAt) {
		g.Backoff = r.AvailableAt.Sub(r.UpdatedAt).Round(time.Second)
	}
	return g
}

func tellOf(kind jobrun.EventKind, from, to jobrun.State, version, epoch int64, reason string) string {
	return fmt.Sprintf("%s %s→%s v%d e%d: %s", kind, from, to, version, epoch, reason)
}

// ruled returns the change that the rule makes.
func ruled(t *testing.T, r jobrun.Run, in jobrun.Event, m jobrun.Moment) change {
	t.Helper()
	c, err := jobrun.Apply(jobrun.Instance{Run: r, Spec: &jobrun.Spec{}}, in, m)
	if err != nil {
		t.Fatal(err)
	}
	g := about(&r, &c.After, m.Now)
	if c.Attempt != nil {
		g.Attempt = c.Attempt.Outcome + ": " + c.Attempt.Reason
	}
	for _, e := range c.Events {
		g.Told = tellOf(e.Kind, e.From, e.To, e.Version, e.Epoch, e.Reason)
	}
	return g
}

// stored returns the change that a statement has made, and the events stored since.
func (s sweeping) stored(t *testing.T, before jobrun.Run, told int64, now time.Time) change {
	t.Helper()
	r := s.GetRun(t, before.ID)
	g := about(&before, &r, now)
	if r.Version == before.Version {
		return g
	}
	g.Attempt = pgtest.Ask[string](t, s.see, `SELECT coalesce(max(outcome || ': ' || reason), '') FROM jobs.job_run_attempts WHERE run_id = $1 AND ended_at >= $2`, r.ID, now)
	var kind, from, to, reason string
	var version, epoch int64
	err := s.see.QueryRowContext(t.Context(), `SELECT coalesce(max(kind), ''), coalesce(max(from_state), ''), coalesce(max(to_state), ''), coalesce(max(version), 0),
		coalesce(max(epoch), 0), coalesce(max(reason), '') FROM jobs.job_run_events WHERE run_id = $1 AND id > $2`, r.ID, told).Scan(&kind, &from, &to, &version, &epoch, &reason)
	if err != nil {
		t.Fatal(err)
	}
	if kind != "" {
		g.Told = tellOf(jobrun.EventKind(kind), jobrun.State(from), jobrun.State(to), version, epoch, reason)
	}
	return g
}

// everyKind creates runs of every kind that sweeps distinguish.
func (s sweeping) everyKind(t *testing.T) (all []uuid.UUID) {
	t.Helper()
	for _, state := range []jobrun.State{jobrun.Pending, jobrun.Assigned, jobrun.Running, "CONFIRMING", jobrun.Orphaned,
		jobrun.Succeeded} {
		for _, late := range []bool{false, true} {
			for _, asked := range []string{"", "1 second", "1 hour"} {
				for _, losses := range []int{0, 5} {
					for _, timeout := range []int{0, 1_200_000} { // below and above ago
						all = append(all, s.kind(t, state, late, asked, losses, timeout))
					}
				}
			}
		}
	}
	return all
}

// kind creates a run of one kind.
func (s sweeping) kind(t *testing.T, state jobrun.State, late bool, asked string, losses, timeout int) uuid.UUID {
	t.Helper()
	r := s.NewRun(s.Job)
	r.TimeoutMS = int64(timeout)
	id := s.CreateAll(t, r)[0].ID
	lease := map[bool]time.Duration{true: -time.Hour, false: time.Hour}[late]
	switch state {
	case jobrun.Pending:
		return id
	case jobrun.Assigned:
		s.assign(t, id, lease)
		return id
	}
	s.start(t, id, lease, map[bool]time.Duration{true: time.Hour, false: 0}[late])
	s.put(t, id, fmt.Sprintf(`losses_used = %d`, losses))
	if asked != "" {
		s.put(t, id, `cancel_requested_at = now() - interval '`+asked+`', cancel_reason = 'enough'`)
	}
	switch state {
	case "CONFIRMING":
		s.put(t, id, fmt.Sprintf(`continuation_state = 'CONFIRMING', continuation_check_started_at = now() - interval '2 hours',
			continuation_check_deadline_at = now() + interval '%d seconds'`, int(lease.Seconds())))
	case jobrun.Orphaned:
		s.put(t, id, `state = 'ORPHANED', version = version + 1, admitted_at = NULL`)
	case jobrun.Succeeded:
		s.put(t, id, `state = 'SUCCEEDED', version = version + 1, finished_at = now()`)
	}
	return id
}

// askAll asks the workers of all these runs to stop them, as the sweep of keys does with replaced
// runs.
func (s sweeping) askAll(
	all []uuid.UUID) func(context.Context, jobrun.Term, jobrun.Settings, int) (jobrun.Swept, error) {
	return func(ctx context.Context, t jobrun.Term, _ jobrun.Settings, _ int) (jobrun.Swept, error) {
		var asked []jobrun.Admission
		for _, id := range all {
			asked = append(asked, jobrun.Admission{ID: id, Step: jobrun.StepAskCancel, Reason: "replaced"})
		}
		n, err := s.AskToStop(ctx, t, asked)
		return jobrun.Swept{Moved: n}, err
	}
}

// TestSweepsFollowTheRules compares the change that each sweep makes to every kind of run with the
// change that jobrun.Apply makes.
func TestSweepsFollowTheRules(t *testing.T) {
	t.Parallel()
	s := newSweeping(t)
	// These values are between "a second ago" and "an hour ago", however slow the machine is.
	s.set = jobrun.NewSettings(1, map[string]float64{jobrun.CancelGrace: 1200})
	s.Job = s.Define(t, func(d *jobrun.Definition) { d.Spec.Retry.MaxAttempts = 1 })
	all := s.everyKind(t)
	lease := jobrun.LeaseExpired{Settings: s.set}
	for _, sweep := range []struct {
		name string
		run  func(context.Context, jobrun.Term, jobrun.Settings, int) (jobrun.Swept, error)
		in   jobrun.Event
		of   func(*jobrun.Run) bool // the runs to which the sweep applies
	}{
		{"orphan", s.Orphan, lease, func(r *jobrun.Run) bool {
			return r.State == jobrun.Assigned || r.Continuation == jobrun.Confirming
		}},
		{"doubt", s.Doubt, lease, func(r *jobrun.Run) bool {
			return r.State == jobrun.Running && r.Continuation != jobrun.Confirming
		}},
		{"lose", s.Lose, jobrun.LossesExhausted{}, func(*jobrun.Run) bool { return true }},
		{"time out", s.TimeOut, jobrun.TimeoutPassed{Settings: s.set}, func(*jobrun.Run) bool { return true }},
		{"ask to stop", s.askAll(all), jobrun.Decided{Step: jobrun.StepAskCancel, Reason: "replaced"}, func(r *jobrun.Run) bool { return r.State == jobrun.Running }},
		{"end canceled", s.EndCanceled, jobrun.CancelExpired{Settings: s.set}, func(*jobrun.Run) bool { return true }},
	} {
		before, want := make([]jobrun.Run, len(all)), make([]change, len(all))
		told := pgtest.Ask[int64](t, s.see, `SELECT coalesce(max(id), 0) FROM jobs.job_run_events`)
		now := pgtest.Ask[time.Time](t, s.see, `SELECT clock_timestamp()`)
		changed := 0
		for i, id := range all {
			before[i] = s.GetRun(t, id)
			want[i] = about(&before[i], &before[i], now)
			if sweep.of(&before[i]) {
				want[i] = ruled(t, before[i], sweep.in, jobrun.Moment{Now: now, NewID: pgtest.NewID, Epoch: s.term.Epoch})
			}
			if want[i].Version != before[i].Version {
				changed++
			}
		}
		moves(t, changed)(sweep.run(t.Context(), s.term, s.set, 1000))
		for i := range all {
			if diff := cmp.Diff(want[i], s.stored(t, before[i], told, now)); diff != "" {
				t.Fatalf("%s: %s since %v, in doubt %s until %v, asked to stop at %v, lost %d times (-rule +sweep):\n%s", sweep.name, before[i].State,
					before[i].StartedAt, before[i].Continuation, before[i].ConfirmDeadlineAt, before[i].CancelRequestedAt,
					before[i].LossesUsed, diff)
			}
		}
		if changed == 0 {
			t.Errorf("%s: nothing was tried", sweep.name)
		}
	}
}

// TestDetachingAWorkerFollowsTheRules makes the same comparison for the statement that detaches a
// worker.
func TestDetachingAWorkerFollowsTheRules(t *testing.T) {
	t.Parallel()
	s := newSweeping(t)
	w := s.Jobs.NewWorker(t)
	made := s.CreateAll(t, s.NewRun(s.Job), s.NewRun(s.Job), s.NewRun(s.Job), s.NewRun(s.Job))
	s.ClaimRuns(t, w)
	for _, r := range made[1:] {
		s.put(t, r.ID, `state = 'RUNNING', version = version + 1, started_at = now()`)
	}
	s.put(t, made[2].ID, `lease_expires_at = now() - interval '1 minute'`)
	s.put(t, made[3].ID, `continuation_state = 'CONFIRMING', continuation_check_started_at = now() - interval '1 minute', continuation_check_deadline_at = now() + interval '1 hour'`)
	told := pgtest.Ask[int64](t, s.see, `SELECT coalesce(max(id), 0) FROM jobs.job_run_events`)
	now := pgtest.Ask[time.Time](t, s.see, `SELECT clock_timestamp()`)
	var before []jobrun.Run
	for _, r := range made {
		before = append(before, s.GetRun(t, r.ID))
	}
	workers := jobdb.NewWorkers(s.DB, pgtest.Defaults)
	if _, err := workers.Move(t.Context(), s.Tenant, w, jobrun.WorkerDetached, s.Action(before[0])); err != nil {
		t.Fatal(err)
	}
	later := pgtest.Ask[time.Time](t, s.see, `SELECT clock_timestamp()`)
	for _, r := range before {
		want := ruled(t, r, jobrun.Detached{Settings: s.set, Actor: "ada"}, jobrun.Moment{Now: now, NewID: pgtest.NewID})
		got := s.stored(t, r, told, later)
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s, in doubt %s (-rule +statement):\n%s", r.State, r.Continuation, diff)
		}
	}
}
