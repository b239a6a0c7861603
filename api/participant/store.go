package participant

import (
	"context"
	"database/sql"
	"encoding/json"
	"fmt"
	"maps"
	"sync"
	"time"
)

// Store keeps what is known of calls. There are two: SQL and Memory.
type Store interface {
	// within calls f with what is known of a step, in a transaction that no other call of the step shares
	// its time with. If f reports true, what it has made of the step is stored; if it returns an error,
	// everything is rolled back and the error is returned. An error of the store before f is a *NotApplied.
	within(ctx context.Context, id string, now time.Time, f func(*sql.Tx, *step) (bool, error)) error
	// name remembers, in the transaction of within, which step the key of a call that is answered later is of. named
	// returns it, or ErrNotPending, in a transaction if tx is not nil.
	name(ctx context.Context, tx *sql.Tx, key, id string, now time.Time) error
	named(ctx context.Context, tx *sql.Tx, key string) (id string, err error)
	// join is within, in a transaction that the caller commits. f is called with the step locked.
	join(ctx context.Context, tx *sql.Tx, id string, now time.Time, f func(*step) error) error
	// look returns what is known of a step, without a lock.
	look(ctx context.Context, id string) (*step, error)
	// Purge forgets steps whose last call was before a time, and returns how many. A call that comes
	// after that is taken for a new one, so keep steps for longer than any saga may be open: months.
	Purge(ctx context.Context, before time.Time) (int64, error)
}

// Memory returns a store in memory, for tests: it forgets everything with the process.
func Memory() Store { return &memory{steps: map[string]remembered{}, keys: map[string]string{}} }

type memory struct {
	mu    sync.Mutex
	steps map[string]remembered // guarded by mu
	keys  map[string]string     // of calls that are answered later: their steps; guarded by mu
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

func (m *memory) name(_ context.Context, _ *sql.Tx, key, id string, _ time.Time) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.keys[key] = id
	return nil
}

func (m *memory) named(_ context.Context, _ *sql.Tx, key string) (string, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if id, found := m.keys[key]; found {
		return id, nil
	}
	return "", ErrNotPending
}

func (m *memory) join(
	ctx context.Context, _ *sql.Tx, id string, now time.Time, f func(*step) error,
) error {
	return m.within(ctx, id, now, func(_ *sql.Tx, s *step) (bool, error) { return true, f(s) })
}

func (m *memory) look(_ context.Context, id string) (*step, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return decode(m.steps[id].state)
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
	maps.DeleteFunc(m.keys, func(_, id string) bool { _, found := m.steps[id]; return !found })
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
