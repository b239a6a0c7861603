package participant

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"net/http"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// crashes wraps a store that fails at a chosen moment: before the commit, when everything is rolled
// back, or after it, when the answer is not sent.
type crashes struct {
	Store
	before, after bool
}

var errCrash = errors.New("crashed")

func (c *crashes) within(ctx context.Context, id string, now time.Time, f func(*sql.Tx, *step) (bool, error)) error {
	err := c.Store.within(ctx, id, now, func(tx *sql.Tx, s *step) (bool, error) {
		save, err := f(tx, s)
		if c.before && err == nil {
			return false, errCrash
		}
		return save, err
	})
	if c.after && err == nil {
		return errCrash
	}
	return err
}

// place is the store and the effects of a played sequence.
type place struct {
	store Store
	db    *sql.DB // nil means in memory
	// effect applies the effect of a call or takes it back; effects returns the number of effects
	// of a saga.
	effect  func(ctx context.Context, tx *sql.Tx, c *Call, by int) error
	effects func(saga string) int
}

func inMemory() place {
	effects := 0
	return place{
		store: Memory(),
		effect: func(_ context.Context, _ *sql.Tx, c *Call, by int) error {
			c.AfterCommit(func() { effects += by })
			return nil
		},
		effects: func(string) int { return effects },
	}
}

// model is the plain rule for one step in terms of what happened, without keys and rows.
type model struct {
	execute map[int]string // the answer of each answered run, starting with its first
	undo    map[int]string
	waits   map[Action]map[int]promise // runs that were answered with Later
	fence   int64
	held    bool // whether there is an effect
	newest  int  // newest run that reached the function
	blocked int  // runs up to this one must no longer be done
	effects int  // net number of effects
}

// want returns the expected answer to an arriving call, or "" if the function decides.
func (m *model) want(c *Call) (answer string) {
	known := m.execute
	if c.Action == Compensate {
		known = m.undo
	}
	_, waits := m.waits[c.Action][c.run]
	switch {
	case c.Fence < m.fence:
		return "409"
	case known[c.run] != "":
		return known[c.run]
	case c.Action == Execute && m.late(c.run):
		return "409"
	case waits:
		return `202{"later":true}`
	case len(m.waits[Compensate]) > 0:
		return "425"
	case c.Action == Compensate && !m.held && !m.begun():
		return "200{}"
	}
	return ""
}

// came records a call that has reached the function, or does not need it, whatever its outcome.
func (m *model) came(c *Call) {
	m.fence = max(m.fence, c.Fence)
	switch {
	case c.Action == Execute:
		m.newest = c.run
	case m.held || m.begun() || m.newest > m.blocked:
		m.blocked = max(m.blocked, m.newest)
	default: // it was for a run that never arrived
		m.blocked++
	}
	if c.Action == Compensate && !m.held && !m.begun() {
		m.blocked = max(m.blocked, c.run)
	}
}

// happened records a call that was committed with an answer; called means that the function gave
// it.
func (m *model) happened(c *Call, answer string, called, refused bool) {
	m.came(c)
	switch {
	case answer == `202{"later":true}`:
		m.waits[c.Action][c.run] = promise{callback: c.Callback, attempt: c.Attempt}
	case c.Action == Execute:
		m.execute[c.run] = answer
		if !refused {
			m.held = true
			m.effects++
		}
	case !refused:
		m.undone(c.run, answer)
	}
}

// Calls of one step arrive in any order, any number of times, with crashes at every write. The
// answers and the number of effects must match the model.
func TestRandomSequences(t *testing.T) {
	sequences, calls := 0, 0
	rapid.Check(t, func(t *rapid.T) {
		for range 100 {
			sequences++
			calls += play(t, inMemory(), "s")
		}
	})
	t.Logf("%d sequences, %d calls", sequences, calls)
}

func play(t *rapid.T, at place, saga string) (calls int) {
	store := &crashes{Store: at.store}
	serial, refuses, fails, later := 0, false, false, false
	called := false
	function := func(ctx context.Context, tx *sql.Tx, c *Call) (any, error) {
		called = true
		serial++
		by := 1
		if c.Action == Compensate {
			by = -1
		}
		if later || by < 0 && c.Header.Get("held") == "" {
			by = 0
		}
		if err := at.effect(ctx, tx, c, by); err != nil { // rolled back if the call fails or refuses
			return nil, err
		}
		switch {
		case fails:
			return nil, errors.New("failed")
		case refuses:
			return nil, Refuse("NO", fmt.Sprint(serial))
		case later:
			return Later, nil
		}
		return serial, nil
	}
	h, err := New(Config{Store: store, Execute: function, Compensate: function, Cancel: function})
	if err != nil {
		t.Fatal(err)
	}
	m := newModel()
	for range rapid.IntRange(1, 12).Draw(t, "calls") {
		calls++
		if rapid.IntRange(0, 4).Draw(t, "end") == 0 {
			store.before, store.after = false, false
			playEnd(t, at, h, m, saga)
			continue
		}
		c := &Call{
			Saga: saga, Step: "x", digest: "d", Attempt: rapid.IntRange(1, 3).Draw(t, "attempt"), Header: http.Header{},
			Action: rapid.SampledFrom([]Action{Execute, Execute, Compensate}).Draw(t, "action"),
			run:    rapid.SampledFrom([]int{1, 1, 1, 2, 3}).Draw(t, "run"),
			Fence:  rapid.SampledFrom([]int64{1, 2, 2, 3}).Draw(t, "fence"),
		}
		c.Key = fmt.Sprintf("%s/x/%s#%d", saga, c.Action, c.run)
		how := rapid.SampledFrom([]string{"", "", "", "later", "later", "refuse", "fail", "before", "after"}).Draw(t, "how")
		c.Callback = fmt.Sprintf("http://skald/%d", calls)
		if m.held {
			c.Header.Set("held", "true")
		}
		later = how == "later"
		refuses, fails, store.before, store.after = how == "refuse", how == "fail", how == "before", how == "after"
		called = false
		want := m.want(c)
		answer, err := h.answer(t.Context(), c)
		got := fmt.Sprint(answer.Status) + answer.Body
		late := want == "409" || want == "425"
		if store.after && errors.Is(err, errCrash) {
			for _, f := range c.committed { // the effect was committed; only the process is gone
				f()
			}
			store.after = false
			again := *c
			again.committed = nil
			if answer, err = h.answer(t.Context(), &again); err != nil { // the commit is not lost
				t.Fatalf("%+v repeated after a crash: %v", c, err)
			}
			got = fmt.Sprint(answer.Status) + answer.Body
		}
		if err == nil {
			m.fence = max(m.fence, c.Fence) // even of a call that is refused
		}
		switch {
		case err != nil:
			if how != "fail" && how != "before" {
				t.Fatalf("%+v %s: %v", c, how, err)
			}
			if called && how == "fail" {
				m.came(c)
			}
			continue // nothing else has happened
		case late && fmt.Sprint(answer.Status) != want, !late && want != "" && got != want:
			t.Fatalf("%+v %s: %s; want %s", c, how, got, want)
		case called && want != "":
			t.Fatalf("%+v %s: the function was called", c, how)
		case !late:
			if want == "" || want == "200{}" && m.undo[c.run] == "" {
				m.happened(c, got, want == "", refuses && want == "")
			}
			m.repeated(c)
		}
		if effects := at.effects(saga); effects != m.effects || effects < 0 {
			t.Fatalf("%+v %s: %d effects; want %d", c, how, effects, m.effects)
		}
	}
	return calls
}
