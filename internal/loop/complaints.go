package loop

import (
	"sync"
	"time"
)

// Complaints decides when to repeat the log message for a problem that a loop finds in every round
// and that only a person can fix, such as a damaged row. It repeats the message at intervals that
// double from a second to a minute. The zero value is ready for use by any number of goroutines.
type Complaints struct {
	mu sync.Mutex
	of map[string]complaint
}

type complaint struct {
	next   time.Time
	length time.Duration
}

const (
	firstComplaint  = time.Second
	rarestComplaint = time.Minute
	maxComplaints   = 10_000 // maximum number of problems remembered; beyond it, all start over
)

// Due reports whether to log the problem that about identifies at the time now.
func (c *Complaints) Due(about string, now time.Time) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	last, known := c.of[about]
	if known && now.Before(last.next) {
		return false
	}
	if c.of == nil || len(c.of) >= maxComplaints {
		c.of = map[string]complaint{}
	}
	length := min(max(2*last.length, firstComplaint), rarestComplaint)
	c.of[about] = complaint{now.Add(length), length}
	return true
}
