package sagaapi

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/url"
	"strconv"
	"strings"

	"github.com/google/uuid"

	"github.com/skald-saga/skald/api"
	"github.com/skald-saga/skald/internal/fault"
	"github.com/skald-saga/skald/internal/httpkit"
	"github.com/skald-saga/skald/internal/jobrun"
	"github.com/skald-saga/skald/internal/saga"
	"github.com/skald-saga/skald/internal/saga/registry"
	"github.com/skald-saga/skald/internal/saga/workflow"
)

// RegisterWorkflow stores a definition as a version of its name.
func (s *Handlers) RegisterWorkflow(ctx context.Context, in api.RegisterWorkflowRequestObject) (api.Response, error) {
	ctx, cancel := s.Promised(ctx)
	defer cancel()
	def, err := s.parseDefinition(ctx, in.JSONBody != nil)
	if err != nil {
		return nil, err
	}
	tenant := httpkit.RequestOf(ctx).Tenant.ID
	if in.Params.IfMatch != nil {
		// A version that is registered between this read and the next line is kept in addition to
		// ours. Versions are immutable, so nothing can be lost.
		if _, err := s.matching(ctx, tenant, def.Name, in.Params.IfMatch); err != nil {
			return nil, err
		}
	}
	w, isNew, err := s.Workflows.Register(httpkit.WithActor(ctx, nil), tenant, def, false, s.Now())
	if err != nil {
		return nil, err
	}
	a := workflowAnswer(w)
	if isNew {
		a.Status = http.StatusCreated
		a.Location = "/api/v1/workflows/" + url.PathEscape(w.Name) + "/versions/" + strconv.Itoa(w.Version)
	}
	return a, nil
}

// ValidateWorkflow checks a definition without storing anything.
func (s *Handlers) ValidateWorkflow(ctx context.Context, in api.ValidateWorkflowRequestObject) (api.Response, error) {
	ctx, cancel := s.Bounded(ctx)
	defer cancel()
	def, err := s.parseDefinition(ctx, in.JSONBody != nil)
	if err != nil {
		return nil, err
	}
	return httpkit.Answer{Status: http.StatusOK, Body: api.WorkflowValidation{
		Valid: true, Name: def.Name, StepCount: len(def.Steps), StepNames: def.StepNames(), Definition: definitionJSON(def),
	}}, nil
}

// parseDefinition parses the definition in the body: JSON, YAML, or JSON that contains YAML.
func (s *Handlers) parseDefinition(ctx context.Context, isJSON bool) (*workflow.Definition, error) {
	body := httpkit.RequestOf(ctx).Body
	if !isJSON {
		return s.parsedDefinition(ctx, body, false)
	}
	text, isJSON, err := definitionText(body)
	if err != nil {
		return nil, err
	}
	return s.parsedDefinition(ctx, text, isJSON)
}

// definitionText returns the text of a definition sent as JSON: either the JSON or the YAML in it.
func definitionText(body []byte) (text []byte, isJSON bool, err error) {
	inside, found, err := yamlInside(body)
	if found {
		return []byte(inside), false, err
	}
	return body, true, err
}

func (s *Handlers) parsedDefinition(ctx context.Context, text []byte, isJSON bool) (*workflow.Definition, error) {
	parse := workflow.ParseYAML
	if isJSON {
		parse = workflow.ParseJSON
	}
	def, err := parse(text, workflow.Limits{MaxSteps: s.Limits.MaxSteps})
	if err != nil {
		return nil, err
	}
	if strings.HasPrefix(def.Name, saga.InlinePrefix) {
		return nil, fault.New(fault.Invalid, workflow.CodeInvalid, "/name: names that begin with %q are reserved for inline steps", saga.InlinePrefix).
			With(fault.Field{Pointer: "/name", Code: workflow.CodeInvalid, Message: "is reserved"})
	}
	return def, s.runnable(ctx, httpkit.RequestOf(ctx).Tenant.ID, def)
}

// runnable rejects definitions with jobs if job runs are not configured. It also rejects
// definitions that call addresses the server must not reach, that name participants which the
// tenant does not have, or that use secrets which these participants must not receive. Host names
// are checked again for every connection. Faults: Unavailable; Invalid.
func (s *Handlers) runnable(ctx context.Context, tenant uuid.UUID, def *workflow.Definition) error {
	if !s.Jobs && def.HasJobs() {
		return fault.New(fault.Unavailable, jobrun.CodeUnavailable, "a step of this workflow is a job, and the memory store has no job runs: use PostgreSQL")
	}
	if at := def.AnswersLater(); at != "" && !s.Callbacks.Served {
		return httpkit.FieldsFault(fault.Invalid, workflow.CodeInvalid, fault.Mistakes{{
			Pointer: at, Code: workflow.CodeInvalid, Message: "participants cannot reach this server to report the outcome: " +
				"set server.public_url to the URL at which they can",
		}})
	}
	named, err := s.participantsOf(ctx, tenant, def)
	if err != nil {
		return err
	}
	var wrong fault.Mistakes
	code := workflow.CodeURLNotAllowed
	check := func(c *workflow.Call, step int, of string) {
		at := "/steps/" + strconv.Itoa(def.Position(step)) + "/" + of + "/"
		member, to := c.Endpoint()
		switch name := c.Names(); {
		case name != "" && named[name] == nil:
			code = workflow.CodeInvalid // the code of the whole, even if it has both kinds of mistakes
			wrong.Add(at+"http/participant", workflow.CodeInvalid,
				"no participant %s is registered: PUT /participants/%s first", strconv.Quote(name), url.PathEscape(name))
		case to == "" || s.CheckParticipant == nil:
		default:
			if reason := s.CheckParticipant(to); reason != "" {
				wrong.Add(at+member, workflow.CodeURLNotAllowed, "%s", reason)
			}
		}
	}
	for i := range def.Steps {
		check(&def.Steps[i].Action, i, "action")
		check(&def.Steps[i].Compensation.Call, i, "compensation")
	}
	refused := def.SecretMistakes(func(by *workflow.Call, secret string) error {
		return s.Secrets.Allowed(tenant, by, secret)
	})
	switch {
	case wrong == nil && refused == nil:
		return nil
	case wrong == nil:
		code = workflow.CodeSecret
	case refused != nil:
		code = workflow.CodeInvalid
	}
	return httpkit.FieldsFault(fault.Invalid, code, append(wrong, refused...))
}

// participantsOf reads the participants that a definition names. Unregistered ones are missing from
// the result.
func (s *Handlers) participantsOf(
	ctx context.Context, tenant uuid.UUID, def *workflow.Definition,
) (map[string]*registry.Participant, error) {
	all := map[string]*registry.Participant{}
	if s.Participant == nil {
		return all, nil
	}
	for _, name := range def.Participants() {
		p, err := s.Participant(ctx, tenant, name)
		switch {
		case err == nil:
			all[name] = &p
		case !fault.IsCode(err, registry.CodeNotFound):
			return nil, err
		}
	}
	return all, nil
}

// yamlInside returns the text of {"workflow_yaml": "…"}, which must not have other members.
func yamlInside(body []byte) (text string, isYAML bool, err error) {
	var members map[string]json.RawMessage
	if json.Unmarshal(body, &members) != nil {
		return "", false, nil // not an object; the rules report it
	}
	raw, isYAML := members["workflow_yaml"]
	if !isYAML {
		return "", false, nil
	}
	if json.Unmarshal(raw, &text) != nil {
		return "", true, httpkit.SchemaFault(fault.Field{Pointer: "/workflow_yaml", Code: "type",
			Message: "must be a string"})
	}
	if len(members) > 1 {
		return "", true, httpkit.SchemaFault(fault.Field{Pointer: "", Code: "unknown", Message: "must have no members other than workflow_yaml"})
	}
	return text, true, nil
}

// GetWorkflow returns the latest version of a workflow.
func (s *Handlers) GetWorkflow(ctx context.Context, in api.GetWorkflowRequestObject) (api.Response, error) {
	return s.workflowVersion(ctx, in.Name, 0, in.Params.IfNoneMatch)
}

// GetWorkflowVersion returns one version of a workflow.
func (s *Handlers) GetWorkflowVersion(ctx context.Context,
	in api.GetWorkflowVersionRequestObject) (api.Response, error) {
	return s.workflowVersion(ctx, in.Name, int(in.Version), in.Params.IfNoneMatch)
}

func (s *Handlers) workflowVersion(ctx context.Context, name string, version int, ifNone *string) (httpkit.Answer,
	error) {
	ctx, cancel := s.Bounded(ctx)
	defer cancel()
	if err := checkName(name); err != nil {
		return httpkit.Answer{}, err
	}
	w, err := s.Workflows.Get(ctx, httpkit.RequestOf(ctx).Tenant.ID, name, version)
	if err != nil && !errors.Is(err, workflow.ErrUnreadable) {
		return httpkit.Answer{}, err
	}
	return workflowAnswer(w).Unchanged(ifNone)
}

// EnableWorkflow allows new sagas of a workflow.
func (s *Handlers) EnableWorkflow(ctx context.Context, in api.EnableWorkflowRequestObject) (api.Response, error) {
	return s.setEnabled(ctx, in.Name, true, in.Params.IfMatch, httpkit.ReasonOf(in.Body))
}

// DisableWorkflow makes a workflow refuse new sagas.
func (s *Handlers) DisableWorkflow(ctx context.Context, in api.DisableWorkflowRequestObject) (api.Response, error) {
	return s.setEnabled(ctx, in.Name, false, in.Params.IfMatch, httpkit.ReasonOf(in.Body))
}

func (s *Handlers) setEnabled(ctx context.Context, name string, enabled bool, match,
	reason *string) (httpkit.Answer, error) {
	ctx, cancel := s.Promised(ctx)
	defer cancel()
	if err := checkName(name); err != nil {
		return httpkit.Answer{}, err
	}
	tenant := httpkit.RequestOf(ctx).Tenant.ID
	revision, err := s.matching(ctx, tenant, name, match)
	if err != nil {
		return httpkit.Answer{}, err
	}
	if httpkit.DryRun(ctx) {
		w, err := s.Workflows.Get(ctx, tenant, name, 0)
		if err != nil {
			return httpkit.Answer{}, err
		}
		a := workflowAnswer(w)
		out := toAPIWorkflow(&w, true)
		out.Enabled = enabled
		return httpkit.Would(a, out, func(w *api.Workflow) **api.PlannedChanges { return &w.Changes })
	}
	w, err := s.Workflows.SetEnabled(httpkit.WithActor(ctx, reason), tenant, name, enabled, revision, s.Now())
	if err != nil {
		return httpkit.Answer{}, err
	}
	return workflowAnswer(w), nil
}

// matching returns the revision that matches If-Match, or 0 without the header. Faults:
// Precondition if the header names another revision, NotFound for an unknown workflow.
func (s *Handlers) matching(ctx context.Context, tenant uuid.UUID, name string, match *string) (int64, error) {
	if match == nil {
		return 0, nil
	}
	w, err := s.Workflows.Get(ctx, tenant, name, 0)
	if err != nil && !errors.Is(err, workflow.ErrUnreadable) {
		return 0, err
	}
	switch fits, err := httpkit.IfMatch(match, w.Revision); {
	case err != nil:
		return 0, err
	case !fits:
		return 0, httpkit.Stale(workflow.CodeStale, "workflow", w.Revision)
	}
	return w.Revision, nil
}

// checkName rejects names that no workflow can have, before the store is queried. Fault: NotFound.
func checkName(name string) error {
	if workflow.ValidName(name) {
		return nil
	}
	return fault.New(fault.NotFound, workflow.CodeNotFound, "there is no workflow %q: the name is not valid", httpkit.Clip(name))
}
