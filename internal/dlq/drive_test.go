package dlq

import (
	"slices"
	"testing"
	"time"

	"github.com/google/uuid"
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
		f := finish(&d, r, &p, testMoment())
		if r.Outcome != tt.outcome || r.Error == "" || !r.StartedAt.Equal(began) || !r.EndedAt.Equal(testNow) {
			t.Errorf("%s: %+v", tt.name, r)
		}
		if f.Status != tt.status || f.Resolution != tt.why || f.RetryCount != tt.after ||
			(f.NextRetryAt != nil) != (tt.status == Pending) {
			t.Errorf("%s: %s %s after %d, next %v; want %s %s after %d", tt.name, f.Status, f.Resolution, f.RetryCount, f.NextRetryAt, tt.status, tt.why, tt.after)
		}
	}
}

// A record of that size will be rejected every time, so no retry is used up for it, and none is
// scheduled.
func TestWhatIsTooLargeCostsNoRetryAndWaitsForAPerson(t *testing.T) {
	t.Parallel()
	p := DefaultPolicy
	tooLarge := Result{Outcome: FailedDrive, TooLarge: true, Error: "too large by 7 bytes"}
	for _, tt := range []struct {
		name   string
		d      Drive
		status Status
		why    Resolution
	}{
		{"automatic", Drive{Due: true}, Pending, ""},
		{"the last retry", Drive{Letter: Letter{RetryCount: 2}}, Pending, ""},
		{"DEAD before", Drive{Letter: Letter{RetryCount: 3}, Forced: true}, Dead, Exhausted},
		{"POISON before", Drive{Letter: Letter{RetryCount: 1}, Forced: true, Was: Poison}, Dead, Poison},
	} {
		tt.d.Source, tt.d.MaxRetries = FromKafka, 3
		f := finish(&tt.d, tooLarge, &p, testMoment())
		if f.Status != tt.status || f.Resolution != tt.why || f.RetryCount != tt.d.RetryCount || f.NextRetryAt != nil ||
			f.Attempt.Outcome != FailedDrive || f.Attempt.Error != tooLarge.Error {
			t.Errorf("%s: %+v", tt.name, f)
		}
	}
}

// Content that cannot be read will not become readable later. Such a letter waits for a person,
// whatever its state before, unless the policy says otherwise.
func TestPermanentErrorsAreNotRetriedAutomatically(t *testing.T) {
	t.Parallel()
	for _, class := range Classes {
		for _, retried := range []bool{false, true} {
			for _, source := range []Source{FromKafka, FromREST, FromJob} {
				p := DefaultPolicy
				p.RetryPermanent = retried
				l := Letter{Source: source, MaxRetries: 3, Failure: Failure{Class: class}}
				want := slices.Contains(Automatic, source) && (class != Permanent || retried)
				pending := New(l, uuid.New(), &p, testMoment())
				if got := pending.NextRetryAt != nil; got != want || pending.Status != Pending {
					t.Errorf("%s of %s, permanent ones retried %v: new is %s, retried %v", class, source, retried, pending.Status, got)
				}
				for name, r := range map[string]Result{"failed": {Outcome: FailedDrive},
					"withdrawn": {Outcome: Withdrawn}, "uncertain": {Outcome: Uncertain}} {
					d := Drive{Letter: pending}
					if f := finish(&d, r, &p, testMoment()); f.Status != Pending || (f.NextRetryAt != nil) != want {
						t.Errorf("%s of %s, permanent ones retried %v: %s, next %v", class, source, retried, name, f.NextRetryAt)
					}
				}
				dead := pending
				dead.Status, dead.Resolution, dead.NextRetryAt = Dead, Exhausted, nil
				again, err := applied(dead, RequeueRequested{Reset: false, MaxRetries: nil, Policy: &p}, testMoment())
				if err != nil || (again.NextRetryAt != nil) != want {
					t.Errorf("%s of %s, permanent ones retried %v: requeued, next %v (%v)", class, source, retried, again.NextRetryAt, err)
				}
			}
		}
	}
}

// The next automatic retry waits for the backoff or for the time that the target requested,
// whichever is longer, but at most an hour, as for steps. If nothing is retried automatically, the
// target's request changes nothing.
func TestATargetThatAsksToWaitIsLeftAlone(t *testing.T) {
	t.Parallel()
	p := DefaultPolicy // a minute, without jitter at 0.5
	for asked, want := range map[time.Duration]time.Duration{
		0: time.Minute, time.Second: time.Minute, 10 * time.Minute: 10 * time.Minute, 24 * time.Hour: time.Hour,
	} {
		for _, outcome := range []AttemptOutcome{FailedDrive, Uncertain} {
			d := Drive{Letter: Letter{Source: FromREST, Status: Retrying, MaxRetries: 5}, Number: 1}
			first := p
			f := finish(&d, Result{Outcome: outcome, StatusCode: 503, RetryAfter: asked}, &first, testMoment())
			backoff := *p.NextRetry(FromREST, 1, testNow, testMoment().Jitter)
			want := testNow.Add(want)
			if backoff.After(want) {
				want = backoff
			}
			if f.NextRetryAt == nil || !f.NextRetryAt.Equal(want) {
				t.Errorf("%s, asked for %v: the next retry is at %v, want %v", outcome, asked, f.NextRetryAt, want)
			}
			first.AutoRetry = false
			if f := finish(&d, Result{Outcome: outcome, RetryAfter: asked}, &first, testMoment()); f.NextRetryAt != nil {
				t.Errorf("%s: it is retried automatically although its policy says no", outcome)
			}
		}
	}
}
