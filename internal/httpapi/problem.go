package httpapi

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/skald-saga/skald/api"
	"github.com/skald-saga/skald/internal/fault"
	"github.com/skald-saga/skald/internal/httpkit"
	"github.com/skald-saga/skald/internal/idempotency"
	"github.com/skald-saga/skald/internal/principal"
)

// retryAfter is the Retry-After, in seconds, of a 503 and of other temporary problems.
const retryAfter = "1"

var soon = map[string]bool{idempotency.CodeInUse: true, httpkit.CodeTooManyStreams: true,
	httpkit.CodeKeepsChanging: true}

// answer sends the result of an operation, with the names of its actors, redacted for callers who may not
// see content.
func (s *server) answer(w http.ResponseWriter, r *http.Request, out api.Response, err error) {
	if err == nil {
		out, err = s.redact(r.Context(), out)
	}
	if err == nil {
		out = s.named(r.Context(), out)
		if next := httpkit.NextPage(r); next != "" {
			w.Header().Set("Link", "<"+next+`>; rel="next"`) // RFC 8288
		}
		err = httpkit.Published(r.Context(), out).Write(w)
	}
	if err != nil {
		s.fail(w, r, err)
	}
}

// fail responds with err: a fault according to its kind, any other error as an outage without
// details. Outages are logged only here.
func (s *server) fail(w http.ResponseWriter, r *http.Request, err error) {
	req := httpkit.RequestOf(r.Context())
	if f := fault.As(err); f != nil {
		if f.Kind == fault.Unauthenticated && f.Unwrap() != nil { // the cause appears only in the log
			s.cfg.Log.InfoContext(r.Context(), "credential refused",
				slog.String("request_id", req.ID), slog.String("route", req.Route), slog.Any("error", f.Unwrap()))
		}
		var more detailed
		errors.As(err, &more)
		s.writeProblemAbout(w, r, httpkit.StatusOf(f.Kind), f, more)
		return
	}
	if errors.Is(r.Context().Err(), context.Canceled) {
		s.cfg.Log.DebugContext(r.Context(), "client disconnected", slog.String("request_id", req.ID),
			slog.String("route", req.Route))
	} else {
		s.cfg.Log.ErrorContext(r.Context(), "request failed",
			slog.String("request_id", req.ID), slog.String("route", req.Route), slog.Any("error", err))
	}
	s.writeProblem(w, r, http.StatusServiceUnavailable,
		fault.New(fault.Unavailable, fault.CodeUnavailable, "the server cannot do this right now; try again"))
}

func (s *server) writeProblem(w http.ResponseWriter, r *http.Request, status int, f *fault.Error) {
	s.writeProblemAbout(w, r, status, f, nil)
}

// detailed is an error that adds members to its problem document.
type detailed interface{ Describe(*api.Problem) }

// writeProblemAbout writes all problem documents. more adds details; it may be nil.
func (s *server) writeProblemAbout(w http.ResponseWriter, r *http.Request, status int, f *fault.Error, more detailed) {
	p := api.Problem{
		Type:      s.cfg.Docs + typeOf(f.Code),
		Title:     titleOf(f.Code, status),
		Status:    status,
		Detail:    httpkit.Clip(f.Detail),
		Instance:  s.cfg.Base + httpkit.ClipPath(r.URL.EscapedPath()),
		Code:      f.Code,
		RequestID: httpkit.RequestOf(r.Context()).ID,
		Errors:    httpkit.ProblemFields(f),
	}
	if f.Allowed != nil {
		p.AllowedActions = &f.Allowed
	}
	if more != nil {
		more.Describe(&p)
	}
	body, err := json.Marshal(p)
	if err != nil {
		panic("httpapi: a problem is always JSON: " + err.Error())
	}
	h := w.Header()
	for _, name := range []string{"ETag", "Location"} {
		h.Del(name) // it was set for a response that then failed
	}
	h.Set("Content-Type", "application/problem+json")
	h.Set("Content-Length", strconv.Itoa(len(body)))
	h.Set("Cache-Control", "no-store")
	switch f.Code { // RFC 6750
	case principal.CodeRequired:
		h.Set("WWW-Authenticate", `Bearer realm="skald"`)
	case principal.CodeInvalid:
		h.Set("WWW-Authenticate", `Bearer realm="skald", error="invalid_token"`)
	}
	if status == http.StatusServiceUnavailable || soon[f.Code] {
		h.Set("Retry-After", retryAfter)
	}
	w.WriteHeader(status)
	_, _ = w.Write(body) // an error means that the client has disconnected
}

func (s *server) notFound(w http.ResponseWriter, r *http.Request) {
	s.fail(w, r, fault.New(fault.NotFound, httpkit.CodeNotFound, "no such path"))
}

// apiOpen responds with 404 to every operation of the API if the process does not have the role
// api.
func (s *server) apiOpen(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if s.cfg.ProbesOnly && strings.HasPrefix(r.URL.Path, "/api/") {
			s.fail(w, r, fault.New(fault.NotFound, httpkit.CodeNotFound,
				"this process does not serve the API: its roles do not include api"))
			return
		}
		next.ServeHTTP(w, r)
	})
}

// announce adds headers to all responses of deprecated operations, including errors.
func (s *server) announce(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		for name, values := range s.contract.routeOf(r.Context(), r.Method).deprecated {
			w.Header()[name] = values
		}
		next.ServeHTTP(w, r)
	})
}

// badParameter describes the mistake in a parameter.
func badParameter(p *api.ParameterError) error {
	bad := httpkit.BadParameter
	if p.Header {
		bad = httpkit.BadHeader
	}
	switch p.Reason {
	case api.Missing:
		return bad(p.Name, "required", "is required")
	case api.Repeated:
		return bad(p.Name, "repeated", "must not be repeated")
	default:
		return bad(p.Name, "invalid", "does not match the format in the contract")
	}
}

// unbound responds if the generated code could not bind a request that the preceding checks
// accepted.
func (s *server) unbound(w http.ResponseWriter, r *http.Request, err error) {
	var (
		parameter *api.ParameterError
		typ       *json.UnmarshalTypeError
		when      *time.ParseError
	)
	switch {
	case errors.As(err, &parameter):
		err = badParameter(parameter)
	case errors.As(err, &typ):
		// The schema calls 1.0 an integer; Go does not.
		err = httpkit.SchemaFault(fault.Field{Pointer: "/" + strings.ReplaceAll(typ.Field, ".", "/"), Code: "type",
			Message: "has the wrong type, or has a fraction"})
	case errors.As(err, &when):
		// The schema checks the form of a time, but not, for example, leap years.
		err = httpkit.SchemaFault(fault.Field{Code: "invalid", Message: "holds " + httpkit.Clip(when.Value) +
			", which is not a valid time"})
	}
	s.fail(w, r, err)
}
