package sagaapi

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"

	"github.com/skald-saga/skald/api"
	"github.com/skald-saga/skald/internal/fault"
	"github.com/skald-saga/skald/internal/httpkit"
	"github.com/skald-saga/skald/internal/saga"
	"github.com/skald-saga/skald/internal/saga/callback"
	"github.com/skald-saga/skald/internal/saga/callback/reported"
	"github.com/skald-saga/skald/internal/saga/certification"
)

// Callbacks holds the dependencies for reports from participants (decision 0163). Fields are
// required unless their comment says otherwise.
type Callbacks struct {
	// Served means that participants can reach the callback URLs. Otherwise no definition may have
	// a rule for deferred answers.
	Served bool
	// Open returns the attempt to which a token belongs. ok is false if this server did not issue
	// it.
	Open func(token string) (a reported.Attempt, ok bool)
	// Examined returns the certification call to which a token belongs. ok is false if this server
	// did not issue it.
	Examined func(token string) (c certification.Callback, ok bool)
	// Inbox stores the reports of participants under certification. nil means that there is none.
	Inbox certification.Inbox
	// Address fills in the destination of an attempt's call that names its participant. nil means
	// that no participants are registered.
	Address func(context.Context, *saga.Call) (known bool, err error)
	// Outcome returns the outcome that a report gives to its call. The error is a *reported.Unfit
	// if the report cannot be stored.
	Outcome func(context.Context, *saga.Call, reported.Result, json.RawMessage) (saga.Outcome, error)
	// Progress returns the message of a call's heartbeat in the form in which it is stored.
	Progress func(ctx context.Context, of *saga.Call, message string) (string, error)
	// Moved is called after a report has advanced a saga.
	Moved func(saga.Saga)
	// Counted is called with the result of each report (reported.Counted). It may be nil.
	Counted func(result string)
	// Store knows which sagas wait for a report, and records reports that came too late.
	Store callback.Store
	// MaxBytes limits a report as it does an answer. 0 means that only the general limit for bodies
	// applies.
	MaxBytes int64
}

func (s *Handlers) counted(what string) {
	if s.Callbacks.Counted != nil {
		s.Callbacks.Counted(what)
	}
}

// ReportStep accepts the report of a participant that has deferred its answer.
func (s *Handlers) ReportStep(ctx context.Context, in api.ReportStepRequestObject) (api.Response, error) {
	a, ok := reported.Attempt{}, false
	if s.Callbacks.Open != nil {
		a, ok = s.Callbacks.Open(in.Token)
	}
	if !ok {
		if c, examined := s.examined(in.Token); examined {
			return s.reportExamined(ctx, c)
		}
		return nil, noCallback()
	}
	req := httpkit.RequestOf(ctx)
	rep, err := s.readReport(req.Body, a.Undo)
	if err != nil {
		s.counted(reported.CountedInvalid)
		return nil, err
	}
	ctx, cancel := s.Promised(ctx)
	defer cancel()
	for range httpkit.Reloads(ctx) {
		run, logs, err := s.reportedRun(ctx, a)
		if err != nil {
			return nil, err
		}
		switch standing, first := callback.Standing(&run, a, logs); {
		case standing == reported.Decided:
			s.counted(reported.CountedRepeated)
			return reportAnswer(api.StepReported{Result: api.ReportResult(first), Repeated: new(true)}), nil
		case standing == reported.Early:
			s.counted(reported.CountedEarly)
			return nil, earlyReport()
		case standing == reported.Late, rep.Result == reported.Heartbeat && run.Pending() != "":
			return nil, s.lateReport(ctx, &run, a, rep.Result)
		}
		change, err := s.decideReport(ctx, &run, a, rep)
		if err != nil {
			return nil, err
		}
		switch err := s.Commit(ctx, change); {
		case err == nil:
			return s.reportTaken(change, rep), nil
		case !fault.IsCode(err, saga.CodeStale):
			if err := s.afterUnknownChange(ctx, change, err); err != nil {
				return nil, err
			}
			return s.reportTaken(change, rep), nil
		}
	}
	return nil, httpkit.KeepsChanging("saga")
}

// reportedRun reads the saga of an attempt, whether live or archived.
func (s *Handlers) reportedRun(ctx context.Context, a reported.Attempt) (saga.Instance, []saga.StepLog, error) {
	f, err := s.find(ctx, a.Tenant, a.Saga, saga.Logs{})
	if fault.KindOf(err) == fault.NotFound {
		return saga.Instance{}, nil, noCallback()
	}
	if err != nil {
		return saga.Instance{}, nil, err
	}
	run, err := s.run(ctx, f.saga, f.logs)
	if err == nil && !run.State.Terminal() {
		if unreadable := run.Unreadable(); unreadable != nil { // an operator will repair it; nothing is lost in the meantime
			err = unreadable
		}
	}
	return run, f.logs, err
}

// decideReport returns the change that a report makes to a saga that waits for it.
func (s *Handlers) decideReport(ctx context.Context, run *saga.Instance, a reported.Attempt,
	rep *report) (saga.Change, error) {
	call := run.Call(saga.Defaults{StepTimeout: s.StepTimeout})
	if call.By.Names() != "" && s.Callbacks.Address != nil {
		if _, err := s.Callbacks.Address(ctx, &call); err != nil {
			return saga.Change{}, err
		}
	}
	e := saga.Reported{Attempt: a}
	var err error
	if rep.Result == reported.Heartbeat {
		e.Beat = &reported.Progress{}
		if p := rep.Progress; p != nil {
			e.Beat.Percent = p.Percent
			e.Beat.Message, err = s.Callbacks.Progress(ctx, &call, p.Message)
		}
	} else {
		e.Outcome, err = s.outcomeOfReport(ctx, &call, rep)
	}
	if err != nil {
		return saga.Change{}, err
	}
	m := saga.Moment{Now: s.Now(), NewID: s.NewID, CompensationTimeout: s.CompensationTimeout, Budget: s.Budget,
		Actor: callback.Actor, RequestID: httpkit.RequestOf(ctx).ID}
	change, err := saga.Apply(*run, e, m)
	return change.Released(m.Now), err
}

func (s *Handlers) outcomeOfReport(ctx context.Context, call *saga.Call, rep *report) (saga.Outcome, error) {
	content := rep.Output
	if content == nil {
		content = rep.Error
	}
	o, err := s.Callbacks.Outcome(ctx, call, rep.Result, content)
	if unfit := (*reported.Unfit)(nil); errors.As(err, &unfit) {
		s.counted(reported.CountedInvalid)
		return o, httpkit.SchemaFault(fault.Field{Pointer: unfit.Pointer, Code: "invalid", Message: unfit.Why})
	}
	return o, err
}

// lateReport records a report that came too late, and returns its fault.
func (s *Handlers) lateReport(
	ctx context.Context, run *saga.Instance, a reported.Attempt, result reported.Result,
) error {
	s.counted(reported.CountedLate)
	e := callback.Orphaned(run, a, result, httpkit.RequestOf(ctx).ID, s.Now())
	if err := s.Callbacks.Store.PutOrphan(ctx, &e); err != nil {
		return err
	}
	return fault.New(fault.Conflict, callback.CodeLate,
		"attempt %d of step %q was decided without this report, so the report changes nothing; the saga is %s", a.Number, e.StepName,
		run.State)
}

// reportTaken returns the answer to a stored report.
func (s *Handlers) reportTaken(change saga.Change, rep *report) httpkit.Answer {
	s.counted(string(rep.Result))
	if rep.Result == reported.Heartbeat {
		return reportAnswer(api.StepReported{Result: api.ReportResult(rep.Result), ExpiresAt: change.After.NextRunAt})
	}
	if s.Callbacks.Moved != nil {
		s.Callbacks.Moved(change.After.Saga)
	}
	s.Log.Debug("a participant has reported the outcome of a step",
		slog.String("saga_id", change.After.ID.String()), slog.String("result", string(rep.Result)))
	return reportAnswer(api.StepReported{Result: api.ReportResult(rep.Result), Repeated: new(false)})
}
