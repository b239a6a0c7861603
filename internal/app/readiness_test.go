package app

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/skald-saga/skald/internal/ops/metrics"
	"github.com/skald-saga/skald/internal/postgres"
)

func TestTheDatabaseIsCheckedEveryFewSeconds(t *testing.T) {
	t.Parallel()
	now, asked := time.Unix(0, 0), 0
	var fails error
	c := condition{
		ask: func(context.Context) (postgres.Condition, error) {
			asked++
			return postgres.Condition{Schema: asked}, fails
		},
		metrics: metrics.New(func() (int, int) { return 0, 0 }), now: func() time.Time { return now },
	}
	for _, step := range []struct {
		after time.Duration
		fails error
		asked int
	}{
		{0, nil, 1},
		{conditionFor - 1, nil, 1},
		{1, nil, 2},
		{conditionFor, errors.New("disk full"), 3},
		{failureFor - 1, nil, 3}, // still the failure
		{1, nil, 4},
	} {
		now, fails = now.Add(step.after), step.fails
		known, err := c.get(t.Context())
		if wantErr := asked == 3; asked != step.asked || known.Schema != asked || (err != nil) != wantErr {
			t.Errorf("after %s: asked %d times, %+v, %v; want %d", step.after, asked, known, err, step.asked)
		}
	}
	gone, leave := context.WithCancel(t.Context())
	leave()
	now = now.Add(conditionFor)
	c.ask = func(ctx context.Context) (postgres.Condition, error) { return postgres.Condition{}, ctx.Err() }
	_, _ = c.get(gone) // it does not wait for the answer
	if _, err := c.get(t.Context()); err != nil {
		t.Errorf("a client that leaves makes the database look bad: %v", err)
	}
}

// It need not be asked whether it is ready.
func TestANodeWithoutALeaseWatchesItsDatabase(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		asked := 0
		c := condition{
			ask:     func(context.Context) (postgres.Condition, error) { asked++; return postgres.Condition{}, nil },
			metrics: metrics.New(func() (int, int) { return 0, 0 }), now: time.Now,
		}
		ctx, stop := context.WithTimeout(t.Context(), time.Minute)
		defer stop()
		c.watch(ctx)
		if asked < 4 || asked > 12 {
			t.Errorf("asked %d times in a minute", asked)
		}
	})
}
