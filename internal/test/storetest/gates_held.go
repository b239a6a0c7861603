package storetest

import (
	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"

	"github.com/skald-saga/skald/internal/saga"
	"github.com/skald-saga/skald/internal/saga/registry"
)

// gateHeldByHand: once an operator holds a gate, no saga that was judged or let through earlier
// makes its call.
func gateHeldByHand(f *fixture) {
	p := f.party("card")
	f.put(p, 0)
	run, later := f.parked("card"), f.parked("card")
	if f.let(&p, 1) != 1 {
		f.t.Fatal("no saga was let through")
	}
	held := p.Hold("ann", "", "maintenance", f.now())
	f.put(held, p.Epoch)
	for _, r := range []saga.Instance{run, later} {
		if f.take(&r, "card", r.NextCall()) {
			f.t.Error("a saga may make its call although a person holds the gate")
		}
	}
	d := registry.Decision{Gate: p.Gate, Grants: 2} // made by a node that saw the gate open
	if n, stored, err := f.Participants.Decide(f.t.Context(), &p, d, f.now()); n != 0 || stored || err != nil {
		f.t.Errorf("%d were let through by an earlier decision, stored %t, %v", n, stored, err)
	}
}

// gateHeldAgain: a saga that was let through in a wave, but found no free slot before the gate was
// held again, makes no call. A canary does make its call, because it is let through while the gate
// is held.
func gateHeldAgain(f *fixture) {
	p := f.party("card")
	p, _ = p.Hold("ann", "", "", f.now()).Release("ann", 10, f.now())
	p.Version = 1
	f.put(p, 0)
	run, later := f.parked("card"), f.parked("card")
	if f.let(&p, 1) != 1 {
		f.t.Fatal("no saga was let through")
	}
	now := f.now()
	d := p.Gate.Decide(&p.Settings.Outage, registry.Seen{Let: 20, LetFailed: 20, Waiting: true}, now)
	_, stored, err := f.Participants.Decide(f.t.Context(), &p, d, now)
	if !stored || err != nil || d.Gate.State != registry.Held {
		f.t.Fatalf("%s, stored %t, %v", d.Gate.State, stored, err)
	}
	for _, r := range []saga.Instance{run, later} {
		if f.take(&r, "card", r.NextCall()) {
			f.t.Error("a saga may make its call although the gate is held again")
		}
	}
	p.Gate, p.Epoch = d.Gate, p.Epoch+1
	canary := registry.Decision{Gate: p.Gate, Changed: true, Grants: 1}
	n, stored, err := f.Participants.Decide(f.t.Context(), &p, canary, now)
	if n != 1 || !stored || err != nil {
		f.t.Errorf("%d canaries, stored %t, %v", n, stored, err)
	}
	if !f.take(&later, "card", later.NextCall()) && !f.take(&run, "card", run.NextCall()) {
		f.t.Error("the canary may not make its call")
	}
}

// waits checks which participants these sagas wait for, both for their own tenant and for another
// one.
func (f *fixture) waits(want map[uuid.UUID]string, of ...saga.Instance) {
	f.t.Helper()
	asked := []uuid.UUID{uuid.New()}
	for i := range of {
		asked = append(asked, of[i].ID)
	}
	got, err := f.Participants.Waits(f.t.Context(), of[0].Tenant.ID, asked)
	if diff := cmp.Diff(want, got); err != nil || diff != "" {
		f.t.Errorf("where they wait (-want +got), %v:\n%s", err, diff)
	}
	if got, err := f.Participants.Waits(f.t.Context(), uuid.New(), asked); err != nil || len(got) != 0 {
		f.t.Errorf("another tenant sees %v, %v", got, err)
	}
}
