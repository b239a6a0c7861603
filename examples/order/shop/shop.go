// Package shop is the participant side of a saga: three services that an order needs (inventory,
// payments, orders), and generic steps for workflows of any shape, behind one [http.Handler].
//
// Package api/participant implements the guarantees that an orchestrator relies on: it calls a
// function of the shop only if a step must be done or undone. This shop is special in that it has
// no database. Every call is stored on disk, with its request and its effect, in an append-only
// ledger before it is answered. The participant keeps its state in memory and, at the start,
// replays the calls of the ledger with their original results. With a database, participant.SQL
// replaces all of that.
//
// On request it mishandles calls, to show how the orchestrator copes; see [Faults] and the simulate
// field of a payload.
package shop

import (
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"sync"
	"time"

	"github.com/skald-saga/skald/examples/order/ledger"
)

// maxBody is the largest request body accepted, in bytes.
const maxBody = 16 << 20

// Config configures where a Shop stores its ledger and how it behaves.
type Config struct {
	// Ledger is the path of the ledger file, created if missing. Required.
	Ledger string
	// Faults are the random faults of executes, and UndoFaults those of compensates. With zero
	// values, faults occur only if a payload requests them.
	Faults, UndoFaults Faults
	// Seed chooses the random faults. With the same seed, the same call (saga, step, action, number
	// of the call) gets the same fault, regardless of the order of calls. Zero is a valid seed.
	Seed uint64
	// Log receives one debug line per call, and all failures. Nil discards them.
	Log *slog.Logger
	// Now is the clock of the ledger; nil means time.Now.
	Now func() time.Time
}

// Shop serves
//
//	POST /reservations       POST /reservations/cancel    inventory
//	POST /charges            POST /charges/refund         payments
//	POST /orders/confirm     POST /orders/cancel          orders
//	POST /steps/{name}       POST /steps/{name}/undo      any other step
//	GET  /healthz
//
// The workflow decides which of its steps call which path. A Shop is safe for concurrent use.
type Shop struct {
	cfg     Config
	mux     *http.ServeMux
	book    *ledger.Book
	closing chan struct{} // closed by Close; ends all pauses
	after   func(time.Duration) <-chan time.Time

	mu          sync.Mutex // keeps the ledger in the order of effects
	participant http.Handler
	calls       map[callID]int // guarded by mu: calls received so far
}

// Open opens the ledger and restores the state that it describes. It fails if the ledger is
// unreadable or the faults are invalid.
func Open(cfg Config) (*Shop, error) {
	for name, m := range map[string]Faults{"faults": cfg.Faults, "undo faults": cfg.UndoFaults} {
		if err := m.validate(); err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
	}
	if cfg.UndoFaults.Refuse != 0 {
		return nil, fmt.Errorf("undo faults: refuse = %g, but a compensate is never refused", cfg.UndoFaults.Refuse)
	}
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	book, entries, err := ledger.Open(cfg.Ledger)
	if err != nil {
		return nil, err
	}
	s := &Shop{cfg: cfg, book: book, closing: make(chan struct{}), after: time.After, calls: map[callID]int{}}
	s.mux = s.routes()
	s.participant, err = newParticipant()
	for _, e := range entries {
		if err == nil {
			err = s.recall(e)
		}
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("ledger %s: %w", cfg.Ledger, err), book.Close())
	}
	return s, nil
}

// Close stores the received calls and closes the ledger. Calls that have not been answered by then
// are dropped, so stop the HTTP server first. Call it only once.
func (s *Shop) Close() error {
	close(s.closing)
	return s.book.Close()
}

// ServeHTTP answers one call.
func (s *Shop) ServeHTTP(w http.ResponseWriter, r *http.Request) { s.mux.ServeHTTP(w, r) }

func (s *Shop) routes() *http.ServeMux {
	mux := http.NewServeMux()
	for _, r := range []struct {
		path, undoPath string
		service        service
	}{
		{"/reservations", "/reservations/cancel", inventory},
		{"/charges", "/charges/refund", payments},
		{"/orders/confirm", "/orders/cancel", orders},
		{"/steps/{name}", "/steps/{name}/undo", anyStep},
	} {
		mux.HandleFunc("POST "+r.path, s.handle(r.service, ledger.Execute))
		mux.HandleFunc("POST "+r.undoPath, s.handle(r.service, ledger.Compensate))
	}
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) {
		write(w, answer{status: http.StatusOK, body: []byte(`{"status":"ok"}`)})
	})
	return mux
}

// handle receives one call, decides it, and answers after the ledger has stored it.
func (s *Shop) handle(to service, action ledger.Action) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		c, err := receive(w, r, to, action)
		if tooLarge := (*http.MaxBytesError)(nil); errors.As(err, &tooLarge) {
			write(w, problem(http.StatusRequestEntityTooLarge, "body_too_large"))
			return
		} else if err != nil {
			panic(http.ErrAbortHandler) // the call did not arrive completely, so there is none
		}
		c.seq, c.at = s.book.Arrive(), s.cfg.Now().UTC()
		c.fault = s.faultOf(c)
		m := c.fault
		if m.kind == late && !s.pause(m.delay, nil) {
			panic(http.ErrAbortHandler)
		}
		entry, reply, stored := s.decide(c)
		if err := stored(); err != nil {
			s.cfg.Log.ErrorContext(r.Context(), "the ledger entry was not stored", slog.Any("error", err))
			write(w, problem(http.StatusInternalServerError, "ledger_unavailable"))
			return
		}
		s.cfg.Log.DebugContext(r.Context(), "call decided",
			slog.String("participant", to.name), slog.String("saga_id", c.saga), slog.String("step", c.step),
			slog.String("action", string(action)), slog.Int("attempt", c.attempt),
			slog.String("effect", string(entry.Effect)), slog.String("reply", string(entry.Reply)))
		switch entry.Reply {
		case ledger.Dropped:
			panic(http.ErrAbortHandler) // net/http closes the connection without a response
		case ledger.Delayed:
			if m.kind == slow && !s.pause(m.delay, r.Context().Done()) {
				panic(http.ErrAbortHandler)
			}
		}
		write(w, reply)
	}
}

// pause waits for d. It returns false if the shop closes or gone is closed before that.
func (s *Shop) pause(d time.Duration, gone <-chan struct{}) bool {
	select {
	case <-s.after(d):
		return true
	case <-gone:
		return false
	case <-s.closing:
		return false
	}
}

// decide determines the effect of c under the lock and queues it for the ledger. The answer may be
// sent once stored has returned nil.
func (s *Shop) decide(c *call) (entry ledger.Entry, reply answer, stored func() error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	var v verdict
	switch c.fault.kind {
	case failure:
		v = verdict{ledger.None, problem(http.StatusInternalServerError, "simulated_failure")}
	case unavailable:
		v = verdict{ledger.None, problem(http.StatusServiceUnavailable, "simulated_overload")}
		v.answer.retryAfter = &c.fault.delay
	case dropRequest:
		v = verdict{effect: ledger.None} // never processed, so there is no status either
	default:
		// The participant changes its state before the ledger does. No answer can leak if storing
		// fails: the next entry is behind this one in the book, and a book stores nothing more
		// after its first failure.
		v = s.judge(c)
	}
	entry = c.entry(v, c.fault.reply(v.answer.status))
	if entry.Reply == ledger.Garbage {
		v.answer.body = garbage
	}
	return entry, v.answer, s.book.Append(entry)
}
