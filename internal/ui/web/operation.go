package web

import (
	"context"
	"io"
	"net/http"
	"strings"

	"github.com/google/uuid"

	"github.com/skald-saga/skald/api/client"
)

// Operation is an operation on the resource with an id, as called by Send of an action.
type Operation func(
	c *client.ClientWithResponses, ctx context.Context, id uuid.UUID, body io.Reader, edit client.RequestEditorFn,
) (*http.Response, error)

// Call is a function of the generated client for such an operation; each has its own parameter type
// P.
type Call[P any] func(
	c client.ClientInterface, ctx context.Context, id uuid.UUID, params *P, contentType string, body io.Reader,
	edit ...client.RequestEditorFn,
) (*http.Response, error)

// On returns the operation that calls a function of the generated client:
// On(client.ClientInterface.CancelSagaWithBody). Its parameters stay empty, because edit adds their
// content to the request.
func On[P any](call Call[P]) Operation {
	return func(
		c *client.ClientWithResponses, ctx context.Context, id uuid.UUID, body io.Reader, edit client.RequestEditorFn,
	) (*http.Response, error) {
		return call(c.ClientInterface, ctx, id, new(P), JSON, body, edit)
	}
}

// ContinuesWith describes the effect of resuming a halted operation on many objects: found is how
// many it found (nil: it was not halted for their number), and what is their plural.
func ContinuesWith(found *int64, what string) string {
	if found == nil {
		return ""
	}
	if *found == 1 {
		return "It continues with the 1 " + strings.TrimSuffix(what, "s") + " that it found."
	}
	return "It continues with all " + Count(*found) + " " + what + " that it found."
}
