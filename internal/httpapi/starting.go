package httpapi

import (
	"net/http"

	"github.com/go-chi/chi/v5"

	"github.com/skald-saga/skald/api"
	"github.com/skald-saga/skald/internal/fault"
	"github.com/skald-saga/skald/internal/httpkit"
)

// Starting returns the handler for a node that has no database yet. /healthz succeeds, because the
// process is healthy; every other path returns 503 with Retry-After and the error of cfg.Ready as
// the reason. It uses only Docs, Limits, NewID, Ready and Log of cfg.
func Starting(cfg Config) http.Handler {
	s := &server{cfg: cfg, kit: &httpkit.Kit{Limits: cfg.Limits, Log: cfg.Log}, router: chi.NewRouter()}
	s.router.Get("/healthz", func(w http.ResponseWriter, r *http.Request) {
		out, err := s.GetHealth(r.Context(), api.GetHealthRequestObject{})
		s.answer(w, r, out, err)
	})
	unavailable := func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Connection", "close") // the body is not read
		_, err := s.cfg.Ready(r.Context())
		s.fail(w, r, fault.New(fault.Unavailable, fault.CodeUnavailable, "not ready: %v", err))
	}
	s.router.NotFound(unavailable)
	s.router.MethodNotAllowed(unavailable)
	return http.HandlerFunc(s.serve)
}
