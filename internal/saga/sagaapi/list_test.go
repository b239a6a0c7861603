package sagaapi_test

import (
	"encoding/base64"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/skald-saga/skald/api/client"
	"github.com/skald-saga/skald/internal/httpapi"
	"github.com/skald-saga/skald/internal/saga"
	"github.com/skald-saga/skald/internal/test/apitest"
)

// correlations returns the correlation ids of a list, joined.
func correlations(list client.SagaList) string {
	var out []string
	for _, s := range list.Sagas {
		out = append(out, *s.CorrelationID)
	}
	return strings.Join(out, " ")
}

// numbered starts n sagas with the correlation ids 1 to n.
func numbered(t *testing.T, e *apitest.Edge, n int) {
	t.Helper()
	e.Register("order", "reserve")
	for i := range n {
		e.Start(fmt.Sprintf(`{"workflow_name":"order","correlation_id":"%d"}`, i+1))
	}
}

func TestPagesHaveTotalsAndCursors(t *testing.T) {
	e := apitest.NewEdge(t)
	numbered(t, e, 7)
	first := e.List("page=1&page_size=3")
	if correlations(first) != "7 6 5" {
		t.Errorf("page 1 = %s", correlations(first))
	}
	want := client.Pagination{TotalCount: ptr(int64(7)), TotalIsCapped: ptr(false), Page: ptr(1), PageSize: 3,
		HasNext: true, NextCursor: first.Pagination.NextCursor}
	if diff := cmp.Diff(want, first.Pagination); diff != "" || first.Pagination.NextCursor == nil {
		t.Errorf("pagination (-want +got):\n%s", diff)
	}
	third := e.List("page=3&page_size=3")
	if correlations(third) != "1" || third.Pagination.HasNext || third.Pagination.NextCursor != nil {
		t.Errorf("page 3 = %s, %+v", correlations(third), third.Pagination)
	}
	if beyond := e.List("page=4&page_size=3"); len(beyond.Sagas) != 0 || beyond.Pagination.HasNext {
		t.Errorf("page 4 = %+v", beyond)
	}

	// The clock of these tests ticks in microseconds, so a less precise cursor would skip sagas
	// here (trap X5). A new saga does not shift the cursor.
	cursor := *first.Pagination.NextCursor
	e.Start(`{"workflow_name":"order","correlation_id":"8"}`)
	second := e.List("page_size=2&cursor=" + cursor)
	if correlations(second) != "4 3" || second.Pagination.TotalCount != nil || second.Pagination.Page != nil ||
		!second.Pagination.HasNext {
		t.Errorf("after the cursor: %s, %+v", correlations(second), second.Pagination)
	}
	rest := e.List("page_size=2&include=total&cursor=" + *second.Pagination.NextCursor)
	if correlations(rest) != "2 1" || rest.Pagination.HasNext || *rest.Pagination.TotalCount != 8 {
		t.Errorf("the rest: %s, %+v", correlations(rest), rest.Pagination)
	}
}

func TestACursorIsValidOnlyForItsList(t *testing.T) {
	e := apitest.NewEdge(t)
	numbered(t, e, 3)
	cursor := *e.List("page_size=1&initiated_by=anonymous").Pagination.NextCursor
	if got := e.List("page_size=2&view=full&initiated_by=anonymous&cursor=" + cursor); correlations(got) != "2 1" {
		t.Fatalf("with its own filter: %s", correlations(got))
	}
	flipped := []byte(cursor)
	flipped[len(flipped)/2] ^= 1
	raw, err := base64.RawURLEncoding.DecodeString(cursor)
	if err != nil {
		t.Fatal(err)
	}
	other := apitest.NewEdge(t, func(c *httpapi.Config) { c.CursorKey = []byte(strings.Repeat("x", 32)) })
	numbered(t, other, 3)
	stranger := apitest.NewEdge(t, func(c *httpapi.Config) { c.Access.Tenant.ID[0] = 7 })
	numbered(t, stranger, 3)
	for name, query := range map[string]string{
		"no filter":                  "cursor=" + cursor,
		"another filter":             "initiated_by=ann&cursor=" + cursor,
		"a filter more":              "initiated_by=anonymous&status=FAILED&cursor=" + cursor,
		"a changed byte":             "initiated_by=anonymous&cursor=" + url.QueryEscape(string(flipped)),
		"a byte less":                "initiated_by=anonymous&cursor=" + cursor[:len(cursor)-1],
		"bytes more":                 "initiated_by=anonymous&cursor=" + cursor + "AAAA",
		"a signature cut off":        "initiated_by=anonymous&cursor=" + base64.RawURLEncoding.EncodeToString(raw[:len(raw)-16]),
		"another deployment's":       "initiated_by=anonymous&cursor=" + *other.List("page_size=1&initiated_by=anonymous").Pagination.NextCursor,
		"another tenant's":           "initiated_by=anonymous&cursor=" + *stranger.List("page_size=1&initiated_by=anonymous").Pagination.NextCursor,
		"that of another resource's": "cursor=" + *workflowCursor(t, e),
	} {
		t.Run(name, func(t *testing.T) {
			if p := e.Send("GET", apitest.SagasPath+"?"+query, "").Wants(http.StatusBadRequest,
				"REQ_INVALID_PARAMETER"); p.Errors[0].Place() != "cursor" {
				t.Errorf("errors = %+v", p.Errors)
			}
		})
	}
}

func workflowCursor(t *testing.T, e *apitest.Edge) *string {
	t.Helper()
	e.Register("another", "x")
	var list client.WorkflowList
	e.Send("GET", apitest.WorkflowsPath+"?page_size=1", "").Into(&list)
	if list.Pagination.NextCursor == nil {
		t.Fatal("no cursor of workflows")
	}
	return list.Pagination.NextCursor
}

func TestEveryFilterSelects(t *testing.T) {
	e := apitest.NewEdge(t)
	e.Register("order", "reserve")
	e.Register("trip", "book")
	e.Node.Script = func(c saga.Call) saga.Outcome {
		if strings.Contains(string(c.Body), "refuse") {
			return apitest.Refused()
		}
		return apitest.Done("null")
	}
	trace := "0af7651916cd43dd8448eb211c80319c"
	start := func(body string, header ...string) {
		e.Start(body, header...)
		e.Node.Rest() // so that they are updated in order of creation
	}
	start(`{"workflow_name":"order","correlation_id":"a","initiated_by":"ann","business_key":"b1","metadata":{"region":"eu","tags":["x","y"]}}`,
		"traceparent", "00-"+trace+"-b7ad6b7169203331-00")
	start(`{"workflow_name":"trip","correlation_id":"b","initiated_by":"bob","metadata":{"region":"us"}}`)
	start(`{"workflow_name":"order","correlation_id":"c","initiated_by":"ann","payload":"refuse"}`)
	middle := e.List("correlation_id=b").Sagas[0]
	at := url.QueryEscape(middle.CreatedAt.Format(time.RFC3339Nano))
	updated := url.QueryEscape(middle.UpdatedAt.In(time.FixedZone("", 3600)).Format(time.RFC3339Nano))
	for query, want := range map[string]string{
		"":                                         "c b a",
		"workflow_name=order":                      "c a",
		"status=COMPLETED":                         "b a",
		"status=COMPLETED&status=FAILED":           "c b a",
		"state=compensated":                        "c",
		"status=FAILED&state=completed":            "", // the filters exclude each other
		"status=FAILED&state=compensated":          "c",
		"state=failed&state=completed":             "b a",
		"lifecycle=completed":                      "c b a",
		"lifecycle=failed&lifecycle=active":        "",
		"lifecycle=completed&status=FAILED":        "c",
		"active=true":                              "",
		"active=false":                             "c b a",
		"definition_id=order@1":                    "c a",
		"definition_id=order@2":                    "",
		"definition_id=order@1&workflow_name=trip": "",
		"correlation_id=a":                         "a",
		"initiated_by=ann":                         "c a",
		"trace_id=" + trace:                        "a",
		"business_key=b1":                          "a",
		"needs_attention=true":                     "",
		"needs_attention=false":                    "c b a",
		"metadata=" + q(`{"region":"eu"}`):         "a",
		"metadata=" + q(`{"tags":["y"]}`):          "a",
		"metadata=" + q(`{}`):                      "b a",
		"created_from=" + at:                       "c b",
		"created_to=" + at:                         "a",
		"updated_from=" + updated:                  "c b",
		"updated_to=" + updated:                    "a",
		"initiated_by=ann&status=COMPLETED":        "a",
		"workflow_name=nobody":                     "",
		"created_from=2099-01-01T00:00:00Z":        "",
		"created_from=" + at + "&page_size=1":      "c",
	} {
		t.Run(query, func(t *testing.T) {
			if got := correlations(e.List(query)); got != want {
				t.Errorf("sagas %q, want %q", got, want)
			}
		})
	}
}

func q(s string) string { return url.QueryEscape(s) }

func TestPayloadsAreListedOnRequest(t *testing.T) {
	e := apitest.NewEdge(t)
	e.Register("order", "reserve")
	e.Start(`{"workflow_name":"order","payload":{"big":1},"metadata":{"m":1}}`)
	for query, want := range map[string]bool{"": false, "view=basic": false, "view=full": true} {
		s := e.List(query).Sagas[0]
		if (s.Payload != nil) != want || (s.Metadata != nil) != want || s.StepLogs != nil {
			t.Errorf("%q: payload %s, metadata %s", query, s.Payload, s.Metadata)
		}
	}
}

func TestWorkflowsAreListedByNameAndVersionsNewestFirst(t *testing.T) {
	e := apitest.NewEdge(t)
	for _, name := range []string{"c", "a", "b"} {
		e.Register(name, "x")
	}
	e.Register("a", "x", "y")
	e.Register("a", "x", "y", "z")
	e.Send("POST", apitest.WorkflowsPath+"/b/disable", "")

	walk := func(path string) (items []string, pages int) {
		for cursor := ""; ; pages++ {
			var list client.WorkflowList
			r := e.Send("GET", path+cursor, "")
			if r.Status != http.StatusOK {
				t.Fatalf("%s: %d %s", path+cursor, r.Status, r.Body)
			}
			r.Into(&list)
			for _, w := range list.Workflows {
				items = append(items, fmt.Sprintf("%s@%d", w.Name, w.Version))
				if w.Definition != nil {
					t.Errorf("%s has a definition in a basic view", w.Name)
				}
			}
			if !list.Pagination.HasNext {
				return items, pages + 1
			}
			cursor = "&cursor=" + *list.Pagination.NextCursor
		}
	}
	for path, want := range map[string][]string{
		apitest.WorkflowsPath + "?page_size=2":                       {"a@3", "b@1", "c@1"},
		apitest.WorkflowsPath + "?page_size=1&enabled=true":          {"a@3", "c@1"},
		apitest.WorkflowsPath + "?page_size=1&enabled=false":         {"b@1"},
		apitest.WorkflowsPath + "?page_size=1&name=*":                {"a@3", "b@1", "c@1"},
		apitest.WorkflowsPath + "?page_size=1&name=b*":               {"b@1"},
		apitest.WorkflowsPath + "/a/versions?page_size=2":            {"a@3", "a@2", "a@1"},
		apitest.WorkflowsPath + "/a/versions?page_size=1&view=basic": {"a@3", "a@2", "a@1"},
	} {
		if got, _ := walk(path); !slices.Equal(got, want) {
			t.Errorf("%s = %v, want %v", path, got, want)
		}
	}
	if _, pages := walk(apitest.WorkflowsPath + "/a/versions?page_size=2"); pages != 2 {
		t.Errorf("three versions in pages of two took %d pages", pages)
	}
	var full client.WorkflowList
	e.Send("GET", apitest.WorkflowsPath+"?view=full&page=2&page_size=1", "").Into(&full)
	if len(full.Workflows) != 1 || full.Workflows[0].Name != "b" || full.Workflows[0].Definition == nil ||
		*full.Pagination.TotalCount != 3 {
		t.Errorf("full page 2 = %+v", full)
	}
}
