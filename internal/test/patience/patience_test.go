package patience_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/skald-saga/skald/internal/test/patience"
)

// stopped is a test whose Fatalf ends the goroutine, as a real test's does.
type stopped struct {
	testing.TB
	ctx    context.Context
	failed bool
}

func (s *stopped) Helper()                  {}
func (s *stopped) Context() context.Context { return s.ctx }
func (s *stopped) Fatalf(string, ...any)    { s.failed = true; panic(s) }

// fails reports whether f ended its test as failed.
func fails(t *testing.T, f func(testing.TB)) (failed bool) {
	t.Helper()
	s := &stopped{ctx: t.Context()}
	defer func() {
		if r := recover(); r != nil && r != any(s) {
			panic(r)
		}
		failed = s.failed
	}()
	f(s)
	return
}

func TestWhatComesLateStillCounts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		due := time.Now().Add(patience.Limit - time.Second)
		if fails(t, func(tb testing.TB) { patience.Until(tb, "late", func() bool { return time.Now().After(due) }) }) {
			t.Error("a condition that holds a second before the limit fails the test")
		}
		late := make(chan int)
		go func() { time.Sleep(patience.Limit - time.Second); late <- 7 }()
		var got int
		if fails(t, func(tb testing.TB) { got = patience.Receive(tb, "late", late) }) || got != 7 {
			t.Errorf("a value that comes a second before the limit: %d", got)
		}
	})
}

func TestWhatNeverComesFailsTheTest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		if !fails(t, func(tb testing.TB) { patience.Until(tb, "never", func() bool { return false }) }) {
			t.Error("a condition that never holds passes")
		}
		if !fails(t, func(tb testing.TB) { patience.Receive(tb, "never", make(chan int)) }) {
			t.Error("a channel that never sends passes")
		}
	})
}
