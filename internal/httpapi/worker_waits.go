package httpapi

import (
	"container/list"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/google/uuid"

	"github.com/skald-saga/skald/internal/fault"
	"github.com/skald-saga/skald/internal/jobrun"
)

// Claims that find nothing wait here. Those that would get the same runs (one
// tenant, the same queues, labels and commands) stand in one line. A hint that a
// queue has got runs wakes the first of each line that takes from it; one whose
// claim came back full wakes others of its line, since there may be more: so a
// thousand waiting workers cost one claim for one run, and not a thousand. What
// no hint told is found by the first of each line, who looks every second or two.

const (
	lookEvery = time.Second // and up to as much again
	wakeMore  = 2           // how many a full claim wakes
	maxKnown  = 10_000      // workers whose line is remembered
)

// lineID names a line.
type lineID struct {
	tenant uuid.UUID
	takes  string // queues, labels and commands
}

// waits is all lines of a node. Its zero value is not ready: see newWaits.
type waits struct {
	max int

	mu      sync.Mutex
	waiting int
	lines   map[lineID]*line
	known   map[knownWorker]kind
}

// knownWorker names a worker within its tenant.
type knownWorker struct{ tenant, id uuid.UUID }

// kind is what decides which runs a worker gets; it never changes.
type kind struct {
	queues []string
	rest   string // labels and commands
}

// line is the claims that would get the same runs, the one that came first in
// front.
type line struct {
	of     *waits
	id     lineID
	queues []string
	places *list.List // of *place: those that are not awake
	all    int        // those that are awake too
	look   *time.Timer
	missed bool // a hint came while nobody slept: who goes to sleep next looks once more
}

// place is one claim in a line.
type place struct {
	line  *line
	awake chan struct{} // capacity 1: it is to look
	at    *list.Element // nil: it is awake
}

func newWaits(most int) *waits {
	return &waits{max: most, lines: map[lineID]*line{}, known: map[knownWorker]kind{}}
}

// know remembers what a worker takes.
func (w *waits) know(p *jobrun.WorkerProcess) kind {
	k := kind{queues: p.Queues, rest: strings.Join(p.Labels, "\n") + "\r" + strings.Join(p.Commands, "\n")}
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.known) >= maxKnown {
		clear(w.known)
	}
	w.known[knownWorker{p.TenantID, p.ID}] = k
	return k
}

func (w *waits) kindOf(tenant, id uuid.UUID) (kind, bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	k, ok := w.known[knownWorker{tenant, id}]
	return k, ok
}

// enter takes a place for a claim by a worker of this kind; queues nil: all of its.
// leave must be called. Fault: Unavailable when too many wait.
func (w *waits) enter(tenant uuid.UUID, k kind, queues []string) (*place, error) {
	if queues == nil {
		queues = k.queues
	}
	id := lineID{tenant, strings.Join(queues, "\n") + "\r" + k.rest}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.waiting >= w.max {
		return nil, fault.New(fault.Unavailable, codeUnavailable, "%d claims wait on this node, more than that are not allowed", w.waiting)
	}
	w.waiting++
	l := w.lines[id]
	if l == nil {
		l = &line{of: w, id: id, queues: queues, places: list.New()}
		l.look = time.AfterFunc(pauseToLook(), l.lookAgain)
		w.lines[id] = l
	}
	l.all++
	p := &place{line: l, awake: make(chan struct{}, 1)}
	p.at = l.places.PushBack(p)
	return p, nil
}

func pauseToLook() time.Duration {
	return lookEvery + rand.N(lookEvery) //nolint:gosec // spreads load, guards nothing
}

// lookAgain has the first of the line look, and the line do so again.
func (l *line) lookAgain() {
	l.of.mu.Lock()
	defer l.of.mu.Unlock()
	if l.all == 0 {
		return
	}
	l.wake(1)
	l.look.Reset(pauseToLook())
}

// wake wakes the first n who sleep. The caller holds the lock.
func (l *line) wake(n int) {
	for ; n > 0; n-- {
		first := l.places.Front()
		if first == nil {
			l.missed = true
			return
		}
		p := l.places.Remove(first).(*place)
		p.at = nil
		p.awake <- struct{}{}
	}
}

// admitted wakes one of each line that takes from the queue.
func (w *waits) admitted(tenant uuid.UUID, queue string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for id, l := range w.lines {
		if id.tenant == tenant && slices.Contains(l.queues, queue) {
			l.wake(1)
		}
	}
}

// again puts a claim that was awake and found nothing at the end of its line.
func (p *place) again() {
	p.line.of.mu.Lock()
	defer p.line.of.mu.Unlock()
	l := p.line
	if p.at = l.places.PushBack(p); l.missed {
		l.missed = false
		l.wake(1)
	}
}

// leave gives the place up. full: the claim got all it asked for, so there may be
// more for others.
func (p *place) leave(full bool) {
	l := p.line
	l.of.mu.Lock()
	defer l.of.mu.Unlock()
	l.of.waiting--
	if l.all--; l.all == 0 {
		l.look.Stop()
		delete(l.of.lines, l.id)
		return
	}
	more := 0
	if p.at != nil {
		l.places.Remove(p.at)
	} else {
		select {
		case <-p.awake: // nobody has looked because of this hint
			more = 1
		default:
		}
	}
	if full {
		more = wakeMore
	}
	l.wake(more)
}
