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
	undo    string // the label if it concerns the undo of a step; empty: there is no such case
	class   web.Class
	warning string
	step    bool // it concerns a single step
	noDry   bool // its dry run shows changes instead of calls
	fields  []web.Field
	send    send
}

// needs returns the permission that the operation requires.
func (k verb) needs() string {
	if k.step || k.noDry || k.class == web.Dangerous {
		return "sagas:admin"
	}
	return "sagas:write"
}

// send calls the operation for an action. The step in the request is empty for actions on the whole
// saga.
type send func(r request) (*http.Response, error)

// request contains what the operations of all actions need.
type request struct {
	*client.ClientWithResponses
	ctx  context.Context
	id   uuid.UUID
	step string
	body io.Reader
	edit client.RequestEditorFn
}

// whole returns the operation for an action on the whole saga.
func whole[P any](call web.Call[P]) send {
	operation := web.On(call)
	return func(r request) (*http.Response, error) {
		return operation(r.ClientWithResponses, r.ctx, r.id, r.body, r.edit)
	}
}

// ofStep returns the operation for an action on one step.
func ofStep[P any](call func(
	c client.ClientInterface, ctx context.Context, saga uuid.UUID, step string, params *P, contentType string,
	body io.Reader, edit ...client.RequestEditorFn,
) (*http.Response, error)) send {
	return func(r request) (*http.Response, error) {
		return call(r.ClientInterface, r.ctx, r.id, r.step, new(P), web.JSON, r.body, r.edit)
	}
}

var verbs = map[client.SagaAction]verb{
	client.SagaActionCancel: {
		label: "Cancel", class: web.Changes,
		send: whole(client.ClientInterface.CancelSagaWithBody),
	},
	client.SagaActionCompensate: {
		label: "Compensate", class: web.Changes,
		send: whole(client.ClientInterface.CompensateSagaWithBody),
	},
	client.SagaActionResumeCompensation: {
		label: "Resume compensation", class: web.Changes,
		send: whole(client.ClientInterface.ResumeCompensationWithBody),
	},
	client.SagaActionRetry: {
		label: "Retry", class: web.Changes,
		send: whole(client.ClientInterface.RetrySagaWithBody),
	},
	client.SagaActionSuspend: {
		label: "Suspend", class: web.Changes,
		send: whole(client.ClientInterface.SuspendSagaWithBody),
	},
	client.SagaActionResume: {
		label: "Resume", class: web.Changes,
		send: whole(client.ClientInterface.ResumeSagaWithBody),
	},
	client.SagaActionExtendDeadline: {
		label: "Extend the deadline", class: web.Changes,
		fields: []web.Field{
			{Name: "timeout_ms", Label: "New timeout, from now", Kind: "select", Value: "900000", Options: []web.Option{
				{Value: "900000", Label: "15 minutes"}, {Value: "3600000", Label: "1 hour"}, {Value: "14400000", Label: "4 hours"},
				{Value: "86400000", Label: "1 day"}, {Value: "604800000", Label: "7 days"},
			}},
			{Name: "until", Label: "Or until (UTC)", Hint: "2026-12-31T18:00:00Z"},
		},
		send: whole(client.ClientInterface.ExtendDeadlineWithBody),
	},
	client.SagaActionAcknowledge: {
		label: "Acknowledge", class: web.Changes,
		send: whole(client.ClientInterface.AcknowledgeSagaWithBody),
	},
	client.SagaActionRestore: {
		label: "Restore from the archive", class: web.Changes,
		noDry: true,
		send:  whole(client.ClientInterface.RestoreSagaWithBody),
	},
	client.SagaActionForceComplete: {
		label: "Force completion", class: web.Dangerous,
		warning: "The saga ends as completed regardless of what its steps did. No further calls are made.",
		send:    whole(client.ClientInterface.ForceCompleteWithBody),
	},
	client.SagaActionForceFail: {
		label: "Force failure", class: web.Dangerous,
		warning: "The saga ends as failed without compensation. The effects of its steps remain.",
		send:    whole(client.ClientInterface.ForceFailWithBody),
	},
	client.SagaActionSkipStep: {
		label: "Skip %s", class: web.Changes, step: true,
		undo: "Skip the undo of %s",
		send: ofStep(client.ClientInterface.SkipStepWithBody),
	},
	client.SagaActionCompleteStep: {
		label: "Mark %s as done manually", class: web.Changes, step: true,
		undo:   "Mark %s as undone manually",
		fields: []web.Field{{Name: "output", Label: "Its output", Kind: "json", Hint: "the output that later steps see"}},
		send:   ofStep(client.ClientInterface.CompleteStepWithBody),
	},
	client.SagaActionFailStep: {
		label: "Mark %s as failed", class: web.Changes, step: true,
		undo: "Mark the undo of %s as failed",
		send: ofStep(client.ClientInterface.FailStepWithBody),
	},
}
