package loop_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/skald-saga/skald/internal/loop"
)

func TestSleepWaitsForItsTimeOrForTheContext(t *testing.T) {
	for _, tt := range []struct {
		name      string
		d, cancel time.Duration // the context ends after cancel; 0: never
		takes     time.Duration
		alive     bool
	}{
		{"its whole time", time.Minute, 0, time.Minute, true},
		{"no time", 0, 0, 0, true},
		{"a time that is over", -time.Second, 0, 0, true},
		{"a context that ends first", time.Minute, time.Second, time.Second, false},
		{"a context that would end later", time.Second, time.Minute, time.Second, true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				if tt.cancel > 0 {
					defer time.AfterFunc(tt.cancel, cancel).Stop()
				}
				began := time.Now()
				alive := loop.Sleep(ctx, tt.d)
				if took := time.Since(began); alive != tt.alive || took != tt.takes {
					t.Errorf("Sleep(%s) = %t after %s; want %t after %s", tt.d, alive, took, tt.alive, tt.takes)
				}
			})
		})
	}
}

// If both are ready, select takes either of them. An ended context must take precedence every time.
func TestAnEndedContextIsNeverOverlooked(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	for range 1000 {
		if loop.Sleep(ctx, 0) || loop.Sleep(ctx, time.Hour) {
			t.Fatal("Sleep reports that an ended context is alive")
		}
	}
}

func TestAwaitSaysWhatEndedIt(t *testing.T) {
	for _, tt := range []struct {
		name          string
		cancel, event time.Duration // 0: never
		takes         time.Duration
		woken         bool
	}{
		{"its whole time", 0, 0, time.Minute, false},
		{"an event", 0, time.Second, time.Second, true},
		{"an event before the context ends", 2 * time.Second, time.Second, time.Second, true},
		{"a context that ends before the event", time.Second, 2 * time.Second, time.Second, false},
		{"an event that comes too late", 0, time.Hour, time.Minute, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				wake := make(chan struct{}, 1)
				if tt.cancel > 0 {
					defer time.AfterFunc(tt.cancel, cancel).Stop()
				}
				if tt.event > 0 {
					defer time.AfterFunc(tt.event, func() { wake <- struct{}{} }).Stop()
				}
				began := time.Now()
				woken := loop.Await(ctx, time.Minute, wake)
				if took := time.Since(began); woken != tt.woken || took != tt.takes {
					t.Errorf("Await = %t after %s; want %t after %s", woken, took, tt.woken, tt.takes)
				}
			})
		})
	}
	closed := make(chan struct{})
	close(closed)
	if !loop.Await(t.Context(), time.Hour, closed) {
		t.Error("a channel that is closed does not wake")
	}
}

func TestWithinIsFromNothingToAll(t *testing.T) {
	if d := loop.Within(0); d != 0 {
		t.Errorf("Within(0) = %s", d)
	}
	low, high := time.Hour, time.Duration(0)
	for range 10_000 {
		d := loop.Within(10 * time.Second)
		if d < 0 || d >= 10*time.Second {
			t.Fatalf("Within(10s) = %s", d)
		}
		low, high = min(low, d), max(high, d)
	}
	if low > time.Second || high < 9*time.Second {
		t.Errorf("10,000 times Within(10s) lay between %s and %s", low, high)
	}
}

func TestJitterIsAFifthEitherWay(t *testing.T) {
	for chance, want := range map[float64]time.Duration{0: 8 * time.Second, 0.5: 10 * time.Second,
		0.75: 11 * time.Second} {
		if got := loop.JitteredBy(chance, 10*time.Second); got != want {
			t.Errorf("JitteredBy(%g, 10s) = %s; want %s", chance, got, want)
		}
	}
	low, high := time.Hour, time.Duration(0)
	for range 10_000 {
		d := loop.Jittered(10 * time.Second)
		if d < 8*time.Second || d >= 12*time.Second {
			t.Fatalf("Jittered(10s) = %s", d)
		}
		low, high = min(low, d), max(high, d)
	}
	if low > 9*time.Second || high < 11*time.Second {
		t.Errorf("10,000 times Jittered(10s) lay between %s and %s: that spreads nothing", low, high)
	}
}
