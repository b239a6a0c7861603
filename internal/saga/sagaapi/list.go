package sagaapi

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/skald-saga/skald/api"
	"github.com/skald-saga/skald/internal/fault"
	"github.com/skald-saga/skald/internal/httpkit"
	"github.com/skald-saga/skald/internal/page"
	"github.com/skald-saga/skald/internal/saga"
	"github.com/skald-saga/skald/internal/saga/workflow"
	"github.com/skald-saga/skald/internal/strictjson"
)

// ListSagas returns a page of sagas, newest first unless the client asks for the oldest first.
func (s *Handlers) ListSagas(ctx context.Context, in api.ListSagasRequestObject) (api.Response, error) {
	ctx, cancel := s.Bounded(ctx)
	defer cancel()
	req := httpkit.RequestOf(ctx)
	p := in.Params
	asked, err := httpkit.PageOf(ctx, s.Cursors, httpkit.ByKeyAndTime, p.Page, p.PageSize, p.Cursor, p.Include)
	if err != nil {
		return nil, err
	}
	if p.Metadata != nil {
		if err := httpkit.MayFilterByContent(ctx, "metadata"); err != nil {
			return nil, err
		}
	}
	filter, none, err := filterOf(p)
	if err != nil {
		return nil, err
	}
	archived := p.Archived != nil && *p.Archived
	if filter.Sort, err = httpkit.SortOf(p.Sort, filter.SortOfPrefix()); err != nil {
		return nil, err
	}
	if filter.Sort == saga.ByEnd && archived {
		return nil, httpkit.BadParameter("sort", "excluded", "cannot be completed_at with archived=true: no index supports this order")
	}
	filter.Ascending = httpkit.Ascending(p.Order, filter.Sort.OfText())
	filter.ByTime, filter.AfterKey = page.SplitKey(asked.Request)
	if archived {
		return s.listArchived(ctx, p, filter, none, asked)
	}
	var found page.Of[saga.Saga]
	if !none {
		if found, err = s.Store.List(ctx, req.Tenant.ID, filter); err != nil {
			return nil, err
		}
	}
	full := p.View != nil && *p.View == api.ListSagasParamsViewFull
	out := api.SagaList{Sagas: make([]api.Saga, len(found.Items)),
		Pagination: httpkit.Pagination(asked, found, func(s *saga.Saga) page.KeyTimeID { return placeIn(&filter, s) })}
	damaged := map[string]error{}
	for i := range found.Items {
		item, err := s.listed(ctx, req.Tenant.ID, &found.Items[i], full, damaged)
		if err != nil {
			return nil, err
		}
		out.Sagas[i] = *item
	}
	err = s.withNotes(ctx, req.Tenant.ID, out.Sagas)
	if err == nil {
		err = s.withWaits(ctx, req.Tenant.ID, out.Sagas)
	}
	return httpkit.Answer{Status: http.StatusOK, Body: out}, err
}

// withWaits adds to listed sagas what they wait for apart from their next call: the gate of a
// participant, or a report. Only sagas that are due later can wait for either.
func (s *Handlers) withWaits(ctx context.Context, tenant uuid.UUID, sagas []api.Saga) error {
	var ids []uuid.UUID
	now := s.Now()
	for i := range sagas {
		if at := sagas[i].NextRunAt; at != nil && at.After(now) && sagas[i].CompletedAt == nil {
			ids = append(ids, sagas[i].SagaID)
		}
	}
	if len(ids) == 0 {
		return nil
	}
	var at map[uuid.UUID]string
	var awaiting map[uuid.UUID]bool
	var err error
	if s.AtGates != nil {
		at, err = s.AtGates(ctx, tenant, ids)
	}
	if err == nil && s.Callbacks.Store != nil {
		awaiting, err = s.Callbacks.Store.Awaiting(ctx, tenant, ids)
	}
	for i := range sagas {
		id := sagas[i].SagaID
		if name := at[id]; name != "" {
			sagas[i].AtGateOf = &name
		}
		if awaiting[id] {
			sagas[i].AwaitsReport = new(true)
		}
	}
	return err
}

// placeIn returns the position of a saga in a filter's list.
func placeIn(f *saga.Filter, s *saga.Saga) page.KeyTimeID {
	at, _ := f.Sort.Place(s)
	return at
}

func (s *Handlers) listed(
	ctx context.Context, tenant uuid.UUID, sg *saga.Saga, full bool, damaged map[string]error,
) (*api.Saga, error) {
	run, err := s.listedRun(ctx, tenant, sg, damaged)
	if err != nil {
		return nil, err
	}
	out := toAPISaga(&run)
	if !full {
		out.Payload, out.Metadata = nil, nil
	}
	return out, nil
}

// listedRun returns a listed saga without its step logs. damaged caches, for one list, which
// definitions cannot be read.
func (s *Handlers) listedRun(
	ctx context.Context, tenant uuid.UUID, sg *saga.Saga, damaged map[string]error,
) (saga.Instance, error) {
	id := definitionID(sg.WorkflowName, sg.WorkflowVersion)
	var def *workflow.Definition
	err := damaged[id]
	if err == nil {
		def, err = s.admission.Definitions.Version(ctx, tenant, sg.WorkflowName, sg.WorkflowVersion)
	}
	if err != nil {
		damaged[id] = err
	}
	run, err := saga.Restored(*sg, def, err, nil)
	return run, pinnedIsGone(err)
}

// filterOf reads the filters. none means that no saga can match, because two filters exclude each
// other.
func filterOf(p api.ListSagasParams) (f saga.Filter, none bool, err error) {
	f = saga.Filter{
		WorkflowName: httpkit.Text(p.WorkflowName), CorrelationID: httpkit.Text(p.CorrelationID),
		InitiatedBy: httpkit.Text(p.InitiatedBy),
		TraceID:     httpkit.Text(p.TraceID), BusinessKey: httpkit.Text(p.BusinessKey), NeedsAttention: p.NeedsAttention,
		Assignee: httpkit.Text(p.Assignee), WaitsFor: httpkit.Text(p.WaitsFor),
		KeyPrefix: httpkit.Text(p.BusinessKeyPrefix), CorrelationPrefix: httpkit.Text(p.CorrelationIDPrefix),
	}
	if p.Status != nil || p.State != nil || p.Lifecycle != nil || p.Active != nil {
		f.States = statesOf(p)
		none = len(f.States) == 0
	}
	for _, word := range p.Lifecycle {
		f.Lifecycles = append(f.Lifecycles, string(word))
	}
	if p.DefinitionID != nil {
		name, version, err := definitionOf(*p.DefinitionID)
		if err != nil {
			return f, none, err
		}
		none = none || f.WorkflowName != "" && f.WorkflowName != name
		f.WorkflowName, f.WorkflowVersion = name, version
	}
	if p.Metadata != nil {
		if f.Metadata, err = metadataOf(*p.Metadata); err != nil {
			return f, none, err
		}
	}
	for _, bound := range []struct {
		name string
		in   *time.Time
		out  *time.Time
	}{
		{"created_from", p.CreatedFrom, &f.CreatedFrom}, {"created_to", p.CreatedTo, &f.CreatedTo},
		{"updated_from", p.UpdatedFrom, &f.UpdatedFrom}, {"updated_to", p.UpdatedTo, &f.UpdatedTo},
		{"ended_from", p.EndedFrom, &f.EndedFrom}, {"ended_to", p.EndedTo, &f.EndedTo},
		{"attention_since_from", p.AttentionSinceFrom, &f.AttentionFrom},
		{"attention_since_to", p.AttentionSinceTo, &f.AttentionTo},
	} {
		if *bound.out, err = httpkit.TimeOf(bound.name, bound.in); err != nil {
			return f, none, err
		}
	}
	for _, p := range []struct {
		name     string
		from, to time.Time
	}{
		{"created", f.CreatedFrom, f.CreatedTo}, {"updated", f.UpdatedFrom, f.UpdatedTo},
		{"ended", f.EndedFrom, f.EndedTo}, {"attention_since", f.AttentionFrom, f.AttentionTo},
	} {
		if wrong := httpkit.InOrder(p.name+"_from", p.name+"_to", p.from, p.to); wrong != nil {
			return f, none, wrong
		}
	}
	if f.OfAttention() {
		none = none || f.NeedsAttention != nil && !*f.NeedsAttention
		f.NeedsAttention = new(true)
	}
	f.ErrorCode, f.Step = httpkit.Text(p.ErrorCode), httpkit.Text(p.Step)
	return f, none, checkErrorFilters(p, &f)
}

// checkErrorFilters rejects filters by error that no index supports.
func checkErrorFilters(p api.ListSagasParams, f *saga.Filter) error {
	if f.Step != "" && f.WorkflowName == "" {
		return httpkit.BadParameter("step", "required_with",
			"also needs workflow_name or definition_id, because step names belong to a workflow")
	}
	archived := p.Archived != nil && *p.Archived
	if f.WaitsFor != "" && archived {
		return httpkit.BadParameter("waits_for", "excluded", "cannot be combined with archived=true: no archived saga waits")
	}
	for name, asked := range map[string]bool{"error_code": f.ErrorCode != "", "step": f.Step != ""} {
		if asked && archived {
			return httpkit.BadParameter(name, "excluded",
				"cannot be combined with archived=true: archived sagas are not indexed by their errors; use state and ended_from")
		}
	}
	return nil
}

// statesOf returns the states that match seed 1's statuses, the state names, seed 4's words as far
// as the state determines them, and whether the saga is active.
func statesOf(p api.ListSagasParams) []saga.State {
	var out []saga.State
	for _, state := range saga.States {
		if (p.Status == nil || slices.Contains(p.Status, api.SagaStatus(state.Status()))) &&
			(p.State == nil || slices.Contains(p.State, api.SagaState(state.String()))) &&
			(p.Lifecycle == nil || slices.Contains(p.Lifecycle, api.SagaLifecycle(state.Lifecycle(true))) ||
				slices.Contains(p.Lifecycle, api.SagaLifecycle(state.Lifecycle(false)))) &&
			(p.Active == nil || *p.Active == state.Active()) {
			out = append(out, state)
		}
	}
	return out
}

// definitionOf parses the id of a definition, name@version, as the views show it.
func definitionOf(id string) (name string, version int, err error) {
	at := strings.LastIndexByte(id, '@')
	if at > 0 {
		if version, err = strconv.Atoi(id[at+1:]); err == nil && version > 0 {
			return id[:at], version, nil
		}
	}
	return "", 0, httpkit.BadParameter("definition_id", "invalid", "must be the name of a workflow, @ and its version")
}

func metadataOf(text string) (json.RawMessage, error) {
	canonical, err := strictjson.Canonical(nil, []byte(text), strictjson.Limits{})
	var e *strictjson.Error
	switch {
	case errors.As(err, &e):
		return nil, httpkit.ParameterFault(httpkit.CodeInvalidParameter, fault.Field{Parameter: "metadata", Code: e.Code,
			Message: "is not valid JSON: " + e.Detail})
	case err != nil:
		return nil, err
	case canonical[0] != '{':
		return nil, httpkit.BadParameter("metadata", "type", "must be a JSON object")
	}
	return canonical, nil
}

// ListWorkflows returns a page of workflows, ordered by name.
func (s *Handlers) ListWorkflows(ctx context.Context, in api.ListWorkflowsRequestObject) (api.Response, error) {
	ctx, cancel := s.Bounded(ctx)
	defer cancel()
	req := httpkit.RequestOf(ctx)
	p := in.Params
	asked, err := httpkit.PageOf(ctx, s.Cursors, httpkit.ByName, p.Page, p.PageSize, p.Cursor, p.Include)
	if err != nil {
		return nil, err
	}
	found, err := s.Workflows.List(ctx, req.Tenant.ID, workflow.Filter{
		Name: httpkit.Text(p.Name), Enabled: p.Enabled, Request: asked.Request})
	if err != nil {
		return nil, err
	}
	full := p.View != nil && *p.View == api.ListWorkflowsParamsViewFull
	return workflowPage(asked, found, full, func(r *workflow.Registered) string { return r.Name }), nil
}

// ListWorkflowVersions returns a page of a workflow's versions, newest first.
func (s *Handlers) ListWorkflowVersions(ctx context.Context,
	in api.ListWorkflowVersionsRequestObject) (api.Response, error) {
	ctx, cancel := s.Bounded(ctx)
	defer cancel()
	if err := checkName(in.Name); err != nil {
		return nil, err
	}
	req := httpkit.RequestOf(ctx)
	p := in.Params
	asked, err := httpkit.PageOf(ctx, s.Cursors, httpkit.ByNumber, p.Page, p.PageSize, p.Cursor, p.Include)
	if err != nil {
		return nil, err
	}
	found, err := s.Workflows.Versions(ctx, req.Tenant.ID, in.Name, asked.Request)
	if err != nil {
		return nil, err
	}
	full := p.View != nil && *p.View == api.ListWorkflowVersionsParamsViewFull
	return workflowPage(asked, found, full, func(r *workflow.Registered) int { return r.Version }), nil
}

func workflowPage[C any](asked httpkit.Asked[C], found page.Of[workflow.Registered], full bool,
	place func(*workflow.Registered) C) httpkit.Answer {
	return httpkit.Answer{Status: http.StatusOK, Body: api.WorkflowList{
		Workflows:  httpkit.Each(found.Items, func(r *workflow.Registered) api.Workflow { return toAPIWorkflow(r, full) }),
		Pagination: httpkit.Pagination(asked, found, place),
	}}
}
