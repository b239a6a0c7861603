package loop

import (
	"cmp"
	"slices"
	"sync"
	"time"
)

// Watchdog records when each loop last finished a round, and which loops are late. It is safe for
// concurrent use.
type Watchdog struct {
	now func() time.Time

	mu    sync.Mutex
	loops map[string]*watched // guarded by mu
}

type watched struct {
	limit time.Duration
	vital bool
	last  time.Time
}

// Late is a loop that has not finished a round within its limit.
type Late struct {
	Name  string
	Since time.Duration // since the end of the last round, or since watching began
	Vital bool          // the node cannot work without this loop
}

// Round is the last round of a loop.
type Round struct {
	Name          string
	LastSuccessAt time.Time     // or when watching began
	Limit         time.Duration // limit for finishing the next one
	Late, Vital   bool
}

// NewWatchdog returns a watchdog that does not watch any loops yet.
func NewWatchdog(now func() time.Time) *Watchdog {
	return &Watchdog{now: now, loops: map[string]*watched{}}
}

// Watch makes the watchdog expect that the loop finishes a round within each limit from now on.
func (w *Watchdog) Watch(name string, limit time.Duration, vital bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.loops[name] = &watched{limit: limit, vital: vital, last: w.now()}
}

// Done records that the loop has finished a round. Loops that are not watched are
// ignored.
func (w *Watchdog) Done(name string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if l := w.loops[name]; l != nil {
		l.last = w.now()
	}
}

// Late returns the loops that are late, sorted by name.
func (w *Watchdog) Late() (out []Late) {
	now := w.now()
	for _, r := range w.Rounds() {
		if r.Late {
			out = append(out, Late{Name: r.Name, Since: now.Sub(r.LastSuccessAt), Vital: r.Vital})
		}
	}
	return out
}

// Rounds returns the last round of every loop, sorted by name.
func (w *Watchdog) Rounds() []Round {
	w.mu.Lock()
	defer w.mu.Unlock()
	out := make([]Round, 0, len(w.loops))
	now := w.now()
	for name, l := range w.loops {
		out = append(out, Round{
			Name: name, LastSuccessAt: l.last, Limit: l.limit, Late: now.Sub(l.last) > l.limit, Vital: l.vital,
		})
	}
	slices.SortFunc(out, func(a, b Round) int { return cmp.Compare(a.Name, b.Name) })
	return out
}
