package loop_test

import (
	"testing"
	"time"

	"github.com/skald-saga/skald/internal/loop"
)

func TestComplaintsGrowRarerEachForItself(t *testing.T) {
	var c loop.Complaints
	begin := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	told := map[string]int{}
	for at := time.Duration(0); at < time.Hour; at += 50 * time.Millisecond {
		for _, about := range []string{"one", "another"} {
			if c.Due(about, begin.Add(at)) {
				told[about]++
			}
		}
	}
	// The messages are due after 0, 1, 3, 7, 15, 31 and 63 seconds, and then every minute.
	for about, n := range told {
		if n < 60 || n > 70 {
			t.Errorf("%s: told %d times in an hour", about, n)
		}
	}
	if len(told) != 2 {
		t.Errorf("told of %v", told)
	}
}
