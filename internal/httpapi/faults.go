package httpapi

import (
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/skald-saga/skald/api"
	"github.com/skald-saga/skald/internal/fault"
	"github.com/skald-saga/skald/internal/strictjson"
)

// Bounds of a problem document, which repeats parts of what the client sent.
const (
	maxProblemFields = 100
	maxProblemText   = 1000 // bytes of one text
)

// clip shortens a text that holds what a client sent.
func clip(s string) string {
	if len(s) <= maxProblemText {
		return s
	}
	return strings.ToValidUTF8(s[:maxProblemText], "") + "…"
}

// badParameter is the fault of one parameter.
func badParameter(name, code, format string, args ...any) *fault.Error {
	return parameterFault(codeInvalidParameter, fault.Field{Pointer: name, Code: code, Message: fmt.Sprintf(format, args...)})
}

func parameterFault(code string, fields ...fault.Field) *fault.Error {
	return summed(fault.Malformed, code, fields)
}

// schemaFault is the fault of a body that does not fit the contract.
func schemaFault(fields ...fault.Field) *fault.Error {
	return summed(fault.Invalid, codeSchema, fields)
}

// summed makes one fault of several mistakes; its detail tells the first.
func summed(kind fault.Kind, code string, fields []fault.Field) *fault.Error {
	detail := fields[0].Message
	if at := fields[0].Pointer; at != "" {
		detail = at + " " + detail
	}
	if n := len(fields); n > 1 {
		detail = fmt.Sprintf("%s (and %d more)", detail, n-1)
	}
	return fault.New(kind, code, "%s", detail).With(fields...)
}

// strictCodes are the problems of what strictjson refuses; the rest is REQ_INVALID_JSON.
var strictCodes = map[string]string{
	strictjson.CodeInvalidUTF8:  codeInvalidUTF8,
	strictjson.CodeDuplicateKey: codeDuplicateKey,
	strictjson.CodeTooDeep:      codeTooDeep,
	strictjson.CodeNULCharacter: codeNUL,
}

func notStrict(err error) error {
	var e *strictjson.Error
	if !errors.As(err, &e) {
		return err
	}
	code := strictCodes[e.Code]
	if code == "" {
		code = codeInvalidJSON
	}
	return fault.New(fault.Malformed, code, "at byte %d: %s", e.Offset, e.Detail).
		With(fault.Field{Pointer: e.Pointer, Code: e.Code, Message: e.Detail})
}

// unreadable is the fault of a body that fits the contract, which knows the form
// of a time and of a whole number, and nothing of leap years.
func unreadable(err error) error {
	var when *time.ParseError
	switch {
	case err == nil:
		return nil
	case errors.As(err, &when):
		return schemaFault(fault.Field{Code: "invalid", Message: "holds " + clip(when.Value) + ", which is not a valid time"})
	}
	return schemaFault(fault.Field{Code: "type", Message: "holds a fractional number or a value of the wrong type"})
}

// itemProblem is what a problem document says of one item of many.
func itemProblem(f *fault.Error) *api.ItemProblem {
	p := &api.ItemProblem{Code: f.Code, Detail: clip(f.Detail)}
	for _, field := range f.Fields[:min(len(f.Fields), maxProblemFields)] {
		p.Errors = append(p.Errors, api.ProblemField{Pointer: clip(field.Pointer), Code: field.Code, Message: clip(field.Message)})
	}
	return p
}

func statusOf(k fault.Kind) int {
	switch k {
	case fault.Invalid:
		return http.StatusUnprocessableEntity
	case fault.Malformed:
		return http.StatusBadRequest
	case fault.NotFound:
		return http.StatusNotFound
	case fault.Conflict:
		return http.StatusConflict
	case fault.Precondition:
		return http.StatusPreconditionFailed
	case fault.TooLarge:
		return http.StatusRequestEntityTooLarge
	case fault.Unsupported:
		return http.StatusUnsupportedMediaType
	case fault.Unavailable:
		return http.StatusServiceUnavailable
	case fault.Unauthenticated:
		return http.StatusUnauthorized
	case fault.Forbidden:
		return http.StatusForbidden
	case fault.Upstream:
		return http.StatusBadGateway
	case fault.Gone:
		return http.StatusGone
	}
	return http.StatusInternalServerError
}
