package web

import (
	"context"
	"io"
	"net/http"

	"github.com/google/uuid"

	"github.com/skald-saga/skald/api/client"
)

// Operation is an operation on the resource with an id, as the Send of an action calls it.
type Operation func(
	c *client.ClientWithResponses, ctx context.Context, id uuid.UUID, body io.Reader, edit client.RequestEditorFn,
) (*http.Response, error)

// Call is the function that the generated client has for such an operation; each has parameters P of its own.
type Call[P any] func(
	c client.ClientInterface, ctx context.Context, id uuid.UUID, params *P, contentType string, body io.Reader,
	edit ...client.RequestEditorFn,
) (*http.Response, error)

// On is the operation that a function of the generated client calls: On(client.ClientInterface.CancelSagaWithBody).
// What goes into its parameters, edit adds to the request.
func On[P any](call Call[P]) Operation {
	return func(
		c *client.ClientWithResponses, ctx context.Context, id uuid.UUID, body io.Reader, edit client.RequestEditorFn,
	) (*http.Response, error) {
		return call(c.ClientInterface, ctx, id, new(P), JSON, body, edit)
	}
}
