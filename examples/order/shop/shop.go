// Package shop is the other side of a saga: three services that an order needs
// (inventory, payments, orders), and generic steps for workflows of any shape,
// behind one [http.Handler].
//
// Package api/participant keeps for it what an orchestrator relies on: a function of the shop does a
// step, or undoes it, and is called only if that is to be done. What is special here is that there is no
// database. Every call, with its request and its effect, is in an append-only ledger, on disk, before it
// is answered; the participant remembers in memory, and at the start the ledger's calls are made
// once more, each with the result that it had. With a database, participant.SQL replaces all of that.
//
// On request it mishandles calls, see [Faults] and the simulate field of a payload, to
// show how the orchestrator copes with that.
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

// Config says where a Shop keeps its ledger and how it behaves.
type Config struct {
	// Ledger is the path of the ledger file, created when absent. Required.
	Ledger string
	// Faults are the random faults of executes, UndoFaults those of compensates. With zero
	// values, only a payload can request a fault.
	Faults, UndoFaults Faults
	// Seed chooses the random faults. The same seed treats the same call (saga,
	// step, action, number of the call) in the same way, in whatever order
	// calls come. Zero is a seed like any other.
	Seed uint64
	// Log receives one debug line per call, and failures. Nil discards them.
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
// Which of a workflow's steps calls which path is the workflow's affair. Safe
// for concurrent use.
type Shop struct {
	cfg     Config
	mux     *http.ServeMux
	book    *ledger.Book
	closing chan struct{} // closed by Close; ends all pauses
	after   func(time.Duration) <-chan time.Time

	mu          sync.Mutex // keeps the ledger in the order of effects
	participant http.Handler
	calls       map[callID]int // guarded by mu: received so far
}

// Open opens the ledger and remembers what it says. Errors are an unreadable
// ledger or impossible faults.
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

// Close stores what was received and closes the ledger. Calls that are not
// answered by then are dropped, so stop the HTTP server first. Call it once.
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

// handle receives one call, decides it, and answers once the ledger holds it.
func (s *Shop) handle(to service, action ledger.Action) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		c, err := receive(w, r, to, action)
		if tooLarge := (*http.MaxBytesError)(nil); errors.As(err, &tooLarge) {
			write(w, problem(http.StatusRequestEntityTooLarge, "body_too_large"))
			return
		} else if err != nil {
			panic(http.ErrAbortHandler) // the call did not arrive whole, so there is none
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
			panic(http.ErrAbortHandler) // net/http closes the connection without a word
		case ledger.Delayed:
			if m.kind == slow && !s.pause(m.delay, r.Context().Done()) {
				panic(http.ErrAbortHandler)
			}
		}
		write(w, reply)
	}
}

// pause waits for d. It reports false when the shop closes or gone is closed
// before that.
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

// decide settles what c does, under the lock, and puts it in line for the
// ledger. The answer may be given once stored has returned nil.
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
		v = verdict{effect: ledger.None} // never looked at, so no status either
	default:
		// The participant remembers before the ledger does. No answer can leak out if storing fails: the
		// next entry stands behind this one in the book, and a book that failed once stores nothing more.
		v = s.judge(c)
	}
	entry = c.entry(v, c.fault.reply(v.answer.status))
	if entry.Reply == ledger.Garbage {
		v.answer.body = garbage
	}
	return entry, v.answer, s.book.Append(entry)
}
