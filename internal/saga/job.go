package saga

import (
	"cmp"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/skald-saga/skald/internal/retry"
)

// A step that is a job run (decision 0039) is not driven while the run executes. The change that
// reaches the step requests the run and records it as a RUNNING step log. The transaction that
// finally ends the run also writes the outcome. Until then the saga has no owner and is due when
// the run must be checked, so that it is never forgotten (invariant I1) and nothing polls.

// outcomeJob is the outcome code of a step log whose job run has not ended. A node that takes over
// the saga leaves that log unchanged.
const outcomeJob = "job_run"

// The intervals at which a run in flight is checked, and a run that was asked to stop.
const (
	lookEvery     = time.Hour
	lookStopping  = time.Minute
	codeStepLimit = "step_timeout"
)

// JobCall is the job run in flight.
type JobCall struct {
	ID     uuid.UUID
	Job    string
	Tenant uuid.UUID
	SagaID uuid.UUID
	Step   string
	Args   []byte
	Begun  time.Time
	Now    time.Time
	// Stop means that the run must be canceled, for the reason Why: the saga compensates, an
	// operator has decided about the step, or the step has timed out.
	Stop bool
	Why  string
}

// JobCall returns the job run in flight. Use it only when Next returns CheckJobRun.
func (r *Instance) JobCall(now time.Time) JobCall {
	step := &r.Def.Steps[r.CurrentStep]
	c := JobCall{
		ID: r.run, Job: r.job().Job, Tenant: r.Tenant.ID, SagaID: r.ID, Step: step.Name,
		Args: r.Call(Defaults{}).Body, Begun: r.runBegun, Now: now,
	}
	limit := r.stepLimit()
	switch {
	case r.Flagged() && r.State == Compensating:
		c.Stop, c.Why = true, "the deadline of the saga's compensation has passed"
	case r.Flagged():
		c.Stop, c.Why = true, "the saga is being compensated: "+string(*r.EndCause)
	case r.ordered():
		c.Stop, c.Why = true, "an operator decided about the saga's step"
	case !limit.IsZero() && !limit.After(now):
		c.Stop, c.Why = true, codeStepLimit
	}
	return c
}

// JobRun returns the id of the job run in flight, or uuid.Nil if there is none.
func (r *Instance) JobRun() uuid.UUID {
	if !r.recorded || r.State.Terminal() || r.job() == nil {
		return uuid.Nil
	}
	return r.run
}

// stepLimit returns when the current step times out; zero means never.
func (r *Instance) stepLimit() time.Time {
	ms := r.Def.Steps[r.CurrentStep].TimeoutMS
	if ms == 0 || r.State == Compensating {
		return time.Time{}
	}
	return r.runBegun.Add(time.Duration(ms) * time.Millisecond)
}

// lookAt returns the time of the next check of the run in flight.
func (r *Instance) lookAt(now time.Time) *time.Time {
	at := now.Add(lookEvery)
	if limit := r.stepLimit(); limit.After(now) && limit.Before(at) {
		at = limit
	}
	return new(at.Truncate(time.Microsecond))
}

// begun starts the current step, which is a job run.
func (d *decision) begun() bool {
	if d.s.State.Terminal() || d.s.Attempt == 0 || d.After.job() == nil || d.After.recorded || d.After.Flagged() ||
		d.After.ordered() {
		return false
	}
	if d.s.State != Compensating {
		d.dispatched(d.m.Now)
	}
	d.s.NextRunAt = nil
	return true
}

// runIsNext reports whether the job run of the current step must be requested.
func (r *Instance) runIsNext(now time.Time) bool {
	return (r.State == Running || r.State == Compensating) && !r.recorded && r.SuspendedAt == nil && r.job() != nil &&
		!r.Flagged() && !r.ordered() && !r.repeats() && r.Attempt != 0 && (r.NextRunAt == nil || !r.NextRunAt.After(now))
}

// beginRun requests the job run of the current step, if the step is a job that has not been
// requested yet. A step whose arguments exceed the budget fails instead, which may lead to another
// step's run.
func (d *decision) beginRun() {
	r := &d.After
	for {
		if !r.runIsNext(d.m.Now) {
			return
		}
		o, unsendable := r.Unsendable(d.m.Budget, d.m.Now)
		if !unsendable {
			break
		}
		if r.State == Compensating {
			d.undoAnswered(o)
		} else {
			d.stepAnswered(o)
		}
	}
	c := r.Call(Defaults{})
	d.Run = &JobRunRequest{ID: d.m.NewID(), Job: c.By.Job, Args: c.Body, Step: c.Index, Action: c.Action,
		Attempt: c.Attempt}
	d.Logs = append(d.Logs, StepLog{
		ID: d.Run.ID, SagaID: r.ID, StepIndex: c.Index, StepName: c.Step, Action: c.Action, Attempt: c.Attempt,
		Status: LogRunning, Outcome: new(outcomeJob), Request: c.Body, StartedAt: d.m.Now, UpdatedAt: d.m.Now,
	})
	r.recorded, r.run, r.runBegun = true, d.Run.ID, d.m.Now
	d.s.NextRunAt = r.lookAt(d.m.Now)
}

// jobRunChecked records the time of the next check of the run in flight.
func (d *decision) jobRunChecked(e JobRunChecked) bool {
	if d.s.State.Terminal() || !d.After.recorded || d.After.job() == nil {
		return false
	}
	d.s.NextRunAt = d.After.lookAt(d.m.Now)
	if at := d.m.Now.Add(lookStopping); e.Stopping {
		d.s.NextRunAt = &at
	}
	return true
}

// RunEnd describes how the last run of a chain of retries ended.
type RunEnd struct {
	ID     uuid.UUID
	State  string // SUCCEEDED, FAILED, TIMED_OUT, CANCELED or SKIPPED
	Result json.RawMessage
	Error  string // one line; "" means none
	Reason string // the reason for a cancel; "" if none was given
	// Doubted means that an attempt may have had unreported effects, because it was lost or
	// interrupted.
	Doubted bool
	At      time.Time
}

// OutcomeOfRun returns the outcome of the step whose job run has ended. A failure is
// definite: the worker reported it, and the job's own retries are used up. A doubted
// failure may have been applied, so the step is compensated as if it had been.
func OutcomeOfRun(r RunEnd) Outcome {
	o := Outcome{
		Verdict: Refused,
		Class:   retry.Refused,
		Code:    "job_" + strings.ToLower(r.State),
		EndedAt: r.At,
		Last:    true,
	}
	switch r.State {
	case "SUCCEEDED":
		return Outcome{Verdict: Done, Output: r.Result, EndedAt: r.At}
	case "TIMED_OUT":
		o.Class = retry.Timeout
	}
	if r.Doubted {
		o.Verdict = Unknown
		if o.Class == retry.Refused {
			o.Class = retry.Network
		}
	}
	o.Message = fmt.Sprintf("job run %s ended as %s", r.ID, r.State)
	if why := cmp.Or(r.Error, r.Reason); why != "" {
		o.Message += ": " + why
	}
	o.Response = json.RawMessage(fmt.Sprintf(`{"job_run_id":"%s","state":"%s"}`, r.ID, r.State))
	return o
}

// steerRun decides what happens to the job run that the saga was waiting for in before. The
// periodic check (CheckJobRun) repeats the request, so it also reaches a run that the saga was not
// yet waiting for at the time of the decision.
func (d *decision) steerRun(before *Instance) {
	id := before.JobRun()
	if id == uuid.Nil || d.Steer != nil || d.After.JobRun() != id {
		return // the saga ended by force (abandon), or the run has ended
	}
	was, is := before.JobCall(d.m.Now), d.After.JobCall(d.m.Now)
	s := RunSteer{ID: id, Stop: is.Stop && !was.Stop, Actor: d.m.Actor}
	if s.Stop {
		s.Why = is.Why
	}
	if held := d.s.SuspendedAt != nil; held != (before.SuspendedAt != nil) {
		s.Hold = &held
	}
	if s.Stop || s.Hold != nil {
		d.Steer = &s
	}
}
