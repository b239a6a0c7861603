package api

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"

	"github.com/go-chi/chi/v5"
	"github.com/oapi-codegen/runtime"
)

// ParameterError is an invalid parameter of a request.
type ParameterError struct {
	Name   string
	Header bool // the parameter is a header
	Reason ParameterReason
	Err    error // set if Reason is Malformed
}

// ParameterReason says what is wrong with a parameter.
type ParameterReason int

// Reasons.
const (
	Malformed ParameterReason = iota
	Missing
	Repeated
)

func (e *ParameterError) Error() string {
	return fmt.Sprintf("parameter %s is %s", e.Name, [...]string{"malformed", "missing", "repeated"}[e.Reason])
}

func (e *ParameterError) Unwrap() error { return e.Err }

// bound binds the parameters of a request. Its error is that of the first parameter that failed.
type bound struct {
	*http.Request
	asked url.Values // the query, parsed when first needed
	err   error
}

// malformed records an error in a parameter.
func (b *bound) malformed(name string, err error) {
	if err != nil {
		b.err = &ParameterError{Name: name, Reason: Malformed, Err: err}
	}
}

// path binds a segment of the URL's path.
func (b *bound) path(name string, into any, kind, format string) {
	if b.err != nil {
		return
	}
	b.malformed(name, runtime.BindStyledParameterWithOptions("simple", name, chi.URLParam(b.Request, name), into,
		runtime.BindStyledParameterOptions{ParamLocation: runtime.ParamLocationPath, Required: true, Type: kind,
			Format: format, ValueIsUnescaped: b.URL.RawPath == ""}))
}

// query binds a parameter of the URL's query.
func (b *bound) query(name string, into any, required bool, kind, format string) {
	if b.err != nil || !required && b.URL.RawQuery == "" {
		return
	}
	if b.asked == nil {
		b.asked = b.URL.Query()
	}
	err := runtime.BindQueryParameterWithOptions("form", true, required, name, b.asked, into,
		runtime.BindQueryParameterOptions{Type: kind, Format: format})
	if missing := (*runtime.RequiredParameterError)(nil); errors.As(err, &missing) {
		b.err = &ParameterError{Name: name, Reason: Missing}
		return
	}
	b.malformed(name, err)
}

// head binds an optional header.
func head[T any](b *bound, name string, into **T, kind, format string) {
	values, found := b.Header[http.CanonicalHeaderKey(name)]
	if b.err != nil || !found {
		return
	}
	if len(values) != 1 {
		b.err = &ParameterError{Name: name, Header: true, Reason: Repeated}
		return
	}
	*into = new(T)
	err := runtime.BindStyledParameterWithOptions("simple", name, values[0], *into,
		runtime.BindStyledParameterOptions{ParamLocation: runtime.ParamLocationHeader, Type: kind, Format: format})
	if err != nil {
		b.err = &ParameterError{Name: name, Header: true, Reason: Malformed, Err: err}
	}
}

// json binds and checks a JSON body. It returns false if the body is absent or invalid.
func (d *decoder) json(b *bound, body any, required bool) (found bool) {
	if b.err != nil {
		return false
	}
	err := decode(b.Request, body)
	found = err == nil
	if err != nil && (required || !errors.Is(err, io.EOF)) {
		b.err = fmt.Errorf("can't decode JSON body: %w", err)
		return false
	}
	b.err = d.Check(body)
	return found
}
