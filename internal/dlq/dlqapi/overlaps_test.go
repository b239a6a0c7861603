package dlqapi_test

import (
	"fmt"
	"net/http"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/skald-saga/skald/api/client"
	"github.com/skald-saga/skald/internal/test/apitest"
	"github.com/skald-saga/skald/internal/test/patience"
)

// TestADryRunNamesTheRedrivesThatHaveTheSameLetters checks that a redrive that has begun withholds
// its letters from a retry. A redrive that awaits approval or its start time withholds none, and
// the approval of one redrive is not required for others.
func TestADryRunNamesTheRedrivesThatHaveTheSameLetters(t *testing.T) {
	t.Parallel()
	e := newQueueEdge(t)
	ids := e.Pushed("orders", nowhere(t), `{"n":%d}`, 4)
	e.Pushed("refunds", nowhere(t), `{"n":%d}`, 2)
	ask := func(action, more string) []client.RedriveOverlap {
		t.Helper()
		var p client.RedrivePreview
		e.Send("POST", apitest.RedrivesPath, fmt.Sprintf(`{"action":%q,%s,"dry_run":true}`, action, more)).
			Reads(http.StatusOK, &p)
		return p.Overlaps
	}
	want := func(when string, got []client.RedriveOverlap, wanted ...client.RedriveOverlap) {
		t.Helper()
		ignored := cmpopts.IgnoreFields(client.RedriveOverlap{}, "ScheduledFor")
		if diff := cmp.Diff(wanted, got, ignored, cmpopts.EquateEmpty()); diff != "" {
			t.Errorf("%s (-want +got):\n%s", when, diff)
		}
	}
	const orders = `"filter":{"topic":"orders"}`
	one := `"ids":["` + ids[0].String() + `"]`
	want("nothing else", ask("retry", orders))

	waits := e.Bulk(`{"action":"discard","filter":{"topic":"orders"},"reason":"r","approval_required":true,"max_messages":3}`)
	soon := e.Bulk(`{"action":"retry",` + one + `,"reason":"r","scheduled_for":"` + later() + `"}`)
	waiting := client.RedriveOverlap{RedriveID: waits.ID, State: "AWAITING_APPROVAL", Action: "discard", Letters: 3}
	scheduled := client.RedriveOverlap{RedriveID: soon.ID, State: "PENDING", Action: "retry", Letters: 1}
	want("of a topic", ask("retry", orders), scheduled, waiting)
	waiting.Letters = 1
	want("of a letter", ask("delete", one), scheduled, waiting)
	want("of another topic", ask("retry", `"filter":{"topic":"refunds"}`))

	// A slow redrive begins and holds its letters.
	slow := e.Bulk(`{"action":"retry","filter":{"topic":"refunds"},"reason":"r","rate_per_second":0.01}`)
	e.Until(slow.ID, "it has collected its letters", func(r client.Redrive) bool { return r.Gathered })
	e.Send("POST", apitest.RedrivesPath+"/"+slow.ID.String()+"/pause", `{"reason":"r"}`).Wants2xx()
	patience.Until(t, "the letter that was being sent has failed, and is held as well", func() bool {
		var taken client.RedriveItemList
		e.Send("GET", apitest.RedrivesPath+"/"+slow.ID.String()+"/items?state=TAKEN", "").Reads(http.StatusOK, &taken)
		return len(taken.Items) == 0
	})
	held := client.RedriveOverlap{RedriveID: slow.ID, State: "PAUSED", Action: "retry", Letters: 2, Skipped: true}
	want("held", ask("retry", `"filter":{"topic":"refunds"}`), held)
	held.Skipped = false
	want("held, but only a retry leaves them to it", ask("discard", `"filter":{"topic":"refunds"}`), held)
}
