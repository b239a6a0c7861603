package sagaapi

import (
	"encoding/json"
	"net/http"

	"github.com/skald-saga/skald/api"
	"github.com/skald-saga/skald/internal/httpkit"
	"github.com/skald-saga/skald/internal/saga/workflow"
)

// toAPIWorkflow converts a version of a workflow, with or without its definition.
func toAPIWorkflow(w *workflow.Registered, full bool) api.Workflow {
	out := api.Workflow{
		Name: w.Name, Version: w.Version, LatestVersion: w.Latest, Enabled: w.Enabled,
		StepCount: len(w.Definition.Steps), StepNames: w.Definition.StepNames(),
		CreatedAt: w.CreatedAt, UpdatedAt: w.UpdatedAt,
	}
	if w.Definition.Description != "" {
		out.Description = &w.Definition.Description
	}
	if w.Unreadable {
		out.DefinitionUnreadable = new(true)
		return out
	}
	if full {
		out.Definition = definitionJSON(w.Definition)
	}
	return out
}

func definitionJSON(def *workflow.Definition) json.RawMessage {
	b, err := json.Marshal(def)
	if err != nil {
		panic("sagaapi: a definition is not JSON: " + err.Error())
	}
	return b
}

// workflowAnswer returns the response for a version. Its ETag is the revision of the name, because
// the response changes when the workflow is enabled or gets a newer version.
func workflowAnswer(w workflow.Registered) httpkit.Answer {
	return httpkit.Answer{Status: http.StatusOK, Body: toAPIWorkflow(&w, true), ETag: httpkit.ETagOf(w.Revision)}
}
