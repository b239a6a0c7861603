// Package fault provides the only error type that crosses packages.
//
// A fault is an error that someone can act on, such as a client that sent an invalid request or a
// caller that lost a race. Every other error (a lost connection, a full disk) stays an ordinary
// error: it is logged with its cause and reported to clients as an outage without details.
package fault

import (
	"cmp"
	"errors"
	"fmt"
)

// Kind is what a caller can do about a fault; the HTTP edge maps it to a status.
type Kind int

// Kinds. The zero value is never used, so a forgotten kind shows up as an outage.
const (
	Invalid         Kind = iota + 1 // the input is wrong: 400 or 422, see Malformed
	Malformed                       // the request itself cannot be read: 400
	NotFound                        // the resource does not exist for this tenant: 404
	Conflict                        // the resource's state forbids it: 409
	Precondition                    // If-Match named another version: 412
	Unguarded                       // If-Match is missing, and this change requires it: 428
	TooLarge                        // 413
	Unsupported                     // the media type is not supported: 415
	Unavailable                     // nothing was done, try again later: 503
	Unauthenticated                 // the caller is not authenticated: 401
	Forbidden                       // the caller is authenticated, but not allowed: 403
	Upstream                        // another system did not accept a request: 502
	Gone                            // the resource existed and was removed permanently: 410
	Slow                            // the request did not arrive in time: 408
	TooMany                         // the client has exceeded its rate limit: 429
)

// Field is one mistake in the input: in a parameter or a header if one is named, otherwise in the body.
type Field struct {
	Pointer   string // JSON Pointer into the body, "" for the whole body
	Parameter string // the name of a parameter of the path or query
	Header    string // the name of a header
	Code      string // stable word, e.g. "required"
	Message   string // for people
}

// Place names the location of the mistake, for use in a sentence.
func (f *Field) Place() string { return cmp.Or(f.Header, f.Parameter, f.Pointer) }

// Mistakes collects the mistakes in an input, to be passed to Error.With. The zero value is ready
// to use; nil means that there are no mistakes.
type Mistakes []Field

// Add adds a mistake with a formatted message.
func (m *Mistakes) Add(pointer, code, format string, args ...any) {
	*m = append(*m, Field{Pointer: pointer, Code: code, Message: fmt.Sprintf(format, args...)})
}

// Within adds the mistakes of err, the result of validating a part of the input, with pointer
// prepended to their pointers. An error that is not a fault adds none.
func (m *Mistakes) Within(pointer string, err error) {
	if f := As(err); f != nil {
		for _, field := range f.Fields {
			field.Pointer = pointer + field.Pointer
			*m = append(*m, field)
		}
	}
}

// Error is a fault. Its text is safe to show to clients; the cause is not.
type Error struct {
	Kind    Kind
	Code    string // e.g. SAGA_STATE_CONFLICT; stable, part of the API
	Detail  string // one sentence for the client
	Fields  []Field
	Allowed []string // on a state conflict: the actions that are allowed instead
	cause   error
}

// New returns a fault with a formatted detail.
func New(kind Kind, code, format string, args ...any) *Error {
	return &Error{Kind: kind, Code: code, Detail: fmt.Sprintf(format, args...)}
}

// Because attaches the cause, which is logged and never shown.
func (e *Error) Because(err error) *Error { e.cause = err; return e }

// With appends mistakes in the input.
func (e *Error) With(fields ...Field) *Error { e.Fields = append(e.Fields, fields...); return e }

// Allowing sets the actions that would be accepted in the current state.
func (e *Error) Allowing(actions []string) *Error { e.Allowed = actions; return e }

func (e *Error) Error() string {
	if e.cause != nil {
		return e.Code + ": " + e.Detail + ": " + e.cause.Error()
	}
	return e.Code + ": " + e.Detail
}

// Unwrap returns the cause, nil if there is none.
func (e *Error) Unwrap() error { return e.cause }

// As returns the fault inside err, or nil if err is an outage.
func As(err error) *Error {
	var f *Error
	if errors.As(err, &f) {
		return f
	}
	return nil
}

// KindOf returns the kind of the fault inside err, or zero for nil and outages.
func KindOf(err error) Kind {
	if f := As(err); f != nil {
		return f.Kind
	}
	return 0
}

// IsCode reports whether err is a fault with that code.
func IsCode(err error, code string) bool {
	f := As(err)
	return f != nil && f.Code == code
}
