package sagapages

import (
	"testing"
	"time"

	"github.com/skald-saga/skald/api/client"
)

// TestAPageThatRestsAsksSeldom: the longer nothing has changed, the longer a browser waits, and the longer a drawing
// of the present is good enough.
func TestAPageThatRestsAsksSeldom(t *testing.T) {
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	for _, c := range []struct {
		created, changed time.Duration // ago
		ended            bool
		refresh          int
		hold             time.Duration
	}{
		{time.Second, 0, false, 1, time.Second},
		{10 * time.Minute, 2 * time.Second, false, 1, 6 * time.Second},
		{10 * time.Minute, 30 * time.Second, false, 3, 6 * time.Second},
		{24 * time.Hour, time.Hour, false, 5, 15 * time.Second},
		{time.Minute, time.Second, true, 1, time.Minute},
		{24 * time.Hour, time.Hour, true, 15, time.Minute},
	} {
		s := &client.Saga{CreatedAt: now.Add(-c.created), UpdatedAt: now.Add(-c.changed)}
		if c.ended {
			s.CompletedAt = &s.UpdatedAt
		}
		got := stateOf(s, `"7-noted-2"`, now)
		if got.refresh(now) != c.refresh || !got.until.Equal(now.Add(c.hold)) {
			t.Errorf("%+v: asks after %d s, holds for %s", c, got.refresh(now), got.until.Sub(now))
		}
	}
}
