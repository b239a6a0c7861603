package web_test

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/skald-saga/skald/api/client"
	"github.com/skald-saga/skald/internal/ui/web"
)

type things struct{ Things []string }

// answers is a list of the API that returns an answer, and keeps the query that it was sent.
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

// The columns that are shown belong to the page: its links keep them, and the API is not asked for them.
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

// What a page adds to its URL replaces what the URL says; a name without a value is the page's own parameter.
func TestParametersThatAListAdds(t *testing.T) {
	var sent string
	_, _, err := web.ListPage[things](visitOf("/ui/jobs?page_size=7&include=x&peek=1"), nil, nil,
		answers(200, `{}`, &sent), "page_size", "100", "include", "total", "include", "recent_runs", "peek", "")
	if want := "include=total&include=recent_runs&page_size=100"; err != nil || sent != want {
		t.Errorf("sent %s, %v; want %s", sent, err, want)
	}
}

// A problem of the API is what the page shows; anything else is the fault of the server.
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
