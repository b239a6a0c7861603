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

// Store keeps the state of calls. There are two implementations: SQL and Memory.
type Store interface {
	// within calls f with the state of a step, in a transaction that excludes other calls of the
	// step. If f returns true, the changed state is stored. If f returns an error, everything is
	// rolled back and the error is returned. An error of the store before f is called is a
	// *NotApplied.
	within(ctx context.Context, id string, now time.Time, f func(*sql.Tx, *step) (bool, error)) error
	// name records which step the key of a deferred call belongs to, in the transaction of within.
	// named returns that step, or ErrNotPending; it reads in tx unless tx is nil.
	name(ctx context.Context, tx *sql.Tx, key, id string, now time.Time) error
	named(ctx context.Context, tx *sql.Tx, key string) (id string, err error)
	// join is like within, but runs in a transaction that the caller commits. f is called with the
	// step locked.
	join(ctx context.Context, tx *sql.Tx, id string, now time.Time, f func(*step) error) error
	// look returns the state of a step without locking it.
	look(ctx context.Context, id string) (*step, error)
	// Purge deletes steps whose last call was before the given time, and returns how many it
	// deleted. A call that arrives after that counts as new, so keep steps for longer than any saga
	// may stay open, that is for months.
	Purge(ctx context.Context, before time.Time) (int64, error)
}

// Memory returns an in-memory store for tests. Its contents are lost when the process ends.
func Memory() Store { return &memory{steps: map[string]remembered{}, keys: map[string]string{}} }

type memory struct {
	mu    sync.Mutex
	steps map[string]remembered // guarded by mu
	keys  map[string]string     // steps of deferred calls, by key; guarded by mu
}

type remembered struct {
	state   string
	changed time.Time
}

// within needs no lock while f runs, because the calls of a step take turns before they reach the
// store.
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
