// Package jobqueue queues claims that found no run. Each of them is woken, in order of arrival,
// when there may be a run for it. The package's Hub carries the hints that wake claims and those
// that wake the leader.
package jobqueue

import (
	"container/list"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/google/uuid"

	"github.com/skald-saga/skald/internal/jobrun"
	"github.com/skald-saga/skald/internal/loop"
)

// Claims that find nothing wait here. Claims that would get the same runs (one tenant, and the same
// queues, labels and commands) wait in one line. A hint that a queue has new runs wakes the first
// claim of each line that serves this queue. A claim that got all the runs it requested wakes
// others in its line, because there may be more runs. So with a thousand waiting workers, one run
// costs one claim instead of a thousand. The first claim of each line polls every second or two,
// and thereby finds runs for which there was no hint.

const (
	lookEvery = 1500 * time.Millisecond
	wakeMore  = 2      // how many claims are woken by a claim that got all it requested
	maxKnown  = 10_000 // number of workers whose line is cached
)

// lineID identifies a line.
type lineID struct {
	tenant uuid.UUID
	takes  string // queues, labels and commands
}

// Waits holds all lines of a node. Create it with New.
type Waits struct {
	Max int
	// alive stores heartbeats of workers whose claims wait. It is called without the lock.
	alive func(tenant uuid.UUID, workers []uuid.UUID)

	mu      sync.Mutex
	waiting int
	lines   map[lineID]*line
	known   map[knownWorker]Kind
	seen    map[knownWorker]time.Time // when this node last stored a heartbeat of a worker
	every   time.Duration             // interval of storing heartbeats
}

// knownWorker identifies a worker within its tenant.
type knownWorker struct{ tenant, id uuid.UUID }

// Kind determines which runs a worker gets. The kind of a worker never changes.
type Kind struct {
	Queues []string
	rest   string // labels and commands
}

// line holds the claims that would get the same runs, in order of arrival.
type line struct {
	of       *Waits
	id       lineID
	queues   []string
	sleeping *list.List           // of *waiter: the sleeping ones
	all      map[*waiter]struct{} // including those that are awake
	noted    time.Time            // when heartbeats were last stored
	look     *time.Timer
	missed   bool // a hint arrived while no claim was sleeping: the next one to sleep polls once more first
}

// waiter is one claim in a line.
type waiter struct {
	line    *line
	worker  uuid.UUID     // the worker
	Awake   chan struct{} // capacity 1: it must poll
	element *list.Element // nil: the waiter is awake
}

// New returns a queue for at most most waiting claims; alive stores heartbeats.
func New(most int, alive func(uuid.UUID, []uuid.UUID)) *Waits {
	return &Waits{Max: most, alive: alive, lines: map[lineID]*line{}, known: map[knownWorker]Kind{},
		seen: map[knownWorker]time.Time{}}
}

// Know caches the kind of a worker.
func (w *Waits) Know(p *jobrun.WorkerProcess) Kind {
	k := Kind{Queues: p.Queues, rest: strings.Join(p.Labels, "\n") + "\r" + strings.Join(p.Commands, "\n")}
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.known) >= maxKnown {
		clear(w.known)
	}
	w.known[knownWorker{p.TenantID, p.ID}] = k
	return k
}

// KindOf returns the kind of a worker, if it is cached.
func (w *Waits) KindOf(tenant, id uuid.UUID) (Kind, bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	k, ok := w.known[knownWorker{tenant, id}]
	return k, ok
}

// HeartbeatDue reports whether the last stored heartbeat of a worker is at least as old as every.
func (w *Waits) HeartbeatDue(tenant, id uuid.UUID, every time.Duration) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.every = every
	return time.Since(w.seen[knownWorker{tenant, id}]) >= every
}

// NoteHeartbeat records that a heartbeat of a worker has just been stored.
func (w *Waits) NoteHeartbeat(tenant, id uuid.UUID) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.seen) >= maxKnown {
		clear(w.seen)
	}
	w.seen[knownWorker{tenant, id}] = time.Now()
}

// Enter queues a claim by a worker of this kind; nil queues means all queues of the worker. ok is
// false if the queue is full; otherwise the caller must call Leave.
func (w *Waits) Enter(tenant, worker uuid.UUID, k Kind, queues []string) (*waiter, bool) {
	if queues == nil {
		queues = k.Queues
	}
	id := lineID{tenant, strings.Join(queues, "\n") + "\r" + k.rest}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.waiting >= w.Max {
		return nil, false
	}
	w.waiting++
	l := w.lines[id]
	if l == nil {
		l = &line{of: w, id: id, queues: queues, sleeping: list.New(), all: map[*waiter]struct{}{}, noted: time.Now()}
		l.look = time.AfterFunc(w.pauseToLook(), l.lookAgain)
		w.lines[id] = l
	}
	p := &waiter{line: l, worker: worker, Awake: make(chan struct{}, 1)}
	l.all[p] = struct{}{}
	p.element = l.sleeping.PushBack(p)
	return p, true
}

// pauseToLook is the interval between two polls, at most as long as a worker may be silent. The
// caller holds the lock.
func (w *Waits) pauseToLook() time.Duration {
	pause := loop.Jittered(lookEvery)
	if w.every > 0 {
		pause = min(pause, w.every)
	}
	return pause
}

// lookAgain repeatedly makes the first claim of the line poll. Workers whose claims wait here count
// as alive.
func (l *line) lookAgain() {
	if waiting := l.lookNow(); len(waiting) > 0 {
		l.of.alive(l.id.tenant, waiting)
	}
}

// lookNow returns the workers whose heartbeat is due.
func (l *line) lookNow() (waiting []uuid.UUID) {
	l.of.mu.Lock()
	defer l.of.mu.Unlock()
	if len(l.all) == 0 {
		return nil
	}
	l.wake(1)
	l.look.Reset(l.of.pauseToLook())
	if time.Since(l.noted) < l.of.every {
		return nil
	}
	l.noted = time.Now()
	for p := range l.all {
		waiting = append(waiting, p.worker)
	}
	return waiting
}

// wake wakes the first n sleeping waiters. The caller holds the lock.
func (l *line) wake(n int) {
	for ; n > 0; n-- {
		first := l.sleeping.Front()
		if first == nil {
			l.missed = true
			return
		}
		p := l.sleeping.Remove(first).(*waiter)
		p.element = nil
		p.Awake <- struct{}{}
	}
}

// Admitted wakes one claim of each line that serves the queue.
func (w *Waits) Admitted(tenant uuid.UUID, queue string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for id, l := range w.lines {
		if id.tenant == tenant && slices.Contains(l.queues, queue) {
			l.wake(1)
		}
	}
}

// Requeue moves a claim that was woken but found no run to the end of its line.
func (p *waiter) Requeue() {
	p.line.of.mu.Lock()
	defer p.line.of.mu.Unlock()
	l := p.line
	if p.element = l.sleeping.PushBack(p); l.missed {
		l.missed = false
		l.wake(1)
	}
}

// Leave removes the claim. full reports that the claim got all it requested, so that there may be
// more runs for others.
func (p *waiter) Leave(full bool) {
	l := p.line
	l.of.mu.Lock()
	defer l.of.mu.Unlock()
	l.of.waiting--
	if delete(l.all, p); len(l.all) == 0 {
		l.look.Stop()
		delete(l.of.lines, l.id)
		return
	}
	more := 0
	if p.element != nil {
		l.sleeping.Remove(p.element)
	} else {
		select {
		case <-p.Awake: // the hint was not used
			more = 1
		default:
		}
	}
	if full {
		more = wakeMore
	}
	l.wake(more)
}
