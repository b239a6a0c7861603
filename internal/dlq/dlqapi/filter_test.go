package dlqapi_test

import (
	"encoding/json"
	"net/url"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/skald-saga/skald/internal/test/apitest"
)

// Lists, exports and bulk operations share the code that reads filters, so they find the same
// mistakes and report them in the same words.
func TestAFilterHasTheSameMistakesInAQueryAndInABody(t *testing.T) {
	t.Parallel()
	q := newQueue(t)
	const (
		none   = "00000000-0000-0000-0000-000000000000"
		notNil = "must not be the nil UUID"
		years  = "must be a time in the years 1970 to 9999"
	)
	for _, tt := range []struct {
		query, body string
		want        map[string]string // member → what is wrong with it
	}{
		{"saga_id=" + none, `"saga_id":"` + none + `"`, map[string]string{"saga_id": notNil}},
		{"job_run_id=" + none, `"job_run_id":"` + none + `"`, map[string]string{"job_run_id": notNil}},
		{"redrive_id=" + none, `"redrive_id":"` + none + `"`, map[string]string{"redrive_id": notNil}},
		{"root_id=" + none, `"root_id":"` + none + `"`, map[string]string{"root_id": notNil}},
		{"created_from=1969-12-31T23:59:59Z", `"created_from":"1969-12-31T23:59:59Z"`,
			map[string]string{"created_from": years}},
		{"created_to=0001-01-01T00:00:00Z", `"created_to":"0001-01-01T00:00:00Z"`, map[string]string{"created_to": years}},
		{"last_retry_from=1970-01-01T00:00:00%2B01:00", `"last_retry_from":"1970-01-01T00:00:00+01:00"`,
			map[string]string{"last_retry_from": years}},
		{"last_retry_to=1900-01-01T00:00:00Z", `"last_retry_to":"1900-01-01T00:00:00Z"`,
			map[string]string{"last_retry_to": years}},
		{"key=a&key_base64=AA%3D%3D", `"key":"a","key_base64":"AA=="`,
			map[string]string{"key_base64": "cannot be combined with key"}},
		{"key_base64=%21", `"key_base64":"!"`, map[string]string{"key_base64": "is not base64"}},
		{"key_base64=AB%3D%3D", `"key_base64":"AB=="`, map[string]string{"key_base64": "is not base64"}},
		{"header=no", `"header":["no"]`, map[string]string{"header": "must be name=value"}},
		{"header=%3Dx", `"header":["=x"]`, map[string]string{"header": "must be name=value"}},
		{"header=h%3D1&header=h%3D2", `"header":["h=1","h=2"]`, map[string]string{"header": "has two values for h"}},
		{"payload=no&payload=a%3D1", `"payload":["no","a=1"]`, map[string]string{"payload": "must be name=value"}},
		{"saga_id=" + none + "&key_base64=%21&header=no", `"saga_id":"` + none + `","key_base64":"!","header":["no"]`,
			map[string]string{"saga_id": notNil, "key_base64": "is not base64", "header": "must be name=value"}},
	} {
		inBody := map[string]string{}
		for name, message := range tt.want {
			inBody["/filter/"+name] = message
		}
		for _, path := range []string{letters, "/api/v1/dlq/archive", "/api/v1/dlq/export"} {
			got := mistakesOf(q.Send("GET", path+"?"+tt.query, ""), 400, "REQ_INVALID_PARAMETER")
			if d := cmp.Diff(tt.want, got); d != "" {
				t.Errorf("%s?%s (-want +got):\n%s", path, tt.query, d)
			}
		}
		got := mistakesOf(q.Send("POST", apitest.RedrivesPath, `{"action":"retry","dry_run":true,"filter":{`+tt.body+`}}`),
			422, "REQ_SCHEMA")
		if d := cmp.Diff(inBody, got); d != "" {
			t.Errorf("{%s} (-want +got):\n%s", tt.body, d)
		}
	}
}

func mistakesOf(r apitest.Reply, status int, code string) map[string]string {
	r.T.Helper()
	out := map[string]string{}
	for _, e := range r.Wants(status, code).Errors {
		out[e.Place()] = e.Message
	}
	return out
}

// A filter reaches the store unchanged, whether it comes from a query or from a body. An empty
// member selects everything, except for a key.
func TestAFilterSelectsTheSameInAQueryAndInABody(t *testing.T) {
	t.Parallel()
	q := newQueue(t)
	for _, l := range []string{
		`"key":"","labels":["a","b"],"error_message":"one & <two>"`, `"key":"k","labels":["a"],"error_message":"two é"`,
		`"error_message":"three","headers":[{"name":"h","value":"1=2"}]`,
	} {
		q.push(`{"original_topic":"orders",` + l + `}`)
	}
	for _, tt := range []struct {
		query url.Values
		want  int
	}{
		{url.Values{}, 3}, {url.Values{"key": {""}}, 1}, {url.Values{"key_base64": {""}}, 1}, {url.Values{"key": {"k"}}, 1},
		{url.Values{"label": {"a"}}, 2}, {url.Values{"label": {"a", "b"}}, 1}, {url.Values{"header": {"h=1=2"}}, 1},
		{url.Values{"error_contains": {"<two>"}}, 2}, {url.Values{"error_contains": {"é"}}, 1},
		{url.Values{"status": {"PENDING", "DEAD"}}, 3}, {url.Values{"status": {"DEAD"}}, 0},
		{url.Values{"created_from": {"2020-01-01T01:00:00.123456789+01:00"}, "created_to": {"9999-12-31T23:59:59Z"}}, 3},
		{url.Values{"header": {"h=1=2", "h=1=2"}}, 1},
	} {
		if got := len(q.Send("GET", letters+"?"+tt.query.Encode(), "").Messages().Messages); got != tt.want {
			t.Errorf("the list has %d of %v, want %d", got, tt.query, tt.want)
		}
		filter := map[string]any{"topic": "orders"}
		for name, values := range tt.query {
			if filter[name] = values[0]; strings.Contains("label header status", name) {
				filter[name] = values
			}
		}
		filter["resolution"] = []string{} // selects everything
		doc, err := json.Marshal(filter)
		if err != nil {
			t.Fatal(err)
		}
		var p struct {
			Matched int `json:"matched"`
		}
		q.Send("POST", apitest.RedrivesPath,
			`{"action":"delete","dry_run":true,"filter":`+string(doc)+`}`).Into(&p)
		if p.Matched != tt.want {
			t.Errorf("a redrive matches %d of %s, want %d", p.Matched, doc, tt.want)
		}
	}
}
