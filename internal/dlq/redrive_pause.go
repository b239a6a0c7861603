package dlq

import (
	"maps"
	"time"

	"github.com/skald-saga/skald/internal/retry"
)

// Hold reports whether a target must not be called now.
func (p Pauses) Hold(t *Target, now time.Time) bool { return now.Before(p[t.Name()]) }

// After returns the pauses after drives have ended, without expired ones; changed means that a
// target has asked for more time. No pause is longer than the longest Retry-After that a step
// honours.
func (p Pauses) After(ends []Finish, now time.Time) (after Pauses, changed bool) {
	after = maps.Clone(p)
	for name, until := range p {
		if !now.Before(until) {
			delete(after, name)
		}
	}
	for i := range ends {
		f := &ends[i]
		if f.RetryAfter <= 0 {
			continue
		}
		name, until := f.Attempt.Target.Name(), now.Add(min(f.RetryAfter, retry.MaxAfter))
		if until.After(after[name]) {
			if after == nil {
				after = Pauses{}
			}
			after[name], changed = until, true
		}
	}
	return after, changed
}
