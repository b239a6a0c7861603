package demo

import (
	"strconv"
	"testing"
)

// TestALetterThatArrivedStaysInSight: calls that are repeated do not push it off the page.
func TestALetterThatArrivedStaysInSight(t *testing.T) {
	t.Parallel()
	all := arrived(nil, arrival{Operation: "refunds/book", Status: 200, Body: "the letter"})
	for n := range 3 * arrivals {
		all = arrived(all, arrival{Operation: "hooks/broken", Status: 503, Body: strconv.Itoa(n)})
	}
	if len(all) != 2 || all[0].Body != "the letter" || all[1].Before != 3*arrivals-1 || all[1].Body != "149" {
		t.Errorf("after many other calls, the page has %+v", all)
	}
	if all = arrived(all, arrival{Operation: "refunds/book", Status: 422}); len(all) != 3 {
		t.Errorf("another answer is not another line: %+v", all)
	}
	for n := range 2 * arrivals {
		all = arrived(all, arrival{Operation: strconv.Itoa(n)})
	}
	if len(all) != arrivals {
		t.Errorf("the page has %d lines", len(all))
	}
}
