package httpapi_test

import (
	"strings"
	"testing"

	"github.com/skald-saga/skald/api/client"
	"github.com/skald-saga/skald/internal/test/apitest"
)

// TestLinksLeadThroughAList checks that a client that follows only the Link header reads each item
// once, for every list and whatever the parameters of the first page.
func TestLinksLeadThroughAList(t *testing.T) {
	e := apitest.NewEdge(t)
	e.Register("order:é", "a")
	var one string
	for range 5 {
		one = e.Start(`{"workflow_name":"order:é","correlation_id":"a/b c"}`).SagaID.String()
	}
	e.Node.Rest() // no event is added while the links are followed
	var steps client.AuditEventList
	all := "page_size=100"
	e.Send("GET", apitest.SagasPath+"/"+one+"/events?"+all, "").Into(&steps)
	for path, want := range map[string]int{
		apitest.SagasPath + "?page_size=2":                                            5,
		apitest.SagasPath + "?page=1&page_size=2&include=total":                       5,
		apitest.SagasPath + "?page_size=2&correlation_id=a%2Fb%20c":                   5,
		apitest.SagasPath + "?page_size=3&workflow_name=order%3A%C3%A9&include=total": 5,
		apitest.SagasPath + "?page_size=5":                                            5,
		apitest.SagasPath + "?page_size=2&correlation_id=none":                        0,
		apitest.SagasPath + "/" + one + "/events?page_size=1":                         len(steps.Events),
		apitest.WorkflowsPath + "/order%3A%C3%A9/versions?page_size=1":                1,
	} {
		got, seen := 0, map[string]bool{}
		for next := path; next != ""; {
			r := e.Send("GET", next, "")
			var page struct {
				Sagas, Events, Workflows []any
				Pagination               client.Pagination
			}
			r.Into(&page)
			got += len(page.Sagas) + len(page.Events) + len(page.Workflows)
			next = nextOf(t, r.Header.Values("Link"))
			if (next != "") != page.Pagination.HasNext || seen[next] {
				t.Fatalf("%s: has_next is %v, the link %q", path, page.Pagination.HasNext, next)
			}
			seen[next] = true
		}
		if got != want {
			t.Errorf("%s: the links lead to %d items; want %d", path, got, want)
		}
	}
	if r := e.Send("GET", apitest.SagasPath+"?page_size=2&cursor=x", ""); r.Header.Get("Link") != "" {
		t.Errorf("a problem has the link %s", r.Header.Get("Link"))
	}
}

// nextOf returns the address in a Link header, or "" if there is none.
func nextOf(t *testing.T, links []string) string {
	t.Helper()
	if len(links) == 0 {
		return ""
	}
	at, ok := strings.CutPrefix(links[0], "<")
	at, rel, ok2 := strings.Cut(at, ">; ")
	if !ok || !ok2 || rel != `rel="next"` || len(links) > 1 {
		t.Fatalf("not a link to the next page: %q", links)
	}
	return at
}
