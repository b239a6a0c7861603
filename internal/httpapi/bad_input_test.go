package httpapi_test

import (
	"bytes"
	"io"
	"net/http"
	"regexp"
	"strings"
	"testing"

	"github.com/skald-saga/skald/api/client"
	"github.com/skald-saga/skald/internal/httpapi"
)

// leaks are traces of the inside that no answer may hold.
var leaks = regexp.MustCompile(`goroutine|\.go:|openapi3|kin-openapi|json: |encoding/|strconv|pq: |panic|runtime error|0x[0-9a-f]{6}`)

func TestBadInputGetsItsProblem(t *testing.T) {
	e := newEdge(t, func(c *httpapi.Config) {
		c.Limits.MaxBodyBytes, c.Limits.MaxWorkflowBytes, c.Limits.MaxJSONDepth = 4096, 2048, 10
	})
	e.register("order", "reserve")
	e.register("asleep", "reserve")
	e.send("POST", workflows+"/asleep/disable", "")
	exists := e.start(`{"workflow_name":"order","saga_id":"11111111-2222-7333-8444-555555555555"}`)
	long := strings.Repeat("x", 256)
	deep := strings.Repeat("[", 20) + strings.Repeat("]", 20)
	noUTF8, nul := "\xff", `\u0000`

	for _, tt := range []struct {
		name    string
		method  string
		path    string
		body    string
		header  []string
		status  int
		code    string
		pointer string // of the first error; "-" when there must be none
	}{
		{"an unknown path", "GET", "/api/v2/sagas", "", nil, 404, "REQ_NOT_FOUND", "-"},
		{"a path with a slash too many", "GET", sagas + "/", "", nil, 404, "REQ_NOT_FOUND", "-"},
		{"metrics, which are served elsewhere", "GET", "/metrics", "", nil, 404, "REQ_NOT_FOUND", "-"},
		{"a method the path does not have", "DELETE", sagas, "", nil, 405, "REQ_METHOD_NOT_ALLOWED", "-"},
		{"a NUL character in the path", "GET", workflows + "/a%00b", "", nil, 400, "REQ_INVALID_PARAMETER", "-"},
		{"no UTF-8 in the path", "GET", workflows + "/a%ff", "", nil, 400, "REQ_INVALID_PARAMETER", "-"},
		{"a saga id that is no UUID", "GET", sagas + "/17", "", nil, 400, "REQ_INVALID_PARAMETER", "saga_id"},
		{"a saga id in braces", "GET", sagas + "/%7B01234567-89ab-7def-8123-456789abcdef%7D", "", nil, 400, "REQ_INVALID_PARAMETER", "saga_id"},
		{"a saga that does not exist", "GET", missing, "", nil, 404, "SAGA_NOT_FOUND", "-"},
		{"the steps of a saga that does not exist", "GET", missing + "/steps", "", nil, 404, "SAGA_NOT_FOUND", "-"},
		{"the step logs of a saga that does not exist", "GET", missing + "/step-logs", "", nil, 404, "SAGA_NOT_FOUND", "-"},
		{"cancelling a saga that does not exist", "POST", missing + "/cancel", "", nil, 404, "SAGA_NOT_FOUND", "-"},
		{"waiting for a saga that does not exist", "GET", missing + "?wait=9s", "", nil, 404, "SAGA_NOT_FOUND", "-"},
		{"resuming what has not failed", "POST", sagas + "/" + exists.SagaID.String() + "/resume-compensation", "", nil, 409, "SAGA_STATE_CONFLICT", "-"},

		{"an unknown query parameter", "GET", sagas + "?stauts=FAILED", "", nil, 400, "REQ_UNKNOWN_PARAMETER", "stauts"},
		{"a query parameter where there is none", "POST", missing + "/cancel?force=true", "", nil, 400, "REQ_UNKNOWN_PARAMETER", "force"},
		{"a parameter given twice", "GET", sagas + "?page=1&page=2", "", nil, 400, "REQ_INVALID_PARAMETER", "page"},
		{"a malformed query string", "GET", sagas + "?page=%zz", "", nil, 400, "REQ_INVALID_PARAMETER", "-"},
		{"a NUL character in a filter", "GET", sagas + "?correlation_id=a%00b", "", nil, 400, "REQ_INVALID_PARAMETER", "correlation_id"},
		{"no UTF-8 in a filter", "GET", sagas + "?business_key=%ff", "", nil, 400, "REQ_INVALID_PARAMETER", "business_key"},
		{"an overlong filter", "GET", sagas + "?correlation_id=" + long, "", nil, 400, "REQ_INVALID_PARAMETER", "correlation_id"},
		{"an empty filter", "GET", sagas + "?trace_id=", "", nil, 400, "REQ_INVALID_PARAMETER", "trace_id"},
		{"an unknown status", "GET", sagas + "?status=DONE", "", nil, 400, "REQ_INVALID_PARAMETER", "status"},
		{"an unknown state", "GET", sagas + "?state=failed&state=3", "", nil, 400, "REQ_INVALID_PARAMETER", "state"},
		{"an unknown view", "GET", sagas + "?view=FULL", "", nil, 400, "REQ_INVALID_PARAMETER", "view"},
		{"an unknown include", "GET", missing + "?include=total", "", nil, 400, "REQ_INVALID_PARAMETER", "include"},
		{"a boolean that is none", "GET", sagas + "?needs_attention=maybe", "", nil, 400, "REQ_INVALID_PARAMETER", "needs_attention"},
		{"a time that is none", "GET", sagas + "?created_from=yesterday", "", nil, 400, "REQ_INVALID_PARAMETER", "created_from"},
		{"a time no saga has", "GET", sagas + "?created_to=0000-01-01T00:00:00Z", "", nil, 400, "REQ_INVALID_PARAMETER", "created_to"},
		{"a time in month 13", "GET", sagas + "?updated_to=2026-13-01T00:00:00Z", "", nil, 400, "REQ_INVALID_PARAMETER", "updated_to"},
		{"metadata that is no JSON", "GET", sagas + "?metadata=region", "", nil, 400, "REQ_INVALID_PARAMETER", "metadata"},
		{"metadata that is no object", "GET", sagas + "?metadata=%5B%5D", "", nil, 400, "REQ_INVALID_PARAMETER", "metadata"},
		{"page zero", "GET", sagas + "?page=0", "", nil, 400, "REQ_INVALID_PARAMETER", "page"},
		{"a page that is no number", "GET", sagas + "?page=first", "", nil, 400, "REQ_INVALID_PARAMETER", "page"},
		{"a page number beyond int64", "GET", sagas + "?page=99999999999999999999", "", nil, 400, "REQ_INVALID_PARAMETER", "page"},
		{"a page too large", "GET", sagas + "?page_size=201", "", nil, 400, "REQ_INVALID_PARAMETER", "page_size"},
		{"a page too deep", "GET", sagas + "?page=51&page_size=200", "", nil, 400, "REQ_INVALID_PARAMETER", "page"},
		{"page and cursor together", "GET", sagas + "?page=1&cursor=abc", "", nil, 400, "REQ_INVALID_PARAMETER", "cursor"},
		{"a made-up cursor", "GET", sagas + "?cursor=abc", "", nil, 400, "REQ_INVALID_PARAMETER", "cursor"},
		{"a wait without a unit", "GET", missing + "?wait=30", "", nil, 400, "REQ_INVALID_PARAMETER", "wait"},
		{"a negative wait", "POST", sagas + "?wait=-1s", `{"workflow_name":"order"}`, nil, 400, "REQ_INVALID_PARAMETER", "wait"},
		{"a version that is none", "GET", workflows + "/order/versions/latest", "", nil, 400, "REQ_INVALID_PARAMETER", "version"},
		{"version zero", "GET", workflows + "/order/versions/0", "", nil, 400, "REQ_INVALID_PARAMETER", "version"},
		{"a version beyond int32", "GET", workflows + "/order/versions/2147483648", "", nil, 400, "REQ_INVALID_PARAMETER", "version"},
		{"an If-Match without quotes", "POST", missing[:len(missing)-len("01234567-89ab-7def-8123-456789abcdef")] + exists.SagaID.String() + "/cancel", "", []string{"If-Match", "1"}, 400, "REQ_INVALID_PARAMETER", "If-Match"},
		{"an If-None-Match without quotes", "GET", "/openapi.json", "", []string{"If-None-Match", "x"}, 400, "REQ_INVALID_PARAMETER", "If-None-Match"},
		{"an overlong Idempotency-Key", "POST", sagas, `{"workflow_name":"order"}`, []string{"Idempotency-Key", long}, 400, "REQ_INVALID_PARAMETER", "Idempotency-Key"},
		{"blanks in an Idempotency-Key", "POST", sagas, `{"workflow_name":"order"}`, []string{"Idempotency-Key", "a b"}, 400, "REQ_INVALID_PARAMETER", "Idempotency-Key"},
		{"letters beyond ASCII in an Idempotency-Key", "POST", missing + "/cancel", "", []string{"Idempotency-Key", "schlüssel"}, 400, "REQ_INVALID_PARAMETER", "Idempotency-Key"},

		{"no body", "POST", sagas, "", []string{"Content-Type", "application/json"}, 400, "REQ_INVALID_JSON", ""},
		{"no JSON", "POST", sagas, `{workflow_name: order}`, nil, 400, "REQ_INVALID_JSON", ""},
		{"half a JSON document", "POST", sagas, `{"workflow_name":"order"`, nil, 400, "REQ_INVALID_JSON", ""},
		{"data after the document", "POST", sagas, `{"workflow_name":"order"} {}`, nil, 400, "REQ_INVALID_JSON", ""},
		{"half a surrogate pair", "POST", sagas, `{"workflow_name":"order","payload":"\ud800"}`, nil, 400, "REQ_INVALID_JSON", "/payload"},
		{"a number without end", "POST", sagas, `{"workflow_name":"order","payload":1e999999999}`, nil, 400, "REQ_INVALID_JSON", "/payload"},
		{"a duplicate key", "POST", sagas, `{"workflow_name":"order","payload":{"a":{"b":1,"b":2}}}`, nil, 400, "REQ_DUPLICATE_KEY", "/payload/a/b"},
		{"a duplicate key in escapes", "POST", sagas, `{"workflow_name":"order","workflow_\u006eame":"other"}`, nil, 400, "REQ_DUPLICATE_KEY", "/workflow_name"},
		{"nesting without limit", "POST", sagas, `{"workflow_name":"order","payload":` + deep + `}`, nil, 400, "REQ_TOO_DEEP", "*"},
		{"a NUL character in the payload", "POST", sagas, `{"workflow_name":"order","payload":{"a":"` + nul + `"}}`, nil, 400, "REQ_NUL_CHARACTER", "/payload/a"},
		{"no UTF-8 in the payload", "POST", sagas, `{"workflow_name":"order","payload":"` + noUTF8 + `"}`, nil, 400, "REQ_INVALID_UTF8", "/payload"},
		{"a body too large", "POST", sagas, `{"workflow_name":"order","payload":"` + strings.Repeat("x", 5000) + `"}`, nil, 413, "REQ_TOO_LARGE", "-"},
		{"a form", "POST", sagas, "workflow_name=order", []string{"Content-Type", "application/x-www-form-urlencoded"}, 415, "REQ_UNSUPPORTED_MEDIA_TYPE", "-"},
		{"JSON in another character set", "POST", sagas, `{"workflow_name":"order"}`, []string{"Content-Type", "application/json; charset=utf-16"}, 415, "REQ_UNSUPPORTED_MEDIA_TYPE", "-"},
		{"a body where none belongs", "POST", "/api/v1/webhooks/0192f0c1-0000-7000-8000-000000000001/test", `{"reason":"x"}`, nil, 422, "REQ_SCHEMA", ""},

		{"a list instead of an object", "POST", sagas, `[]`, nil, 422, "REQ_SCHEMA", ""},
		{"null instead of an object", "POST", sagas, `null`, nil, 422, "REQ_SCHEMA", ""},
		{"neither workflow nor steps", "POST", sagas, `{}`, nil, 422, "REQ_SCHEMA", "/workflow_name"},
		{"an unknown member", "POST", sagas, `{"workflow_name":"order","paylod":{}}`, nil, 422, "REQ_SCHEMA", "/paylod"},
		{"an unknown member with odd characters", "POST", sagas, `{"workflow_name":"order","a/~\"b":{}}`, nil, 422, "REQ_SCHEMA", `/a~1~0"b`},
		{"a member in another case", "POST", sagas, `{"workflow_name":"order","WORKFLOW_NAME":"other"}`, nil, 422, "REQ_SCHEMA", "/WORKFLOW_NAME"},
		{"a number for a name", "POST", sagas, `{"workflow_name":7}`, nil, 422, "REQ_SCHEMA", "/workflow_name"},
		{"null for a name", "POST", sagas, `{"workflow_name":null}`, nil, 422, "REQ_SCHEMA", "/workflow_name"},
		{"an overlong correlation id", "POST", sagas, `{"workflow_name":"order","correlation_id":"` + long + `"}`, nil, 422, "REQ_SCHEMA", "/correlation_id"},
		{"metadata that is a list", "POST", sagas, `{"workflow_name":"order","metadata":[]}`, nil, 422, "REQ_SCHEMA", "/metadata"},
		{"a timeout of zero", "POST", sagas, `{"workflow_name":"order","timeout_ms":0}`, nil, 422, "REQ_SCHEMA", "/timeout_ms"},
		{"half a millisecond", "POST", sagas, `{"workflow_name":"order","timeout_ms":0.5}`, nil, 422, "REQ_SCHEMA", "/timeout_ms"},
		{"a whole number with a fraction", "POST", sagas, `{"workflow_name":"order","timeout_ms":5.0}`, nil, 422, "REQ_SCHEMA", "/timeout_ms"},
		{"a timeout beyond every number", "POST", sagas, `{"workflow_name":"order","timeout_ms":1e350}`, nil, 422, "REQ_SCHEMA", "/timeout_ms"},
		{"a saga id that is none", "POST", sagas, `{"workflow_name":"order","saga_id":"one"}`, nil, 422, "REQ_SCHEMA", "/saga_id"},
		{"a saga id of zeros", "POST", sagas, `{"workflow_name":"order","saga_id":"00000000-0000-0000-0000-000000000000"}`, nil, 422, "REQ_SCHEMA", "/saga_id"},
		{"two ids that differ", "POST", sagas, `{"workflow_name":"order","saga_id":"11111111-2222-7333-8444-555555555551","transaction_id":"11111111-2222-7333-8444-555555555552"}`, nil, 422, "REQ_SCHEMA", "/transaction_id"},
		{"a version with steps", "POST", sagas, `{"workflow_version":1,"steps":[` + stepsJSON("a") + `]}`, nil, 422, "REQ_SCHEMA", "/workflow_version"},
		{"an unknown member of an action", "POST", missing + "/cancel", `{"why":"x"}`, nil, 422, "REQ_SCHEMA", "/why"},
		{"an overlong reason", "POST", missing + "/cancel", `{"reason":"` + strings.Repeat("x", 1001) + `"}`, nil, 422, "REQ_SCHEMA", "/reason"},
		{"a workflow that does not exist", "POST", sagas, `{"workflow_name":"oder"}`, nil, 422, "WORKFLOW_NOT_FOUND", "/workflow_name"},
		{"a workflow no name can have", "POST", sagas, `{"workflow_name":"or der"}`, nil, 422, "WORKFLOW_NOT_FOUND", "/workflow_name"},
		{"a version that does not exist", "POST", sagas, `{"workflow_name":"order","workflow_version":2}`, nil, 422, "WORKFLOW_NOT_FOUND", "/workflow_version"},
		{"a disabled workflow", "POST", sagas, `{"workflow_name":"asleep"}`, nil, 409, "WORKFLOW_DISABLED", "-"},
		{"a disabled workflow's version", "POST", sagas, `{"workflow_name":"asleep","workflow_version":1}`, nil, 409, "WORKFLOW_DISABLED", "-"},
		{"a saga that exists", "POST", sagas, `{"workflow_name":"order","saga_id":"11111111-2222-7333-8444-555555555555"}`, nil, 409, "SAGA_ALREADY_EXISTS", "/saga_id"},
		{"inline steps too large", "POST", sagas, `{"steps":[` + stepsJSON(strings.Split(strings.Repeat("a,", 24), ",")[:20]...) + `]}`, nil, 413, "REQ_TOO_LARGE", "-"},
		{"inline steps with a bad URL", "POST", sagas, `{"steps":[{"name":"a","action":{"http":{"url":"ftp://h/"}},"compensation":"none"}]}`, nil, 422, "WORKFLOW_INVALID_URL", "/steps/0/action/http/url"},

		{"a definition that is a list", "POST", workflows, `[]`, nil, 422, "WORKFLOW_INVALID", ""},
		{"a definition without steps", "POST", workflows, `{"name":"a","steps":[]}`, nil, 422, "WORKFLOW_EMPTY", "/steps"},
		{"two steps of one name", "POST", workflows, definition("a", "x", "x"), nil, 422, "WORKFLOW_DUPLICATE_STEP", "/steps/1/name"},
		{"a definition in a circle", "POST", workflows, `{"name":"a","steps":[{"name":"x","depends_on":["x"],"action":{"http":{"url":"http://h/"}},"compensation":"none"}]}`, nil, 422, "WORKFLOW_CYCLIC", "/steps/0/depends_on/0"},
		{"a step without a way back", "POST", workflows, `{"name":"a","steps":[{"name":"x","action":{"http":{"url":"http://h/"}}}]}`, nil, 422, "WORKFLOW_MISSING_COMPENSATION", "/steps/0/compensation"},
		{"a URL without a host", "POST", workflows + "/validate", `{"name":"a","steps":[{"name":"x","action":{"http":{"url":"http:///x"}},"compensation":"none"}]}`, nil, 422, "WORKFLOW_INVALID_URL", "/steps/0/action/http/url"},
		{"an unknown member of a step", "POST", workflows, `{"name":"a","steps":[{"name":"x","tiemout_ms":1,"action":{"http":{"url":"http://h/"}},"compensation":"none"}]}`, nil, 422, "WORKFLOW_INVALID", "/steps/0/tiemout_ms"},
		{"a name of the server's", "POST", workflows, definition("inline:0123456789abcdef", "x"), nil, 422, "WORKFLOW_INVALID", "/name"},
		{"no YAML", "POST", workflows, "name: [", []string{"Content-Type", "application/yaml"}, 422, "WORKFLOW_SYNTAX", "-"},
		{"no YAML inside JSON", "POST", workflows, `{"workflow_yaml":"name: ["}`, nil, 422, "WORKFLOW_SYNTAX", "-"},
		{"YAML that is no text", "POST", workflows, `{"workflow_yaml":7}`, nil, 422, "REQ_SCHEMA", "/workflow_yaml"},
		{"YAML with company", "POST", workflows, `{"workflow_yaml":"name: a","name":"a"}`, nil, 422, "REQ_SCHEMA", ""},
		{"a NUL character by way of YAML", "POST", workflows, "name: a\ndescription: \"a\\0b\"\nsteps: [{name: x, action: {http: {url: http://h/}}, compensation: none}]", []string{"Content-Type", "text/yaml"}, 422, "WORKFLOW_INVALID", "/description"},
		{"no UTF-8 in YAML", "POST", workflows, "name: \xff", []string{"Content-Type", "application/x-yaml"}, 400, "REQ_INVALID_UTF8", "-"},
		{"a definition too large", "POST", workflows, `{"name":"` + strings.Repeat("a", 3000) + `"}`, nil, 413, "REQ_TOO_LARGE", "-"},
		{"a workflow that is not there", "GET", workflows + "/nobody", "", nil, 404, "WORKFLOW_NOT_FOUND", "-"},
		{"versions of a workflow that is not there", "GET", workflows + "/nobody/versions", "", nil, 404, "WORKFLOW_NOT_FOUND", "-"},
		{"disabling a workflow that is not there", "POST", workflows + "/nobody/disable", "", nil, 404, "WORKFLOW_NOT_FOUND", "-"},
		{"a workflow with an impossible name", "GET", workflows + "/no%20body", "", nil, 404, "WORKFLOW_NOT_FOUND", "-"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r := e.send(tt.method, tt.path, tt.body, tt.header...)
			p := r.wants(tt.status, tt.code)
			if p.Status != tt.status || p.Title == "" || p.Detail == "" || p.RequestID != r.header.Get("X-Request-Id") {
				t.Errorf("problem = %+v", p)
			}
			if !strings.HasSuffix(p.Type, "docs/problems.md#"+strings.ToLower(tt.code)) {
				t.Errorf("type = %q", p.Type)
			}
			if leak := leaks.Find(r.body); leak != nil {
				t.Errorf("the answer leaks %q: %s", leak, r.body)
			}
			checkPointer(t, p, tt.pointer)
		})
	}
	if log := e.log.String(); log != "" {
		t.Errorf("bad input was logged: %s", log)
	}
}

func checkPointer(t *testing.T, p client.Problem, want string) {
	t.Helper()
	switch {
	case want == "-" && len(p.Errors) > 0:
		t.Errorf("errors = %+v, want none", p.Errors)
	case want == "-" || want == "*":
	case len(p.Errors) == 0:
		t.Errorf("no errors, want one at %q", want)
	case p.Errors[0].Pointer != want || p.Errors[0].Code == "" || p.Errors[0].Message == "":
		t.Errorf("errors[0] = %+v, want pointer %q", p.Errors[0], want)
	}
}

func TestEveryMistakeIsListed(t *testing.T) {
	e := newEdge(t)
	p := e.send("POST", sagas, `{"workflow_name":"","surprise":1,"metadata":3,"timeout_ms":"soon"}`).wants(422, "REQ_SCHEMA")
	var got []string
	for _, f := range p.Errors {
		got = append(got, f.Pointer+" "+f.Code)
	}
	want := "/metadata type, /surprise unknown, /timeout_ms type, /workflow_name minLength"
	if s := strings.Join(got, ", "); s != want {
		t.Errorf("errors = %s, want %s", s, want)
	}
	p = e.send("GET", sagas+"?page=0&page_size=0&view=x", "").wants(400, "REQ_INVALID_PARAMETER")
	if len(p.Errors) != 3 {
		t.Errorf("parameter errors = %+v, want three", p.Errors)
	}
	p = e.send("GET", sagas+"?colour=1&page=1&page=2", "").wants(400, "REQ_INVALID_PARAMETER")
	if len(p.Errors) != 2 || p.Errors[0].Code != "unknown" || p.Errors[1].Code != "repeated" {
		t.Errorf("query errors = %+v, want an unknown and a repeated one", p.Errors)
	}
}

func TestBoundsAreWrittenOut(t *testing.T) {
	e := newEdge(t)
	p := e.send("POST", sagas, `{"workflow_name":"order","timeout_ms":99999999999999}`).wants(422, "REQ_SCHEMA")
	if got, want := p.Errors[0].Message, "must be at most 31622400000"; got != want {
		t.Errorf("message = %q, want %q", got, want)
	}
}

func TestABodyOfUnknownLengthHasTheSameLimit(t *testing.T) {
	e := newEdge(t, func(c *httpapi.Config) { c.Limits.MaxBodyBytes = 1000 })
	e.register("order", "reserve")
	for size, status := range map[int]int{10: http.StatusCreated, 2000: http.StatusRequestEntityTooLarge} {
		body := `{"workflow_name":"order","payload":"` + strings.Repeat("x", size) + `"}`
		req, err := http.NewRequestWithContext(t.Context(), "POST", e.url+sagas, io.MultiReader(strings.NewReader(body)))
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Content-Type", "application/json")
		if r := e.do(req); r.status != status {
			t.Errorf("%d bytes: %d %s, want %d", size, r.status, r.body, status)
		}
	}
}

func TestAProblemRepeatsLittleOfWhatWasSent(t *testing.T) {
	e := newEdge(t)
	var body bytes.Buffer
	body.WriteString(`{"workflow_name":"order"`)
	for i := range 2000 {
		body.WriteString(`,"` + strings.Repeat("k", 100) + string(rune('a'+i%26)) + strings.Repeat("x", i) + `":1`)
		if body.Len() > 900_000 {
			break
		}
	}
	body.WriteString("}")
	r := e.send("POST", sagas, body.String())
	r.wants(422, "REQ_SCHEMA")
	if len(r.body) > 300_000 {
		t.Errorf("the problem has %d bytes", len(r.body))
	}
}

func TestOddContentTypesAreUnderstood(t *testing.T) {
	e := newEdge(t)
	e.register("order", "reserve")
	for _, contentType := range []string{"application/json; charset=UTF-8", "Application/JSON", `application/json;charset="utf-8"`} {
		if r := e.send("POST", sagas, `{"workflow_name":"order"}`, "Content-Type", contentType); r.status != http.StatusCreated {
			t.Errorf("%s: %d %s", contentType, r.status, r.body)
		}
	}
}

func TestOperationsWithoutABodyTakeAnEmptyObject(t *testing.T) {
	t.Parallel()
	e := newEdge(t)
	for _, tt := range []struct {
		name, body string
		header     []string
		refused    bool
	}{
		{"nothing", "", nil, false},
		{"nothing, as JSON", "", []string{"Content-Type", "application/json"}, false},
		{"an empty object", "{}", []string{"Content-Type", "application/json"}, false},
		{"an empty object with blanks", " { \n} ", []string{"Content-Type", "application/json"}, false},
		{"an empty object of a form", "{}", []string{"Content-Type", "application/x-www-form-urlencoded"}, false},
		{"a member", `{"reason":"x"}`, []string{"Content-Type", "application/json"}, true},
		{"a list", `[]`, []string{"Content-Type", "application/json"}, true},
		{"text", `hello`, []string{"Content-Type", "text/plain"}, true},
		{"much", strings.Repeat("x", 10_000), []string{"Content-Type", "text/plain"}, true},
	} {
		r := e.send("POST", "/api/v1/webhooks/0192f0c1-0000-7000-8000-000000000001/test", tt.body, tt.header...)
		if !tt.refused {
			r.wants(http.StatusNotFound, "WEBHOOK_NOT_FOUND") // it has passed the body
			continue
		}
		if p := r.wants(http.StatusUnprocessableEntity, "REQ_SCHEMA"); !strings.Contains(p.Detail, "takes no body") {
			t.Errorf("%s: %+v", tt.name, p)
		}
	}
}
