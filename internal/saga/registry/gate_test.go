package registry_test

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"

	"github.com/skald-saga/skald/internal/saga/registry"
)

var (
	noon    = time.Date(2026, 5, 4, 12, 0, 0, 0, time.UTC)
	outage  = registry.DefaultOutage
	opened  = registry.Gate{State: registry.Open, Since: noon, CountedFrom: noon}
	held    = registry.Gate{State: registry.Held, Since: noon, CountedFrom: noon, NextCanary: new(after(10 * time.Second))}
	held2   = registry.New(uuid.Nil, "card", registry.Settings{}, "", noon).Hold("ann", "", "", noon).Gate
	release = registry.Gate{
		State: registry.Releasing, Since: noon, CountedFrom: noon, Rate: 10, WavedAt: &noon, GrownAt: &noon,
	}
)

func after(d time.Duration) time.Time { return noon.Add(d) }

func TestAGateIsHeldTriedAndReleased(t *testing.T) {
	for _, tt := range []struct {
		name   string
		gate   registry.Gate
		seen   registry.Seen
		after  time.Duration
		state  registry.State
		grants int
		reason string // part of the reason
	}{
		{"open, all is well", opened, registry.Seen{Calls: 100, Failed: 50}, time.Second, registry.Open, 0, ""},
		{"open, too few calls", opened, registry.Seen{Calls: 19, Failed: 19}, time.Second, registry.Open, 0, ""},
		{"open, too many fail", opened, registry.Seen{Calls: 210, Failed: 131},
			time.Second, registry.Held, 0, "62 % of 210 calls failed in 30 s"},
		{"open, it asks for a pause", opened, registry.Seen{Pause: after(time.Minute)},
			time.Second, registry.Held, 0, "it asked not to be called until 2026-05-04T12:01:00Z"},
		{"open, the pause is over", opened, registry.Seen{Pause: after(time.Second)},
			time.Second, registry.Open, 0, ""},
		{"open, one parked meanwhile", opened, registry.Seen{Waiting: true}, time.Second, registry.Open, 1000, ""},

		{"held, the canary is not due", held, registry.Seen{Waiting: true}, 9 * time.Second, registry.Held, 0, ""},
		{"held, the canary is due", held, registry.Seen{Waiting: true}, 10 * time.Second, registry.Held, 1, ""},
		{"held, none waits to be the canary", held, registry.Seen{}, 10 * time.Second, registry.Held, 0, ""},
		{"held, calls from before end well", held, registry.Seen{Calls: 30, Waiting: true},
			5 * time.Second, registry.Held, 0, ""},
		{"held, the canary fails", held, registry.Seen{Let: 1, LetFailed: 1, Waiting: true},
			5 * time.Second, registry.Held, 0, ""},
		{"held, the canary succeeds", held, registry.Seen{Let: 2, LetFailed: 1, Waiting: true},
			5 * time.Second, registry.Releasing, 0, "a canary succeeded"},
		{"held, the canary is asked to wait", held, registry.Seen{Pause: after(time.Minute), Waiting: true},
			10 * time.Second, registry.Held, 0, ""},
		{"held by a person, a canary would be due", held2, registry.Seen{Waiting: true},
			time.Hour, registry.Held, 0, "ann holds it"},
		{"held by a person, calls end well", held2, registry.Seen{Let: 5, Waiting: true},
			time.Hour, registry.Held, 0, ""},

		{"releasing, a wave", release, registry.Seen{Waiting: true}, time.Second, registry.Releasing, 10, ""},
		{"releasing, half a wave", release, registry.Seen{Waiting: true},
			500 * time.Millisecond, registry.Releasing, 5, ""},
		{"releasing, too early", release, registry.Seen{Waiting: true},
			50 * time.Millisecond, registry.Releasing, 0, ""},
		{"releasing, no node has looked for long", release, registry.Seen{Waiting: true},
			time.Hour, registry.Releasing, 15, ""},
		{"releasing, a good second", release, registry.Seen{Let: 10, LastLetOK: after(900 * time.Millisecond), Waiting: true},
			time.Second, registry.Releasing, 20, ""},
		{"releasing, a second in which none succeeded", release, registry.Seen{Let: 4, LetFailed: 2, LastLetOK: after(-time.Second), Waiting: true},
			time.Second, registry.Releasing, 10, ""},
		{"releasing, it fails again", release, registry.Seen{Let: 10, LetFailed: 6, Waiting: true},
			time.Second, registry.Held, 0, "60 % of 10 calls failed while it was released"},
		{"releasing, half of them fail", release, registry.Seen{Let: 10, LetFailed: 5, LastLetOK: after(time.Second), Waiting: true},
			time.Second, registry.Releasing, 20, ""},
		{"releasing, it asks for a pause", release, registry.Seen{Pause: after(2 * time.Hour), Waiting: true},
			time.Second, registry.Held, 0, "until 2026-05-04T13:00:01Z"},
		{"releasing, the longest has waited since before the last wave", release,
			registry.Seen{Waiting: true, WaitsSince: noon}, time.Second, registry.Releasing, 10, ""},
		{"releasing, those that wait have come since the last wave", release,
			registry.Seen{Let: 3, Waiting: true, WaitsSince: after(time.Millisecond)},
			time.Second, registry.Open, 0, "the calls that waited were let through"},
		{"releasing, those that have come fail", release,
			registry.Seen{Let: 10, LetFailed: 6, Waiting: true, WaitsSince: after(time.Millisecond)},
			time.Second, registry.Held, 0, "60 % of 10 calls failed while it was released"},
		{"releasing, none waits any more", release, registry.Seen{Let: 3},
			time.Second, registry.Open, 0, "the calls that waited were let through"},
	} {
		now := after(tt.after)
		d := tt.gate.Decide(&outage, tt.seen, now)
		if d.Gate.State != tt.state || d.Grants != tt.grants || !strings.Contains(d.Gate.Reason, tt.reason) {
			t.Errorf("%s: %+v, want %s and %d", tt.name, d, tt.state, tt.grants)
		}
		if diff := cmp.Diff(tt.gate, d.Gate); (diff != "") != d.Changed {
			t.Errorf("%s: changed %t (-before +after):\n%s", tt.name, d.Changed, diff)
		}
		if d.Gate.State != tt.gate.State && (!d.Gate.Since.Equal(now) || !d.Gate.CountedFrom.Equal(now)) {
			t.Errorf("%s: since %s, counted from %s", tt.name, d.Gate.Since, d.Gate.CountedFrom)
		}
	}
}

// TestAHeldGateLetsOnlyCanariesThrough (invariant I23): in every second of an hour, whatever the
// counts, a held participant gets at most one call per interval, one that an operator holds gets
// none, and one that is being released never gets more than its rate allows.
func TestAHeldGateLetsOnlyCanariesThrough(t *testing.T) {
	for _, start := range []registry.Gate{held, held2, release, opened} {
		for seed := range 64 {
			g, canaries, last := start, 0, time.Time{}
			for s := range 3600 {
				now := after(time.Duration(s) * time.Second)
				bad := seed>>(s%6)&1 == 1
				seen := registry.Seen{Waiting: s%7 != seed%7, Calls: 40, Failed: 10}
				if bad {
					seen.Failed, seen.Let, seen.LetFailed = 40, 1, 1
				} else if seed%2 == 0 {
					seen.Let, seen.LastLetOK = 1, now
				}
				if s%500 == 499 && seed%3 == 0 {
					seen.Pause = now.Add(time.Minute)
				}
				d := g.Decide(&outage, seen, now)
				switch {
				case g.HeldBy != "" && (d.Grants > 0 || d.Changed):
					t.Fatalf("a person holds it, and %d are let through", d.Grants)
				case g.State == registry.Held && d.Grants > 1, g.State == registry.Held && d.Grants > 0 && d.Gate.State != g.State:
					t.Fatalf("held, and %d are let through", d.Grants)
				case g.State == registry.Held && d.Grants == 1:
					if now.Sub(last) < 10*time.Second {
						t.Fatalf("canaries at %s and %s", last, now)
					}
					last, canaries = now, canaries+1
				case g.State == registry.Releasing && float64(d.Grants) > 1.5*d.Gate.Rate+1:
					t.Fatalf("%d at a rate of %g", d.Grants, d.Gate.Rate)
				case seen.Pause.After(now) && d.Grants > 0 && g.State != registry.Open && d.Gate.State != registry.Held:
					t.Fatalf("%d during a pause", d.Grants)
				}
				g = d.Gate
			}
		}
	}
}

func TestARampGrowsByItsFactor(t *testing.T) {
	g, total := release, 0
	var waves []int
	for s := 1; s <= 6; s++ {
		now := after(time.Duration(s) * time.Second)
		d := g.Decide(&outage, registry.Seen{Let: int64(total), LastLetOK: now, Waiting: true}, now)
		waves, total, g = append(waves, d.Grants), total+d.Grants, d.Gate
	}
	if diff := cmp.Diff([]int{20, 40, 80, 160, 320, 640}, waves); diff != "" {
		t.Errorf("waves (-want +got):\n%s", diff)
	}
	for s := 7; s <= 600; s++ {
		now := after(time.Duration(s) * time.Second)
		g = g.Decide(&outage, registry.Seen{Let: int64(s), LastLetOK: now, Waiting: true}, now).Gate
	}
	if g.Rate != 1e6 {
		t.Errorf("after ten minutes %g calls per second are let through", g.Rate)
	}
	slow := outage
	slow.Release.StartPerS = 0.5
	g = registry.New(uuid.Nil, "card", registry.Settings{Outage: slow}, "", noon).Hold("ann", "", "", noon).Gate
	p := registry.Participant{Gate: g, Settings: registry.Settings{Outage: slow}}
	p, _ = p.Release("ann", 0, noon)
	waves, g = nil, p.Gate
	for s := 1; s <= 4; s++ {
		d := g.Decide(&slow, registry.Seen{Waiting: true}, after(time.Duration(s)*time.Second))
		waves, g = append(waves, d.Grants), d.Gate
	}
	if diff := cmp.Diff([]int{0, 1, 0, 1}, waves); diff != "" {
		t.Errorf("one in two seconds (-want +got):\n%s", diff)
	}
}

func TestAGateSaysWhy(t *testing.T) {
	g := opened.Decide(&outage, registry.Seen{Calls: 210, Failed: 131}, after(3*time.Minute)).Gate
	want := "held since 2026-05-04T12:03:00Z because 62 % of 210 calls failed in 30 s; next canary in 8 s"
	if got := g.Sentence(after(3*time.Minute + 2*time.Second)); got != want {
		t.Errorf("%s, want %s", got, want)
	}
	if got := held2.Sentence(after(time.Minute)); got != "held since 2026-05-04T12:00:00Z because ann holds it" {
		t.Error(got)
	}
	for rate, want := range map[float64]string{10: "10", 309.5868211199999: "309.6", 0.25: "0.3", 1e5: "100000"} {
		release.Rate = rate
		if got := release.Sentence(after(0)); !strings.HasSuffix(got, "; calls are let through at "+want+" per second") {
			t.Error(got)
		}
	}
}
