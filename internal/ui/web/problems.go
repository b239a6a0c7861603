package web

import (
	"errors"
	"net/http"

	"github.com/skald-saga/skald/api/client"
)

// Refusal is a problem document of the API as an error.
type Refusal struct{ client.Problem }

func (r *Refusal) Error() string { return r.Code + ": " + r.Detail }

// ErrNoPage is returned for a URL that does not name anything.
var ErrNoPage = &Refusal{client.Problem{
	Status: http.StatusNotFound, Code: "REQ_NOT_FOUND", Title: "Not found", Detail: "There is no such page.",
}}

var crossSite = &Refusal{client.Problem{
	Status: http.StatusForbidden, Code: "AUTH_CROSS_SITE", Title: "Cross-site request refused",
	Detail: "The request would make a change, but nothing proves that it came from a page of this server.",
}}

var readOnly = &Refusal{client.Problem{
	Status: http.StatusForbidden, Code: "AUTH_FORBIDDEN", Title: "Permission denied",
	Detail: "The pages of this installation are read-only (ui.mode is read_only). The API still accepts actions.",
}}

// Link is a link to a page, with its name.
type Link struct{ Name, URL string }

var internal = &Refusal{client.Problem{
	Status: http.StatusInternalServerError, Code: "SYS_INTERNAL", Title: "Internal error",
	Detail: "The page cannot be shown; see the server's log for the cause.",
}}

// Malformed returns the refusal of input that cannot be sent to the API.
func Malformed(detail string) *Refusal {
	return &Refusal{client.Problem{
		Status: http.StatusBadRequest, Code: "REQ_MALFORMED", Title: "Malformed", Detail: detail,
	}}
}

// Got returns the API's response, or its problem as a *Refusal.
func Got[T any](answer *T, problem *client.Failure) (*T, error) {
	switch {
	case problem != nil:
		return nil, &Refusal{*problem}
	case answer == nil:
		return nil, errors.New("the API returned a response that its contract does not define")
	}
	return answer, nil
}

// NotFound reports whether err means that a resource does not exist according to the API.
func NotFound(err error) bool {
	var r *Refusal
	return errors.As(err, &r) && r.Status == http.StatusNotFound
}
