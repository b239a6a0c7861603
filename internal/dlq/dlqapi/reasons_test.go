package dlqapi_test

import (
	"net/http"
	"testing"

	"github.com/skald-saga/skald/api/client"
	"github.com/skald-saga/skald/internal/test/apitest"
)

// A redrive requires a reason, whichever operation creates it, unless it changes nothing. Only
// retry-all keeps its original contract, which has no reason.
func TestTheReasonOfARedriveIsRecorded(t *testing.T) {
	t.Parallel()
	e := newQueueEdge(t)
	e.Pushed("orders", nowhere(t), `{"n":%d}`, 2)
	group := "/api/v1/dlq/groups/" + e.Group() + "/retry"
	for _, tt := range []struct{ path, members string }{
		{apitest.RedrivesPath, `"action":"retry","filter":{"topic":"orders"}`},
		{apitest.RedrivesPath, `"action":"discard","filter":{"topic":"orders"}`},
		{group, `"max_messages":1`},
	} {
		for _, reason := range []string{"", `,"reason":""`, `,"reason":" \t"`} {
			p := e.Send("POST", tt.path, "{"+tt.members+reason+"}").Wants(422, "DLQ_INVALID")
			if len(p.Errors) != 1 || p.Errors[0].Pointer != "/reason" || p.Errors[0].Code != "required" {
				t.Errorf("%s {%s%s}: %+v", tt.path, tt.members, reason, p.Errors)
			}
		}
		if r := e.Send("POST", tt.path, "{"+tt.members+`,"dry_run":true}`); r.Status != http.StatusOK {
			t.Errorf("a dry run of {%s}: %d %s", tt.members, r.Status, r.Body)
		}
		var made client.Redrive
		r := e.Send("POST", tt.path, "{"+tt.members+`,"reason":"ticket 7"}`)
		if r.Into(&made); r.Status != http.StatusAccepted {
			t.Fatalf("%s {%s} with a reason: %d %s", tt.path, tt.members, r.Status, r.Body)
		}
		if got := e.Kept("redrive", made.ID.String()); got != "ticket 7" {
			t.Errorf("on record for {%s}: %q", tt.members, got)
		}
	}
	for body, want := range map[string]string{"": "", `{}`: "", `{"reason":"ticket 8"}`: "ticket 8"} {
		var all client.RetryAllResult
		r := e.Send("POST", "/api/v1/dlq/orders/retry-all", body)
		if r.Into(&all); r.Status >= 300 || all.Redrive == nil {
			t.Fatalf("retry-all with %q: %d %s", body, r.Status, r.Body)
		}
		if got := e.Kept("redrive", all.Redrive.ID.String()); got != want {
			t.Errorf("on record for retry-all with %q: %q", body, got)
		}
	}
}
