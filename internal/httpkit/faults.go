package httpkit

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/skald-saga/skald/api"
	"github.com/skald-saga/skald/internal/fault"
	"github.com/skald-saga/skald/internal/strictjson"
)

// Limits of a problem document, which repeats parts of what the client sent.
const (
	MaxProblemFields = 100
	maxProblemText   = 1000 // maximum size of one text, in bytes
)

// Clip shortens a text that repeats a client's input.
func Clip(s string) string {
	if len(s) <= maxProblemText {
		return s
	}
	return strings.ToValidUTF8(s[:maxProblemText], "") + "…"
}

// maxPath is how much of a request's path a problem repeats. It is more than any path of the
// contract needs, including IDs.
const maxPath = 255

// ClipPath shortens an escaped path that repeats a client's input.
func ClipPath(path string) string {
	if len(path) <= maxPath {
		return path
	}
	cut := path[:maxPath]
	if i := strings.LastIndexByte(cut, '%'); i > maxPath-3 {
		cut = cut[:i] // do not cut in the middle of an escape
	}
	return cut
}

// InOrder returns the fault for a period that ends before it begins; nil if either end is missing.
func InOrder(fromName, toName string, from, to time.Time) *fault.Error {
	if from.IsZero() || to.IsZero() || !to.Before(from) {
		return nil
	}
	return BadParameter(toName, "invalid", "must not be before %s", fromName)
}

// BadParameter returns the fault for one invalid parameter.
func BadParameter(name, code, format string, args ...any) *fault.Error {
	return ParameterFault(CodeInvalidParameter, fault.Field{Parameter: name, Code: code,
		Message: fmt.Sprintf(format, args...)})
}

// BadHeader returns the fault for one invalid header.
func BadHeader(name, code, format string, args ...any) *fault.Error {
	return ParameterFault(CodeInvalidParameter, fault.Field{Header: name, Code: code,
		Message: fmt.Sprintf(format, args...)})
}

// InFilter converts mistakes in the parameters of a list to mistakes in the filter of a body.
func InFilter(wrong []fault.Field) []fault.Field {
	fields := slices.Clone(wrong)
	for i := range fields {
		f := &fields[i]
		f.Pointer, f.Parameter = "/filter/"+strictjson.Token(f.Parameter), ""
	}
	return fields
}

// ParameterFault returns the fault for several invalid parameters and headers.
func ParameterFault(code string, fields ...fault.Field) *fault.Error {
	return FieldsFault(fault.Malformed, code, fields)
}

// SchemaFault returns the fault for a body that does not match the contract.
func SchemaFault(fields ...fault.Field) *fault.Error {
	return FieldsFault(fault.Invalid, CodeSchema, fields)
}

// FieldsFault returns one fault for several mistakes; its detail is the first mistake.
func FieldsFault(kind fault.Kind, code string, fields []fault.Field) *fault.Error {
	detail := fields[0].Message
	if at := fields[0].Place(); at != "" {
		detail = at + " " + detail
	}
	if n := len(fields); n > 1 {
		detail = fmt.Sprintf("%s (and %d more)", detail, n-1)
	}
	return fault.New(kind, code, "%s", detail).With(fields...)
}

// strictCodes are the problem codes for errors of strictjson; all others become REQ_INVALID_JSON.
var strictCodes = map[string]string{
	strictjson.CodeInvalidUTF8:  CodeInvalidUTF8,
	strictjson.CodeDuplicateKey: CodeDuplicateKey,
	strictjson.CodeTooDeep:      CodeTooDeep,
	strictjson.CodeNULCharacter: CodeNUL,
}

// NotStrict returns the fault for JSON that strictjson rejects.
func NotStrict(err error) error {
	var e *strictjson.Error
	if !errors.As(err, &e) {
		return err
	}
	code := strictCodes[e.Code]
	if code == "" {
		code = CodeInvalidJSON
	}
	return fault.New(fault.Malformed, code, "at byte %d: %s", e.Offset, e.Detail).
		With(fault.Field{Pointer: e.Pointer, Code: e.Code, Message: e.Detail})
}

// Unreadable returns the fault for a body that matches the contract but cannot be decoded: the
// contract checks the form of times and whole numbers, but not leap years, for example.
func Unreadable(err error) error {
	var when *time.ParseError
	var typ *json.UnmarshalTypeError
	switch {
	case err == nil:
		return nil
	case errors.As(err, &typ) && typ.Field != "": // the schema calls 1.0 an integer; Go does not
		return SchemaFault(fault.Field{Pointer: "/" + strings.ReplaceAll(typ.Field, ".", "/"), Code: "type",
			Message: "has the wrong type, or has a fraction"})
	case errors.As(err, &when):
		return SchemaFault(fault.Field{Code: "invalid", Message: "holds " + Clip(when.Value) + ", which is not a valid time"})
	}
	return SchemaFault(fault.Field{Code: "type", Message: "contains a fractional number or a value of the wrong type"})
}

// ItemProblem returns the problem of one item of a batch.
func ItemProblem(f *fault.Error) *api.ItemProblem {
	return &api.ItemProblem{Code: f.Code, Detail: Clip(f.Detail), Errors: ProblemFields(f)}
}

// ProblemFields returns the mistakes of a fault in the form of a problem document.
func ProblemFields(f *fault.Error) []api.ProblemField {
	var all []api.ProblemField
	for _, field := range f.Fields[:min(len(f.Fields), MaxProblemFields)] {
		all = append(all, api.ProblemField{
			Pointer: Clip(field.Pointer), Parameter: Clip(field.Parameter), Header: Clip(field.Header),
			Code: field.Code, Message: Clip(field.Message),
		})
	}
	return all
}

// StatusOf returns the HTTP status for faults of a kind.
func StatusOf(k fault.Kind) int {
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
	case fault.Unguarded:
		return http.StatusPreconditionRequired
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
	case fault.Slow:
		return http.StatusRequestTimeout
	case fault.TooMany:
		return http.StatusTooManyRequests
	}
	return http.StatusInternalServerError
}
