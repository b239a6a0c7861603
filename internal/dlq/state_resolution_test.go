package dlq_test

import (
	"slices"
	"testing"

	"github.com/skald-saga/skald/internal/dlq"
)

// The schema has the same rule (chk_dlq_messages_resolution).
func TestAResolutionIsOfOneStatus(t *testing.T) {
	t.Parallel()
	for _, r := range dlq.Resolutions {
		want := dlq.Resolved
		if r == dlq.Discarded || r == dlq.Exhausted || r == dlq.Poison {
			want = dlq.Dead
		}
		if got := r.Status(); got != want {
			t.Errorf("%s is of %s letters, want %s", r, got, want)
		}
	}
}

func TestALetterIsOpenUntilItIsResolved(t *testing.T) {
	t.Parallel()
	for _, s := range dlq.Statuses {
		if open := slices.Contains(dlq.OpenStatuses, s); open != (s != dlq.Resolved) {
			t.Errorf("%s is an open status: %t", s, open)
		}
	}
}
