package httpkit

import (
	"net/http/httptest"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/skald-saga/skald/api"
)

func TestLinksBeginWithTheBaseOfTheRequest(t *testing.T) {
	run := func(base string) *api.JobRun {
		return &api.JobRun{Links: api.JobLinks{"self": base + "/api/v1/job-runs/1"}, Queue: "/queue"}
	}
	hit := func(base string) api.SearchHit { return api.SearchHit{Link: base + "/api/v1/sagas/1", ID: "/id"} }
	for name, body := range map[string]func(base string) any{
		"a resource":       func(base string) any { return *run(base) },
		"behind a pointer": func(base string) any { return run(base) },
		"in a list":        func(base string) any { return api.JobRunList{JobRuns: []api.JobRun{*run(base)}} },
		"a link alone":     func(base string) any { return api.SearchResult{Hits: []api.SearchHit{hit(base)}} },
		"embedded": func(base string) any {
			type more struct {
				*api.JobRun
				Note string `json:"note"`
			}
			return more{run(base), "/note"}
		},
		"nothing": func(string) any { return api.JobRunList{} },
	} {
		t.Run(name, func(t *testing.T) {
			for base, ctx := range map[string]func() any{
				"":       func() any { return Published(t.Context(), Answer{Body: body("")}).(Answer).Body },
				"/skald": func() any { return Published(WithBase(t.Context(), "/skald"), Answer{Body: body("")}).(Answer).Body },
			} {
				if diff := cmp.Diff(body(base), ctx()); diff != "" {
					t.Errorf("below %q (-want +got):\n%s", base, diff)
				}
			}
		})
	}
}

func TestTheNextPageIsBelowTheBaseOfItsRequest(t *testing.T) {
	for base, want := range map[string]string{
		"":       "/api/v1/dlq/a%2Fb%20c?cursor=x_&page_size=2&topic=a%26b",
		"/skald": "/skald/api/v1/dlq/a%2Fb%20c?cursor=x_&page_size=2&topic=a%26b",
	} {
		r := httptest.NewRequestWithContext(WithBase(t.Context(), base), "GET",
			"/api/v1/dlq/a%2Fb%20c?page=1&topic=a%26b&page_size=2", nil)
		req := &Request{Query: r.URL.RawQuery}
		r = r.WithContext(WithRequest(r.Context(), req))
		if got := NextPage(r); got != "" {
			t.Errorf("after the last page there is %s", got)
		}
		req.Next = "x_"
		if got := NextPage(r); got != want {
			t.Errorf("got %s; want %s", got, want)
		}
	}
}
