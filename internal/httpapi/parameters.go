package httpapi

import (
	"net/http"

	"github.com/getkin/kin-openapi/openapi3"
	"github.com/go-chi/chi/v5"
	nethttpmiddleware "github.com/oapi-codegen/nethttp-middleware"
)

// parameters checks those of the path and the query against the contract. Each
// path has a validator of its own, that of the route that chi has chosen: one of
// all paths would compare each request with one path after the other.
func (c *contract) parameters(o *nethttpmiddleware.Options) func(http.Handler) http.Handler {
	return func(next http.Handler) http.Handler {
		of := make(map[string]http.Handler, c.doc.Paths.Len())
		for path, item := range c.doc.Paths.Map() {
			one := *c.doc
			one.Paths = openapi3.NewPaths(openapi3.WithPath(path, item))
			of[path] = nethttpmiddleware.OapiRequestValidatorWithOptions(&one, o)(next)
		}
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			of[chi.RouteContext(r.Context()).RoutePattern()].ServeHTTP(w, r)
		})
	}
}
