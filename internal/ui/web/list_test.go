package web_test

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/skald-saga/skald/api/client"
	"github.com/skald-saga/skald/internal/ui/web"
)

type things struct{ Things []string }

// answers is a list of the API that returns a fixed response and records the query that it
// received.
func answers(status int, body string, query *string) web.Reading[struct{}] {
	return func(ctx context.Context, _ *struct{}, edit ...client.RequestEditorFn) (*http.Response, error) {
		r := httptest.NewRequest(http.MethodGet, "/", nil)
		for _, e := range edit {
			if err := e(ctx, r); err != nil {
				return nil, err
			}
		}
		*query = r.URL.RawQuery
		w := httptest.NewRecorder()
		w.WriteHeader(status)
		_, err := w.WriteString(body)
		return w.Result(), err
	}
}

func visitOf(url string) *web.Visit {
	return &web.Visit{Request: httptest.NewRequest(http.MethodGet, url, nil)}
}

// The shown columns belong to the page: its links keep them, and they are not sent to the API.
func TestColumnsStayInTheLinksOfAList(t *testing.T) {
	var sent string
	l, list, err := web.ListPage[things](visitOf("/ui/sagas?columns=state,saga&workflow_name=order&cursor=c1"),
		[]web.View{{Name: "All"}}, []web.Filter{{Name: "workflow_name"}},
		answers(200, `{"things": ["a"], "pagination": {"next_cursor": "c2", "total_count": 1204}}`, &sent))
	if err != nil {
		t.Fatal(err)
	}
	if sent != "cursor=c1&page_size=50&workflow_name=order" {
		t.Errorf("sent: %s", sent)
	}
	if len(list.Things) != 1 || l.Total != "1,204" {
		t.Errorf("read %v of %s", list.Things, l.Total)
	}
	for name, link := range map[string]string{
		"next": l.Next, "first": l.First, "tab": l.Tabs[0].URL, "chip": l.Chips[0].Without, "with": l.With("x", "y"),
	} {
		if !strings.Contains(link, "columns=state%2Csaga") {
			t.Errorf("the link %s loses the columns: %s", name, link)
		}
	}
}

// Parameters added by a page replace those in the URL. A name without a value is a parameter of the
// page.
func TestParametersThatAListAdds(t *testing.T) {
	var sent string
	_, _, err := web.ListPage[things](visitOf("/ui/jobs?page_size=7&include=x&peek=1"), nil, nil,
		answers(200, `{}`, &sent), "page_size", "100", "include", "total", "include", "recent_runs", "peek", "")
	if want := "include=total&include=recent_runs&page_size=100"; err != nil || sent != want {
		t.Errorf("sent %s, %v; want %s", sent, err, want)
	}
}

// A problem reported by the API is shown on the page; anything else is an error of the server.
func TestAListThatTheAPIRefuses(t *testing.T) {
	var sent string
	_, _, err := web.ListPage[things](visitOf("/ui/jobs"), nil, nil,
		answers(400, `{"status": 400, "code": "REQ_INVALID"}`, &sent))
	var refused *web.Refusal
	if !errors.As(err, &refused) || refused.Code != "REQ_INVALID" {
		t.Errorf("a problem: %v", err)
	}
	for _, status := range []int{200, 500} {
		_, _, err = web.ListPage[things](visitOf("/ui/jobs"), nil, nil, answers(status, `<html>`, &sent))
		if err == nil || errors.As(err, &refused) {
			t.Errorf("status %d without JSON: %v", status, err)
		}
	}
}

// TestURLsOfListsSayOnlyWhatTheyMean checks that empty fields of a form sent without scripts, and
// typed filters, lead to a URL with only the necessary parameters.
func TestURLsOfListsSayOnlyWhatTheyMean(t *testing.T) {
	k, err := web.New(web.Config{Base: "/base", Log: slog.Default(), Now: time.Now,
		API: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			_, _ = io.WriteString(w, `{"development": true}`)
		})})
	if err != nil {
		t.Fatal(err)
	}
	filters := []web.Filter{{Name: "workflow_name", Label: "Workflow"}, {Name: "state", Label: "State"},
		{Name: "created_from", Label: "Created from", Time: true}, {Name: "created_to", Label: "Created before", Time: true},
		{Name: "assignee", Label: "Assigned to"}, {Name: "trace_id", Label: "Trace"}}
	k.Page("GET /ui/things", func(v *web.Visit) (*web.Page, error) {
		v.NewList([]web.View{{Name: "All"}}, filters)
		return &web.Page{Template: "problem", Data: client.Problem{}}, nil
	})
	for asked, want := range map[string]string{
		"?workflow_name=a&state=&trace_id=":             "?workflow_name=a",
		"?workflow_name=&state=":                        "",
		"?state=a&state=&state=b":                       "?state=a&state=b",
		"?tenant=x&state=":                              "?tenant=x",
		"?filter=state:failed":                          "?state=failed",
		"?filter=state:failed+workflow:order&state=old": "?state=failed&workflow_name=order",
		"?filter=workflow_name:%22two+words%22":         "?workflow_name=two+words",
		"?filter=CREATED:-24h&cursor=c":                 "?created_from=-24h",
		"?filter=Trace:a:b":                             "?trace_id=a%3Ab",
		"?filter=unknown:x":                             "?unknown=x",
		"?filter=state:failed&tenant=x":                 "?state=failed&tenant=x",
		"?filter=words":                                 "none",
		"?filter=state:a+words":                         "none",
		"?workflow_name=a":                              "none",
	} {
		w := httptest.NewRecorder()
		k.ServeHTTP(w, httptest.NewRequest("GET", "/ui/things"+asked, nil))
		got := "none"
		if w.Code == http.StatusFound {
			got = strings.TrimPrefix(w.Header().Get("Location"), "/base/ui/things")
		}
		if got != want {
			t.Errorf("%s leads to %q, want %q", asked, got, want)
		}
	}
}
