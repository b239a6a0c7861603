package httpapi

import (
	"net/http"

	"github.com/skald-saga/skald/internal/audit/auditapi"
)

// queueOpen rejects operations of the dead-letter queue if it is not configured.
func (s *server) queueOpen(next http.Handler) http.Handler {
	if s.cfg.DeadLetters != nil {
		return next
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if s.contract.routeOf(r.Context(), r.Method).feature == deadLetters {
			s.fail(w, r, auditapi.NoRecord())
			return
		}
		next.ServeHTTP(w, r)
	})
}
