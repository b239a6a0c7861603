package postgres

import (
	"sync/atomic"
	"time"
)

// Clock is the database's clock as far as this node knows it: the node's own clock, corrected by
// what answers of the database have proven about their difference. Times that are stored were
// written by the database's clock, so this is the clock to compare them with, and the one whose
// times participants get.
type Clock struct {
	own     func() time.Time
	behind  atomic.Int64 // what is added to own, in nanoseconds
	changed atomic.Pointer[func(ahead time.Duration)]
}

// NewClock returns a clock that agrees with own until a measurement proves that it does not.
func NewClock(own func() time.Time) *Clock { return &Clock{own: own} }

// Now is the time, in UTC and microseconds.
func (c *Clock) Now() time.Time {
	return c.own().Add(time.Duration(c.behind.Load())).UTC().Truncate(time.Microsecond)
}

// Ahead is by how much the node's own clock is ahead of the database's, negative when it is behind.
func (c *Clock) Ahead() time.Duration { return -time.Duration(c.behind.Load()) }

// OnMeasured has f called after each measurement.
func (c *Clock) OnMeasured(f func(ahead time.Duration)) { c.changed.Store(&f) }

// Ask calls ask, which reads the database's clock once, and measures with it.
func (c *Clock) Ask(ask func(there *time.Time) error) error {
	var there time.Time
	sent := c.own()
	err := ask(&there)
	if err == nil {
		c.measured(sent, there, c.own())
	}
	return err
}

// measured corrects the clock: the database's clock showed there at some moment between sent and
// answered. Within that the answer proves nothing, so the clock moves only as far as it must, and a
// slow answer does not disturb what quicker ones have shown.
func (c *Clock) measured(sent, there, answered time.Time) {
	least, most := there.Sub(answered), there.Sub(sent)
	if least > most {
		return // the own clock was set back meanwhile
	}
	behind := min(max(time.Duration(c.behind.Load()), least), most)
	c.behind.Store(int64(behind))
	if f := c.changed.Load(); f != nil {
		(*f)(-behind)
	}
}
