package httpapi

import (
	"context"
	"encoding/json"
	"net/http"
	"net/url"

	"github.com/skald-saga/skald/api"
	"github.com/skald-saga/skald/internal/audit/operator"
	"github.com/skald-saga/skald/internal/jobrun"
)

// definitionBody is a job definition as it is sent.
type definitionBody struct {
	Name    string `json:"name"`
	Enabled *bool  `json:"enabled,omitempty"`
	Reason  string `json:"reason,omitempty"`
	jobrun.Spec
}

// definitionSent reads a definition that fits the contract. Fault: Invalid.
func definitionSent(body []byte) (b definitionBody, err error) {
	err = json.Unmarshal(body, &b)
	return b, unreadable(err)
}

// CreateJobDefinition stores a new definition.
func (s *jobHandlers) CreateJobDefinition(ctx context.Context, _ api.CreateJobDefinitionRequestObject) (api.Response, error) {
	ctx, cancel := s.promised(ctx)
	defer cancel()
	req := requestOf(ctx)
	b, err := definitionSent(req.body)
	if err != nil {
		return nil, err
	}
	now, err := s.jobsNow(ctx)
	if err != nil {
		return nil, err
	}
	d := jobrun.Definition{
		ID: s.NewID(), TenantID: req.tenant.ID, Name: b.Name, Version: 1, SpecVersion: 1, Spec: b.Complete(),
		Enabled: b.Enabled == nil || *b.Enabled, CreatedAt: now, UpdatedAt: now, CreatedBy: req.principal, UpdatedBy: req.principal,
	}
	if err := jobrun.CheckNew(d.Name, &d.Spec); err != nil {
		return nil, err
	}
	if err := s.mayRun(ctx, &d, nil); err != nil {
		return nil, err
	}
	d = d.Rescheduled(now)
	if err := s.Definitions.Create(ctx, d, s.toDefinition(ctx, &d, verbCreate, b.Reason)); err != nil {
		return nil, err
	}
	a := s.definitionAnswer(&d)
	a.status, a.location = http.StatusCreated, definitionPath(&d)
	return a, nil
}

// toDefinition is the action of the one who asks on a definition.
func (s *jobHandlers) toDefinition(ctx context.Context, d *jobrun.Definition, verb, reason string) operator.Action {
	return s.did(ctx, s.now(), operator.JobDefinition, d.ID.String(), verb, reason, map[string]any{
		"name": d.Name, "version": d.Version, "spec_version": d.SpecVersion,
	})
}

// ListJobDefinitions answers a page of definitions, newest first.
func (s *jobHandlers) ListJobDefinitions(ctx context.Context, in api.ListJobDefinitionsRequestObject) (api.Response, error) {
	ctx, cancel := s.bounded(ctx)
	defer cancel()
	req, p := requestOf(ctx), in.Params
	paging, jp, err := s.jobPaging(req.list("name", "type", "enabled", "paused", "built_in", "command_name", "label"), p.Page, p.PageSize, p.Cursor, p.Include)
	if err != nil {
		return nil, err
	}
	f := jobrun.DefinitionFilter{
		Name: text(p.Name), Type: jobrun.Type(word(p.Type)), Enabled: p.Enabled, Paused: p.Paused, Label: text(p.Label), Command: text(p.CommandName), BuiltIn: p.BuiltIn,
	}
	found, page, err := s.Definitions.ListDefinitions(ctx, req.tenant.ID, f, jp)
	if err != nil {
		return nil, err
	}
	out := shownDefinitions{JobDefinitions: make([]shownDefinition, len(found))}
	now := s.now()
	for i := range found {
		out.JobDefinitions[i] = showDefinition(&found[i], now)
	}
	paging.capped = page.TotalCapped
	out.Pagination = paging.answer(page.More, page.Total, func() []byte {
		last := &found[len(found)-1]
		return timeAndIDKeys(last.CreatedAt, last.ID)
	})
	return answer{status: http.StatusOK, body: out}, nil
}

// jobPaging reads the parameters of a list of jobs or runs.
func (s *jobHandlers) jobPaging(list listID, page, size *int32, cursor *string, include []string) (paging, jobrun.Paging, error) {
	p, err := s.pagingOf(list, page, size, cursor, include)
	out := jobrun.Paging{Limit: p.size, Offset: p.offset(), Total: p.total, TotalCap: p.countUpTo()}
	if err == nil && p.page == 0 {
		out.After = new(jobrun.Cursor)
		out.After.At, out.After.ID, err = timeAndID(p.after)
	}
	return p, out, err
}

// GetJobDefinition answers a definition.
func (s *jobHandlers) GetJobDefinition(ctx context.Context, in api.GetJobDefinitionRequestObject) (api.Response, error) {
	ctx, cancel := s.bounded(ctx)
	defer cancel()
	d, err := s.Definitions.Definition(ctx, requestOf(ctx).tenant.ID, in.Definition)
	if err != nil {
		return nil, err
	}
	return s.definitionAnswer(&d).unchanged(in.Params.IfNoneMatch)
}

// ListJobDefinitionVersions answers what a definition said.
func (s *jobHandlers) ListJobDefinitionVersions(ctx context.Context, in api.ListJobDefinitionVersionsRequestObject) (api.Response, error) {
	ctx, cancel := s.bounded(ctx)
	defer cancel()
	tenant := requestOf(ctx).tenant.ID
	d, err := s.Definitions.Definition(ctx, tenant, in.Definition)
	if err != nil {
		return nil, err
	}
	versions, err := s.Definitions.Versions(ctx, tenant, d.ID)
	if err != nil {
		return nil, err
	}
	out := shownVersions{Versions: make([]shownVersion, len(versions))}
	for i, v := range versions {
		spec, event := showSpec(&v.Spec)
		out.Versions[i] = shownVersion{Number: v.Number, Spec: spec, Event: event, CreatedAt: v.CreatedAt, CreatedBy: v.CreatedBy}
	}
	return answer{status: http.StatusOK, body: out}, nil
}

func definitionPath(d *jobrun.Definition) string {
	return "/api/v1/job-definitions/" + url.PathEscape(d.ID.String())
}

func (s *jobHandlers) definitionAnswer(d *jobrun.Definition) answer {
	return answer{status: http.StatusOK, body: showDefinition(d, s.now()), etag: etagOf(d.Version)}
}
