// Package api contains the code generated from the contract, openapi.yaml: types, router, decoded
// requests and the contract itself. Only the HTTP edge imports it; clients use package client
// below.
package api

import (
	"context"
	"net/http"
)

//go:generate go tool oapi-codegen -config server.yaml ../openapi.yaml
//go:generate go tool oapi-codegen -config client.yaml ../openapi.yaml

// Response is the successful response of any operation: one type that writes status, headers and
// body serves them all. Tests check responses against the contract.
type Response interface {
	// Write sends the response. An error means that nothing was sent.
	Write(w http.ResponseWriter) error
}

// Ways are the check that runs before an operation, and the handlers of its two outcomes.
type Ways struct {
	// Check returns the errors in a JSON body that its schema does not cover.
	Check func(body any) error
	// Unbound is called instead of an operation whose request cannot be decoded or does not pass
	// Check.
	Unbound func(w http.ResponseWriter, r *http.Request, err error)
	// Answer is called with the result of an operation.
	Answer func(w http.ResponseWriter, r *http.Request, response Response, err error)
}

type decoder struct {
	operations Operations
	Ways
}

// serve executes an operation with a decoded request.
func serve[R any](
	d *decoder, w http.ResponseWriter, b *bound, request *R, perform func(context.Context, R) (Response, error),
) {
	if b.err != nil {
		d.Unbound(w, b.Request, b.err)
		return
	}
	response, err := perform(b.Context(), *request)
	d.Answer(w, b.Request, response, err)
}
