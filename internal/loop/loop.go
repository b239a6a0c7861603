// Package loop provides the waits between the rounds of a node's background loops.
package loop

import (
	"context"
	"math/rand/v2"
	"time"
)

// Sleep waits for d or until ctx ends, and reports whether ctx is still alive. It reports a
// context that has ended even if d has passed as well.
func Sleep(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-t.C:
		return ctx.Err() == nil
	}
}

// Jittered returns d, longer or shorter by up to a fifth, so that nodes that started
// at the same time do not query the database at the same time.
func Jittered(d time.Duration) time.Duration {
	return JitteredBy(rand.Float64(), d) //nolint:gosec // spreads load, guards nothing
}

// JitteredBy is Jittered with a given random number in [0,1): 0 makes d a fifth
// shorter, 0.5 leaves it as it is.
func JitteredBy(chance float64, d time.Duration) time.Duration {
	return time.Duration(float64(d) * (0.8 + 0.4*chance))
}
