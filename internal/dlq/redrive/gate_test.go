package redrive_test

import (
	"context"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/skald-saga/skald/internal/dlq"
	"github.com/skald-saga/skald/internal/dlq/redrive"
	"github.com/skald-saga/skald/internal/fault"
	"github.com/skald-saga/skald/internal/saga/participantgate"
	"github.com/skald-saga/skald/internal/saga/registry"
	"github.com/skald-saga/skald/internal/saga/registrydb"
)

// party is the target of a test, as a named participant with a gate in front of it.
type party struct {
	*post
	store *registrydb.Participants
	known *participantgate.Known
	gate  *participantgate.Gate
}

func newParty(t *testing.T, o registry.Outage) *party {
	t.Helper()
	p := newPost(t)
	x := &party{post: p, store: registrydb.New(p.db)}
	x.known = participantgate.NewKnown(x.store)
	x.gate = participantgate.New(participantgate.Config{
		Store: x.store, Known: x.known, Node: "n", Now: func() time.Time { return moment().Now },
		Log: slog.New(slog.DiscardHandler),
	})
	s, err := registry.Settings{BaseURL: p.target.url, Outage: o}.Checked("mail")
	if err != nil {
		t.Fatal(err)
	}
	x.put(registry.New(p.tenant, "mail", s, "ada", moment().Now), 0)
	return x
}

func (x *party) put(p registry.Participant, epoch int64) {
	x.t.Helper()
	if err := x.store.Put(x.t.Context(), p, epoch, registry.VerbPut); err != nil {
		x.t.Fatal(err)
	}
	if err := x.known.Refresh(x.t.Context()); err != nil {
		x.t.Fatal(err)
	}
}

func (x *party) now() registry.Participant {
	x.t.Helper()
	p, err := x.store.Get(x.t.Context(), x.tenant, "mail")
	if err != nil {
		x.t.Fatal(err)
	}
	return p
}

func (x *party) hold() {
	p := x.now()
	x.put(p.Hold("ann", "Ann", "maintenance", moment().Now), p.Epoch)
}

func (x *party) release() {
	p := x.now()
	after, _ := p.Release("ann", 1000, moment().Now)
	x.put(after, p.Epoch)
}

// rounds runs the gate's loop until the test ends.
func (x *party) rounds() {
	ctx, cancel := context.WithCancel(x.t.Context())
	done := make(chan struct{})
	go func() { defer close(done); x.gate.Run(ctx) }()
	x.t.Cleanup(func() { cancel(); <-done })
}

func (x *party) nodes() {
	for range 2 {
		cfg := x.config(x.t)
		cfg.Gate = x.gate
		run(x.t, cfg)
	}
}

func (x *party) figures() registry.Figures {
	x.t.Helper()
	f, err := x.store.Figures(x.t.Context(), x.tenant, "mail", moment().Now.Add(-time.Hour))
	if err != nil {
		x.t.Fatal(err)
	}
	return f
}

func TestLettersWaitAtTheGateOfTheirTarget(t *testing.T) {
	t.Parallel()
	x := newParty(t, registry.DefaultOutage)
	x.hold()
	ids := x.push(5, true)
	x.nodes()
	x.await("the letters to wait", func() bool { return x.figures().Letters == 5 })
	for _, letter := range ids {
		l := x.get(letter)
		if l.Status != dlq.Pending || l.RetryCount != 0 || l.NextRetryAt == nil ||
			l.NextRetryAt.Before(moment().Now.Add(20*time.Minute)) || !strings.Contains(l.LastError, "participant mail") {
			t.Errorf("%s after %d retries, next at %v: %q", l.Status, l.RetryCount, l.NextRetryAt, l.LastError)
		}
	}
	cfg := x.config(t)
	cfg.Gate = x.gate
	byHand := x.push(1, false)[0]
	end, err := redrive.New(cfg).Now(t.Context(), x.claim(byHand))
	if err != nil || end.Attempt.Outcome != dlq.Withdrawn || !fault.IsCode(end.Fault, dlq.CodeTargetHeld) {
		t.Errorf("a retry by hand: %+v, %v", end, err)
	}
	if n := x.target.requests(); n != 0 {
		t.Fatalf("%d requests to a target that a person holds", n)
	}
	x.release()
	x.rounds()
	x.await("the letters to be resolved", func() bool { return x.statuses()[dlq.Resolved] == 6 })
	if n := x.target.requests(); n != 6 {
		t.Errorf("%d requests for 6 letters", n)
	}
	x.await("the gate to open", func() bool { return x.now().Gate.State == registry.Open })
	if f := x.figures(); f.Letters != 0 || f.Calls != 6 {
		t.Errorf("figures %+v", f)
	}
}

// TestADeadTargetGetsCanariesAndItsLettersLoseNothing checks that letters share the canaries of a
// participant. Each canary is a retry; the other letters use none.
func TestADeadTargetGetsCanariesAndItsLettersLoseNothing(t *testing.T) {
	t.Parallel()
	o := registry.DefaultOutage
	o.MinCalls, o.CanaryEveryMS = 1, 1000
	x := newParty(t, o)
	x.target.answers(func(string, int) int { return 503 })
	began := time.Now()
	p := x.now()
	d := p.Gate.Decide(&o, registry.Seen{Calls: 50, Failed: 50}, moment().Now)
	if _, stored, err := x.store.Decide(t.Context(), &p, d, moment().Now); err != nil || !stored {
		t.Fatal(stored, err)
	}
	x.put(x.now().With(p.Settings, moment().Now), 0) // the node knows
	x.push(20, true)
	x.rounds()
	x.nodes()
	x.await("three canaries", func() bool { return x.target.requests() >= 3 })
	if n, most := x.target.requests(), 1+int(time.Since(began)/time.Second); n > most {
		t.Errorf("%d requests, want at most %d canaries", n, most)
	}
	x.target.answers(func(string, int) int { return 200 })
	x.await("all letters to be resolved", func() bool { return x.statuses()[dlq.Resolved] == 20 })
}

// TestARedriveWaitsAtTheGateOfItsTarget checks that waiting letters are not failures of the
// redrive, and that it reports what it is waiting for.
func TestARedriveWaitsAtTheGateOfItsTarget(t *testing.T) {
	t.Parallel()
	x := newParty(t, registry.DefaultOutage)
	x.hold()
	r := x.redrive(x.push(40, false), func(r *dlq.Redrive) { r.StopOn.Failures = 1 })
	x.nodes()
	x.await("the redrive to say what it waits for", func() bool {
		return strings.Contains(x.read(r).WaitingFor, "the participant mail, which has been held since")
	})
	if f := x.figures(); f.Letters == 0 {
		t.Errorf("figures %+v", f)
	}
	if got := x.read(r); got.State != dlq.RedriveRunning || got.Failed != 0 || got.Done != 0 || x.target.requests() != 0 {
		t.Errorf("%s, %d failed, %d done, %d requests", got.State, got.Failed, got.Done, x.target.requests())
	}
	x.release()
	x.rounds()
	got := x.awaitState(r, dlq.RedriveCompleted)
	if got.Done != 40 || got.Failed != 0 || got.MaybeSent != 0 || x.target.requests() != 40 {
		t.Errorf("%d done, %d failed, %d maybe sent, %d requests", got.Done, got.Failed, got.MaybeSent,
			x.target.requests())
	}
}
