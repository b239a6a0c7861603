// Package patience defines how long tests wait for something that has to happen.
//
// There is one limit for all tests, far longer than anything takes on an idle machine: a test that
// waits for an event checks that the event comes, never how quickly. A test of speed counts
// operations, compares with something measured alongside, or uses a fake clock (testing/synctest).
package patience

import (
	"context"
	"os"
	"testing"
	"time"
)

// Env names the variable that sets another limit, for tests of code that was broken on purpose:
// what they wait for often never happens.
const Env = "TEST_PATIENCE"

// Limit is how long a test waits for something that has to happen.
var Limit = limit()

func limit() time.Duration {
	if asked, err := time.ParseDuration(os.Getenv(Env)); err == nil {
		return asked
	}
	return 4 * time.Minute
}

// pause is the time between two checks of a condition.
const pause = 10 * time.Millisecond

// Until waits for a condition and ends the test if it isn't met within Limit. It calls holds on the
// test's goroutine, so holds may end the test.
func Until(t testing.TB, what string, holds func() bool) {
	t.Helper()
	for end := time.Now().Add(Limit); !holds(); time.Sleep(pause) {
		if time.Now().After(end) {
			t.Fatalf("not within %s: %s", Limit, what)
		}
		if t.Context().Err() != nil {
			t.Fatalf("the test ended before this happened: %s", what)
		}
	}
}

// Receive returns the next value from the channel, or the zero value once the channel is closed. It
// ends the test if neither happens within Limit.
func Receive[T any](t testing.TB, what string, from <-chan T) T {
	t.Helper()
	select {
	case v := <-from:
		return v
	case <-time.After(Limit):
		t.Fatalf("not within %s: %s", Limit, what)
		panic("unreachable")
	}
}

// Context returns a context that ends with the test, or after Limit.
func Context(t testing.TB) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), Limit)
	t.Cleanup(cancel)
	return ctx
}
