package systempages_test

import (
	"net/url"
	"strings"
	"testing"

	"github.com/skald-saga/skald/internal/test/patience"
	"github.com/skald-saga/skald/internal/test/uitest"
)

// TestAParticipantIsHeldAndReleasedByAPerson goes from the empty list to a participant that is held and released.
func TestAParticipantIsHeldAndReleasedByAPerson(t *testing.T) {
	s := webhooksTest{t, uitest.Start(t)}
	s.get("/ui/participants", 200, "No participants yet", "curl -X PUT")
	card := map[string]any{"base_url": "http://card.example/v1"}
	if status, doc := s.Call(t, "PUT", "/participants/card", card); status != 200 {
		t.Fatalf("%d %v", status, doc)
	}
	s.get("/ui/participants", 200, "/ui/participants/card", "http://card.example/v1", "open")
	s.get("/ui/participants/card", 200, "Calls are made normally", "There were no calls", "/ui/participants/card/hold")
	s.act("/ui/participants/card/hold", url.Values{"reason": {hostile}}, 303)
	s.get("/ui/participants/card", 200, "Calls are on hold", "holds it: &lt;script&gt;", "/ui/participants/card/release")
	s.get("/ui/participants?state=HELD", 200, "/ui/participants/card")
	s.act("/ui/participants/card/release", url.Values{"rate": {"fast"}, "reason": {"done"}}, 400)
	s.act("/ui/participants/card/release", url.Values{"rate": {"2.5"}, "reason": {"done"}}, 303)
	page := s.get("/ui/participants/card", 200)
	if !strings.Contains(page, "released it") && // nothing waited
		!strings.Contains(page, "the calls that waited were let through") {
		t.Errorf("after the release:\n%s", page)
	}
	s.act("/ui/participants/card/hold", url.Values{"reason": {"again"}}, 303)
	s.get("/ui/", 200, "holds the participant card: again", "/ui/participants/card")
	s.get("/ui/sagas?waits_for=card", 200, "No sagas match")
	s.act("/ui/participants/card/release", url.Values{"reason": {"it answers"}}, 303)
	patience.Until(t, "the release to end", func() bool {
		_, doc := s.Call(t, "GET", "/participants/card", nil)
		return doc["state"] == "OPEN"
	})
	s.get("/ui/participants/card", 200, "Calls are made normally", "holds it: &lt;script&gt;", `data-label="Waiting calls">0</td>`)
	s.get("/ui/audit/events?event_type=participant.held", 200, "participant.held", "/ui/participants/card")
	s.get("/ui/participants/nobody", 404)
}
