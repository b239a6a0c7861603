package jobapi

import (
	"context"
	"encoding/json"
	"net/http"
	"slices"

	"github.com/skald-saga/skald/api"
	"github.com/skald-saga/skald/internal/audit/operator"
	"github.com/skald-saga/skald/internal/httpkit"
	"github.com/skald-saga/skald/internal/jobrun"
	"github.com/skald-saga/skald/internal/page"
)

// definitionBody is a job definition in a request.
type definitionBody struct {
	Name    string `json:"name"`
	Enabled *bool  `json:"enabled,omitempty"`
	Reason  string `json:"reason,omitempty"`
	jobrun.Spec
}

// DefinitionSent decodes a definition that has been validated against the contract. Fault: Invalid.
func DefinitionSent(body []byte) (b definitionBody, err error) {
	err = json.Unmarshal(body, &b)
	return b, httpkit.Unreadable(err)
}

// CreateJobDefinition stores a new definition.
func (s *Handlers) CreateJobDefinition(ctx context.Context,
	_ api.CreateJobDefinitionRequestObject) (api.Response, error) {
	ctx, cancel := s.Promised(ctx)
	defer cancel()
	req := httpkit.RequestOf(ctx)
	b, err := DefinitionSent(req.Body)
	if err != nil {
		return nil, err
	}
	now, err := s.jobsNow(ctx)
	if err != nil {
		return nil, err
	}
	d := jobrun.Definition{
		ID: s.NewID(), TenantID: req.Tenant.ID, Name: b.Name, Version: 1, SpecVersion: 1, Spec: b.Complete(),
		Enabled: b.Enabled == nil || *b.Enabled, CreatedAt: now, UpdatedAt: now, CreatedBy: req.Principal,
		UpdatedBy: req.Principal,
	}
	if err := jobrun.CheckNew(d.Name, &d.Spec); err != nil {
		return nil, err
	}
	if err := s.mayStore(&d.Spec); err != nil {
		return nil, err
	}
	if err := s.mayRun(ctx, &d, nil); err != nil {
		return nil, err
	}
	d = d.Rescheduled(now)
	if httpkit.DryRun(ctx) {
		return s.definitionCreated(ctx, &d)
	}
	if err := s.Definitions.Create(ctx, d, s.toDefinition(ctx, &d, httpkit.VerbCreate, b.Reason)); err != nil {
		return nil, err
	}
	a := s.definitionAnswer(&d)
	a.Status, a.Location = http.StatusCreated, definitionPath(&d)
	return a, nil
}

// mayStore checks a new spec against this node's configuration. A stored spec is not checked again
// until it changes.
func (s *Handlers) mayStore(spec *jobrun.Spec) error {
	if err := spec.CheckEmit(s.RefuseTopic); err != nil {
		return err
	}
	return spec.CheckProgram(s.ArgsAllow)
}

// toDefinition returns the action record for a definition.
func (s *Handlers) toDefinition(ctx context.Context, d *jobrun.Definition, verb, reason string) operator.Action {
	return s.Did(ctx, s.Now(), operator.JobDefinition, d.ID.String(), verb, reason, map[string]any{
		"name": d.Name, "version": d.Version, "spec_version": d.SpecVersion,
	})
}

// ListJobDefinitions returns a page of definitions, newest first unless the request specifies
// another order.
func (s *Handlers) ListJobDefinitions(ctx context.Context,
	in api.ListJobDefinitionsRequestObject) (api.Response, error) {
	ctx, cancel := s.Bounded(ctx)
	defer cancel()
	req, p := httpkit.RequestOf(ctx), in.Params
	asked, err := httpkit.PageOf(ctx, s.Cursors, httpkit.ByKeyAndTime, p.Page, p.PageSize, p.Cursor, p.Include)
	if err != nil {
		return nil, err
	}
	f := jobrun.DefinitionFilter{
		Name: httpkit.Text(p.Name), Type: jobrun.Type(httpkit.Text(p.Type)), Enabled: p.Enabled, Paused: p.Paused,
		Label: httpkit.Text(p.Label), Command: httpkit.Text(p.CommandName), BuiltIn: p.BuiltIn,
	}
	f.ByName = p.Sort != nil && *p.Sort == api.ListJobDefinitionsParamsSortName
	if f.Ascending = f.ByName; p.Order != nil {
		f.Ascending = *p.Order == api.ListJobDefinitionsParamsOrderAsc
	}
	var request page.ByTime
	request, f.AfterName = page.SplitKey(asked.Request)
	found, err := s.Definitions.ListDefinitions(ctx, req.Tenant.ID, f, request)
	if err != nil {
		return nil, err
	}
	shown, err := s.showWith(ctx, found.Items, definitionExtras{
		recentRuns: slices.Contains(p.Include, api.ListJobDefinitionsParamsIncludeRecentRuns),
		nextRunAt:  slices.Contains(p.Include, api.ListJobDefinitionsParamsIncludeNextRunAt),
	})
	if err != nil {
		return nil, err
	}
	return httpkit.Answer{Status: http.StatusOK, Body: shownDefinitions{
		JobDefinitions: shown, Pagination: httpkit.Pagination(asked, found, func(d *jobrun.Definition) page.KeyTimeID {
			at := page.KeyTimeID{TimeID: d.Place()}
			if f.ByName {
				at.Key = d.Name
			}
			return at
		}),
	}}, nil
}

// GetJobDefinition returns a definition.
func (s *Handlers) GetJobDefinition(ctx context.Context, in api.GetJobDefinitionRequestObject) (api.Response, error) {
	ctx, cancel := s.Bounded(ctx)
	defer cancel()
	d, err := s.Definitions.Definition(ctx, httpkit.RequestOf(ctx).Tenant.ID, in.Definition)
	if err != nil {
		return nil, err
	}
	a, with := s.definitionAnswer(&d), in.Params.Include
	if len(with) == 0 {
		return a.Unchanged(in.Params.IfNoneMatch)
	}
	shown, err := s.showWith(ctx, []jobrun.Definition{d}, definitionExtras{
		recentRuns: slices.Contains(with, api.GetJobDefinitionParamsIncludeRecentRuns),
		nextRunAt:  slices.Contains(with, api.GetJobDefinitionParamsIncludeNextRunAt),
	})
	if err != nil {
		return nil, err
	}
	a.Body = shown[0]
	return a, nil
}

// ListJobDefinitionVersions returns the versions of a definition.
func (s *Handlers) ListJobDefinitionVersions(ctx context.Context,
	in api.ListJobDefinitionVersionsRequestObject) (api.Response, error) {
	ctx, cancel := s.Bounded(ctx)
	defer cancel()
	tenant := httpkit.RequestOf(ctx).Tenant.ID
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
		out.Versions[i] = shownVersion{Number: v.Number, Spec: spec, Event: event, CreatedAt: v.CreatedAt,
			CreatedBy: v.CreatedBy, Definition: d.ID}
	}
	return httpkit.Answer{Status: http.StatusOK, Body: out}, nil
}
