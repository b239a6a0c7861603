package dlq

import (
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/google/uuid"
	"pgregory.net/rapid"
)

// In every way in which a letter becomes PENDING, its wait depends on all failures of its lineage:
// how often it came back, and how often the retries of the letter itself failed.
func TestTheWaitOfALetterCountsTheFailuresOfItsLineage(t *testing.T) {
	t.Parallel()
	p := DefaultPolicy
	p.MaxRetries, p.Backoff.Jitter = 5, new(0.0)
	m := testMoment()
	root := uuid.New()
	letter := func(generation, count int) Letter {
		return New(Letter{
			Source: FromKafka, OriginalTopic: "orders", Failure: Failure{Message: "m"}, MaxRetries: -1,
			RootID: root, Generation: generation, RetryCount: count,
		}, uuid.New(), &p, m)
	}
	finished := func(l Letter, r Result) *time.Time {
		d := Drive{Letter: l, To: l.Destination(nil)}
		return finish(&d, r, &p, m).NextRetryAt
	}
	for name, tt := range map[string]struct {
		next  func(l Letter) *time.Time
		added int // failures that this adds
	}{
		"it arrives":         {func(l Letter) *time.Time { return l.NextRetryAt }, 0},
		"its retry fails":    {func(l Letter) *time.Time { return finished(l, Result{Outcome: FailedDrive}) }, 1},
		"its retry may fail": {func(l Letter) *time.Time { return finished(l, Result{Outcome: Uncertain}) }, 1},
		"its retry's node dies": {func(l Letter) *time.Time {
			d := Drive{Letter: l}
			return finished(l, d.Lost(false, m.Now, m.Now))
		}, 1},
		"its retry is withdrawn": {func(l Letter) *time.Time { return finished(l, Result{Outcome: Withdrawn}) }, 0},
		"its consumer reports a failure": {func(l Letter) *time.Time {
			l.Status, l.Resolution = Resolved, Redriven
			after, err := applied(l, ConsumerReported{Generation: l.Generation, Processed: false, Policy: &p}, m)
			if err != nil {
				t.Error(err)
			}
			return after.NextRetryAt
		}, 1},
		"it is requeued": {func(l Letter) *time.Time {
			l.Status, l.Resolution = Dead, Poison
			after, err := applied(l, RequeueRequested{Reset: false, MaxRetries: nil, Policy: &p}, m)
			if err != nil {
				t.Error(err)
			}
			return after.NextRetryAt
		}, 0},
	} {
		for generation := range p.MaxGenerations + 1 {
			for count := range 3 {
				failures := generation + count + tt.added
				want := m.Now.Add(min(time.Minute<<failures, time.Hour))
				if got := tt.next(letter(generation, count)); got == nil || !got.Equal(want) {
					t.Errorf("generation %d, after %d failed retries, %s: next %v, want %v", generation, count, name, got, want)
				}
			}
		}
	}
}

// With the defaults, if a consumer's dependency is unavailable for ten minutes, most of its letters
// are retried afterwards and are not POISON.
func TestMostLettersOutliveAnOutageOfTenMinutes(t *testing.T) {
	t.Parallel()
	p := DefaultPolicy
	random := rand.New(rand.NewPCG(1, 2)) //nolint:gosec // the same numbers in every run
	var ends []time.Duration              // when the last of a lineage's waits ends
	for range 1000 {
		now := testNow
		for generation := range p.MaxGenerations + 1 {
			l := New(Letter{Source: FromKafka, OriginalTopic: "orders", Failure: Failure{Message: "m"}, MaxRetries: -1,
				Generation: generation}, uuid.New(), &p, Moment{Now: now, Jitter: random.Float64()})
			now = *l.NextRetryAt
		}
		ends = append(ends, now.Sub(testNow))
	}
	slices.Sort(ends)
	if fifth, half := ends[len(ends)/5], ends[len(ends)/2]; fifth < 10*time.Minute || half < 14*time.Minute {
		t.Errorf("a fifth of the letters is retried for the last time after %v, half of them after %v", fifth, half)
	}
}

// No number of failures makes the wait overflow or become shorter.
func TestWaitsOfALineageNeverShrink(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		p := DefaultPolicy
		p.Backoff.Jitter = new(0.0)
		l := Letter{Generation: rapid.IntRange(0, 1<<20).Draw(t, "generation")}
		l.RetryCount = rapid.IntRange(0, MaxRetries).Draw(t, "retries")
		before := p.NextRetry(FromKafka, l.Failures(), testNow, 0)
		l.Generation++
		after := p.NextRetry(FromKafka, l.Failures(), testNow, 0)
		most := testNow.Add(time.Duration(p.Backoff.MaxIntervalMS) * time.Millisecond)
		if after.Before(*before) || before.Before(testNow) || after.After(most) {
			t.Errorf("%+v: first %v, then %v", l, before, after)
		}
	})
}
