package httpapi

import (
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/skald-saga/skald/internal/fault"
	"github.com/skald-saga/skald/internal/httpkit"
)

// Every operation that accepts If-Match requires it where the server is configured to, but
// for the registration of workflows, whose versions never change. Those that edit what is in
// the dead-letter queue and the notes on sagas always do: two people work there at once, and
// the later one would undo what the earlier one wrote without a word.
func TestWhichOperationsRequireIfMatch(t *testing.T) {
	c, err := loadContract(httpkit.Limits{}, "")
	if err != nil {
		t.Fatal(err)
	}
	lax, strict := &server{contract: c}, &server{contract: c, cfg: Config{RequireIfMatch: true}}
	counted := 0
	for key, rt := range c.routes {
		takes := rt.checked.Operation.Parameters.GetByInAndName("header", "If-Match") != nil
		change := key.method == http.MethodPut || key.method == http.MethodPatch
		edits := change && strings.HasPrefix(key.path, "/api/v1/dlq/") || rt.operation == "updateSaga"
		r := &http.Request{URL: &url.URL{}, Header: http.Header{}}
		byDefault, ifConfigured := lax.unguarded(rt, r), strict.unguarded(rt, r)
		if (byDefault != nil) != edits {
			t.Errorf("%s: without If-Match %v", rt.name, byDefault)
		}
		if (ifConfigured != nil) != (takes && rt.operation != "registerWorkflow") {
			t.Errorf("%s: with server.require_if_match and without If-Match %v", rt.name, ifConfigured)
		}
		if ifConfigured != nil {
			counted++
			at := "GET " + rt.read
			if f := fault.As(ifConfigured); f.Kind != fault.Unguarded || !strings.Contains(f.Detail, at) ||
				!strings.HasPrefix(key.path, rt.read) {
				t.Errorf("%s is told %v", rt.name, ifConfigured)
			}
			dry := &http.Request{URL: &url.URL{RawQuery: "dry_run=true"}}
			if err := strict.unguarded(rt, dry); err != nil {
				t.Errorf("a dry run of %s: %v", rt.name, err)
			}
			r.Header.Set("If-Match", `"1"`)
			if err := strict.unguarded(rt, r); err != nil {
				t.Errorf("%s with If-Match: %v", rt.name, err)
			}
		}
	}
	if counted < 40 {
		t.Errorf("%d operations require If-Match", counted)
	}
}
