package httpapi

import (
	"log/slog"
	"net/http"
	"runtime/debug"
	"strings"
	"unicode/utf8"

	"github.com/skald-saga/skald/internal/fault"
	"github.com/skald-saga/skald/internal/httpkit"
	"github.com/skald-saga/skald/internal/httpkit/listen"
)

// serve assigns the request an ID, recovers from panics, and routes the request.
func (s *server) serve(w http.ResponseWriter, r *http.Request) {
	req := &httpkit.Request{ID: requestID(r), Method: r.Method, Path: r.URL.Path, Query: r.URL.RawQuery,
		Remote: r.RemoteAddr}
	if req.ID == "" {
		req.ID = s.cfg.NewID().String()
	}
	w.Header().Set("X-Request-Id", req.ID)
	out := &response{ResponseWriter: w}
	r = r.WithContext(httpkit.WithRequest(r.Context(), req))
	defer s.recover(out, r)
	if err := oneMeaning(r); err != nil {
		w.Header().Set("Connection", "close") // the following bytes may belong to another request
		s.writeProblem(out, r, err.status, err.fault)
		return
	}
	if r.TLS != nil && r.ProtoMajor == 1 && len(r.TransferEncoding) > 0 {
		w.Header().Set("Connection", "close") // net/http does not check for a second Content-Length
	}
	s.pace(w, r)
	unquote(r.Header)
	httpkit.CleanTrace(r.Header)
	if r.Method == http.MethodHead {
		r.Method = http.MethodGet // net/http omits the body
	}
	if strings.IndexByte(r.URL.Path, 0) >= 0 || !utf8.ValidString(r.URL.Path) {
		s.fail(out, r, fault.New(fault.Malformed, httpkit.CodeInvalidParameter, "the path contains a NUL character or is not UTF-8"))
		return
	}
	// Routing uses the path as sent. Parameters are decoded afterwards, exactly once, because a
	// topic may contain any character.
	r.URL.RawPath = r.URL.EscapedPath()
	s.router.ServeHTTP(out, r)
}

// maxHeaders is the maximum number of header lines in a request. Clients send a few, and proxies
// add some.
const maxHeaders = 100

type unread struct {
	status int
	fault  *fault.Error
}

// oneMeaning returns a fault for a request that has too many headers or that a proxy in front may
// have parsed differently, otherwise nil.
func oneMeaning(r *http.Request) *unread {
	if len(r.TransferEncoding) > 0 && listen.TwoLengths(r.Context()) {
		return &unread{http.StatusBadRequest, fault.New(0, httpkit.CodeTwoLengths, "the request has both Content-Length and Transfer-Encoding: send one of them")}
	}
	headers := 0
	for _, values := range r.Header {
		headers += len(values)
	}
	if headers > maxHeaders {
		return &unread{http.StatusRequestHeaderFieldsTooLarge,
			fault.New(0, httpkit.CodeManyHeaders, "the request has %d header lines; at most %d are allowed", headers, maxHeaders)}
	}
	return nil
}

// unquote removes one pair of quotes from the Idempotency-Key: the draft specification defines it
// as a quoted string, but many clients send the bare key.
func unquote(h http.Header) {
	const name = "Idempotency-Key"
	if v := h[name]; len(v) == 1 && len(v[0]) >= 2 && v[0][0] == '"' && v[0][len(v[0])-1] == '"' {
		h[name] = []string{v[0][1 : len(v[0])-1]}
	}
}

// requestID returns the request ID that the client sent, "" if there is none or it is not safe for
// a header and a log line.
func requestID(r *http.Request) string {
	id := r.Header.Get("X-Request-Id")
	if len(id) > 128 {
		return ""
	}
	for i := range len(id) {
		c := id[i]
		if !('a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9' || strings.IndexByte("-_.:/+=@", c) >= 0) {
			return ""
		}
	}
	return id
}

// recover turns a panic into a problem without details, and logs it with its stack.
func (s *server) recover(w *response, r *http.Request) {
	p := recover()
	if p == nil {
		return
	}
	if p == http.ErrAbortHandler { //nolint:errorlint // the value itself, not an error that wraps it
		panic(p)
	}
	req := httpkit.RequestOf(r.Context())
	s.cfg.Log.ErrorContext(r.Context(), "request handler panicked",
		slog.String("request_id", req.ID), slog.String("route", req.Route),
		slog.Any("panic", p), slog.String("stack", string(debug.Stack())))
	if w.begun {
		panic(http.ErrAbortHandler) // an incomplete response must not look complete
	}
	s.writeProblem(w, r, http.StatusInternalServerError, fault.New(0, httpkit.CodeInternal, "internal error: see the server log under the request id"))
}

// response tracks whether the response has begun.
type response struct {
	http.ResponseWriter
	begun bool
}

func (w *response) WriteHeader(status int) {
	w.begun = true
	w.ResponseWriter.WriteHeader(status)
}

func (w *response) Write(b []byte) (int, error) {
	w.begun = true
	return w.ResponseWriter.Write(b)
}

// Unwrap is for http.ResponseController.
func (w *response) Unwrap() http.ResponseWriter { return w.ResponseWriter }
