package uitest_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/skald-saga/skald/internal/test/uitest"
)

// TestALetterThatARedriveHoldsNamesIt: a letter that an unfinished redrive holds names that redrive
// in the list, when it is read alone, and on its page. A letter without a retry time, or one that
// arrived later, is not held.
func TestALetterThatARedriveHoldsNamesIt(t *testing.T) {
	t.Parallel()
	s := uitest.Start(t)
	w := &acting{s, t, "held"}
	letters(w, 3)
	ids := w.ids("/dlq/messages?topic=held", "messages", "id")
	retried := func(id any) {
		w.Must(t, "PATCH", fmt.Sprint("/dlq/messages/", id), object{"next_retry_at": "2027-03-01T00:00:00Z", "reason": "r"})
	}
	retried(ids[0])
	retried(ids[1])
	redrive := operations()[0]
	made := w.Must(t, "POST", "/dlq/redrives", object{
		"action": "retry", "filter": object{"topic": "held"}, "expected": 2, "reason": "r",
	})
	id := idOf(made)
	w.awaitState(&redrive, id, "HALTED")
	letters(w, 1)
	wants := func(when string, holders map[any]string) {
		t.Helper()
		for _, one := range w.Must(t, "GET", "/dlq/messages?topic=held", nil)["messages"].([]any) {
			listed := one.(object)
			alone := w.Must(t, "GET", fmt.Sprint("/dlq/messages/", listed["id"]), nil)
			_, page := s.Get(t, fmt.Sprint("/ui/dlq/letters/", listed["id"]))
			want := holders[listed["id"]]
			for where, l := range map[string]object{"listed": listed, "alone": alone} {
				held, by := fmt.Sprint(l["held_by"]), fmt.Sprint(l["held_by_redrive"])
				if want != "" && (held != "redrive" || by != want) || want == "" && l["held_by_redrive"] != nil {
					t.Errorf("%s, %s: held by %s %s, want %q", when, where, held, by, want)
				}
			}
			if strings.Contains(page, "Held by redrive") != (want != "") ||
				want != "" && !strings.Contains(page, `/ui/redrives/`+want+`"`) {
				t.Errorf("%s: the page of a letter does not say whether a redrive holds it", when)
			}
		}
	}
	wants("halted", map[any]string{ids[0]: id, ids[1]: id})
	w.Must(t, "POST", "/dlq/redrives/"+id+"/cancel", object{"reason": "r"})
	wants("canceled", nil)
}
