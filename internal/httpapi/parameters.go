package httpapi

import (
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strconv"

	"github.com/getkin/kin-openapi/openapi3"
	"github.com/getkin/kin-openapi/openapi3filter"
	"github.com/go-chi/chi/v5"

	"github.com/skald-saga/skald/internal/fault"
	"github.com/skald-saga/skald/internal/httpkit"
)

var checkedParameters = openapi3filter.Options{
	MultiError:          true,
	ExcludeRequestBody:  true, // checkBody does this without decoding payloads
	SkipSettingDefaults: true,
}

// checkParameters checks path, query and header parameters against the contract, for the operation
// that chi has selected. The validator's own router uses one regular expression per path, which
// took a fifth of the CPU time of a worker's call.
func (s *server) checkParameters(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		path, ok := pathParameters(r)
		if !ok {
			s.notFound(w, r)
			return
		}
		rt := s.contract.routeOf(r.Context(), r.Method)
		if !rt.accepts(r, path) {
			err := openapi3filter.ValidateRequest(r.Context(), &openapi3filter.RequestValidationInput{
				Request: r, PathParams: path, Route: &rt.checked, Options: &checkedParameters,
			})
			if err != nil {
				s.badParameters(w, r, err)
				return
			}
		}
		if err := s.unguarded(rt, r); err != nil {
			s.fail(w, r, err)
			return
		}
		next.ServeHTTP(w, r)
	})
}

// accepts reports whether all parameters are certainly valid, which it can tell for most requests
// because they have few parameters, all of them texts. In all other cases the contract's validator
// decides.
func (rt *route) accepts(r *http.Request, path map[string]string) bool {
	var query url.Values
	if r.URL.RawQuery != "" {
		query = r.URL.Query()
	}
	for i := range rt.parameters {
		p := &rt.parameters[i]
		var values []string
		switch p.in {
		case openapi3.ParameterInPath:
			values = []string{path[p.name]}
		case openapi3.ParameterInQuery:
			values = query[p.name]
		case openapi3.ParameterInHeader:
			values = r.Header[p.name]
		default:
			return false
		}
		switch {
		case len(values) == 0 && !p.required:
		case len(values) != 1, values[0] == "", p.shape == nil, !p.shape.AcceptsText(values[0]):
			return false
		}
	}
	return true
}

// pathParameters returns the parameters in the path by name. It returns false if a parameter is
// empty or not valid UTF-8.
func pathParameters(r *http.Request) (map[string]string, bool) {
	of := chi.RouteContext(r.Context()).URLParams
	found := make(map[string]string, len(of.Keys))
	for i, name := range of.Keys {
		value := of.Values[i]
		if r.URL.RawPath != "" { // in this case, chi takes the value from RawPath
			var err error
			if value, err = url.PathUnescape(value); err != nil {
				return nil, false
			}
		}
		if value == "" {
			return nil, false
		}
		found[name] = value
	}
	return found, true
}

// badParameters responds to mistakes that the contract's validator found.
func (s *server) badParameters(w http.ResponseWriter, r *http.Request, err error) {
	var fields []fault.Field
	unexplained := true // the only mistake is a missing required reason
	for _, e := range httpkit.Flatten(err) {
		var bad *openapi3filter.RequestError
		if !errors.As(e, &bad) || bad.Parameter == nil {
			// Bodies are checked elsewhere.
			s.fail(w, r, fmt.Errorf("unexpected result of the contract's validator: %w", err))
			return
		}
		unexplained = unexplained && bad.Parameter.Required && bad.Parameter.Name == "reason"
		fields = append(fields, parameterFields(bad)...)
	}
	if unexplained { // the same problem as for a missing reason in the body
		s.fail(w, r, httpkit.SchemaFault(fault.Field{
			Parameter: "reason", Code: "required", Message: "is required, with 1 to 500 characters: the audit trail records it",
		}))
		return
	}
	s.fail(w, r, httpkit.ParameterFault(httpkit.CodeInvalidParameter, fields...))
}

func parameterFields(bad *openapi3filter.RequestError) []fault.Field {
	var fields []fault.Field
	for _, cause := range httpkit.Flatten(bad.Err) {
		field := fault.Field{Code: "invalid", Message: "does not match the format in the contract"}
		var violation *openapi3.SchemaError
		switch {
		case errors.As(cause, &violation):
			field = httpkit.ViolationField(violation)
			field.Pointer = "" // it points into the parameter
		case errors.Is(cause, openapi3filter.ErrInvalidRequired):
			field.Code, field.Message = "required", "is required"
		case errors.Is(cause, openapi3filter.ErrInvalidEmptyValue):
			field.Code, field.Message = "empty", "must not be empty"
		}
		if field.Parameter = bad.Parameter.Name; bad.Parameter.In == openapi3.ParameterInHeader {
			field.Parameter, field.Header = "", bad.Parameter.Name
		}
		fields = append(fields, field)
	}
	return fields
}

// unguarded returns the fault for a request that lacks the If-Match that the operation requires. A
// dry run changes nothing, so it does not need one. Fault: Unguarded.
func (s *server) unguarded(rt *route, r *http.Request) error {
	if rt.guarded == never || rt.guarded == configured && !s.cfg.RequireIfMatch || r.Header["If-Match"] != nil {
		return nil
	}
	if dry, _ := strconv.ParseBool(r.URL.Query().Get("dry_run")); dry {
		return nil
	}
	return fault.New(fault.Unguarded, httpkit.CodeIfMatch,
		"the header If-Match is required: send the ETag from GET %s, or * to change any version", rt.read).
		With(fault.Field{Header: "If-Match", Code: "required", Message: "is required"})
}
