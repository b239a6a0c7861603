package web_test

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/skald-saga/skald/api/client"
	"github.com/skald-saga/skald/internal/ui/web"
)

// The columns that are shown belong to the page: its links keep them, and the API is not asked for them.
func TestColumnsStayInTheLinksOfAList(t *testing.T) {
	r := httptest.NewRequest(http.MethodGet, "/ui/sagas?columns=state,saga&workflow_name=order&cursor=c1", nil)
	v := &web.Visit{Request: r}
	l := v.NewList([]web.View{{Name: "All"}}, []web.Filter{{Name: "workflow_name"}})
	l.Paged(client.Pagination{NextCursor: new("c2")})
	if sent := l.Sent(time.Now()).Encode(); sent != "cursor=c1&workflow_name=order" {
		t.Errorf("sent: %s", sent)
	}
	for name, link := range map[string]string{
		"next": l.Next, "first": l.First, "tab": l.Tabs[0].URL, "chip": l.Chips[0].Without, "with": l.With("x", "y"),
	} {
		if !strings.Contains(link, "columns=state%2Csaga") {
			t.Errorf("the link %s loses the columns: %s", name, link)
		}
	}
}
