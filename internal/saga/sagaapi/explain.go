package sagaapi

import (
	"context"
	"net/http"

	"github.com/google/uuid"

	"github.com/skald-saga/skald/api"
	"github.com/skald-saga/skald/internal/fault"
	"github.com/skald-saga/skald/internal/httpkit"
	"github.com/skald-saga/skald/internal/saga"
	"github.com/skald-saga/skald/internal/saga/callback/reported"
	"github.com/skald-saga/skald/internal/saga/explain"
	"github.com/skald-saga/skald/internal/saga/registry"
	"github.com/skald-saga/skald/internal/saga/statistics"
)

// dryRunOf returns what an action would do, without executing it.
func (s *Handlers) dryRunOf(ctx context.Context, a action) (httpkit.Answer, error) {
	ctx, cancel := s.Bounded(ctx)
	defer cancel()
	change, before, m, err := s.decide(ctx, a)
	if err != nil {
		return httpkit.Answer{}, err
	}
	f := explain.Following(&change, &before, m, saga.Defaults{})
	out := api.DryRunResult{
		DryRun: true, State: api.SagaState(change.After.State.String()), CurrentStep: change.After.CurrentStep,
		InFlight: &f.InFlight, EndState: api.SagaState(f.EndState.String()), Calls: make([]api.PlannedCall, len(f.Calls)),
	}
	out.DefinitionUnreadable = mark(before.Undefined())
	var named map[string]*registry.Participant
	if !before.Undefined() {
		if named, err = s.participantsOf(ctx, before.Tenant.ID, before.Def); err != nil {
			return httpkit.Answer{}, err
		}
	}
	for i := range f.Calls {
		c := &f.Calls[i]
		if p := named[c.By.Names()]; p != nil { // the saga as it would be now
			p.Settings.Address(&c.Call)
		}
		method, url, _ := c.By.Request()
		out.Calls[i] = api.PlannedCall{
			Step: c.Step, StepIndex: c.Index, Action: api.StepAction(c.Action),
			Method: method, URL: url, Headers: c.Headers(),
		}
		if c.Exact {
			out.Calls[i].Body = c.Recorded()
		}
	}
	if change.After.SuspendedAt != nil {
		out.Suspended = new(true)
	}
	out.Changes = httpkit.PlannedChanges(explain.Changes(&change, &before))
	for i := range change.Audit {
		out.AuditEvents = append(out.AuditEvents, string(change.Audit[i].Type))
	}
	return httpkit.Answer{Status: http.StatusOK, Body: out, ETag: httpkit.ETagOf(before.Version)}, nil
}

// ExplainSaga reports what a saga waits for and who can act on it. For an archived saga it reports
// how it ended.
func (s *Handlers) ExplainSaga(ctx context.Context, in api.ExplainSagaRequestObject) (api.Response, error) {
	ctx, cancel := s.Bounded(ctx)
	defer cancel()
	f, run, err := s.look(ctx, in.SagaID, saga.Logs{Explained: true})
	if err != nil {
		return nil, err
	}
	var owner *api.ExplainedOwner
	alive := true // unless the node is known to be dead
	if run.LeaseOwner != nil {
		owner = &api.ExplainedOwner{LeaseEpoch: run.LeaseEpoch, Alive: true}
		if s.Node != nil {
			n, known, err := s.Node(ctx, *run.LeaseOwner)
			if err != nil {
				return nil, err
			}
			owner.Node, owner.Alive, alive = n.Name, n.Alive, n.Alive
			if known {
				owner.LeaseUntil = &n.LeaseUntil
			}
		}
	}
	var x explain.Explanation
	if f.archivedAt != nil {
		x = explain.Archived(&run, f.logs, *f.archivedAt, s.Now())
	} else {
		x = explain.Saga(&run, f.logs, alive, s.Now())
		if err := s.atGate(ctx, &x, &run); err != nil {
			return nil, err
		}
	}
	out := api.SagaExplanation{
		SagaID: run.ID, Status: api.SagaStatus(run.State.Status()), State: api.SagaState(run.State.String()),
		WaitsFor: api.SagaExplanationWaitsFor(x.WaitsFor), Since: x.Since, NextAt: x.NextAt, Summary: x.Summary,
		Archived: f.archived(), ArchivedAt: f.archivedAt, Owner: owner, Deadline: x.Deadline, Errors: []api.SagaError{},
		Actions: []api.ExplainedAction{}, DefinitionUnreadable: mark(run.Undefined()),
		ContentUnreadable: mark(run.ContentUnreadable),
	}
	if x.Next != "" {
		out.Next = &x.Next
	}
	if x.AtGateOf != "" {
		out.AtGateOf = &x.AtGateOf
	}
	if x.BlockedBy != uuid.Nil {
		out.BlockedBy = &x.BlockedBy
	}
	if st := x.Step; st != nil {
		out.Step = &api.ExplainedStep{Name: st.Name, Index: st.Index, Action: api.StepAction(st.Action),
			Attempts: st.Attempts, MaxAttempts: st.MaxAttempts}
		if st.InDoubt {
			out.Step.InDoubt = new(true)
		}
	}
	if x.Report != nil {
		out.Report = toAPIAwaited(x.Report)
	}
	if f.archivedAt == nil {
		if out.Participant, err = s.participantOf(ctx, &x, &run, f.logs); err != nil {
			return nil, err
		}
	}
	for _, e := range x.Errors {
		out.Errors = append(out.Errors, *ToAPIError(e))
	}
	for _, v := range x.Allowed {
		out.Actions = append(out.Actions, api.ExplainedAction{Action: api.SagaAction(v.Verb), Permission: string(v.Needs),
			Description: v.Description})
	}
	return httpkit.Answer{Status: http.StatusOK, Body: out}, nil
}

func toAPIAwaited(w *reported.Wait) *api.AwaitedReport {
	out := &api.AwaitedReport{Attempt: w.Attempt, Since: w.Since, Until: w.Until}
	if p := w.Progress; p != nil {
		out.HeartbeatAt = &p.At
		if p.Percent != nil || p.Message != "" {
			out.Progress = &api.ReportProgress{Percent: p.Percent}
		}
		if p.Message != "" {
			out.Progress.Message = &p.Message
		}
	}
	return out
}

// atGate corrects the explanation of a saga that waits at a gate.
func (s *Handlers) atGate(ctx context.Context, x *explain.Explanation, run *saga.Instance) error {
	if s.AtGate == nil || x.WaitsFor != explain.WaitsRetry {
		return nil
	}
	g, err := s.AtGate(ctx, run.Ref(), s.Now())
	if err == nil && g != nil {
		x.WaitsAt(run, g)
	}
	return err
}

// participantOf returns the participant that the last call of a live saga failed to reach, and
// whether it answers other sagas.
func (s *Handlers) participantOf(
	ctx context.Context, x *explain.Explanation, run *saga.Instance, logs []saga.StepLog,
) (*api.ExplainedParticipant, error) {
	p, ok := statistics.Unanswered(x, run, logs)
	if !ok {
		return nil, nil
	}
	calls, err := s.Reports.Calls(ctx, run.Tenant.ID,
		statistics.CallsFilter{Host: p.Host, WorkflowName: run.WorkflowName, Except: run.ID})
	if err != nil {
		return nil, err
	}
	p.Hear(calls)
	out := &api.ExplainedParticipant{Host: p.Host, FailedAt: p.FailedAt, Summary: p.Summary(),
		Answers: api.ExplainedParticipantAnswers(p.Reached)}
	if p.Reached == statistics.ReachedAgain {
		out.AnswersSince, out.LastSuccessAt = &p.Since, &p.Last
	}
	return out, nil
}

// look reads a saga, live or archived, and rebuilds its run. Fault: NotFound.
func (s *Handlers) look(ctx context.Context, id uuid.UUID, want saga.Logs) (sagaWithLogs, saga.Instance, error) {
	tenant := httpkit.RequestOf(ctx).Tenant.ID
	f, err := s.find(ctx, tenant, id, want)
	if err != nil {
		return sagaWithLogs{}, saga.Instance{}, err
	}
	run, err := s.run(ctx, f.saga, f.logs)
	return f, run, err
}

// GetSagaResult returns the result of a completed saga, live or archived.
func (s *Handlers) GetSagaResult(ctx context.Context, in api.GetSagaResultRequestObject) (api.Response, error) {
	ctx, cancel := s.Bounded(ctx)
	defer cancel()
	f, run, err := s.look(ctx, in.SagaID, saga.Logs{})
	if err != nil {
		return nil, err
	}
	found, err := result(&run)
	if err != nil {
		return nil, err
	}
	if refused := run.Unreadable(); run.ContentUnreadable && refused != nil {
		return nil, refused
	}
	if found == nil {
		return nil, fault.New(fault.Conflict, saga.CodeNoResult, "the saga is %s; only a completed one has a result", run.State)
	}
	return httpkit.Answer{Status: http.StatusOK, Raw: found, ETag: f.etag()}.Unchanged(in.Params.IfNoneMatch)
}
