package app

import (
	"errors"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/skald-saga/skald/internal/postgres"
)

// How far the clock of a node may be from the database's before that is logged, and before the node
// neither drives sagas nor is ready. Times are right in between, because they are corrected; but a
// clock that is further off is not set at all, and certificates, tokens and logs depend on it.
const (
	clockWarns = time.Second
	clockStops = time.Minute
)

var errClock = errors.New("the clock of this node differs from the database's by more than a minute: set it")

// clockWrong returns an error while this node's clock is too far from the database's.
func (n *node) clockWrong() error {
	if n.clock.Ahead().Abs() > clockStops {
		return errClock
	}
	return nil
}

// watchClock logs when the difference between the clocks passes a limit, and when it is small again.
func watchClock(c *postgres.Clock, log *slog.Logger) {
	var was atomic.Int32
	c.OnMeasured(func(ahead time.Duration) {
		var is int32
		for _, limit := range []time.Duration{clockWarns, clockStops} {
			if ahead.Abs() > limit {
				is++
			}
		}
		if was.Swap(is) == is {
			return
		}
		by := slog.Duration("ahead", ahead)
		switch is {
		case 0:
			log.Info("the clock of this node agrees with the database's again", by)
		case 1:
			log.Warn("the clock of this node differs from the database's; times are corrected by that", by)
		default:
			log.Error("not ready, and drives no sagas", by, slog.Any("error", errClock))
		}
	})
}
