package httpapi

import (
	"net/http"
	"strings"

	"github.com/go-chi/chi/v5"

	"github.com/skald-saga/skald/internal/fault"
	"github.com/skald-saga/skald/internal/httpkit"
)

// methods lists the methods in the contract plus HEAD, which every GET supports.
var methods = []string{http.MethodGet, http.MethodHead, http.MethodPost, http.MethodPut, http.MethodPatch,
	http.MethodDelete}

// methodNotAllowed lists the methods of the path in Allow, which a handler that replaces chi's own
// must do.
func (s *server) methodNotAllowed(w http.ResponseWriter, r *http.Request) {
	var allowed []string
	for _, m := range methods {
		asked := m
		if m == http.MethodHead {
			asked = http.MethodGet
		}
		at := chi.NewRouteContext()
		if s.router.Match(at, asked, r.URL.EscapedPath()) && s.contract.routes[routeKey{asked, at.RoutePattern()}] != nil {
			allowed = append(allowed, m)
		}
	}
	list := strings.Join(allowed, ", ")
	w.Header().Set("Allow", list)
	s.writeProblem(w, r, http.StatusMethodNotAllowed,
		fault.New(0, httpkit.CodeMethod, "this path supports %s, not %s", list, httpkit.Clip(httpkit.RequestOf(r.Context()).Method)))
}

// ownPaths prevents a literal path of the contract, such as /workflows/validate, from matching the
// parameter of another path, such as /workflows/{name}, if the method exists only for the other
// path.
func (s *server) ownPaths() {
	for key := range s.contract.routes {
		if strings.HasSuffix(key.path, "}") {
			continue
		}
		for _, m := range methods {
			if m != http.MethodHead && s.contract.routes[routeKey{m, key.path}] == nil {
				s.router.MethodFunc(m, key.path, s.methodNotAllowed)
			}
		}
	}
}
