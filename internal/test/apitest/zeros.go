package apitest

import (
	"encoding/json"
	"net/http"
	"regexp"
	"slices"
	"strings"

	"github.com/getkin/kin-openapi/openapi3"

	"github.com/skald-saga/skald/api/client"
)

// positive calls f with the path of each number in a body that must be greater than zero. It skips
// the items of lists: a batch has a result for each of its items.
func positive(s *openapi3.SchemaRef, path []string, seen []*openapi3.Schema, f func(path []string)) {
	if s == nil || slices.Contains(seen, s.Value) {
		return
	}
	v := s.Value
	seen = append(slices.Clone(seen), v)
	if (v.Type.Is("integer") || v.Type.Is("number")) && v.Min != nil && *v.Min > 0 {
		f(path)
	}
	for _, all := range []openapi3.SchemaRefs{v.AllOf, v.OneOf, v.AnyOf} {
		for _, part := range all {
			positive(part, path, seen, f)
		}
	}
	for name, property := range v.Properties {
		positive(property, append(slices.Clone(path), name), seen, f)
	}
}

var pathParameter = regexp.MustCompile(`\{[^}]+\}`)

// RefusesZeros sends zero for each number in bodies and queries that the contract requires to be
// greater than zero. The response must refuse the number by name instead of treating zero as
// absent, which would select the default. Operations that this edge doesn't have (503) don't count;
// least is the minimum number of numbers that must be tried.
func (e *Edge) RefusesZeros(least int) {
	e.T.Helper()
	n := 0
	try := func(method, to, body, name string) {
		r := e.Send(method, to, body)
		if r.Status == http.StatusServiceUnavailable {
			return
		}
		n++
		var p client.Problem
		refused := r.Status == http.StatusBadRequest || r.Status == http.StatusUnprocessableEntity
		if err := json.Unmarshal(r.Body, &p); err != nil || !refused ||
			!slices.ContainsFunc(p.Errors, func(f client.ProblemField) bool { return f.Place() == name }) {
			e.T.Errorf("%s %s %s: %d %s", method, to, body, r.Status, r.Body)
		}
	}
	for path, item := range OpenapiYAML(e.T).Paths.Map() {
		for method, op := range item.Operations() {
			to := pathParameter.ReplaceAllStringFunc(path, func(name string) string {
				for _, p := range append(slices.Clone(item.Parameters), op.Parameters...) {
					if "{"+p.Value.Name+"}" == name && p.Value.Schema.Value.Type.Is("integer") {
						return "1"
					}
				}
				return "0192f0c1-0000-7000-8000-000000000001"
			})
			for _, p := range op.Parameters {
				if s := p.Value.Schema.Value; p.Value.In == "query" && s.Type.Is("integer") && s.Min != nil && *s.Min > 0 {
					try(method, to+"?"+p.Value.Name+"=0", "", p.Value.Name)
				}
			}
			if op.RequestBody == nil || op.RequestBody.Value.Content["application/json"] == nil {
				continue
			}
			positive(op.RequestBody.Value.Content["application/json"].Schema, nil, nil, func(at []string) {
				body := "0"
				for _, name := range slices.Backward(at) {
					body = `{"` + name + `":` + body + `}`
				}
				try(method, to, body, "/"+strings.Join(at, "/"))
			})
		}
	}
	if n < least {
		e.T.Errorf("found %d numbers, want at least %d", n, least)
	}
}
