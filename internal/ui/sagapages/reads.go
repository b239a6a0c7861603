package sagapages

import (
	"github.com/google/uuid"

	"github.com/skald-saga/skald/api/client"
	"github.com/skald-saga/skald/internal/ui/web"
)

type pages struct{ kit *web.Kit }

// explain reads what the saga is waiting for.
func (p *pages) explain(v *web.Visit, id uuid.UUID) (*client.SagaExplanation, error) {
	res, err := p.kit.Client.ExplainSagaWithResponse(v.Context(), id)
	if err != nil {
		return nil, err
	}
	return web.Got(res.JSON200, res.ApplicationProblemJSONDefault)
}

// steps reads the steps of the saga with their inputs and outputs.
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
	return nil
}

// definition reads what the steps call. If this fails, only a line of the page is missing.
func (p *pages) definition(v *web.Visit, s *story) error {
	version, err := p.kit.Client.GetWorkflowVersionWithResponse(
		v.Context(), s.saga.WorkflowName, int32(s.saga.WorkflowVersion), &client.GetWorkflowVersionParams{},
	)
	if err == nil && version.JSON200 != nil {
		s.definition = version.JSON200.Definition
	}
	return err
}

// open reads the requests and responses of the attempts that logs points to.
func (p *pages) open(v *web.Visit, s *story, logs ...*client.StepLog) error {
	params := &client.ListStepLogsParams{Include: []string{"running"}}
	for _, l := range logs {
		params.ID = append(params.ID, l.ID)
	}
	res, err := p.kit.Client.ListStepLogsWithResponse(v.Context(), s.saga.SagaID, params)
	if err != nil {
		return err
	}
	list, err := web.Got(res.JSON200, res.ApplicationProblemJSONDefault)
	if err != nil {
		return err
	}
	for i := range list.StepLogs {
		for _, l := range logs {
			if l.ID == list.StepLogs[i].ID {
				*l = list.StepLogs[i]
			}
		}
	}
	return nil
}

// titleOf returns the title of a saga: its name, or its workflow and business key.
func titleOf(s *client.Saga) string {
	switch {
	case s.Name != nil && *s.Name != "":
		return *s.Name
	case s.BusinessKey != nil && *s.BusinessKey != "":
		return s.WorkflowName + " " + *s.BusinessKey
	}
	return s.WorkflowName + " " + s.SagaID.String()[:8]
}
