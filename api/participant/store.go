package participant

import (
	"context"
	"database/sql"
	"encoding/json"
	"fmt"
	"sync"
	"time"
)

// Store keeps what is known of calls. There are two: SQL and Memory.
type Store interface {
	// within calls f with what is known of a step, in a transaction that no other call of the step shares
	// its time with. If f reports true, what it has made of the step is stored; if it returns an error,
	// everything is rolled back and the error is returned. An error of the store before f is a *NotApplied.
	within(ctx context.Context, id string, now time.Time, f func(*sql.Tx, *step) (bool, error)) error
	// Purge forgets steps whose last call was before a time, and returns how many. A call that comes
	// after that is taken for a new one, so keep steps for longer than any saga may be open: months.
	Purge(ctx context.Context, before time.Time) (int64, error)
}

// Memory returns a store in memory, for tests: it forgets everything with the process.
func Memory() Store { return &memory{steps: map[string]remembered{}} }

type memory struct {
	mu    sync.Mutex
	steps map[string]remembered // guarded by mu
}

type remembered struct {
	state   string
	changed time.Time
}

// within needs no lock while f runs: calls of one step take turns in front of the store.
func (m *memory) within(_ context.Context, id string, now time.Time, f func(*sql.Tx, *step) (bool, error)) error {
	m.mu.Lock()
	before := m.steps[id].state
	m.mu.Unlock()
	s, err := decode(before)
	if err != nil {
		return err
	}
	save, err := f(nil, s)
	if err != nil || !save {
		return err
	}
	after, err := json.Marshal(s)
	if err != nil {
		return err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.steps[id] = remembered{string(after), now}
	return nil
}

func (m *memory) Purge(_ context.Context, before time.Time) (n int64, err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for id, s := range m.steps {
		if s.changed.Before(before) {
			delete(m.steps, id)
			n++
		}
	}
	return n, nil
}

func decode(state string) (*step, error) {
	s := &step{}
	if state == "" {
		return s, nil
	}
	if err := json.Unmarshal([]byte(state), s); err != nil {
		return nil, fmt.Errorf("participant: a row of skald_calls is not readable: %w", err)
	}
	return s, nil
}
