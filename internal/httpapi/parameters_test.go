package httpapi

import (
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	"github.com/getkin/kin-openapi/openapi3"
	"github.com/getkin/kin-openapi/openapi3filter"
)

// The contract's validator accepts everything that the compiled parameters accept.
func TestParametersAcceptNothingThatTheContractRefuses(t *testing.T) {
	t.Parallel()
	c, err := embedded()
	if err != nil {
		t.Fatal(err)
	}
	odd := []string{
		"", "x", "0", "-1", "1.5", "true", "a b", "é", "schlüssel", "\xff", "a,b", `"k"`, "wait=20",
		"W/\"1\"", "*", "{}", "[1]", "null",
		"0192f0c1-0000-7000-8000-000000000001", "0192F0C1-0000-7000-8000-00000000000G", "2026-01-02T03:04:05Z", "30s",
		"RUNNING", "failed", "basic", "99999999999999999999", strings.Repeat("x", 64), strings.Repeat("é", 128),
		strings.Repeat("x", 255), strings.Repeat("x", 256), strings.Repeat("x", 513),
	}
	fast, tried := 0, 0
	for key, rt := range c.routes {
		path := map[string]string{}
		for _, p := range rt.parameters {
			if p.in == openapi3.ParameterInPath {
				path[p.name] = "0192f0c1-0000-7000-8000-000000000001"
			}
		}
		for i := -1; i < len(rt.parameters); i++ {
			for _, value := range odd {
				r := httptest.NewRequestWithContext(t.Context(), key.method, "/", nil)
				here := path
				if i >= 0 {
					switch p := rt.parameters[i]; p.in {
					case openapi3.ParameterInPath:
						here = map[string]string{}
						for name, v := range path {
							here[name] = v
						}
						here[p.name] = value
					case openapi3.ParameterInQuery:
						r.URL.RawQuery = url.QueryEscape(p.name) + "=" + url.QueryEscape(value)
					case openapi3.ParameterInHeader:
						r.Header[p.name] = []string{value}
					}
				}
				tried++
				if !rt.accepts(r, here) {
					continue
				}
				fast++
				if err := openapi3filter.ValidateRequest(r.Context(), &openapi3filter.RequestValidationInput{
					Request: r, PathParams: here, Route: &rt.checked, Options: &checkedParameters,
				}); err != nil {
					t.Errorf("%s with %q in parameter %d is accepted: %v", rt.name, value, i, err)
				}
			}
		}
	}
	t.Logf("%d of %d requests are accepted", fast, tried)
	if fast < tried/4 {
		t.Errorf("only %d of %d requests are accepted without the validator", fast, tried)
	}
}
