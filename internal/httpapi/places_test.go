package httpapi_test

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/skald-saga/skald/internal/test/apitest"
)

// A problem says whether the mistake is in the body, a parameter or a header. Pointers are always
// JSON Pointers.
func TestAProblemSaysWhereTheMistakeIs(t *testing.T) {
	e := apitest.NewEdge(t)
	e.Register("order", "reserve")
	const id = "/00000000-0000-4000-8000-000000000001"
	for _, tt := range []struct {
		name, method, path, body string
		headers                  []string
		want                     string
	}{
		{"a query parameter", "GET", "?status=DONE", "", nil, "parameter status"},
		{"an unknown one", "GET", "?Prefer=x&%2Fa=1", "", nil, "parameter /a, parameter Prefer"},
		{"one sent twice", "GET", "?page=1&page=2", "", nil, "parameter page"},
		{"one that excludes another", "GET", "?page=1&cursor=x", "", nil, "parameter cursor, parameter page"},
		{"a period", "GET", "?created_from=2026-02-01T00:00:00Z&created_to=2026-01-01T00:00:00Z", "", nil, "parameter created_to"},
		{"a path parameter", "GET", "/nonsense", "", nil, "parameter saga_id"},
		{"a header", "POST", id + "/cancel", "{}", []string{"If-Match", "nonsense"}, "header If-Match"},
		{"a header and a parameter", "POST", id + "/cancel?dry_run=x", `{}`,
			[]string{"Idempotency-Key", strings.Repeat("k", 256)}, "header Idempotency-Key, parameter dry_run"},
		{"a header of the credential", "GET", "", "", []string{"X-Tenant-Major", "x"}, "header X-Tenant-Major"},
		{"a member of the body", "POST", "", `{"workflow_name":3}`, nil, "pointer /workflow_name"},
		{"the body as a whole", "POST", "", `[]`, nil, "pointer "},
		{"a nested member", "POST", "", `{"workflow_name":"order","retry_policy":{"max_attempts":"x"}}`, nil, "pointer /retry_policy/max_attempts"},
		{"an element of a list", "POST", "", `{"workflow_name":"order","retry_policy":{"retry_on":["timeout",3]}}`, nil, "pointer /retry_policy/retry_on/1"},
		{"a name with ~ and /", "POST", "", `{"workflow_name":"order","a~b/c":1}`, nil, "pointer /a~0b~1c"},
		{"a name as an inner one with ~ and /", "POST", "", `{"workflow_name":"order","retry_policy":{"~/":1}}`, nil, "pointer /retry_policy/~0~1"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r := e.Send(tt.method, apitest.SagasPath+tt.path, tt.body, tt.headers...)
			var p struct{ Errors []map[string]string }
			if err := json.Unmarshal(r.Body, &p); err != nil {
				t.Fatalf("%d %s: %v", r.Status, r.Body, err)
			}
			var got []string
			for _, f := range p.Errors {
				for _, kind := range []string{"pointer", "parameter", "header"} {
					if at, is := f[kind]; is {
						got = append(got, kind+" "+at)
					}
				}
			}
			slices.Sort(got)
			if s := strings.Join(got, ", "); s != tt.want {
				t.Errorf("at %q, want %q: %s", s, tt.want, r.Body)
			}
		})
	}
}
