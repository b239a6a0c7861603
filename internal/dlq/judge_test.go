package dlq

import (
	"testing"
	"time"

	"pgregory.net/rapid"
)

func TestARedriveIsJudgedByItsNumbers(t *testing.T) {
	t.Parallel()
	watched := testNow.Add(-time.Minute)
	canary := &Canary{Count: 10, WatchSeconds: 60, MaxBounceRatio: 0.2}
	for _, tt := range []struct {
		name    string
		r       Redrive
		busy    int64
		state   RedriveState
		why     string
		changed bool
	}{
		{"goes on", Redrive{Gathered: true, Matched: 5, Done: 2}, 0, RedriveRunning, "", false},
		{"is complete", Redrive{Gathered: true, Matched: 5, Done: 2, Failed: 2, Skipped: 1}, 0, RedriveCompleted, "", true},
		{"waits for what is on its way", Redrive{Gathered: true, Matched: 5, Done: 5}, 1, RedriveRunning, "", false},
		{"is still gathering", Redrive{Matched: 5, Done: 5}, 0, RedriveRunning, "", false},
		{"found nothing", Redrive{Gathered: true}, 0, RedriveCompleted, "", true},
		{"has too many failures", Redrive{Gathered: true, Matched: 50, Failed: 3, StopOn: StopOn{Failures: 3}}, 2, RedriveHalted, "failures", true},
		{"has few failures", Redrive{Gathered: true, Matched: 50, Failed: 2, StopOn: StopOn{Failures: 3}}, 0, RedriveRunning, "", false},
		{"has too high a share", Redrive{Gathered: true, Matched: 50, Done: 10, Failed: 10, StopOn: StopOn{FailureRatio: 0.4}}, 0, RedriveHalted, "failure_ratio", true},
		{"has too few to tell", Redrive{Gathered: true, Matched: 50, Done: 1, Failed: 10, StopOn: StopOn{FailureRatio: 0.4}}, 0, RedriveRunning, "", false},
		{"its canary is done", Redrive{Gathered: true, Matched: 50, Done: 10, Canary: canary}, 0, RedriveRunning, "", true},
		{"its canary is on its way", Redrive{Gathered: true, Matched: 50, Done: 9, Canary: canary}, 1, RedriveRunning, "", false},
		{"its canary came back", Redrive{Gathered: true, Matched: 50, Done: 10, Bounced: 3, Canary: canary, WatchedAt: &testNow}, 0, RedriveHalted, "bounce_ratio", true},
		{"some of it came back", Redrive{Gathered: true, Matched: 50, Done: 10, Bounced: 2, Canary: canary, WatchedAt: &testNow}, 0, RedriveRunning, "", false},
		{"its canary has passed", Redrive{Gathered: true, Matched: 50, Done: 10, Canary: canary, WatchedAt: &watched}, 0, RedriveRunning, "", true},
		{"was nothing but the canary", Redrive{Gathered: true, Matched: 3, Done: 3, Canary: canary, WatchedAt: &watched}, 0, RedriveCompleted, "", true},
		{"comes back after the canary", Redrive{Gathered: true, Matched: 50, Done: 20, Bounced: 20, Canary: canary, CanaryOK: true}, 0, RedriveRunning, "", false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			tt.r.State = RedriveRunning
			got, changed := tt.r.Judge(tt.busy, testNow)
			if got.State != tt.state || got.HaltReason != tt.why || changed != tt.changed ||
				got.State.Terminal() != (got.EndedAt != nil) {
				t.Errorf("%s %q, changed %v; want %s %q, %v", got.State, got.HaltReason, changed, tt.state, tt.why, tt.changed)
			}
		})
	}
}

func TestARedriveEndsOnlyWhenAllOfItIsThrough(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		n := func(name string) int64 { return rapid.Int64Range(0, 30).Draw(t, name) }
		r := Redrive{State: RedriveRunning, Gathered: rapid.Bool().Draw(t, "gathered"), Done: n("done"), Failed: n("failed"),
			Skipped: n("skipped")}
		r.Matched = r.Done + r.Failed + r.Skipped + n("left")
		r.Bounced = rapid.Int64Range(0, r.Done).Draw(t, "bounced")
		if rapid.Bool().Draw(t, "with a canary") {
			r.Canary = &Canary{Count: rapid.IntRange(1, 20).Draw(t, "canary"), WatchSeconds: 5}
		}
		busy := rapid.Int64Range(0, r.Left()).Draw(t, "busy")
		now := testNow
		for range 3 { // judged repeatedly, it becomes stable
			after, changed := r.Judge(busy, now)
			if after.State == RedriveCompleted && (!r.Gathered || r.Left() > 0 || busy > 0) {
				t.Fatalf("complete with %d left and %d busy", r.Left(), busy)
			}
			if !changed && after.State != RedriveRunning {
				t.Fatalf("unchanged and %s", after.State)
			}
			if r = after; r.State != RedriveRunning {
				return
			}
			now = now.Add(time.Minute)
		}
		if r.Gathered && r.Left() == 0 && busy == 0 {
			t.Fatalf("all is through, and it is %s", r.State)
		}
	})
}

func TestAGuardLeavesRoomForWhatWouldTripIt(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name string
		r    Redrive
		busy int64
		want int64
	}{
		{"ten may fail", Redrive{Concurrency: 1, StopOn: StopOn{Failures: 10}}, 0, 10},
		{"some of them have", Redrive{Concurrency: 1, Failed: 7, StopOn: StopOn{Failures: 10}}, 2, 1},
		{"never less than at once", Redrive{Concurrency: 8, Failed: 9, StopOn: StopOn{Failures: 10}}, 0, 8},
		{"all of them are on their way", Redrive{Concurrency: 8, StopOn: StopOn{Failures: 10}}, 12, 0},
		{"counted from the resume on", Redrive{Concurrency: 1, Failed: 54, FailedBefore: 54, StopOn: StopOn{Failures: 10}}, 0, 10},
		{"a ratio of few", Redrive{Concurrency: 1, StopOn: StopOn{FailureRatio: 0.1}}, 0, 20},
		{"a ratio of many", Redrive{Concurrency: 1, Done: 900, StopOn: StopOn{FailureRatio: 0.1}}, 0, 101},
		{"the stricter of both", Redrive{Concurrency: 1, Done: 900, StopOn: StopOn{FailureRatio: 0.1, Failures: 5}}, 0, 5},
	} {
		if got := tt.r.Room(tt.busy); got != tt.want {
			t.Errorf("%s: room for %d, want %d", tt.name, got, tt.want)
		}
	}
	if got := (&Redrive{}).Room(1000); got < 1<<40 {
		t.Errorf("without a guard there is room for %d", got)
	}
}

func TestARedriveTellsThatItStandsStill(t *testing.T) {
	t.Parallel()
	long, just := testNow.Add(-10*time.Second), testNow.Add(-time.Second)
	running := Redrive{State: RedriveRunning, Gathered: true, Matched: 5, Rate: 100, ProgressAt: &long,
		WaitingFor: "kafka", WaitingAt: &just}
	for _, tt := range []struct {
		name   string
		change func(*Redrive)
		want   string // "": it does not
	}{
		{"nothing has come through", func(*Redrive) {}, "kafka"},
		{"no node tells of itself", func(r *Redrive) { r.WaitingAt = &long }, WaitingForLease},
		{"something came through", func(r *Redrive) { r.ProgressAt = &just }, ""},
		{"its rate is slow", func(r *Redrive) { r.Rate = 0.1 }, ""},
		{"its canary is watched", func(r *Redrive) { r.WatchedAt = &long }, ""},
		{"its canary has passed", func(r *Redrive) { r.WatchedAt, r.CanaryOK = &long, true }, "kafka"},
		{"it is paused", func(r *Redrive) { r.State = RedrivePaused }, ""},
		{"it is through", func(r *Redrive) { r.Done = 5 }, ""},
	} {
		r := running
		tt.change(&r)
		since, what := r.Stalled(testNow)
		if what != tt.want || (since != nil) != (tt.want != "") || since != nil && r.ETA(testNow) != nil {
			t.Errorf("%s: since %v, waits for %q, eta %v", tt.name, since, what, r.ETA(testNow))
		}
	}
}
