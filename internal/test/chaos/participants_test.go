package chaos

import (
	"context"
	"errors"
	"net"
	"net/http"
	"path/filepath"
	"sync"
	"time"

	"github.com/skald-saga/skald/examples/order/ledger"
	"github.com/skald-saga/skald/examples/order/shop"
	"github.com/skald-saga/skald/internal/test/testnet"
)

// participants serves all sagas: it is one shop in this process, which survives the kills and is
// itself restarted from its ledger now and then.
type participants struct {
	addr    string
	cfg     shop.Config
	witness *witness
	gateway *gateway // nil: no gateway
	before  func(http.Handler) http.Handler

	mu     sync.Mutex
	shop   *shop.Shop   // guarded by mu; nil while it is down
	server *http.Server // guarded by mu
}

// pauses is the longest time by which a participant delays a call.
const pauses = 400 * time.Millisecond

// unreliable returns faults that give about one call in five an unknown outcome.
func unreliable(dir string, seed uint64) shop.Config {
	return shop.Config{
		Ledger: filepath.Join(dir, "ledger.jsonl"), Seed: seed,
		Faults: shop.Faults{
			Failure: 0.04, Unavailable: 0.01, DropRequest: 0.03, DropReply: 0.05, Garbage: 0.03, Slow: 0.10, Late: 0.03,
			Refuse: 0.03, MaxDelay: pauses, RetryAfter: time.Second,
		},
		UndoFaults: shop.Faults{
			Failure: 0.06, DropRequest: 0.03, DropReply: 0.06, Garbage: 0.03, Slow: 0.10, Late: 0.03, MaxDelay: pauses,
		},
	}
}

func openParticipants(
	cfg shop.Config, w *witness, g *gateway, before func(http.Handler) http.Handler,
) (*participants, error) {
	addr, err := testnet.Free()
	if err != nil {
		return nil, err
	}
	p := &participants{addr: addr, cfg: cfg, witness: w, gateway: g, before: before}
	return p, p.open()
}

func (p *participants) open() error {
	s, err := shop.Open(p.cfg)
	if err != nil {
		return err
	}
	l, err := net.Listen("tcp", p.addr)
	if err != nil {
		return errors.Join(err, s.Close())
	}
	handler := p.witness.watch(s)
	if p.gateway != nil {
		handler = p.gateway.before(handler)
	}
	if p.before != nil {
		handler = p.before(handler)
	}
	server := &http.Server{Handler: handler, ReadHeaderTimeout: 10 * time.Second}
	go server.Serve(l) //nolint:errcheck // it ends when close is called
	p.mu.Lock()
	defer p.mu.Unlock()
	p.shop, p.server = s, server
	return nil
}

// close drops all connections, even in the middle of a response, and closes the ledger.
func (p *participants) close() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.shop == nil {
		return nil
	}
	err := errors.Join(p.server.Close(), p.shop.Close())
	p.shop, p.server = nil, nil
	return err
}

// entries reads the ledger from disk.
func (p *participants) entries() ([]ledger.Entry, error) { return ledger.Read(p.cfg.Ledger) }

// witness reads the database when a call arrives for the first time: everything that must have been
// committed before the call must be there (I3: every step before it; I4: the start of the
// compensation and the compensation of every later step). A commit is visible from the moment it is
// acknowledged, so an orchestrator that calls only after its commit never fails this check.
type witness struct {
	db    *database
	found *findings

	mu      sync.Mutex
	flows   map[string]*flow // guarded by mu: the workflows, by name
	seen    map[callID]bool  // guarded by mu
	looked  int              // guarded by mu
	missed  int              // guarded by mu: the database did not answer, or there were too many calls at once
	looking chan struct{}    // limits concurrent queries
	wait    sync.WaitGroup
}

type callID struct {
	saga, step string
	action     ledger.Action
}

func newWitness(db *database, f *findings) *witness {
	return &witness{db: db, found: f, seen: map[callID]bool{}, looking: make(chan struct{}, 10)}
}

// knows gives the witness the workflows of the run.
func (w *witness) knows(flows []flow) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.flows = map[string]*flow{}
	for i := range flows {
		w.flows[flows[i].name] = &flows[i]
	}
}

// checkpoint returns how many steps, counted from the first, must be on disk when a step of a
// workflow is called.
func (w *witness) checkpoint(workflow string, step int) int {
	w.mu.Lock()
	defer w.mu.Unlock()
	if f := w.flows[workflow]; f != nil {
		return f.checkpoint(step)
	}
	return step
}

func (w *witness) watch(next http.Handler) http.Handler {
	return http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		id := callID{r.Header.Get("X-Saga-Id"), r.Header.Get("X-Saga-Step"), ledger.Action(r.Header.Get("X-Saga-Action"))}
		w.mu.Lock()
		first := !w.seen[id]
		w.seen[id] = true
		w.mu.Unlock()
		if first {
			w.wait.Go(func() { w.look(id) }) // in the background: the call must not wait for the witness
		}
		next.ServeHTTP(rw, r)
	})
}

// look checks what must be committed when the call arrives. All of that is permanent, so a late
// query may miss a violation but can't report a false one.
func (w *witness) look(id callID) {
	select {
	case w.looking <- struct{}{}:
		defer func() { <-w.looking }()
	default:
		w.count(false)
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
	defer cancel()
	step := stepIndex(id.step)
	var state, done, top, undone, highest int
	var workflow string
	err := w.db.sql().QueryRowContext(ctx, `
		SELECT coalesce((SELECT state FROM saga.saga_states WHERE id = $1), -1),
		       coalesce((SELECT workflow_name FROM saga.saga_states WHERE id = $1), ''),
		       count(*) FILTER (WHERE action = 'EXECUTE' AND status = 'SUCCESS' AND step_index < $2),
		       coalesce(max(step_index) FILTER (WHERE action = 'COMPENSATE' AND status IN ('SUCCESS', 'SKIPPED') AND step_index > $2), $2),
		       count(*) FILTER (WHERE action = 'COMPENSATE' AND status IN ('SUCCESS', 'SKIPPED') AND step_index > $2),
		       coalesce(max(step_index) FILTER (WHERE action = 'EXECUTE' AND status = 'SUCCESS'), -1)
		  FROM saga.saga_step_logs WHERE saga_id = $1`, id.saga, step).Scan(&state, &workflow, &done, &top, &undone, &highest)
	w.count(err == nil)
	must := w.checkpoint(workflow, step)
	switch {
	case err != nil:
	case state < 0:
		w.found.add("I0", id.saga, id.step, "was called before the saga was committed")
	case done < must:
		w.found.add(
			"I3",
			id.saga,
			id.step,
			"%s came when only %d of the %d steps before it were committed that must be",
			id.action,
			done,
			must,
		)
	case id.action == ledger.Execute:
	case state < 4:
		w.found.add("I4", id.saga, id.step, "compensate came when the turn was not committed: state %d", state)
	case top-step != undone || highest > top:
		w.found.add(
			"I4",
			id.saga,
			id.step,
			"compensate came when not all later undos were committed: %d of %d to %d",
			undone,
			top-step,
			max(top, highest),
		)
	}
}

func (w *witness) count(ok bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if ok {
		w.looked++
	} else {
		w.missed++
	}
}

func (w *witness) counts() (looked, missed int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.looked, w.missed
}
