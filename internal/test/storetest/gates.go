package storetest

import (
	"encoding/json"
	"slices"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"

	"github.com/skald-saga/skald/internal/audit/eventtype"
	"github.com/skald-saga/skald/internal/audit/trail"
	"github.com/skald-saga/skald/internal/saga"
	"github.com/skald-saga/skald/internal/saga/registry"
)

var gates = []contract{
	{"a saga is parked with its change, and let through in order of arrival", gateQueue},
	{"a grant is taken once, by the call that it was given for", gateGrant},
	{"grants of several calls are taken together", gateGrants},
	{"sagas that have moved on no longer wait, and driven or suspended ones are left alone", gateMovedOn},
	{"a decision based on another epoch changes nothing", gateStale},
	{"a person who holds a gate revokes earlier grants", gateHeldByHand},
	{"a gate that is held again revokes earlier grants", gateHeldAgain},
	{"the nodes' counts are summed over the relevant period", gateCounts},
	{"a saga is due when its participant is deleted", gateDeleted},
	{"an outage is recorded from the hold to the opening of its gate, with one event for each", gateOutage},
	{"the sagas that wait for a participant are listed", gateListed},
}

// parked stores a saga that is parked at a gate.
func (f *fixture) parked(name string) saga.Instance {
	f.t.Helper()
	run := f.into(saga.Running)
	change := f.apply(run, saga.Parked{Participant: name, Until: f.now().Add(time.Hour)}).Released(f.now())
	if err := f.commit(change)[0]; err != nil {
		f.t.Fatal(err)
	}
	return change.After
}

// let makes a decision on a gate that lets sagas through without changing the gate, and returns how
// many were let through.
func (f *fixture) let(p *registry.Participant, grants int) int {
	f.t.Helper()
	n, stored, err := f.Participants.Decide(f.t.Context(), p, registry.Decision{Gate: p.Gate, Grants: grants}, f.now())
	if err != nil || !stored {
		f.t.Fatalf("stored %t, %v", stored, err)
	}
	return n
}

// due returns those of the sagas that are unowned and due.
func (f *fixture) due(runs ...saga.Instance) (due []uuid.UUID) {
	f.t.Helper()
	for i := range runs {
		s := f.load(runs[i].ID).Saga
		if s.LeaseOwner == nil && s.NextRunAt != nil && s.NextRunAt.Before(f.now().Add(time.Minute)) {
			due = append(due, s.ID)
		}
	}
	return due
}

func (f *fixture) look(p *registry.Participant) registry.Seen {
	f.t.Helper()
	seen, err := f.Participants.Look(f.t.Context(), []*registry.Participant{p}, f.now())
	if err != nil || len(seen) != 1 {
		f.t.Fatal(seen, err)
	}
	return seen[0]
}

func (f *fixture) waiting(p *registry.Participant) bool {
	f.t.Helper()
	return f.look(p).Waiting
}

func (f *fixture) take(run *saga.Instance, name string, call saga.CallID) bool {
	f.t.Helper()
	taken, err := f.Participants.Take(f.t.Context(), []registry.Grant{{Of: run.Ref(), Participant: name, Call: call}})
	if err != nil || len(taken) != 1 {
		f.t.Fatal(taken, err)
	}
	return taken[0]
}

func gateQueue(f *fixture) {
	p := f.party("card")
	f.put(p, 0)
	if f.waiting(&p) || f.let(&p, 3) != 0 {
		f.t.Error("something waits at an empty gate")
	}
	var runs []saga.Instance
	for range 4 {
		runs = append(runs, f.parked("card"))
	}
	other := f.parked("stock")
	if seen := f.look(&p); !seen.WaitsSince.Equal(runs[0].UpdatedAt) {
		f.t.Errorf("the first has been waiting since %s, want %s", seen.WaitsSince, runs[0].UpdatedAt)
	}
	wait, err := f.Participants.Wait(f.t.Context(), runs[2].Ref())
	if err != nil || wait == nil || wait.Participant != "card" || wait.Waiting != 4 || wait.Call != runs[2].NextCall() ||
		!wait.Since.Equal(runs[2].UpdatedAt) {
		f.t.Errorf("it waits: %+v, %v", wait, err)
	}
	f.waits(map[uuid.UUID]string{other.ID: "stock", runs[2].ID: "card"}, other, runs[2])
	if n := f.let(&p, 3); n != 3 || !f.look(&p).WaitsSince.Equal(runs[3].UpdatedAt) {
		f.t.Errorf("%d were let through, want 3, with one still waiting", n)
	}
	if diff := cmp.Diff([]uuid.UUID{runs[0].ID, runs[1].ID, runs[2].ID}, f.due(append(runs, other)...)); diff != "" {
		f.t.Errorf("due (-want +got):\n%s", diff)
	}
	if wait, err := f.Participants.Wait(f.t.Context(), runs[2].Ref()); err != nil || wait != nil {
		f.t.Errorf("it was let through but still waits: %+v, %v", wait, err)
	}
	f.waits(map[uuid.UUID]string{other.ID: "stock"}, other, runs[2])
	if n := f.let(&p, 3); n != 1 || f.waiting(&p) {
		f.t.Errorf("%d were let through, want the last one", n)
	}
}

func gateGrant(f *fixture) {
	p := f.party("card")
	f.put(p, 0)
	run := f.parked("card")
	call := run.NextCall()
	if f.take(&run, "card", call) {
		f.t.Error("a grant was taken that had not been given")
	}
	f.let(&p, 1)
	later := call
	later.Attempt++
	if f.take(&run, "stock", call) || f.take(&run, "card", later) {
		f.t.Error("the grant of another call was taken")
	}
	if !f.take(&run, "card", call) || f.take(&run, "card", call) {
		f.t.Error("the grant was not taken exactly once")
	}
}

func gateGrants(f *fixture) {
	p := f.party("card")
	f.put(p, 0)
	granted, another := f.parked("card"), f.parked("card")
	f.let(&p, 2)
	waits, elsewhere := f.parked("card"), f.parked("stock")
	grant := func(run *saga.Instance, name string) registry.Grant {
		return registry.Grant{Of: run.Ref(), Participant: name, Call: run.NextCall()}
	}
	grants := []registry.Grant{
		grant(&waits, "card"), grant(&another, "card"), grant(&elsewhere, "card"), grant(&granted, "card"),
	}
	for _, want := range [][]bool{{false, true, false, true}, {false, false, false, false}} {
		taken, err := f.Participants.Take(f.t.Context(), grants)
		if err != nil || !slices.Equal(taken, want) {
			f.t.Errorf("%v were taken, %v, want %v", taken, err, want)
		}
	}
	if wait, err := f.Participants.Wait(f.t.Context(), elsewhere.Ref()); err != nil || wait == nil {
		f.t.Errorf("it no longer waits at another gate: %v", err)
	}
}

func gateMovedOn(f *fixture) {
	p := f.party("card")
	f.put(p, 0)
	cancelled, suspended, waits := f.parked("card"), f.parked("card"), f.parked("card")
	for run, e := range map[*saga.Instance]saga.Event{
		&cancelled: saga.CancelRequested{By: "bob"}, &suspended: saga.SuspendRequested{By: "bob"},
	} {
		if err := f.commit(f.apply(*run, e))[0]; err != nil {
			f.t.Fatal(err)
		}
	}
	if n := f.let(&p, 5); n != 1 || !slices.Equal(f.due(waits), []uuid.UUID{waits.ID}) || f.waiting(&p) {
		f.t.Errorf("%d were let through, want only the one that waits", n)
	}
	if err := f.Participants.Sweep(f.t.Context()); err != nil {
		f.t.Fatal(err)
	}
	if call := waits.NextCall(); !f.take(&waits, "card", call) {
		f.t.Error("a fresh grant was swept")
	}
}

func gateStale(f *fixture) {
	p := f.party("card")
	f.put(p, 0)
	run := f.parked("card")
	now := f.now()
	d := p.Gate.Decide(&p.Settings.Outage, registry.Seen{Calls: 100, Failed: 100}, now)
	if _, stored, err := f.Participants.Decide(f.t.Context(), &p, d, now); !stored || err != nil {
		f.t.Fatalf("stored %t, %v", stored, err)
	}
	want := p
	want.Gate, want.Epoch = d.Gate, 2
	f.has(want)
	d.Grants = 1
	if n, stored, err := f.Participants.Decide(f.t.Context(), &p, d, now); n != 0 || stored || err != nil {
		f.t.Errorf("%d were let through, stored %t on an old epoch, %v", n, stored, err)
	}
	f.has(want)
	if due := f.due(run); len(due) > 0 {
		f.t.Error("a decision that was not stored let a saga through")
	}
}

func gateCounts(f *fixture) {
	p := f.party("card")
	p.Gate.CountedFrom = f.now().Truncate(time.Second).Add(-10 * time.Second)
	f.put(p, 0)
	now := f.now()
	at := func(ago time.Duration) time.Time { return now.Add(-ago).Truncate(time.Second) }
	ok, pause := at(3*time.Second), now.Add(time.Minute)
	sum := registry.Sum{TenantID: f.tenant.ID, Participant: "card", Calls: 10, Failed: 4, Let: 2, LetFailed: 1,
		LetOKAt: &ok, Pause: &pause, Codes: map[string]int64{"http_500": 3, "timeout": 1}}
	sum.Latencies[3], sum.Latencies[registry.Slowest] = 9, 1
	for node, ago := range map[string]time.Duration{"a": 2 * time.Second, "b": 2 * time.Second, "c": 20 * time.Second} {
		s := sum
		s.Bucket = at(ago)
		if node == "c" {
			s.Pause, s.LetOKAt = nil, nil
		}
		if err := f.Participants.Count(f.t.Context(), node, []registry.Sum{s}); err != nil {
			f.t.Fatal(err)
		}
	}
	other := f.party("nothing is known of it")
	all, err := f.Participants.Look(f.t.Context(), []*registry.Participant{&other, &p}, now)
	if err != nil || len(all) != 2 || all[0] != (registry.Seen{}) {
		f.t.Fatal(all, err)
	}
	seen := all[1]
	want := registry.Seen{Calls: 20, Failed: 8, Let: 4, LetFailed: 2, LastLetOK: ok, Pause: pause}
	if diff := cmp.Diff(want, seen); diff != "" {
		f.t.Errorf("seen (-want +got):\n%s", diff)
	}
	for node, n := range map[string]int{"a": 3, "b": 1} {
		of := registry.Flight{TenantID: f.tenant.ID, Participant: "card", InFlight: n}
		for _, flights := range [][]registry.Flight{{{TenantID: of.TenantID, Participant: "card", InFlight: 9}}, {of}} {
			if err := f.Participants.Fly(f.t.Context(), node, flights); err != nil {
				f.t.Fatal(err)
			}
		}
	}
	got, err := f.Participants.Figures(f.t.Context(), f.tenant.ID, "card", now.Add(-time.Hour))
	if err != nil {
		f.t.Fatal(err)
	}
	figures := registry.Figures{Calls: 30, Failed: 12, InFlight: 4, Codes: map[string]int64{"http_500": 9, "timeout": 3}}
	figures.Latencies[3], figures.Latencies[registry.Slowest] = 27, 3
	if diff := cmp.Diff(figures, got); diff != "" {
		f.t.Errorf("figures (-want +got):\n%s", diff)
	}
	if p := got.Percentile(0.5); p != 8*time.Millisecond {
		f.t.Errorf("half of the calls took at most %s", p)
	}
}

// decided stores a decision that two nodes have made from the same observations, which must count
// once, and returns the participant after it.
func (f *fixture) decided(p registry.Participant, to registry.Gate) registry.Participant {
	f.t.Helper()
	d := registry.Decision{Gate: to, Changed: true}
	for i, want := range []bool{true, false} {
		_, stored, err := f.Participants.Decide(f.t.Context(), &p, d, to.Since)
		if err != nil || stored != want {
			f.t.Fatalf("decision %d: stored %t, %v", i, stored, err)
		}
	}
	p.Gate, p.Epoch = to, p.Epoch+1
	return p
}

func gateOutage(f *fixture) {
	p := f.party("card")
	f.put(p, 0)
	f.put(f.party("stock"), 0)
	at := func(seconds time.Duration) time.Time { return p.CreatedAt.Add(seconds * time.Second) }
	gate := func(s registry.State, seconds time.Duration, why string) registry.Gate {
		return registry.Gate{State: s, Since: at(seconds), CountedFrom: at(seconds), Reason: why}
	}
	f.parked("card")
	f.parked("card")
	f.parked("stock")
	for _, g := range []registry.Gate{
		gate(registry.Held, 1, "it failed"), gate(registry.Releasing, 5, "a canary succeeded"),
		gate(registry.Held, 6, "it failed again"), gate(registry.Releasing, 9, "a canary succeeded"),
		gate(registry.Open, 11, "the calls that waited were let through"),
	} {
		p = f.decided(p, g)
	}
	held := p.Hold("ann", "Ann", "maintenance", at(20))
	f.put(held, p.Epoch)
	again := held.Hold("bob", "Bob", "longer", at(25)) // it is already held
	f.put(again, held.Epoch)
	began := at(9)
	want := []registry.Past{{
		HeldAt: at(1), Reason: "it failed", ReleasingAt: &began, ReleasedAt: at(11), Waited: 2,
	}}
	past, err := f.Participants.Past(f.t.Context(), f.tenant.ID, "card")
	if diff := cmp.Diff(want, past); diff != "" || err != nil {
		f.t.Errorf("%v; outages (-want +got):\n%s", err, diff)
	}
	if err := f.Participants.Delete(f.t.Context(), f.tenant.ID, "card", 0); err != nil {
		f.t.Fatal(err)
	}
	if past, err := f.Participants.Past(f.t.Context(), f.tenant.ID, "card"); len(past) != 0 || err != nil {
		f.t.Errorf("a deleted participant has %v, %v", past, err)
	}
	f.Settle(f.t)
	var events []string
	got, _, err := f.Trail.Feed(f.t.Context(), f.tenant.ID, trail.Position{},
		trail.EventFilter{Types: []eventtype.Type{eventtype.ParticipantHeld, eventtype.ParticipantReleased}}, 50)
	if err != nil {
		f.t.Fatal(err)
	}
	for i := range got {
		e := &got[i]
		digest := e.Digest()
		if e.SagaID != uuid.Nil || e.Participant() != "card" || e.Altered || !slices.Equal(digest[:], e.Stored) {
			f.t.Errorf("%s %s of saga %s, altered %t", e.Type, e.Data, e.SagaID, e.Altered)
		}
		var data struct{ Reason string }
		if err := json.Unmarshal(e.Data, &data); err != nil {
			f.t.Error(err)
		}
		events = append(events, string(e.Type)+": "+data.Reason)
	}
	told := []string{
		"participant.held: it failed", "participant.held: it failed again",
		"participant.released: the calls that waited were let through", "participant.held: Ann holds it: maintenance",
		"participant.released: the participant was deleted",
	}
	if diff := cmp.Diff(told, events); diff != "" {
		f.t.Errorf("events (-want +got):\n%s", diff)
	}
}

func gateListed(f *fixture) {
	p := f.party("card")
	f.put(p, 0)
	granted, moved, a, b := f.parked("card"), f.parked("card"), f.parked("card"), f.parked("card")
	f.parked("stock")
	if err := f.commit(f.apply(moved, saga.CancelRequested{By: "bob"}))[0]; err != nil {
		f.t.Fatal(err)
	}
	if f.let(&p, 1) != 1 {
		f.t.Fatal("none was let through")
	}
	_ = granted
	list := func(filter saga.Filter) (ids []uuid.UUID) {
		f.t.Helper()
		filter.WaitsFor, filter.Limit, filter.Total = "card", 10, true
		found, err := f.Sagas.List(f.t.Context(), f.tenant.ID, filter)
		if err != nil {
			f.t.Fatal(err)
		}
		for i := range found.Items {
			ids = append(ids, found.Items[i].ID)
		}
		if found.Total != int64(len(ids)) {
			f.t.Errorf("%d sagas are listed, but the total is %d", len(ids), found.Total)
		}
		return ids
	}
	for name, filter := range map[string]saga.Filter{
		"all": {Ascending: true}, "of a workflow": {Ascending: true, WorkflowName: a.WorkflowName},
		"in a state": {Ascending: true, States: []saga.State{saga.Running}},
	} {
		// The canceled saga makes a different call now or will do so: it may be listed until it has
		// started to compensate.
		got := slices.DeleteFunc(list(filter), func(id uuid.UUID) bool { return id == moved.ID })
		if !slices.Equal(got, []uuid.UUID{a.ID, b.ID}) {
			f.t.Errorf("%s: %v, want %s and %s", name, got, a.ID, b.ID)
		}
	}
	if got := list(saga.Filter{States: []saga.State{saga.Completed}}); got != nil {
		f.t.Errorf("completed sagas are listed: %v", got)
	}
	if got := list(saga.Filter{Assignee: "ann"}); got != nil {
		f.t.Errorf("sagas with an assignee are listed: %v", got)
	}
}

func gateDeleted(f *fixture) {
	f.put(f.party("card"), 0)
	f.put(f.party("stock"), 0)
	run, other := f.parked("card"), f.parked("stock")
	if err := f.Participants.Delete(f.t.Context(), f.tenant.ID, "card", 0); err != nil {
		f.t.Fatal(err)
	}
	if due := f.due(run, other); !slices.Equal(due, []uuid.UUID{run.ID}) {
		f.t.Errorf("due: %v", due)
	}
	if wait, err := f.Participants.Wait(f.t.Context(), run.Ref()); err != nil || wait != nil {
		f.t.Errorf("it waits: %+v, %v", wait, err)
	}
}
