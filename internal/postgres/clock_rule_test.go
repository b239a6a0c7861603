package postgres

import (
	"testing"
	"time"
)

// The rule claims no more about the difference between two clocks than the answers prove.
func TestAClockIsCorrectedByWhatAnswersProve(t *testing.T) {
	t.Parallel()
	type answer struct{ sent, there, answered time.Duration } // since the same moment, each by its own clock
	const s, ms = time.Second, time.Millisecond
	for name, c := range map[string]struct {
		answers []answer
		ahead   time.Duration
	}{
		"no answer":                               {nil, 0},
		"clocks that agree":                       {[]answer{{0, 2 * ms, 5 * ms}}, 0},
		"a difference below the answer's time":    {[]answer{{0, 4 * ms, 5 * ms}, {0, ms, 5 * ms}}, 0},
		"twenty seconds slow":                     {[]answer{{0, 20*s + 2*ms, 4 * ms}}, -20*s + 2*ms},
		"twenty seconds fast":                     {[]answer{{20 * s, 2 * ms, 20*s + 4*ms}}, 20*s - 2*ms},
		"a quicker answer says more":              {[]answer{{0, 20 * s, s}, {0, 20 * s, ms}}, -20*s + ms},
		"a slow answer takes nothing back":        {[]answer{{0, 20 * s, ms}, {0, 20 * s, 9 * s}}, -20*s + ms},
		"a clock that is put right":               {[]answer{{0, 20 * s, ms}, {0, ms, ms}}, -ms},
		"ten minutes slow":                        {[]answer{{0, 600 * s, 0}}, -600 * s},
		"the own clock is set back in between":    {[]answer{{0, 20 * s, 0}, {50 * s, 20 * s, 0}}, -20 * s},
		"a clock that drifts is followed at once": {[]answer{{0, s, 0}, {0, 2 * s, 0}, {0, 3 * s, 0}}, -3 * s},
	} {
		began := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
		here := began
		clock := NewClock(func() time.Time { return here })
		for _, a := range c.answers {
			here = began.Add(a.sent)
			err := clock.Ask(func(there *time.Time) error {
				here, *there = began.Add(a.answered), began.Add(a.there)
				return nil
			})
			if err != nil {
				t.Fatal(err)
			}
		}
		if clock.Ahead() != c.ahead || !clock.Now().Equal(here.Add(-c.ahead)) {
			t.Errorf("%s: ahead by %v, want %v", name, clock.Ahead(), c.ahead)
		}
	}
}
