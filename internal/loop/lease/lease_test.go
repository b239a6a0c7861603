package lease_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/skald-saga/skald/internal/loop"
	"github.com/skald-saga/skald/internal/loop/lease"
)

const ttl = 10 * time.Second

var errDown = errors.New("the store does not answer")

func TestNothingIsTrustedThatNobodyGranted(t *testing.T) {
	var h lease.Held
	if h.Valid() || h.Left() != 0 {
		t.Error("the zero value is trusted")
	}
	h.Extend(time.Now(), time.Hour)
	if left := h.Left(); !h.Valid() || left > time.Hour || left < 59*time.Minute {
		t.Errorf("an hour was granted, %s are left", left)
	}
	if h.Lose(); h.Valid() {
		t.Error("a lost lease is trusted")
	}
}

// TestALeaseIsKeptUntilItIsLost specifies the answer to each renewal, the delay after which it
// arrives, and when Keep returns.
func TestALeaseIsKeptUntilItIsLost(t *testing.T) {
	type answer struct {
		held bool
		err  error
		took time.Duration
	}
	yes, no, down := answer{held: true}, answer{}, answer{err: errDown}
	for _, tt := range []struct {
		name    string
		answers []answer // the last one is repeated
		lost    time.Duration
	}{
		{"granted every time", []answer{yes}, 0},
		{"refused at once", []answer{no}, 3 * time.Second},
		{"refused later", []answer{yes, yes, no}, 9 * time.Second},
		{"two without answer, and then granted", []answer{down, down, yes}, 0},
		{"never answered: what is left after three renewals is less than the way to the fourth", []answer{down}, 12 * time.Second},
		{"granted too late: the fourth is answered after the end", []answer{down, down, down, yes}, 12 * time.Second},
		{"slow answers count from when they were asked for", []answer{{held: true, took: 2 * time.Second}, down}, 14 * time.Second},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
				defer cancel()
				var h lease.Held
				began, n, renewed, failed, bad := time.Now(), 0, 0, 0, 0
				h.Extend(began, ttl)
				lease.Keeper{
					TTL:   ttl,
					Sleep: func(ctx context.Context, d time.Duration) { loop.Sleep(ctx, d) },
					Renew: func(ctx context.Context) (bool, error) {
						a := tt.answers[min(n, len(tt.answers)-1)]
						n++
						if a.err != nil {
							bad++
						}
						loop.Sleep(ctx, a.took)
						return a.held, a.err
					},
					Renewed: func() { renewed++ },
					Failed:  func(error) { failed++ },
				}.Keep(ctx, &h)
				took := time.Since(began)
				switch {
				case tt.lost == 0 && (took != time.Minute || !h.Valid() || renewed == 0 || failed != bad):
					t.Errorf("kept for %s, valid: %t, renewed %d times, %d of %d failures told", took, h.Valid(), renewed, failed, bad)
				case tt.lost > 0 && (took != tt.lost || h.Valid()):
					t.Errorf("lost after %s, valid: %t; want %s", took, h.Valid(), tt.lost)
				}
			})
		})
	}
}
