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
	"github.com/skald-saga/skald/internal/saga/simulate"
	"github.com/skald-saga/skald/internal/saga/workflow"
)

// SimulateWorkflow runs a workflow against answers chosen by the caller. It sends and stores
// nothing.
func (s *Handlers) SimulateWorkflow(ctx context.Context, in api.SimulateWorkflowRequestObject) (api.Response, error) {
	ctx, cancel := s.Bounded(ctx)
	defer cancel()
	req, b := httpkit.RequestOf(ctx), in.Body
	sc := simulate.Scenario{
		Spec: saga.Spec{ID: simulate.SagaID, Tenant: req.Tenant, BusinessKey: b.BusinessKey, CorrelationID: b.CorrelationID,
			InitiatedBy: req.Principal, Payload: b.Payload, TenantInKeys: req.Tenant.ID != s.Tenant.ID},
		CancelAt: httpkit.Text(b.CancelAt), Start: s.Now(),
		Limits: simulate.Limits{StepTimeout: s.StepTimeout, Timeout: s.Timeout,
			CompensationTimeout: s.CompensationTimeout, Budget: s.Budget},
		Answers: make(map[string][]simulate.Answer, len(b.Answers)),
	}
	if string(b.Payload) == "null" {
		sc.Spec.Payload = nil
	}
	var err error
	if sc.Definition, sc.Version, err = s.simulated(ctx, req.Tenant.ID, b); err != nil {
		return nil, err
	}
	named, err := s.participantsOf(ctx, req.Tenant.ID, sc.Definition)
	if err != nil {
		return nil, err
	}
	sc.Address = func(c *saga.Call) bool {
		p := named[c.By.Names()]
		if p != nil {
			p.Settings.Address(c)
		}
		return p != nil
	}
	for key, list := range b.Answers {
		for i := range list {
			sc.Answers[key] = append(sc.Answers[key], answerOf(&list[i]))
		}
	}
	if wrong := sc.Check(s.Written); wrong != nil {
		return nil, httpkit.SchemaFault(wrong...)
	}
	return httpkit.Answer{Status: http.StatusOK, Body: toAPISimulation(&sc, simulate.Play(&sc, s.Written))}, nil
}

// simulated returns the definition to run: either the one in the body or a registered one.
func (s *Handlers) simulated(ctx context.Context, tenant uuid.UUID,
	b *api.SimulationInput) (*workflow.Definition, int, error) {
	if b.Definition != nil {
		text, isJSON, err := definitionText(b.Definition)
		if err != nil {
			return nil, 0, err
		}
		def, err := s.parsedDefinition(ctx, text, isJSON)
		if f := fault.As(err); f != nil {
			for i := range f.Fields {
				f.Fields[i].Pointer = "/definition" + f.Fields[i].Pointer
			}
		}
		return def, 1, err
	}
	version := 0
	if b.WorkflowVersion != nil {
		version = int(*b.WorkflowVersion)
	}
	w, err := s.Workflows.Get(ctx, tenant, httpkit.Text(b.WorkflowName), version)
	return w.Definition, w.Version, err
}

func answerOf(a *api.SimulatedAnswer) simulate.Answer {
	out := simulate.Answer{Headers: a.Headers, Body: a.Body}
	if a.Status != nil {
		out.Status = *a.Status
	}
	if a.Fault != nil {
		out.Fault = string(*a.Fault)
	}
	if a.RunState != nil {
		out.RunState = string(*a.RunState)
	}
	if a.TakesMS != nil {
		out.TakesMS = *a.TakesMS
	}
	for _, r := range a.Reports {
		given := simulate.Report{Result: reported.Result(r.Result), Output: r.Output, Error: r.Error}
		if r.AfterMS != nil {
			given.AfterMS = *r.AfterMS
		}
		out.Reports = append(out.Reports, given)
	}
	return out
}

func toAPISimulation(sc *simulate.Scenario, r simulate.Result) api.Simulation {
	out := api.Simulation{
		State: api.SagaState(r.Saga.State.String()), Clean: r.Saga.Clean, Error: ToAPIError(r.Saga.Error),
		NeedsAttention: r.Saga.NeedsAttention, AttentionReason: r.Saga.AttentionReason, Result: r.Saga.Result,
		Calls: r.Calls, DeadLetters: r.Letters, DurationMS: r.Took.Milliseconds(),
		Path: make([]api.SimulationEntry, len(r.Path)), UnusedAnswers: append([]string{}, r.Unused...),
	}
	if r.Stopped != "" {
		out.Stopped = &r.Stopped
	}
	for i := range r.Path {
		out.Path[i] = toAPIEntry(sc, &r.Path[i])
	}
	return out
}

// outcomes maps the words of the contract to outcomes.
var outcomes = map[saga.Verdict]api.SimulatedOutcome{
	saga.Done: api.SimulatedOutcomeDONE, saga.Refused: api.SimulatedOutcomeREFUSED,
	saga.NotApplied: api.SimulatedOutcomeNOTAPPLIED, saga.Unknown: api.SimulatedOutcomeUNKNOWN,
	saga.Later: api.SimulatedOutcomeLATER,
}

func toAPIEntry(sc *simulate.Scenario, e *simulate.Entry) api.SimulationEntry {
	out := api.SimulationEntry{
		Kind: api.SimulationEntryKind(e.Kind), AtMS: e.At.Sub(sc.Start).Milliseconds(), Output: e.Output,
		Step: given(e.Step), Code: given(e.Code), Message: given(e.Message),
	}
	if e.Action != "" {
		out.Action = new(api.StepAction(e.Action))
	}
	if e.Attempt > 0 {
		out.Attempt = &e.Attempt
	}
	if e.For > 0 {
		out.WaitMS = new(e.For.Milliseconds())
	}
	if word, ok := outcomes[e.Verdict]; ok {
		out.Outcome = &word
	}
	if r := e.Request; r != nil {
		out.Request = &api.SimulatedRequest{Method: given(r.Method), URL: given(r.URL), Head: given(r.Head),
			Body: given(string(r.Body)), Job: given(r.Job)}
	}
	if a := e.Answer; a != nil {
		out.Answer = &api.SimulatedAnswer{Headers: a.Headers, Body: a.Body}
		if a.Status != 0 {
			out.Answer.Status = &a.Status
		}
		if a.Fault != "" {
			out.Answer.Fault = new(api.SimulatedFault(a.Fault))
		}
		if a.RunState != "" {
			out.Answer.RunState = new(api.SimulatedRunState(a.RunState))
		}
		if a.TakesMS > 0 {
			out.Answer.TakesMS = &a.TakesMS
		}
	}
	if e.Report != nil {
		out.Report = new(toAPIReport(e.Report))
	}
	return out
}

func toAPIReport(r *simulate.Report) api.SimulatedReport {
	out := api.SimulatedReport{Result: api.ReportResult(r.Result), Output: r.Output, Error: r.Error}
	if r.AfterMS > 0 {
		out.AfterMS = &r.AfterMS
	}
	return out
}

// given returns a pointer to a text, or nil for an empty text.
func given(text string) *string {
	if text == "" {
		return nil
	}
	return &text
}
