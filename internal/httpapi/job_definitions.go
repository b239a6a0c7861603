package httpapi

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/url"
	"time"

	"github.com/skald-saga/skald/api"
	"github.com/skald-saga/skald/internal/audit/operator"
	"github.com/skald-saga/skald/internal/fault"
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

// unreadable is the fault of a body that fits the contract, which knows the form
// of a time and of a whole number, and nothing of leap years.
func unreadable(err error) error {
	var when *time.ParseError
	switch {
	case err == nil:
		return nil
	case errors.As(err, &when):
		return schemaFault(fault.Field{Code: "invalid", Message: "holds " + clip(when.Value) + ", which is not a valid time"})
	}
	return schemaFault(fault.Field{Code: "type", Message: "holds a fractional number or a value of the wrong type"})
}

// CreateJobDefinition stores a new definition.
func (s *server) CreateJobDefinition(ctx context.Context, _ api.CreateJobDefinitionRequestObject) (api.Response, error) {
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
	if err := s.Jobs.Definitions.Create(ctx, d, s.toDefinition(ctx, &d, verbCreate, b.Reason)); err != nil {
		return nil, err
	}
	a := s.definitionAnswer(&d)
	a.status, a.location = http.StatusCreated, definitionPath(&d)
	return a, nil
}

// toDefinition is the action of the one who asks on a definition.
func (s *server) toDefinition(ctx context.Context, d *jobrun.Definition, verb, reason string) operator.Action {
	return s.acted(ctx, s.now(), operator.JobDefinition, d.ID.String(), verb, reason, map[string]any{
		"name": d.Name, "version": d.Version, "spec_version": d.SpecVersion,
	})
}

// ListJobDefinitions answers a page of definitions, newest first.
func (s *server) ListJobDefinitions(ctx context.Context, in api.ListJobDefinitionsRequestObject) (api.Response, error) {
	ctx, cancel := s.bounded(ctx)
	defer cancel()
	req, p := requestOf(ctx), in.Params
	list := req.list("name", "type", "enabled", "paused", "built_in", "command_name", "label")
	paging, jp, err := s.jobPaging(list, p.Page, p.PageSize, p.Cursor, p.Include)
	if err != nil {
		return nil, err
	}
	f := jobrun.DefinitionFilter{
		Name: text(p.Name), Type: jobrun.Type(word(p.Type)), Enabled: p.Enabled, Paused: p.Paused, Label: text(p.Label), Command: text(p.CommandName), BuiltIn: p.BuiltIn,
	}
	found, page, err := s.Jobs.Definitions.ListDefinitions(ctx, req.tenant.ID, f, jp)
	if err != nil {
		return nil, err
	}
	out := shownDefinitions{JobDefinitions: make([]shownDefinition, len(found))}
	now := s.now()
	for i := range found {
		out.JobDefinitions[i] = showDefinition(&found[i], now)
	}
	paging.capped = page.TotalCapped
	out.Pagination = paging.answer(page.More, page.Total, func() string {
		last := &found[len(found)-1]
		return s.cursors.seal(list, timeAndIDKeys(last.CreatedAt, last.ID))
	})
	return answer{status: http.StatusOK, body: out}, nil
}

// jobPaging reads the parameters of a list of jobs or runs.
func (s *server) jobPaging(list listID, page, size *int32, cursor *string, include []string) (paging, jobrun.Paging, error) {
	p, err := s.pagingOf(list, page, size, cursor, include)
	out := jobrun.Paging{Limit: p.size, Offset: p.offset(), Total: p.total, TotalCap: p.countUpTo()}
	if err == nil && p.page == 0 {
		out.After = new(jobrun.Cursor)
		out.After.At, out.After.ID, err = timeAndID(p.after)
	}
	return p, out, err
}

// GetJobDefinition answers a definition.
func (s *server) GetJobDefinition(ctx context.Context, in api.GetJobDefinitionRequestObject) (api.Response, error) {
	ctx, cancel := s.bounded(ctx)
	defer cancel()
	d, err := s.Jobs.Definitions.Definition(ctx, requestOf(ctx).tenant.ID, in.Definition)
	if err != nil {
		return nil, err
	}
	return s.definitionAnswer(&d).unchanged(in.Params.IfNoneMatch)
}

// ListJobDefinitionVersions answers what a definition said.
func (s *server) ListJobDefinitionVersions(ctx context.Context, in api.ListJobDefinitionVersionsRequestObject) (api.Response, error) {
	ctx, cancel := s.bounded(ctx)
	defer cancel()
	tenant := requestOf(ctx).tenant.ID
	d, err := s.Jobs.Definitions.Definition(ctx, tenant, in.Definition)
	if err != nil {
		return nil, err
	}
	versions, err := s.Jobs.Definitions.Versions(ctx, tenant, d.ID)
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

func (s *server) definitionAnswer(d *jobrun.Definition) answer {
	return answer{status: http.StatusOK, body: showDefinition(d, s.now()), etag: etagOf(d.Version)}
}
