package httpapi_test

import (
	"bytes"
	"io"
	"net/http"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/skald-saga/skald/api/client"
	"github.com/skald-saga/skald/internal/httpapi"
	"github.com/skald-saga/skald/internal/test/apitest"
)

// leaks matches implementation details that no response may contain.
var leaks = regexp.MustCompile(`goroutine|\.go:|openapi3|kin-openapi|json: |encoding/|strconv|pq: |panic|runtime error|0x[0-9a-f]{6}`)

func TestBadInputIsAnsweredWithItsProblem(t *testing.T) {
	e := apitest.NewEdge(t, func(c *httpapi.Config) {
		c.Limits.MaxBodyBytes, c.Limits.MaxWorkflowBytes, c.Limits.MaxJSONDepth = 4096, 2048, 10
	})
	e.Register("order", "reserve")
	e.Register("asleep", "reserve")
	e.Send("POST", apitest.WorkflowsPath+"/asleep/disable", "")
	exists := e.Start(`{"workflow_name":"order","saga_id":"11111111-2222-7333-8444-555555555555"}`)
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
		{"a path with a slash too many", "GET", apitest.SagasPath + "/", "", nil, 404, "REQ_NOT_FOUND", "-"},
		{"metrics, which are served elsewhere", "GET", "/metrics", "", nil, 404, "REQ_NOT_FOUND", "-"},
		{"a method the path does not have", "DELETE", apitest.SagasPath, "", nil, 405, "REQ_METHOD_NOT_ALLOWED", "-"},
		{"a NUL character in the path", "GET", apitest.WorkflowsPath + "/a%00b", "", nil, 400, "REQ_INVALID_PARAMETER", "-"},
		{"no UTF-8 in the path", "GET", apitest.WorkflowsPath + "/a%ff", "", nil, 400, "REQ_INVALID_PARAMETER", "-"},
		{"a saga id that is no UUID", "GET", apitest.SagasPath + "/17", "", nil, 400, "REQ_INVALID_PARAMETER", "saga_id"},
		{"a saga id in braces", "GET", apitest.SagasPath + "/%7B01234567-89ab-7def-8123-456789abcdef%7D", "", nil, 400, "REQ_INVALID_PARAMETER", "saga_id"},
		{"a saga that does not exist", "GET", apitest.MissingSaga, "", nil, 404, "SAGA_NOT_FOUND", "-"},
		{"the steps of a saga that does not exist", "GET", apitest.MissingSaga + "/steps", "", nil, 404, "SAGA_NOT_FOUND", "-"},
		{"the step logs of a saga that does not exist", "GET", apitest.MissingSaga + "/step-logs", "", nil, 404, "SAGA_NOT_FOUND", "-"},
		{"cancelling a saga that does not exist", "POST", apitest.MissingSaga + "/cancel", "", nil, 404, "SAGA_NOT_FOUND", "-"},
		{"waiting for a saga that does not exist", "GET", apitest.MissingSaga + "?wait=9s", "", nil, 404, "SAGA_NOT_FOUND", "-"},
		{"resuming what has not failed", "POST", apitest.SagasPath + "/" + exists.SagaID.String() + "/resume-compensation", "", nil, 409, "SAGA_STATE_CONFLICT", "-"},

		{"an unknown query parameter", "GET", apitest.SagasPath + "?stauts=FAILED", "", nil, 400, "REQ_UNKNOWN_PARAMETER", "stauts"},
		{"a query parameter where there is none", "POST", apitest.MissingSaga + "/cancel?force=true", "", nil, 400, "REQ_UNKNOWN_PARAMETER", "force"},
		{"a parameter given twice", "GET", apitest.SagasPath + "?page=1&page=2", "", nil, 400, "REQ_INVALID_PARAMETER", "page"},
		{"a malformed query string", "GET", apitest.SagasPath + "?page=%zz", "", nil, 400, "REQ_INVALID_PARAMETER", "-"},
		{"a NUL character in a filter", "GET", apitest.SagasPath + "?correlation_id=a%00b", "", nil, 400, "REQ_INVALID_PARAMETER", "correlation_id"},
		{"no UTF-8 in a filter", "GET", apitest.SagasPath + "?business_key=%ff", "", nil, 400, "REQ_INVALID_PARAMETER", "business_key"},
		{"an overlong filter", "GET", apitest.SagasPath + "?correlation_id=" + long, "", nil, 400, "REQ_INVALID_PARAMETER", "correlation_id"},
		{"an empty filter", "GET", apitest.SagasPath + "?trace_id=", "", nil, 400, "REQ_INVALID_PARAMETER", "trace_id"},
		{"an unknown status", "GET", apitest.SagasPath + "?status=DONE", "", nil, 400, "REQ_INVALID_PARAMETER", "status"},
		{"an unknown state", "GET", apitest.SagasPath + "?state=failed&state=3", "", nil, 400, "REQ_INVALID_PARAMETER", "state"},
		{"an unknown view", "GET", apitest.SagasPath + "?view=FULL", "", nil, 400, "REQ_INVALID_PARAMETER", "view"},
		{"an unknown include", "GET", apitest.MissingSaga + "?include=total", "", nil, 400, "REQ_INVALID_PARAMETER", "include"},
		{"a boolean that is none", "GET", apitest.SagasPath + "?needs_attention=maybe", "", nil, 400, "REQ_INVALID_PARAMETER", "needs_attention"},
		{"a time that is none", "GET", apitest.SagasPath + "?created_from=yesterday", "", nil, 400, "REQ_INVALID_PARAMETER", "created_from"},
		{"a time no saga has", "GET", apitest.SagasPath + "?created_to=0000-01-01T00:00:00Z", "", nil, 400, "REQ_INVALID_PARAMETER", "created_to"},
		{"a time in month 13", "GET", apitest.SagasPath + "?updated_to=2026-13-01T00:00:00Z", "", nil, 400, "REQ_INVALID_PARAMETER", "updated_to"},
		{"a period of created that ends before it begins", "GET", apitest.SagasPath + "?created_from=2026-02-02T00:00:00Z&created_to=2026-01-01T00:00:00Z", "", nil, 400, "REQ_INVALID_PARAMETER", "created_to"},
		{"a period of updated that ends before it begins", "GET", apitest.SagasPath + "?updated_from=2026-02-02T00:00:00Z&updated_to=2026-01-01T00:00:00Z", "", nil, 400, "REQ_INVALID_PARAMETER", "updated_to"},
		{"a period of ended that ends before it begins", "GET", apitest.SagasPath + "?ended_from=2026-02-02T00:00:00Z&ended_to=2026-01-01T00:00:00Z", "", nil, 400, "REQ_INVALID_PARAMETER", "ended_to"},
		{"a period of attention_since that ends before it begins", "GET", apitest.SagasPath + "?attention_since_from=2026-02-02T00:00:00Z&attention_since_to=2026-01-01T00:00:00Z", "", nil, 400, "REQ_INVALID_PARAMETER", "attention_since_to"},
		{"a period of created that ends before it begins", "GET", "/api/v1/statistics/sagas" + "?created_from=2026-02-02T00:00:00Z&created_to=2026-01-01T00:00:00Z", "", nil, 400, "REQ_INVALID_PARAMETER", "created_to"},
		{"a period of events that ends before it begins", "GET", "/api/v1/saga-events" + "?from=2026-02-02T00:00:00Z&to=2026-01-01T00:00:00Z", "", nil, 400, "REQ_INVALID_PARAMETER", "to"},
		{"metadata that is no JSON", "GET", apitest.SagasPath + "?metadata=region", "", nil, 400, "REQ_INVALID_PARAMETER", "metadata"},
		{"metadata that is not an object", "GET", apitest.SagasPath + "?metadata=%5B%5D", "", nil, 400, "REQ_INVALID_PARAMETER", "metadata"},
		{"page zero", "GET", apitest.SagasPath + "?page=0", "", nil, 400, "REQ_INVALID_PARAMETER", "page"},
		{"a page that is not a number", "GET", apitest.SagasPath + "?page=first", "", nil, 400, "REQ_INVALID_PARAMETER", "page"},
		{"a page number beyond int64", "GET", apitest.SagasPath + "?page=99999999999999999999", "", nil, 400, "REQ_INVALID_PARAMETER", "page"},
		{"a page too large", "GET", apitest.SagasPath + "?page_size=201", "", nil, 400, "REQ_INVALID_PARAMETER", "page_size"},
		{"a page too deep", "GET", apitest.SagasPath + "?page=51&page_size=200", "", nil, 400, "REQ_INVALID_PARAMETER", "page"},
		{"page and cursor together", "GET", apitest.SagasPath + "?page=1&cursor=abc", "", nil, 400, "REQ_INVALID_PARAMETER", "cursor"},
		{"a made-up cursor", "GET", apitest.SagasPath + "?cursor=abc", "", nil, 400, "REQ_INVALID_PARAMETER", "cursor"},
		{"a wait without a unit", "GET", apitest.MissingSaga + "?wait=30", "", nil, 400, "REQ_INVALID_PARAMETER", "wait"},
		{"a negative wait", "POST", apitest.SagasPath + "?wait=-1s", `{"workflow_name":"order"}`, nil, 400, "REQ_INVALID_PARAMETER", "wait"},
		{"a version that is none", "GET", apitest.WorkflowsPath + "/order/versions/latest", "", nil, 400, "REQ_INVALID_PARAMETER", "version"},
		{"version zero", "GET", apitest.WorkflowsPath + "/order/versions/0", "", nil, 400, "REQ_INVALID_PARAMETER", "version"},
		{"a version beyond int32", "GET", apitest.WorkflowsPath + "/order/versions/2147483648", "", nil, 400, "REQ_INVALID_PARAMETER", "version"},
		{"an If-Match without quotes", "POST", apitest.MissingSaga[:len(apitest.MissingSaga)-len("01234567-89ab-7def-8123-456789abcdef")] + exists.SagaID.String() + "/cancel", "", []string{"If-Match", "1"}, 400, "REQ_INVALID_PARAMETER", "If-Match"},
		{"an If-None-Match without quotes", "GET", "/openapi.json", "", []string{"If-None-Match", "x"}, 400, "REQ_INVALID_PARAMETER", "If-None-Match"},
		{"an overlong Idempotency-Key", "POST", apitest.SagasPath, `{"workflow_name":"order"}`, []string{"Idempotency-Key", long}, 400, "REQ_INVALID_PARAMETER", "Idempotency-Key"},
		{"an Idempotency-Key of two quotes", "POST", apitest.SagasPath, `{"workflow_name":"order"}`, []string{"Idempotency-Key", `""`}, 400, "REQ_INVALID_PARAMETER", "Idempotency-Key"},
		{"blanks in an Idempotency-Key", "POST", apitest.SagasPath, `{"workflow_name":"order"}`, []string{"Idempotency-Key", "a b"}, 400, "REQ_INVALID_PARAMETER", "Idempotency-Key"},
		{"letters beyond ASCII in an Idempotency-Key", "POST", apitest.MissingSaga + "/cancel", "", []string{"Idempotency-Key", "schlüssel"}, 400, "REQ_INVALID_PARAMETER", "Idempotency-Key"},

		{"no body", "POST", apitest.SagasPath, "", []string{"Content-Type", "application/json"}, 400, "REQ_INVALID_JSON", ""},
		{"no JSON", "POST", apitest.SagasPath, `{workflow_name: order}`, nil, 400, "REQ_INVALID_JSON", ""},
		{"half a JSON document", "POST", apitest.SagasPath, `{"workflow_name":"order"`, nil, 400, "REQ_INVALID_JSON", ""},
		{"data after the document", "POST", apitest.SagasPath, `{"workflow_name":"order"} {}`, nil, 400, "REQ_INVALID_JSON", ""},
		{"half a surrogate pair", "POST", apitest.SagasPath, `{"workflow_name":"order","payload":"\ud800"}`, nil, 400, "REQ_INVALID_JSON", "/payload"},
		{"a number without end", "POST", apitest.SagasPath, `{"workflow_name":"order","payload":1e999999999}`, nil, 400, "REQ_INVALID_JSON", "/payload"},
		{"a duplicate key", "POST", apitest.SagasPath, `{"workflow_name":"order","payload":{"a":{"b":1,"b":2}}}`, nil, 400, "REQ_DUPLICATE_KEY", "/payload/a/b"},
		{"a duplicate key in escapes", "POST", apitest.SagasPath, `{"workflow_name":"order","workflow_\u006eame":"other"}`, nil, 400, "REQ_DUPLICATE_KEY", "/workflow_name"},
		{"nesting without limit", "POST", apitest.SagasPath, `{"workflow_name":"order","payload":` + deep + `}`, nil, 400, "REQ_TOO_DEEP", "*"},
		{"a NUL character in the payload", "POST", apitest.SagasPath, `{"workflow_name":"order","payload":{"a":"` + nul + `"}}`, nil, 400, "REQ_NUL_CHARACTER", "/payload/a"},
		{"no UTF-8 in the payload", "POST", apitest.SagasPath, `{"workflow_name":"order","payload":"` + noUTF8 + `"}`, nil, 400, "REQ_INVALID_UTF8", "/payload"},
		{"a body too large", "POST", apitest.SagasPath, `{"workflow_name":"order","payload":"` + strings.Repeat("x", 5000) + `"}`, nil, 413, "REQ_TOO_LARGE", "-"},
		{"a form", "POST", apitest.SagasPath, "workflow_name=order", []string{"Content-Type", "application/x-www-form-urlencoded"}, 415, "REQ_UNSUPPORTED_MEDIA_TYPE", "-"},
		{"a compressed body", "POST", apitest.SagasPath, `{"workflow_name":"order"}`, []string{"Content-Encoding", "gzip"}, 415, "REQ_UNSUPPORTED_ENCODING", "-"},
		{"a thousand headers", "POST", apitest.SagasPath, `{"workflow_name":"order"}`, manyHeaders(1000), 431, "REQ_TOO_MANY_HEADERS", "-"},
		{"JSON in another character set", "POST", apitest.SagasPath, `{"workflow_name":"order"}`, []string{"Content-Type", "application/json; charset=utf-16"}, 415, "REQ_UNSUPPORTED_MEDIA_TYPE", "-"},
		{"a body where none belongs", "POST", "/api/v1/webhooks/0192f0c1-0000-7000-8000-000000000001/test", `{"reason":"x"}`, nil, 422, "REQ_SCHEMA", ""},

		{"a list instead of an object", "POST", apitest.SagasPath, `[]`, nil, 422, "REQ_SCHEMA", ""},
		{"null instead of an object", "POST", apitest.SagasPath, `null`, nil, 422, "REQ_SCHEMA", ""},
		{"neither workflow nor steps", "POST", apitest.SagasPath, `{}`, nil, 422, "REQ_SCHEMA", "/workflow_name"},
		{"an unknown member", "POST", apitest.SagasPath, `{"workflow_name":"order","paylod":{}}`, nil, 422, "REQ_SCHEMA", "/paylod"},
		{"an unknown member with odd characters", "POST", apitest.SagasPath, `{"workflow_name":"order","a/~\"b":{}}`, nil, 422, "REQ_SCHEMA", `/a~1~0"b`},
		{"a member in another case", "POST", apitest.SagasPath, `{"workflow_name":"order","WORKFLOW_NAME":"other"}`, nil, 422, "REQ_SCHEMA", "/WORKFLOW_NAME"},
		{"a number for a name", "POST", apitest.SagasPath, `{"workflow_name":7}`, nil, 422, "REQ_SCHEMA", "/workflow_name"},
		{"null for a name", "POST", apitest.SagasPath, `{"workflow_name":null}`, nil, 422, "REQ_SCHEMA", "/workflow_name"},
		{"an overlong correlation id", "POST", apitest.SagasPath, `{"workflow_name":"order","correlation_id":"` + long + `"}`, nil, 422, "REQ_SCHEMA", "/correlation_id"},
		{"metadata that is a list", "POST", apitest.SagasPath, `{"workflow_name":"order","metadata":[]}`, nil, 422, "REQ_SCHEMA", "/metadata"},
		{"a timeout of zero", "POST", apitest.SagasPath, `{"workflow_name":"order","timeout_ms":0}`, nil, 422, "REQ_SCHEMA", "/timeout_ms"},
		{"half a millisecond", "POST", apitest.SagasPath, `{"workflow_name":"order","timeout_ms":0.5}`, nil, 422, "REQ_SCHEMA", "/timeout_ms"},
		{"a whole number with a fraction", "POST", apitest.SagasPath, `{"workflow_name":"order","timeout_ms":5.0}`, nil, 422, "REQ_SCHEMA", "/timeout_ms"},
		{"a timeout beyond every number", "POST", apitest.SagasPath, `{"workflow_name":"order","timeout_ms":1e350}`, nil, 422, "REQ_SCHEMA", "/timeout_ms"},
		{"a saga id that is none", "POST", apitest.SagasPath, `{"workflow_name":"order","saga_id":"one"}`, nil, 422, "REQ_SCHEMA", "/saga_id"},
		{"a saga id of zeros", "POST", apitest.SagasPath, `{"workflow_name":"order","saga_id":"00000000-0000-0000-0000-000000000000"}`, nil, 422, "REQ_SCHEMA", "/saga_id"},
		{"two ids that differ", "POST", apitest.SagasPath, `{"workflow_name":"order","saga_id":"11111111-2222-7333-8444-555555555551","transaction_id":"11111111-2222-7333-8444-555555555552"}`, nil, 422, "REQ_SCHEMA", "/transaction_id"},
		{"a version with steps", "POST", apitest.SagasPath, `{"workflow_version":1,"steps":[` + apitest.StepsJSON("a") + `]}`, nil, 422, "REQ_SCHEMA", "/workflow_version"},
		{"an unknown member of an action", "POST", apitest.MissingSaga + "/cancel", `{"why":"x"}`, nil, 422, "REQ_SCHEMA", "/why"},
		{"an overlong reason", "POST", apitest.MissingSaga + "/cancel", `{"reason":"` + strings.Repeat("x", 1001) + `"}`, nil, 422, "REQ_SCHEMA", "/reason"},
		{"a workflow that does not exist", "POST", apitest.SagasPath, `{"workflow_name":"oder"}`, nil, 422, "WORKFLOW_NOT_FOUND", "/workflow_name"},
		{"a workflow no name can have", "POST", apitest.SagasPath, `{"workflow_name":"or der"}`, nil, 422, "WORKFLOW_NOT_FOUND", "/workflow_name"},
		{"a version that does not exist", "POST", apitest.SagasPath, `{"workflow_name":"order","workflow_version":2}`, nil, 422, "WORKFLOW_NOT_FOUND", "/workflow_version"},
		{"a disabled workflow", "POST", apitest.SagasPath, `{"workflow_name":"asleep"}`, nil, 409, "WORKFLOW_DISABLED", "-"},
		{"a disabled workflow's version", "POST", apitest.SagasPath, `{"workflow_name":"asleep","workflow_version":1}`, nil, 409, "WORKFLOW_DISABLED", "-"},
		{"a saga that exists", "POST", apitest.SagasPath, `{"workflow_name":"order","saga_id":"11111111-2222-7333-8444-555555555555"}`, nil, 409, "SAGA_ALREADY_EXISTS", "/saga_id"},
		{"inline steps too large", "POST", apitest.SagasPath, `{"steps":[` + apitest.StepsJSON(strings.Split(strings.Repeat("a,", 24), ",")[:20]...) + `]}`, nil, 413, "REQ_TOO_LARGE", "-"},
		{"inline steps with a bad URL", "POST", apitest.SagasPath, `{"steps":[{"name":"a","action":{"http":{"url":"ftp://h/"}},"compensation":"none"}]}`, nil, 422, "WORKFLOW_INVALID_URL", "/steps/0/action/http/url"},

		{"a definition that is a list", "POST", apitest.WorkflowsPath, `[]`, nil, 422, "WORKFLOW_INVALID", ""},
		{"a definition without steps", "POST", apitest.WorkflowsPath, `{"name":"a","steps":[]}`, nil, 422, "WORKFLOW_EMPTY", "/steps"},
		{"two steps of one name", "POST", apitest.WorkflowsPath, apitest.Definition("a", "x", "x"), nil, 422, "WORKFLOW_DUPLICATE_STEP", "/steps/1/name"},
		{"a definition in a circle", "POST", apitest.WorkflowsPath, `{"name":"a","steps":[{"name":"x","depends_on":["x"],"action":{"http":{"url":"http://h/"}},"compensation":"none"}]}`, nil, 422, "WORKFLOW_CYCLIC", "/steps/0/depends_on/0"},
		{"a step without a way back", "POST", apitest.WorkflowsPath, `{"name":"a","steps":[{"name":"x","action":{"http":{"url":"http://h/"}}}]}`, nil, 422, "WORKFLOW_MISSING_COMPENSATION", "/steps/0/compensation"},
		{"a URL without a host", "POST", apitest.WorkflowsPath + "/validate", `{"name":"a","steps":[{"name":"x","action":{"http":{"url":"http:///x"}},"compensation":"none"}]}`, nil, 422, "WORKFLOW_INVALID_URL", "/steps/0/action/http/url"},
		{"an unknown member of a step", "POST", apitest.WorkflowsPath, `{"name":"a","steps":[{"name":"x","tiemout_ms":1,"action":{"http":{"url":"http://h/"}},"compensation":"none"}]}`, nil, 422, "WORKFLOW_INVALID", "/steps/0/tiemout_ms"},
		{"a name of the server's", "POST", apitest.WorkflowsPath, apitest.Definition("inline:0123456789abcdef", "x"), nil, 422, "WORKFLOW_INVALID", "/name"},
		{"no YAML", "POST", apitest.WorkflowsPath, "name: [", []string{"Content-Type", "application/yaml"}, 422, "WORKFLOW_SYNTAX", "-"},
		{"no YAML inside JSON", "POST", apitest.WorkflowsPath, `{"workflow_yaml":"name: ["}`, nil, 422, "WORKFLOW_SYNTAX", "-"},
		{"YAML that is not text", "POST", apitest.WorkflowsPath, `{"workflow_yaml":7}`, nil, 422, "REQ_SCHEMA", "/workflow_yaml"},
		{"YAML with company", "POST", apitest.WorkflowsPath, `{"workflow_yaml":"name: a","name":"a"}`, nil, 422, "REQ_SCHEMA", ""},
		{"a NUL character by way of YAML", "POST", apitest.WorkflowsPath, "name: a\ndescription: \"a\\0b\"\nsteps: [{name: x, action: {http: {url: http://h/}}, compensation: none}]", []string{"Content-Type", "text/yaml"}, 422, "WORKFLOW_INVALID", "/description"},
		{"no UTF-8 in YAML", "POST", apitest.WorkflowsPath, "name: \xff", []string{"Content-Type", "application/x-yaml"}, 400, "REQ_INVALID_UTF8", "-"},
		{"a definition too large", "POST", apitest.WorkflowsPath, `{"name":"` + strings.Repeat("a", 3000) + `"}`, nil, 413, "REQ_TOO_LARGE", "-"},
		{"a workflow that is not there", "GET", apitest.WorkflowsPath + "/nobody", "", nil, 404, "WORKFLOW_NOT_FOUND", "-"},
		{"versions of a workflow that is not there", "GET", apitest.WorkflowsPath + "/nobody/versions", "", nil, 404, "WORKFLOW_NOT_FOUND", "-"},
		{"disabling a workflow that is not there", "POST", apitest.WorkflowsPath + "/nobody/disable", "", nil, 404, "WORKFLOW_NOT_FOUND", "-"},
		{"a workflow with an impossible name", "GET", apitest.WorkflowsPath + "/no%20body", "", nil, 404, "WORKFLOW_NOT_FOUND", "-"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r := e.Send(tt.method, tt.path, tt.body, tt.header...)
			p := r.Wants(tt.status, tt.code)
			if p.Status != tt.status || p.Title == "" || p.Detail == "" || p.RequestID != r.Header.Get("X-Request-Id") {
				t.Errorf("problem = %+v", p)
			}
			if p.Type != "/docs/problems#"+strings.ToLower(tt.code) {
				t.Errorf("type = %q", p.Type)
			}
			if leak := leaks.Find(r.Body); leak != nil {
				t.Errorf("the response leaks %q: %s", leak, r.Body)
			}
			checkPointer(t, p, tt.pointer)
		})
	}
	if log := e.Log.String(); log != "" {
		t.Errorf("bad input was logged: %s", log)
	}
}

func manyHeaders(n int) (header []string) {
	for i := range n {
		header = append(header, "X-"+strconv.Itoa(i), "a")
	}
	return header
}

func TestContentEncodingIdentityIsAccepted(t *testing.T) {
	t.Parallel()
	e := apitest.NewEdge(t)
	e.Register("order", "reserve")
	r := e.Send("POST", apitest.SagasPath, `{"workflow_name":"order"}`, "Content-Encoding", "identity")
	if r.Status != http.StatusCreated {
		t.Errorf("%d %s", r.Status, r.Body)
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
	case p.Errors[0].Place() != want || p.Errors[0].Code == "" || p.Errors[0].Message == "":
		t.Errorf("errors[0] = %+v, want pointer %q", p.Errors[0], want)
	}
}

func TestEveryMistakeIsListed(t *testing.T) {
	e := apitest.NewEdge(t)
	p := e.Send("POST", apitest.SagasPath, `{"workflow_name":"","surprise":1,"metadata":3,"timeout_ms":"soon"}`).Wants(422, "REQ_SCHEMA")
	var got []string
	for _, f := range p.Errors {
		got = append(got, f.Place()+" "+f.Code)
	}
	want := "/metadata type, /surprise unknown, /timeout_ms type, /workflow_name minLength"
	if s := strings.Join(got, ", "); s != want {
		t.Errorf("errors = %s, want %s", s, want)
	}
	p = e.Send("GET", apitest.SagasPath+"?page=0&page_size=0&view=x", "").Wants(400, "REQ_INVALID_PARAMETER")
	if len(p.Errors) != 3 {
		t.Errorf("parameter errors = %+v, want three", p.Errors)
	}
	p = e.Send("GET", apitest.SagasPath+"?colour=1&page=1&page=2", "").Wants(400, "REQ_INVALID_PARAMETER")
	if len(p.Errors) != 2 || p.Errors[0].Code != "unknown" || p.Errors[1].Code != "repeated" {
		t.Errorf("query errors = %+v, want an unknown and a repeated one", p.Errors)
	}
}

func TestViolationsNameTheBounds(t *testing.T) {
	e := apitest.NewEdge(t)
	p := e.Send("POST", apitest.SagasPath, `{"workflow_name":"order","timeout_ms":99999999999999}`).Wants(422, "REQ_SCHEMA")
	if got, want := p.Errors[0].Message, "must be at most 31622400000"; got != want {
		t.Errorf("message = %q, want %q", got, want)
	}
}

func TestBodyOfUnknownLengthHasTheSameLimit(t *testing.T) {
	e := apitest.NewEdge(t, func(c *httpapi.Config) { c.Limits.MaxBodyBytes = 1000 })
	e.Register("order", "reserve")
	for size, status := range map[int]int{10: http.StatusCreated, 2000: http.StatusRequestEntityTooLarge} {
		body := `{"workflow_name":"order","payload":"` + strings.Repeat("x", size) + `"}`
		req, err := http.NewRequestWithContext(t.Context(), "POST", e.URL+apitest.SagasPath,
			io.MultiReader(strings.NewReader(body)))
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Content-Type", "application/json")
		if r := e.Do(req); r.Status != status {
			t.Errorf("%d bytes: %d %s, want %d", size, r.Status, r.Body, status)
		}
	}
}

func TestProblemsQuoteLittleOfTheRequest(t *testing.T) {
	e := apitest.NewEdge(t)
	var body bytes.Buffer
	body.WriteString(`{"workflow_name":"order"`)
	for i := range 2000 {
		body.WriteString(`,"` + strings.Repeat("k", 100) + string(rune('a'+i%26)) + strings.Repeat("x", i) + `":1`)
		if body.Len() > 900_000 {
			break
		}
	}
	body.WriteString("}")
	r := e.Send("POST", apitest.SagasPath, body.String())
	r.Wants(422, "REQ_SCHEMA")
	if len(r.Body) > 300_000 {
		t.Errorf("the problem has %d bytes", len(r.Body))
	}
}

func TestUnusualContentTypesAreUnderstood(t *testing.T) {
	e := apitest.NewEdge(t)
	e.Register("order", "reserve")
	for _, contentType := range []string{"application/json; charset=UTF-8", "Application/JSON", `application/json;charset="utf-8"`} {
		if r := e.Send("POST", apitest.SagasPath, `{"workflow_name":"order"}`, "Content-Type",
			contentType); r.Status != http.StatusCreated {
			t.Errorf("%s: %d %s", contentType, r.Status, r.Body)
		}
	}
}

func TestOperationsWithoutABodyAcceptAnEmptyObject(t *testing.T) {
	t.Parallel()
	e := apitest.NewEdge(t)
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
		r := e.Send("POST", "/api/v1/webhooks/0192f0c1-0000-7000-8000-000000000001/test", tt.body, tt.header...)
		if !tt.refused {
			r.Wants(http.StatusNotFound, "WEBHOOK_NOT_FOUND") // the body was accepted
			continue
		}
		if p := r.Wants(http.StatusUnprocessableEntity, "REQ_SCHEMA"); !strings.Contains(p.Detail, "takes no body") {
			t.Errorf("%s: %+v", tt.name, p)
		}
	}
}
