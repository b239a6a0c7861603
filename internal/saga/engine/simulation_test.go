package engine_test

import (
	"bytes"
	"context"
	"flag"
	"fmt"
	"hash/fnv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/skald-saga/skald/internal/saga"
	"github.com/skald-saga/skald/internal/saga/engine"
)

var (
	simSeed = flag.Int("sim.seed", 0, "run the simulation with this seed only")
	simFor  = flag.Duration("sim.for", 4*time.Second, "run the simulation with as many seeds as fit into this time")
)

// TestSimulation runs many sagas on two nodes while everything fails: results from the database are
// lost, leases expire, nodes are killed, stopped and started, participants misbehave, and users
// cancel. Then everything recovers, and every saga must reach an end that is consistent with its
// ledger.
//
// Failures depend on the seed and on the request, not on the order in which goroutines run: `-run
// Simulation -sim.seed=N` repeats a run.
func TestSimulation(t *testing.T) {
	total := simulated{ends: map[saga.State]int{}}
	begin := time.Now()
	for seed := max(*simSeed, 1); seed == *simSeed || *simSeed == 0 && (seed <= 5 || time.Since(begin) < *simFor); seed++ {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			inBubble(t, func(t *testing.T, w *world) {
				s := &simulation{w: w, seed: seed, asked: map[string]int{}}
				s.run()
				total.add(w, s)
			})
		})
	}
	if *simSeed == 0 {
		total.check(t)
	}
	t.Logf("%+v", total)
}

const (
	troubled  = time.Minute // how long the failures last
	sagaCount = 300         // number of sagas
)

type simulation struct {
	w     *world
	seed  int
	begin time.Time

	mu     sync.Mutex
	living [2]*node       // guarded by mu; nil while a node is down
	asked  map[string]int // guarded by w.mu: how often each request was sent to the database
	lost   int            // guarded by w.mu
	killed int
	ids    []uuid.UUID
}

// roll returns a number in [0,1) that is derived from the seed and from what.
func (s *simulation) roll(what ...any) float64 {
	h := fnv.New64a()
	fmt.Fprint(h, s.seed, what)
	x := h.Sum64()
	x ^= x >> 33 // FNV alone mixes its last bytes badly
	x *= 0xff51afd7ed558ccd
	x ^= x >> 33
	x *= 0xc4ceb9fe1a85ec53
	x ^= x >> 33
	return float64(x>>11) / (1 << 53)
}

func (s *simulation) between(low, high time.Duration, what ...any) time.Duration {
	return (low + time.Duration(float64(high-low)*s.roll(what...))).Truncate(time.Millisecond)
}

func (s *simulation) healed() bool { return now().Sub(s.begin) >= troubled }

func (s *simulation) run() {
	s.begin = now()
	s.w.participants.behavior = s.behavior
	var all sync.WaitGroup
	for slot := range s.living {
		all.Go(func() { s.node(slot) })
	}
	s.ids = make([]uuid.UUID, sagaCount)
	for i := range s.ids {
		s.ids[i] = s.w.newID()
		all.Go(func() { s.client(i) })
	}
	all.Go(s.watchdog)
	all.Wait()
	s.w.untilEnded(s.ids...)
	s.w.checkInvariants(s.ids...)
	for _, id := range s.ids { // an operator repairs what is left
		if s.w.state(id) == saga.Failed {
			if err := s.w.intervene(id, saga.ResumeRequested{By: "operator"}); err != nil {
				s.w.t.Error(err)
			}
		}
	}
	s.w.untilEnded(s.ids...)
	s.w.checkInvariants(s.ids...)
	time.Sleep(time.Minute) // nothing may be sent anymore: participants would report it
	s.accepted()
}

// node keeps one node running, with interruptions, until everything recovers.
func (s *simulation) node(slot int) {
	for life := 0; ; life++ {
		name := fmt.Sprint("node", slot)
		if s.roll("name", slot, life) < 0.3 {
			name = fmt.Sprint(name, ".", life) // its sagas must wait until the old lease ends
		}
		n := s.w.prepare(name, func(c *engine.Config) {
			c.MaxRunning, c.DrainTimeout = 16, 3*time.Second
			if s.seed%2 == 0 { // every long call takes too long
				c.LeaseTTL, c.Hold, c.SlowAfter = 3*time.Second, time.Second, 200*time.Millisecond
			}
			c.Jitter = func() float64 { return s.roll("jitter", name, now()) }
		})
		n.inject(faults{fault: s.fault(n), latency: s.latency(n)})
		n.run()
		settle()
		s.set(slot, n)
		time.Sleep(min(s.between(2*time.Second, 30*time.Second, "life", slot, life), troubled-now().Sub(s.begin)))
		if s.healed() {
			return // this node keeps running
		}
		s.set(slot, nil)
		if s.roll("end", slot, life) < 0.7 {
			n.kill()
			s.w.mu.Lock()
			s.killed++
			s.w.mu.Unlock()
		} else {
			n.stop()
		}
		time.Sleep(s.between(0, 8*time.Second, "down", slot, life))
	}
}

// settle gives a node that has just been started time to register.
func settle() { time.Sleep(time.Millisecond) }

func (s *simulation) set(slot int, n *node) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.living[slot] = n
}

func (s *simulation) any(what ...any) *node {
	s.mu.Lock()
	defer s.mu.Unlock()
	slot := int(2 * s.roll(what...))
	if s.living[slot] != nil {
		return s.living[slot]
	}
	return s.living[1-slot]
}

// client creates one saga, repeating the request until it is accepted, and cancels some.
func (s *simulation) client(i int) {
	id := s.ids[i]
	d := steps([]string{"u", "uu", "unu", "uuuu", "nuun"}[int(5*s.roll("pattern", i))])
	if s.roll("checkpoint", i) < 0.5 {
		d = ahead("ahead-"+d.Name, d.Name)
	}
	for k := range d.Steps {
		d.Steps[k].TimeoutMS = 1500
	}
	if s.roll("deadline", i) < 0.15 {
		d.Name += "-deadline"
		d.TimeoutMS = 4000
	}
	s.w.register(d)
	time.Sleep(s.between(0, troubled*3/4, "start", i))
	for try := 0; ; try++ {
		if n := s.any("client", i, try); n != nil &&
			n.submit(saga.Spec{ID: id, Tenant: home, Payload: s.payload(i)}, d) == nil {
			break
		}
		time.Sleep(200 * time.Millisecond)
	}
	if s.roll("cancels", i) < 0.2 {
		time.Sleep(s.between(0, 3*time.Second, "cancel", i))
		for range 2 { // the client repeats the request; "too late" is allowed
			_ = s.w.intervene(id, cancel)
			s.w.wake(id)
		}
	}
}

func (s *simulation) payload(i int) []byte { return fmt.Appendf(nil, `{"order":%d}`, i) }

// accepted is I0: a saga that was acknowledged as stored exists, with the content that was sent.
func (s *simulation) accepted() {
	for i, id := range s.ids {
		if got := s.w.load(id).Saga.Payload; !bytes.Equal(got, s.payload(i)) {
			s.w.t.Errorf("saga %d has payload %s", i, got)
		}
	}
}

// watchdog is I1 during the run: every saga will be driven again.
func (s *simulation) watchdog() {
	for !s.healed() {
		time.Sleep(5 * time.Second)
		if stuck, _, err := s.w.store.Sagas.Stuck(context.Background()); stuck > 0 || err != nil {
			s.w.t.Errorf("%d sagas are stuck, %v", stuck, err)
		}
	}
}

// behavior returns how a participant answers one call.
func (s *simulation) behavior(c saga.Call, nth int) reply {
	r, answer := s.roll("reply", c.Key, nth), yes
	undo := c.Action == saga.Compensate
	switch {
	case s.healed():
		return yes
	case r < 0.08:
		answer = lostReply
	case r < 0.14:
		answer = crashed
	case r < 0.20:
		answer = unavailable
	case r < 0.23:
		answer = hangs
	case r < 0.25 && !undo, r < 0.24:
		if answer = no; s.roll("gateway", c.Key, nth) < 0.5 {
			answer = turnedAway
		}
	case r < 0.27:
		answer = reply{
			verdict:    saga.NotApplied,
			class:      "unavailable",
			retryAfter: s.between(time.Second, 12*time.Second, "later", c.Key, nth),
		}
	case r < 0.28:
		if answer = unstorable; strings.HasPrefix(c.By.HTTP.URL, "http://ahead-") {
			answer = crashed // the following step, which was already called, must get the same output again
		}
	}
	if answer.takes == 0 && s.roll("slow", c.Key, nth) < 0.2 {
		answer.takes = s.between(0, 2*time.Second, "takes", c.Key, nth)
	}
	return answer
}

// fault returns the failures of one node's requests.
func (s *simulation) fault(n *node) func(request) failure {
	return func(r request) failure { // w.mu is held
		if s.healed() {
			return passes
		}
		// From time to time the database is unavailable for longer than a lease.
		if window := int(now().Sub(s.begin) / (12 * time.Second)); s.roll("outage", n.name, window) < 0.12 {
			s.lost++
			return lostBefore
		}
		what := fmt.Sprint(r.op, r.ids, r.sees)
		if len(r.ids) == 0 {
			what = fmt.Sprint(r.op, n.name, now())
		}
		s.asked[what]++
		switch p := s.roll("fault", what, s.asked[what]); {
		case p < 0.03:
			s.lost++
			return lostBefore
		case p < 0.06:
			s.lost++
			return lostAfter
		}
		return passes
	}
}

// latency makes requests to the database, or their results, slow from time to time.
func (s *simulation) latency(n *node) func(op) (there, back time.Duration) {
	leg := func(which string, o op) time.Duration {
		switch p := s.roll(which, n.name, o, now()); {
		case s.healed() || p < 0.5:
			return 0
		case p < 0.97:
			return s.between(0, 20*time.Millisecond, which, "short", n.name, o, now())
		}
		return s.between(0, 4*time.Second, which, "long", n.name, o, now())
	}
	return func(o op) (time.Duration, time.Duration) { return leg("there", o), leg("back", o) }
}

// simulated counts the events in all runs, to check that each kind of event occurred.
type simulated struct {
	ends                                    map[saga.State]int
	calls, takeovers, resumed, killed, lost int
	told                                    int
}

func (t *simulated) add(w *world, s *simulation) {
	for _, id := range s.ids {
		t.ends[w.state(id)]++
		t.calls += len(w.participants.of(id))
		t.takeovers += w.takeovers[id]
		t.resumed += w.resumes[id]
	}
	t.killed += s.killed
	t.told += w.told
	t.lost += s.lost
}

func (t *simulated) check(tt *testing.T) {
	for _, state := range []saga.State{saga.Completed, saga.Compensated, saga.Cancelled, saga.TimedOut} {
		if t.ends[state] == 0 {
			tt.Errorf("no saga ended %s: the simulation does not test it", state)
		}
	}
	if t.told == 0 {
		tt.Error("nobody who waited was told an end with its logs")
	}
	if t.takeovers == 0 || t.resumed == 0 || t.killed == 0 || t.lost == 0 {
		tt.Errorf(
			"%d takeovers, %d resumed, %d kills, %d lost answers: the simulation does not test them",
			t.takeovers,
			t.resumed,
			t.killed,
			t.lost,
		)
	}
}
