package app

import (
	"errors"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/skald-saga/skald/internal/postgres"
)

// Limits for the difference between a node's clock and the database's. Beyond the first, the
// difference is logged. Beyond the second, the node does not drive sagas and is not ready. Between
// the two, times are still right because they are corrected. A clock that is off by more is
// probably not synchronized at all, and certificates, tokens and logs depend on it.
const (
	clockWarns = time.Second
	clockStops = time.Minute
)

var errClock = errors.New("the clock of this node differs from the database's by more than a minute: correct it")

// clockWrong returns an error while this node's clock is too far from the database's.
func (n *node) clockWrong() error {
	if n.clock.Ahead().Abs() > clockStops {
		return errClock
	}
	return nil
}

// watchClock logs when the difference between the clocks exceeds a limit, and when it is small again.
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
			log.Warn("the clock of this node differs from the database's; times are corrected by the difference", by)
		default:
			log.Error("this node is not ready and drives no sagas", by, slog.Any("error", errClock))
		}
	})
}
