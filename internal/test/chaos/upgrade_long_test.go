//go:build upgrade

package chaos

import (
	"os"
	"strconv"
	"testing"
	"time"
)

// rollout is the plan of a rollout. Its lease is long, so that a saga which a node fails to hand
// over is noticed.
var rollout = plan{lease: 15 * time.Second, nodes: 2, clients: 24, think: 300 * time.Millisecond, sagas: 10_000,
	drain: time.Minute, calm: true}

// longestGap is the longest time that may pass between two calls of a saga while its node is
// replaced.
const longestGap = 5 * time.Second

// TestAnUpgradeAndTheWayBack replaces the nodes of the previous version one by one with nodes of
// this version and back again, several times, while clients start sagas. TEST_PREVIOUS is the
// program of the previous version. No call may be repeated, no client may get an error other than a
// 503, and no saga may have to wait for a lease to expire.
func TestAnUpgradeAndTheWayBack(t *testing.T) {
	previous := os.Getenv("TEST_PREVIOUS")
	if previous == "" {
		t.Fatal("TEST_PREVIOUS does not name the program of the previous version")
	}
	rounds := 5
	if text := os.Getenv("TEST_ROLLOUTS"); text != "" {
		var err error
		if rounds, err = strconv.Atoi(text); err != nil {
			t.Fatalf("TEST_ROLLOUTS: %v", err)
		}
	}
	p := rollout
	p.sagas = p.sagas * rounds / 5
	rolledOut(t, p, previous, rounds, longestGap)
}
