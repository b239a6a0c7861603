// Package loop is how the loops of a node wait between their rounds.
package loop

import (
	"context"
	"math/rand/v2"
	"time"
)

// Sleep waits for d, less when ctx ends. It returns whether ctx is still alive: a
// context that ended is never overlooked, even when d had passed by then.
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

// Jittered returns d, more or less by up to a fifth, so that nodes which started
// together do not ask the database together.
func Jittered(d time.Duration) time.Duration {
	return JitteredBy(rand.Float64(), d) //nolint:gosec // spreads load, guards nothing
}

// JitteredBy is Jittered with chance, in [0,1), given: 0 is a fifth less than d, and
// 0.5 is d itself.
func JitteredBy(chance float64, d time.Duration) time.Duration {
	return time.Duration(float64(d) * (0.8 + 0.4*chance))
}
