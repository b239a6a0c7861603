package httpapi

import (
	"context"
	"encoding/json"
	"net/http"
	"net/url"
	"strconv"
	"strings"

	"github.com/google/uuid"

	"github.com/skald-saga/skald/api"
	"github.com/skald-saga/skald/internal/fault"
	"github.com/skald-saga/skald/internal/jobrun"
	"github.com/skald-saga/skald/internal/saga/workflow"
)

// RegisterWorkflow stores a definition as a version of its name.
func (s *sagaHandlers) RegisterWorkflow(ctx context.Context, in api.RegisterWorkflowRequestObject) (api.Response, error) {
	ctx, cancel := s.promised(ctx)
	defer cancel()
	def, err := s.parseDefinition(requestOf(ctx), in.JSONBody != nil)
	if err != nil {
		return nil, err
	}
	tenant := requestOf(ctx).tenant.ID
	if in.Params.IfMatch != nil {
		// A version that appears between this look and the next line is kept
		// beside ours: versions are immutable, so nothing can be lost.
		if _, err := s.matching(ctx, tenant, def.Name, in.Params.IfMatch); err != nil {
			return nil, err
		}
	}
	w, isNew, err := s.Workflows.Register(acting(ctx, nil), tenant, def, false, s.now())
	if err != nil {
		return nil, err
	}
	a := workflowAnswer(w)
	if isNew {
		a.status = http.StatusCreated
		a.location = "/api/v1/workflows/" + url.PathEscape(w.Name) + "/versions/" + strconv.Itoa(w.Version)
	}
	return a, nil
}

// ValidateWorkflow checks a definition and stores nothing.
func (s *sagaHandlers) ValidateWorkflow(ctx context.Context, in api.ValidateWorkflowRequestObject) (api.Response, error) {
	def, err := s.parseDefinition(requestOf(ctx), in.JSONBody != nil)
	if err != nil {
		return nil, err
	}
	return answer{status: http.StatusOK, body: api.WorkflowValidation{
		Valid: true, Name: def.Name, StepCount: len(def.Steps), StepNames: def.StepNames(), Definition: definitionJSON(def),
	}}, nil
}

// parseDefinition reads the definition in the body: JSON, YAML, or JSON around YAML.
func (s *sagaHandlers) parseDefinition(req *request, isJSON bool) (*workflow.Definition, error) {
	text, parse := req.body, workflow.ParseYAML
	if isJSON {
		inside, found, err := yamlInside(req.body)
		if err != nil {
			return nil, err
		}
		if found {
			text = []byte(inside)
		} else {
			parse = workflow.ParseJSON
		}
	}
	def, err := parse(text, workflow.Limits{MaxSteps: s.Limits.MaxSteps})
	if err != nil {
		return nil, err
	}
	if strings.HasPrefix(def.Name, inlinePrefix) {
		return nil, fault.New(fault.Invalid, workflow.CodeInvalid, "/name: names that begin with %q are reserved for inline steps", inlinePrefix).
			With(fault.Field{Pointer: "/name", Code: workflow.CodeInvalid, Message: "is reserved"})
	}
	return def, s.runnable(def)
}

// runnable refuses definitions with jobs where there are no job runs. Fault:
// Unavailable.
func (s *sagaHandlers) runnable(def *workflow.Definition) error {
	if !s.Jobs && def.HasJobs() {
		return fault.New(fault.Unavailable, jobrun.CodeUnavailable, "a step of this workflow is a job, and the memory store has no job runs: use PostgreSQL")
	}
	return nil
}

// yamlInside returns the text of {"workflow_yaml": "…"}, which holds nothing else.
func yamlInside(body []byte) (text string, isYAML bool, err error) {
	var members map[string]json.RawMessage
	if json.Unmarshal(body, &members) != nil {
		return "", false, nil // no object: the rulebook says so
	}
	raw, isYAML := members["workflow_yaml"]
	if !isYAML {
		return "", false, nil
	}
	if json.Unmarshal(raw, &text) != nil {
		return "", true, schemaFault(fault.Field{Pointer: "/workflow_yaml", Code: "type", Message: "must be a string"})
	}
	if len(members) > 1 {
		return "", true, schemaFault(fault.Field{Pointer: "", Code: "unknown", Message: "must have no members but workflow_yaml"})
	}
	return text, true, nil
}

// GetWorkflow answers the latest version of a workflow.
func (s *sagaHandlers) GetWorkflow(ctx context.Context, in api.GetWorkflowRequestObject) (api.Response, error) {
	return s.workflowVersion(ctx, in.Name, 0, in.Params.IfNoneMatch)
}

// GetWorkflowVersion answers one version of a workflow.
func (s *sagaHandlers) GetWorkflowVersion(ctx context.Context, in api.GetWorkflowVersionRequestObject) (api.Response, error) {
	return s.workflowVersion(ctx, in.Name, int(in.Version), in.Params.IfNoneMatch)
}

func (s *sagaHandlers) workflowVersion(ctx context.Context, name string, version int, ifNone *string) (answer, error) {
	ctx, cancel := s.bounded(ctx)
	defer cancel()
	if err := checkName(name); err != nil {
		return answer{}, err
	}
	w, err := s.Workflows.Get(ctx, requestOf(ctx).tenant.ID, name, version)
	if err != nil {
		return answer{}, err
	}
	return workflowAnswer(w).unchanged(ifNone)
}

// EnableWorkflow lets a workflow take new sagas.
func (s *sagaHandlers) EnableWorkflow(ctx context.Context, in api.EnableWorkflowRequestObject) (api.Response, error) {
	return s.setEnabled(ctx, in.Name, true, in.Params.IfMatch, reasonIn(in.Body))
}

// DisableWorkflow keeps a workflow from taking new sagas.
func (s *sagaHandlers) DisableWorkflow(ctx context.Context, in api.DisableWorkflowRequestObject) (api.Response, error) {
	return s.setEnabled(ctx, in.Name, false, in.Params.IfMatch, reasonIn(in.Body))
}

func (s *sagaHandlers) setEnabled(ctx context.Context, name string, enabled bool, match, reason *string) (answer, error) {
	ctx, cancel := s.promised(ctx)
	defer cancel()
	if err := checkName(name); err != nil {
		return answer{}, err
	}
	tenant := requestOf(ctx).tenant.ID
	revision, err := s.matching(ctx, tenant, name, match)
	if err != nil {
		return answer{}, err
	}
	w, err := s.Workflows.SetEnabled(acting(ctx, reason), tenant, name, enabled, revision, s.now())
	if err != nil {
		return answer{}, err
	}
	return workflowAnswer(w), nil
}

// matching returns the revision that If-Match has found, 0 without the header.
// Fault: Precondition when it names another one, or the workflow does not exist.
func (s *sagaHandlers) matching(ctx context.Context, tenant uuid.UUID, name string, match *string) (int64, error) {
	if match == nil {
		return 0, nil
	}
	w, err := s.Workflows.Get(ctx, tenant, name, 0)
	if err != nil {
		return 0, err
	}
	switch fits, err := ifMatch(match, w.Revision); {
	case err != nil:
		return 0, err
	case !fits:
		return 0, stale(workflow.CodeStale, "workflow", w.Revision)
	}
	return w.Revision, nil
}

// checkName answers for names that no workflow can have, before a store is asked.
func checkName(name string) error {
	if workflow.ValidName(name) {
		return nil
	}
	return fault.New(fault.NotFound, workflow.CodeNotFound, "there is no workflow %q: the name is not valid", clip(name))
}
