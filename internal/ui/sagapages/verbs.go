package sagapages

import (
	"context"
	"io"
	"net/http"

	"github.com/google/uuid"

	"github.com/skald-saga/skald/api/client"
	"github.com/skald-saga/skald/internal/ui/web"
)

// verb is one of the API's actions on a saga.
type verb struct {
	label   string
	undo    string // the label when it is about the undo of a step; empty: there is no such case
	class   web.Class
	warning string
	step    bool // it is about one step
	noDry   bool // the operation has no dry run
	fields  []web.Field
	send    send
}

// send calls the operation of an action. step is empty for those that are about the whole saga.
type send func(r request) (*http.Response, error)

// request is what the operations of all actions get.
type request struct {
	*client.ClientWithResponses
	ctx  context.Context
	id   uuid.UUID
	step string
	body io.Reader
	edit client.RequestEditorFn
}

var verbs = map[client.SagaAction]verb{
	client.SagaActionCancel: {
		label: "Cancel", class: web.Changes,
		send: func(r request) (*http.Response, error) {
			return r.CancelSagaWithBody(r.ctx, r.id, &client.CancelSagaParams{}, web.JSON, r.body, r.edit)
		},
	},
	client.SagaActionCompensate: {
		label: "Compensate", class: web.Changes,
		send: func(r request) (*http.Response, error) {
			return r.CompensateSagaWithBody(r.ctx, r.id, &client.CompensateSagaParams{}, web.JSON, r.body, r.edit)
		},
	},
	client.SagaActionResumeCompensation: {
		label: "Resume compensation", class: web.Changes,
		send: func(r request) (*http.Response, error) {
			return r.ResumeCompensationWithBody(r.ctx, r.id, &client.ResumeCompensationParams{}, web.JSON, r.body, r.edit)
		},
	},
	client.SagaActionRetry: {
		label: "Retry", class: web.Changes,
		send: func(r request) (*http.Response, error) {
			return r.RetrySagaWithBody(r.ctx, r.id, &client.RetrySagaParams{}, web.JSON, r.body, r.edit)
		},
	},
	client.SagaActionSuspend: {
		label: "Suspend", class: web.Changes,
		send: func(r request) (*http.Response, error) {
			return r.SuspendSagaWithBody(r.ctx, r.id, &client.SuspendSagaParams{}, web.JSON, r.body, r.edit)
		},
	},
	client.SagaActionResume: {
		label: "Resume", class: web.Changes,
		send: func(r request) (*http.Response, error) {
			return r.ResumeSagaWithBody(r.ctx, r.id, &client.ResumeSagaParams{}, web.JSON, r.body, r.edit)
		},
	},
	client.SagaActionExtendDeadline: {
		label: "Extend the deadline", class: web.Changes,
		fields: []web.Field{
			{Name: "timeout_ms", Label: "It may take, from now on", Kind: "select", Value: "900000", Options: []web.Option{
				{Value: "900000", Label: "15 minutes"}, {Value: "3600000", Label: "1 hour"}, {Value: "14400000", Label: "4 hours"},
				{Value: "86400000", Label: "1 day"}, {Value: "604800000", Label: "7 days"},
			}},
			{Name: "until", Label: "Or until (UTC)", Hint: "2026-12-31T18:00:00Z"},
		},
		send: func(r request) (*http.Response, error) {
			return r.ExtendDeadlineWithBody(r.ctx, r.id, &client.ExtendDeadlineParams{}, web.JSON, r.body, r.edit)
		},
	},
	client.SagaActionAcknowledge: {
		label: "Acknowledge", class: web.Changes,
		send: func(r request) (*http.Response, error) {
			return r.AcknowledgeSagaWithBody(r.ctx, r.id, &client.AcknowledgeSagaParams{}, web.JSON, r.body, r.edit)
		},
	},
	client.SagaActionRestore: {
		label: "Restore from the archive", class: web.Changes,
		noDry: true,
		send: func(r request) (*http.Response, error) {
			return r.RestoreSagaWithBody(r.ctx, r.id, &client.RestoreSagaParams{}, web.JSON, r.body, r.edit)
		},
	},
	client.SagaActionForceComplete: {
		label: "Force completion", class: web.Dangerous,
		warning: "The saga ends as completed whatever its steps did. Nothing is called any more.",
		send: func(r request) (*http.Response, error) {
			return r.ForceCompleteWithBody(r.ctx, r.id, &client.ForceCompleteParams{}, web.JSON, r.body, r.edit)
		},
	},
	client.SagaActionForceFail: {
		label: "Force failure", class: web.Dangerous,
		warning: "The saga ends as failed without compensation. What its steps did stays.",
		send: func(r request) (*http.Response, error) {
			return r.ForceFailWithBody(r.ctx, r.id, &client.ForceFailParams{}, web.JSON, r.body, r.edit)
		},
	},
	client.SagaActionSkipStep: {
		label: "Skip %s", class: web.Changes, step: true,
		undo: "Skip the undo of %s",
		send: func(r request) (*http.Response, error) {
			return r.SkipStepWithBody(r.ctx, r.id, r.step, &client.SkipStepParams{}, web.JSON, r.body, r.edit)
		},
	},
	client.SagaActionCompleteStep: {
		label: "Mark %s as done by hand", class: web.Changes, step: true,
		undo:   "Mark %s as undone by hand",
		fields: []web.Field{{Name: "output", Label: "Its output", Kind: "json", Hint: "what later steps see as its output"}},
		send: func(r request) (*http.Response, error) {
			return r.CompleteStepWithBody(r.ctx, r.id, r.step, &client.CompleteStepParams{}, web.JSON, r.body, r.edit)
		},
	},
	client.SagaActionFailStep: {
		label: "Mark %s as failed", class: web.Changes, step: true,
		undo: "Mark the undo of %s as failed",
		send: func(r request) (*http.Response, error) {
			return r.FailStepWithBody(r.ctx, r.id, r.step, &client.FailStepParams{}, web.JSON, r.body, r.edit)
		},
	},
}
