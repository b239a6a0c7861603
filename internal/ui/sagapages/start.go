package sagapages

import (
	"context"
	"encoding/json"
	"io"
	"net/http"

	"github.com/skald-saga/skald/api/client"
	"github.com/skald-saga/skald/internal/ui/web"
)

// start is the form for starting a saga of a registered workflow.
func (p *pages) start(v *web.Visit) (*web.Action, error) {
	enabled, size := true, client.PageSize(200)
	res, err := p.kit.Client.ListWorkflowsWithResponse(
		v.Context(), &client.ListWorkflowsParams{Enabled: &enabled, PageSize: &size},
	)
	if err != nil {
		return nil, err
	}
	list, err := web.Got(res.JSON200, res.ApplicationProblemJSONDefault)
	if err != nil {
		return nil, err
	}
	workflow := web.Field{Name: "workflow_name", Label: "Workflow", Required: true, Hint: "order"}
	if list.Pagination.NextCursor == nil && len(list.Workflows) > 0 {
		workflow.Kind = "select"
		for i := range list.Workflows {
			name := list.Workflows[i].Name
			workflow.Options = append(workflow.Options, web.Option{Value: name, Label: name})
		}
	}
	return &web.Action{
		Label: "Start", Title: "Start a saga", Nav: "Sagas", Back: web.Link{Name: "Sagas", URL: "/ui/sagas"},
		Class: web.Safe, Needs: "sagas:write", NoReason: true, DryRun: web.DryRunInQuery,
		Means: "Once accepted, the saga is durable and runs to its end. The form carries an Idempotency-Key, " +
			"so submitting it twice starts only one saga.",
		Fields: []web.Field{
			workflow,
			{Name: "business_key", Label: "Business key", Hint: "order-4711"},
			{Name: "payload", Label: "Payload", Kind: "json", Hint: `{"sku": "lamp", "quantity": 2}`},
			{Name: "correlation_id", Label: "Correlation ID"},
			{Name: "metadata", Label: "Metadata", Kind: "json", Hint: `{"region": "eu"}`},
			{Name: "name", Label: "Name", Hint: "Order 4711"},
			{Name: "timeout_ms", Label: "Timeout", Kind: "span", Hint: "5 min"},
		},
		Send: func(ctx context.Context, body io.Reader, edit client.RequestEditorFn) (*http.Response, error) {
			return p.kit.Client.CreateSagaWithBody(ctx, &client.CreateSagaParams{}, web.JSON, body, edit)
		},
		Done: func(answer []byte) string {
			var made struct {
				ID string `json:"saga_id"`
			}
			_ = json.Unmarshal(answer, &made) // go to the list if the API does not return the saga
			return "/ui/sagas/" + made.ID
		},
	}, nil
}
