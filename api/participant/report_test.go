package participant

import (
	"net/http"
	"testing"
	"time"
)

func TestPausesBetweenReports(t *testing.T) {
	var all time.Duration
	for n := range reportAttempts - 1 {
		p := pause(n, -1)
		if p <= 0 || p > longestPause {
			t.Errorf("after attempt %d: %s", n, p)
		}
		all += p
	}
	if all < 3*time.Minute { // a restarted engine is back
		t.Errorf("%s in all", all)
	}
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	for value, want := range map[string]time.Duration{
		"": -1, "x": -1, "-4": -1, "0": 0, "7": 7 * time.Second, "99999999": longestAsked,
		now.Add(time.Minute).Format(http.TimeFormat): time.Minute, now.Add(-time.Minute).Format(http.TimeFormat): 0,
	} {
		if got := retryAfter(value, now); got != want {
			t.Errorf("Retry-After %q: %s; want %s", value, got, want)
		}
	}
	if got := pause(0, time.Hour); got != longestAsked {
		t.Errorf("an hour is asked for: %s", got)
	}
}
