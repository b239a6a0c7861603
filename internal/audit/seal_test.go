package audit_test

import (
	"context"
	"errors"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/uuid"

	"github.com/skald-saga/skald/internal/audit"
	"github.com/skald-saga/skald/internal/audit/trail"
)

// fakeChain has tenants with a given number of unsealed events.
type fakeChain struct {
	trail.Chain
	events map[uuid.UUID]int
	open   bool          // an older transaction is open: no event is settled
	slow   time.Duration // duration of a call of Unsealed
	fail   int           // number of calls that fail first
	looks  []time.Time
}

func (c *fakeChain) Unsealed(context.Context) (list []trail.Unsealed, err error) {
	c.looks = append(c.looks, time.Now())
	time.Sleep(c.slow)
	if c.fail > 0 {
		c.fail--
		return nil, errors.New("the database does not answer")
	}
	for id, n := range c.events {
		if n > 0 {
			list = append(list, trail.Unsealed{TenantID: id, Settled: !c.open, Age: 3 * time.Second})
		}
	}
	return list, nil
}

func (c *fakeChain) Seal(_ context.Context, tenant uuid.UUID) (int, error) {
	n := min(c.events[tenant], trail.MaxSealed)
	c.events[tenant] -= n
	return n, nil
}

// run runs the loop for some time and returns the events sealed in each round.
func (c *fakeChain) run(t *testing.T, d time.Duration) (sealed []int, lags []time.Duration) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), d)
	defer cancel()
	audit.Seal(ctx, audit.SealConfig{Chain: c, Log: slog.New(slog.DiscardHandler), Sealed: func(n int, lag time.Duration) {
		sealed, lags = append(sealed, n), append(lags, lag)
	}})
	return sealed, lags
}

func TestRoundSealsAllExistingEvents(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := &fakeChain{events: map[uuid.UUID]int{uuid.New(): 2*trail.MaxSealed + 5, uuid.New(): 7}}
		sealed, lags := c.run(t, 3*time.Second)
		if len(sealed) < 2 || sealed[0] != 2*trail.MaxSealed+12 || sealed[1] != 0 || lags[0] != 0 {
			t.Errorf("rounds sealed %v, lags %v", sealed, lags)
		}
	})
}

func TestEventsThatAnOpenTransactionHoldsBackAreLag(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := &fakeChain{events: map[uuid.UUID]int{uuid.New(): 1}, open: true}
		if sealed, lags := c.run(t, time.Second/2); len(sealed) != 1 || sealed[0] != 0 || lags[0] != 3*time.Second {
			t.Errorf("sealed %v, lags %v", sealed, lags)
		}
	})
}

func TestSealingContinuesAfterAnOutage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := &fakeChain{events: map[uuid.UUID]int{uuid.New(): 1}, fail: 2}
		if sealed, _ := c.run(t, 4*time.Second); len(sealed) == 0 || sealed[0] != 1 {
			t.Errorf("sealed %v", sealed)
		}
	})
}

func TestLongRoundsAreFollowedByLongerPauses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := &fakeChain{slow: 2 * time.Second}
		c.run(t, time.Minute)
		if pause := c.looks[1].Sub(c.looks[0]) - c.slow; pause < 14*time.Second || pause > 22*time.Second {
			t.Errorf("a pause of %v after a round of %v", pause, c.slow)
		}
	})
}
