package postgres

import (
	"sync/atomic"
	"time"
)

// Clock is this node's estimate of the database's clock: the node's own clock, corrected by what
// the database's answers prove about the difference. Stored times come from the database's clock,
// so they must be compared with this clock. Participants also get times from this clock.
type Clock struct {
	own     func() time.Time
	behind  atomic.Int64 // offset that is added to own, in nanoseconds
	changed atomic.Pointer[func(ahead time.Duration)]
}

// NewClock returns a clock that agrees with own until a measurement proves that it does not.
func NewClock(own func() time.Time) *Clock { return &Clock{own: own} }

// Now returns the current time in UTC, in microseconds.
func (c *Clock) Now() time.Time {
	return c.own().Add(time.Duration(c.behind.Load())).UTC().Truncate(time.Microsecond)
}

// Ahead returns by how much the node's own clock is ahead of the database's. It is negative if the
// node's clock is behind.
func (c *Clock) Ahead() time.Duration { return -time.Duration(c.behind.Load()) }

// OnMeasured registers f, which is called after each measurement.
func (c *Clock) OnMeasured(f func(ahead time.Duration)) { c.changed.Store(&f) }

// Ask calls ask, which reads the database's clock once, and uses the result as a measurement.
func (c *Clock) Ask(ask func(there *time.Time) error) error {
	var there time.Time
	sent := c.own()
	err := ask(&there)
	if err == nil {
		c.measured(sent, there, c.own())
	}
	return err
}

// measured corrects the clock: at some moment between sent and answered, the database's clock
// showed the time there. The moment within that interval is unknown, so the clock is moved only as
// far as necessary, and a slow answer does not undo the precision of quicker ones.
func (c *Clock) measured(sent, there, answered time.Time) {
	least, most := there.Sub(answered), there.Sub(sent)
	if least > most {
		return // the node's own clock was set back in the meantime
	}
	behind := min(max(time.Duration(c.behind.Load()), least), most)
	c.behind.Store(int64(behind))
	if f := c.changed.Load(); f != nil {
		(*f)(-behind)
	}
}
