package dlq

import (
	"testing"
	"time"
)

func TestARetryWhoseNodeIsGone(t *testing.T) {
	t.Parallel()
	began := testNow.Add(-time.Minute)
	for _, tt := range []struct {
		name       string
		count, max int
		unsent     bool
		outcome    AttemptOutcome
		status     Status
		why        Resolution
		after      int
	}{
		{"it may have been sent", 0, 3, false, Abandoned, Pending, "", 1},
		{"it may have been sent for the last time", 2, 3, false, Abandoned, Dead, Exhausted, 3},
		{"it was not sent", 0, 3, true, Withdrawn, Pending, "", 0},
		{"it was not sent, with one retry left", 2, 3, true, Withdrawn, Pending, "", 2},
		{"it was DEAD, and not sent", 3, 3, true, Withdrawn, Dead, Exhausted, 3},
		{"it was DEAD, and may have been sent", 3, 3, false, Abandoned, Dead, Exhausted, 3},
	} {
		d := Drive{Letter: Letter{Source: FromKafka, RetryCount: tt.count, MaxRetries: tt.max}, Number: 4}
		r := d.Lost(tt.unsent, began, testNow)
		p := DefaultPolicy
		f := d.Finished(r, &p, testMoment())
		if r.Outcome != tt.outcome || r.Error == "" || !r.StartedAt.Equal(began) || !r.EndedAt.Equal(testNow) {
			t.Errorf("%s: %+v", tt.name, r)
		}
		if f.Status != tt.status || f.Resolution != tt.why || f.RetryCount != tt.after ||
			(f.NextRetryAt != nil) != (tt.status == Pending) {
			t.Errorf("%s: %s %s after %d, next %v; want %s %s after %d", tt.name, f.Status, f.Resolution, f.RetryCount, f.NextRetryAt, tt.status, tt.why, tt.after)
		}
	}
}
