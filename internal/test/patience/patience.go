// Package patience is how tests wait for what has to happen.
//
// There is one limit for all of them, far above what anything takes on an idle machine: a test that
// waits for an event reports whether it comes, never how quickly. What has to be quick is counted,
// compared with something measured beside it, or run on a fake clock (testing/synctest).
package patience

import (
	"context"
	"os"
	"testing"
	"time"
)

// Env is the variable that sets another limit, for tests of code that was broken on purpose: what they wait for
// often never comes.
const Env = "TEST_PATIENCE"

// Limit is how long a test waits for something that has to happen.
var Limit = limit()

func limit() time.Duration {
	if asked, err := time.ParseDuration(os.Getenv(Env)); err == nil {
		return asked
	}
	return 4 * time.Minute
}

// pause is how often a condition is asked for.
const pause = 10 * time.Millisecond

// Until waits for a condition and ends the test if it does not come about within Limit. It calls
// holds on the goroutine of the test, so that holds may end the test itself.
func Until(t testing.TB, what string, holds func() bool) {
	t.Helper()
	for end := time.Now().Add(Limit); !holds(); time.Sleep(pause) {
		if time.Now().After(end) {
			t.Fatalf("not within %s: %s", Limit, what)
		}
		if t.Context().Err() != nil {
			t.Fatalf("the test has ended without: %s", what)
		}
	}
}

// Receive returns what the channel sends, or the zero value once it is closed, and ends the test if
// neither comes within Limit.
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
