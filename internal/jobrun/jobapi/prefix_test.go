package jobapi_test

import (
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/skald-saga/skald/api/client"
)

// TestRunsAreFoundByHowTheirCorrelationIDsBegin checks that a prefix is literal text, whatever it
// means to LIKE, and that the list is in the order of its bytes.
func TestRunsAreFoundByHowTheirCorrelationIDsBegin(t *testing.T) {
	t.Parallel()
	e := newJobEdge(t)
	e.define("job", "")
	e.run("job", "")
	for _, id := range []string{"order-2", "order-10", "Order-1", "order_1", "100%", "order-2", "заказ-1"} {
		e.run("job", `{"correlation_id":"`+id+`"}`)
	}
	of := func(l client.JobRunList) (all []string) {
		for _, r := range l.JobRuns {
			all = append(all, *r.CorrelationID)
		}
		return all
	}
	for query, want := range map[string]string{
		"correlation_id_prefix=order":                           "order-10 order-2 order-2 order_1",
		"correlation_id_prefix=order&order=desc":                "order_1 order-2 order-2 order-10",
		"correlation_id_prefix=order-&sort=correlation_id":      "order-10 order-2 order-2",
		"correlation_id_prefix=order-&correlation_id=order-10":  "order-10",
		"correlation_id_prefix=order_":                          "order_1",
		"correlation_id_prefix=order*":                          "",
		"correlation_id_prefix=%25":                             "",
		"correlation_id_prefix=100%25":                          "100%",
		"correlation_id_prefix=%D0%B7":                          "заказ-1",
		"correlation_id_prefix=%F4%8F%BF%BF":                    "",
		"correlation_id_prefix=order&state=PENDING&label=a%3Db": "",
		"correlation_id_prefix=order&late_by_min=5":             "",
		"sort=correlation_id":                                   "100% Order-1 order-10 order-2 order-2 order_1 заказ-1",
		"sort=correlation_id&order=desc":                        "заказ-1 order_1 order-2 order-2 order-10 Order-1 100%",
	} {
		if got := strings.Join(of(e.list(query)), " "); got != want {
			t.Errorf("%s: %s, want %s", query, got, want)
		}
		var walked []string
		for cursor := ""; want != "" && len(walked) <= 7; {
			l := e.list(query + "&page_size=1" + cursor)
			walked = append(walked, of(l)...)
			if !l.Pagination.HasNext {
				break
			}
			cursor = "&cursor=" + url.QueryEscape(*l.Pagination.NextCursor)
		}
		if got := strings.Join(walked, " "); got != want {
			t.Errorf("%s, one at a time: %s, want %s", query, got, want)
		}
	}
	var preview client.JobBulkPreview
	bulk := `{"action":"cancel","filter":{"correlation_id_prefix":"order-"},"dry_run":true}`
	e.Send("POST", jobRuns+"/bulk", bulk).Into(&preview)
	if preview.Matched != 3 {
		t.Errorf("a bulk of a prefix matches %d runs, want 3", preview.Matched)
	}
	cursor := "&cursor=" + *e.list("sort=correlation_id&page_size=1").Pagination.NextCursor
	for _, query := range []string{
		"correlation_id_prefix=", "correlation_id_prefix=" + strings.Repeat("x", 256), "correlation_id_prefix=%00",
		"correlation_id_prefix=a&sort=created_at", "correlation_id_prefix=a&sort=finished_at",
		"sort=correlation_id&order=desc" + cursor, "sort=scheduled_for" + cursor, cursor[1:],
	} {
		if got := e.Send("GET", jobRuns+"?"+query, ""); got.Status != http.StatusBadRequest {
			t.Errorf("%s: %d %s", query, got.Status, got.Body)
		}
	}
}
