package sagapages

import (
	"github.com/google/uuid"

	"github.com/skald-saga/skald/api/client"
	"github.com/skald-saga/skald/internal/ui/web"
)

type pages struct{ kit *web.Kit }

// explain reads what the saga waits for.
func (p *pages) explain(v *web.Visit, id uuid.UUID) (*client.SagaExplanation, error) {
	res, err := p.kit.Client.ExplainSagaWithResponse(v.Context(), id)
	if err != nil {
		return nil, err
	}
	return web.Got(res.JSON200, res.ApplicationProblemJSONDefault)
}

// steps reads the steps of the saga, and what they call.
func (p *pages) steps(v *web.Visit, s *story) error {
	res, err := p.kit.Client.ListStepsWithResponse(v.Context(), s.saga.SagaID, &client.ListStepsParams{})
	if err != nil {
		return err
	}
	steps, err := web.Got(res.JSON200, res.ApplicationProblemJSONDefault)
	if err != nil {
		return err
	}
	s.steps = steps.Steps
	version, err := p.kit.Client.GetWorkflowVersionWithResponse(
		v.Context(), s.saga.WorkflowName, int32(s.saga.WorkflowVersion), &client.GetWorkflowVersionParams{},
	)
	if err == nil && version.JSON200 != nil { // what the steps call is worth a line, not the page
		s.definition = version.JSON200.Definition
	}
	return nil
}

// titleOf names a saga as people do: by its name, else by its workflow and what it is
// about.
func titleOf(s *client.Saga) string {
	switch {
	case s.Name != nil && *s.Name != "":
		return *s.Name
	case s.BusinessKey != nil && *s.BusinessKey != "":
		return s.WorkflowName + " " + *s.BusinessKey
	}
	return s.WorkflowName + " " + s.SagaID.String()[:8]
}
