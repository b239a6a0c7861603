// Package loop provides the waits between the rounds of a node's background loops, and the jitter
// that keeps nodes from making their rounds at the same time.
package loop

import (
	"context"
	"math/rand/v2"
	"time"
)

// Sleep waits for d or until ctx ends, and reports whether ctx is still active. If both have
// happened, it returns false.
func Sleep(ctx context.Context, d time.Duration) bool {
	Await(ctx, d, nil)
	return ctx.Err() == nil
}

// Await waits until d has passed, ctx ends, or something arrives on wake (or wake is closed). It
// reports whether wake was the reason.
func Await(ctx context.Context, d time.Duration, wake <-chan struct{}) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-t.C:
		return false
	case <-wake:
		return true
	}
}

// Chance returns a random number in [0,1) for the rules, which take it as an argument. It only
// spreads load; anything that must not be guessed comes from crypto/rand.
func Chance() float64 { return rand.Float64() } //nolint:gosec // see above

// Jittered returns d, made longer or shorter by up to a fifth, so that nodes that started at the
// same time do not query the database at the same time.
func Jittered(d time.Duration) time.Duration { return JitteredBy(Chance(), d) }

// JitteredBy is Jittered with a given random number in [0,1): 0 makes d a fifth shorter, and 0.5
// leaves it unchanged.
func JitteredBy(chance float64, d time.Duration) time.Duration {
	return time.Duration(float64(d) * (0.8 + 0.4*chance))
}

// Within returns a random duration between zero and d. It is for waits that must not exceed d, and
// for many waiters that begin at the same moment, which a jitter of a fifth would not separate.
func Within(d time.Duration) time.Duration { return time.Duration(Chance() * float64(d)) }
