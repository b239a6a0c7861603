package letterpages

import (
	"testing"
	"time"

	"github.com/skald-saga/skald/api/client"
)

// TestWhatAnApprovalDoes checks that the preview states when the redrive begins or that it
// continues, and with how many letters.
func TestWhatAnApprovalDoes(t *testing.T) {
	now := time.Date(2026, 11, 23, 12, 0, 0, 0, time.UTC)
	for _, tt := range []struct {
		r    client.Redrive
		want string
	}{
		{client.Redrive{Action: "retry", Expected: new(int64(4))}, "It begins immediately, and will retry 4 letters."},
		{client.Redrive{Action: "discard", Expected: new(int64(1)), ScheduledFor: new(now.Add(2 * time.Hour))},
			"It begins <code>in 2 h</code>, and will discard 1 letter."},
		{client.Redrive{Action: "retry", Expected: new(int64(1)), ScheduledFor: new(now.Add(-time.Hour))},
			"It begins immediately, and will retry 1 letter."},
		{client.Redrive{StartedAt: &now, Left: 1}, "It continues immediately with the 1 remaining letter."},
		{client.Redrive{StartedAt: &now, Left: 3}, "It continues immediately with the <code>3</code> remaining letters."},
	} {
		if got := goesOn(&tt.r, now); string(got.Ends) != tt.want || got.Sentences != nil {
			t.Errorf("%+v\nsays %q, want %q", tt.r, got.Ends, tt.want)
		}
	}
}
