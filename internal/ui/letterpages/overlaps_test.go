package letterpages

import (
	"strings"
	"testing"
	"time"

	"github.com/skald-saga/skald/api/client"
	"github.com/skald-saga/skald/internal/ui/web"
)

// TestWhoTakesLettersOfTwoRedrives covers every state of the other redrive.
func TestWhoTakesLettersOfTwoRedrives(t *testing.T) {
	at := time.Date(2026, 11, 23, 12, 0, 0, 0, time.UTC)
	p := &pages{kit: &web.Kit{Config: web.Config{Base: "/skald"}}}
	for _, tt := range []struct {
		of   client.RedriveOverlap
		want string
	}{
		{client.RedriveOverlap{State: "RUNNING", Letters: 2, Skipped: true},
			", which is running: it holds them, so this redrive skips them."},
		{client.RedriveOverlap{State: "PAUSED", Letters: 2, Skipped: true},
			", which is paused: it holds them, so this redrive skips them."},
		{client.RedriveOverlap{State: "PAUSED", Letters: 2},
			", which is paused: this redrive takes them, and the other one skips them."},
		{client.RedriveOverlap{State: "HALTED", Letters: 2},
			", which is halted: this redrive takes them, and the other one skips them."},
		{client.RedriveOverlap{State: "AWAITING_APPROVAL", Letters: 2},
			", which awaits approval: this redrive does not wait for the approval and takes them first."},
		{client.RedriveOverlap{State: "PENDING", Letters: 2, ScheduledFor: &at},
			", which begins at 2026-11-23 12:00:00 UTC: whichever begins first takes them."},
		{client.RedriveOverlap{State: "PENDING", Letters: 2},
			", which is about to begin: whichever begins first takes them."},
	} {
		got := string(p.overlapping([]client.RedriveOverlap{tt.of})[0])
		if !strings.HasPrefix(got, `<code>2</code> letters are also in <a href="/skald/ui/redrives/`) ||
			!strings.HasSuffix(got, tt.want) {
			t.Errorf("%+v\nsays %s, want it to end in %s", tt.of, got, tt.want)
		}
	}
}
