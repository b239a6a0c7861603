package dlq

import (
	"testing"
	"time"

	"github.com/skald-saga/skald/internal/bulk"
	"github.com/skald-saga/skald/internal/page"
)

// This tests which letters a redrive covers and how many it may change, for every action, requested
// with and without a number, and with later letters.
func TestARedriveIsForTheLettersThatWereSeen(t *testing.T) {
	seen := bulk.Seen{At: testNow.Add(time.Second), Snapshot: "at the request", Count: 3}
	for _, action := range RedriveActions {
		destroys := action == BulkDiscard || action == BulkDelete
		for _, tt := range []struct {
			name  string
			asked *int64 // expected
			later bool
			above *int64 // what halts an action that destroys
		}{
			{name: "at once", above: new(int64(3))},
			{name: "more are meant", asked: new(int64(5)), above: new(int64(3))},
			{name: "fewer are meant", asked: new(int64(2)), above: new(int64(2))},
			{name: "none is meant", asked: new(int64(0)), above: new(int64(0))},
			{name: "later ones too", later: true, above: new(int64(3))},
		} {
			r := Redrive{Action: action, State: RedrivePending, Rate: 1, HaltsAbove: tt.asked, IncludeLater: tt.later}
			r = r.Requested(seen)
			want := tt.asked
			if destroys {
				want = tt.above
			}
			if *r.Expected != 3 || !r.CreatedAt.Equal(seen.At) || !same(r.HaltsAbove, want) {
				t.Errorf("%s, %s: expects %d, halts above %v", action, tt.name, *r.Expected, r.HaltsAbove)
			}
			started := seen.At.Add(time.Hour)
			r, _ = r.Begun("at the start", started)
			snapshot, before := page.Snapshot("at the request"), seen.At
			if tt.later {
				snapshot, before = "at the start", started
			}
			if r.Snapshot != snapshot || !r.CoveredBefore().Equal(before.Add(bulk.Slack)) {
				t.Errorf("%s, %s: covers what was there %q, before %v", action, tt.name, r.Snapshot, r.CoveredBefore())
			}
			for found := range int64(7) {
				part, halted := r.Collected(found, false, started)
				if halted || part.State != RedriveRunning {
					t.Errorf("%s, %s: it halts before all are found", action, tt.name)
				}
				all, halted := part.Collected(0, true, started)
				if too := want != nil && found > *want; halted != too || too != (all.HaltReason == bulk.HaltExpected) {
					t.Errorf("%s, %s, %d found: halted %v, %q", action, tt.name, found, halted, all.HaltReason)
				}
				if !halted {
					continue
				}
				on, err := all.Resumed(nil, "bob", started)
				if err != nil || *on.HaltsAbove != found {
					t.Fatalf("%s, %s: resumed: halts above %v, %v", action, tt.name, on.HaltsAbove, err)
				}
				on, _ = on.Begun("", started)
				if _, changed := on.Judge(0, started); changed && found > 0 {
					t.Errorf("%s, %s: it halts again after a person has let it go on", action, tt.name)
				}
			}
		}
	}
	if old := (Redrive{CreatedAt: testNow}); !old.CoveredBefore().Equal(testNow) {
		t.Errorf("one of an earlier version covers letters before %v", old.CoveredBefore())
	}
}

func same(a, b *int64) bool { return a == b || a != nil && b != nil && *a == *b }

// If too many letters were found and a person lets the redrive continue, a canary that has not been
// sent yet still comes first.
func TestTooManyLettersDoNotSkipTheCanary(t *testing.T) {
	r := Redrive{Action: BulkRetry, State: RedriveRunning, Rate: 1, Canary: &Canary{Count: 1}, HaltsAbove: new(int64(1))}
	r, halted := r.Collected(2, true, testNow)
	if !halted {
		t.Fatal("it goes on")
	}
	if on, err := r.Resumed(nil, "bob", testNow); err != nil || on.CanaryOK {
		t.Errorf("the canary has passed unsent: %v, %v", on.CanaryOK, err)
	}
}
