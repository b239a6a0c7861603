package web

import (
	"errors"
	"fmt"
	"testing"
	"time"
)

// TestValuesAreSharedForAWhile checks that a value is shared only by requests with the same key,
// that it does not become too old, and that errors are not kept.
func TestValuesAreSharedForAWhile(t *testing.T) {
	const most = 2 * time.Second
	s := Shared[int]{For: most}
	now := time.Date(2026, 11, 28, 4, 0, 0, 0, time.UTC)
	failed := errors.New("no answer")
	calls := 0
	for i, c := range []struct {
		key   string
		after time.Duration // since the start
		err   error
		is    int // the number of times that a value had been made when the returned one was made
		calls int
	}{
		{"a", 0, nil, 1, 1},
		{"a", most - 1, nil, 1, 1},
		{"b", most - 1, nil, 2, 2},
		{"a", most, failed, 0, 3},
		{"a", most, nil, 4, 4},
		{"b", most, nil, 2, 4},
		{"a", 2*most - 1, nil, 4, 4},
		{"b", 2 * most, nil, 5, 5},
	} {
		got, err := s.Get(c.key, now.Add(c.after), func() (int, error) {
			calls++
			return calls, c.err
		})
		if !errors.Is(err, c.err) || err == nil && got != c.is || calls != c.calls {
			t.Errorf("%d: %s after %s: %d, %v, made %d times; want %d, %v, %d times", i, c.key, c.after, got, err, calls,
				c.is, c.err, c.calls)
		}
	}
	if len(s.made) != 1 {
		t.Errorf("%d values are kept, although all but one are too old", len(s.made))
	}
	for i := range 2 * mostShared {
		if got, err := s.Get(fmt.Sprint(i), now, func() (int, error) { return i, nil }); got != i || err != nil {
			t.Errorf("value %d: %d, %v", i, got, err)
		}
	}
	if len(s.made) != mostShared {
		t.Errorf("%d values are kept; at most %d", len(s.made), mostShared)
	}
}
