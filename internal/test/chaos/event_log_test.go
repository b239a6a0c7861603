package chaos

import (
	"fmt"
	"os"
	"sync"
	"time"

	"github.com/skald-saga/skald/examples/order/ledger"
)

// clockFormat is the format of times in reports: UTC with microseconds.
const clockFormat = "15:04:05.000000"

// note is one event: an action on the system or an observation of it.
type note struct {
	at   time.Time
	text string
}

// eventLog records what happened in a run other than to sagas: kills, stops and restarts. It is
// also written to a file, in case the test process dies.
type eventLog struct {
	mu    sync.Mutex
	file  *os.File
	notes []note     // guarded by mu
	stops []interval // guarded by mu: periods in which a node was stopped with SIGSTOP
}

type interval struct{ from, to time.Time }

func openEventLog(path string) (*eventLog, error) {
	f, err := os.Create(path)
	return &eventLog{file: f}, err
}

func (d *eventLog) write(format string, args ...any) {
	n := note{time.Now().UTC(), fmt.Sprintf(format, args...)}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.notes = append(d.notes, n)
	fmt.Fprintf(d.file, "%s %s\n", n.at.Format(clockFormat), n.text)
}

func (d *eventLog) stopped(i interval) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.stops = append(d.stops, i)
}

// between returns the notes from a period.
func (d *eventLog) between(from, to time.Time) []note {
	d.mu.Lock()
	defer d.mu.Unlock()
	var out []note
	for _, n := range d.notes {
		if !n.at.Before(from) && !n.at.After(to) {
			out = append(out, n)
		}
	}
	return out
}

// findings collects the broken promises of a run.
type findings struct {
	mu    sync.Mutex
	found []ledger.Violation // guarded by mu
}

func (f *findings) add(invariant, saga, step, format string, args ...any) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.found = append(
		f.found,
		ledger.Violation{Invariant: invariant, Saga: saga, Step: step, Detail: fmt.Sprintf(format, args...)},
	)
}

func (f *findings) addAll(more []ledger.Violation) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.found = append(f.found, more...)
}

func (f *findings) all() []ledger.Violation {
	f.mu.Lock()
	defer f.mu.Unlock()
	return append([]ledger.Violation(nil), f.found...)
}
