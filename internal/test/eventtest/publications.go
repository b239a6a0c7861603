package eventtest

import (
	"slices"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/skald-saga/skald/internal/audit/trail"

	"github.com/skald-saga/skald/internal/test/storetest"
)

// Publications tests trail.Publications. open returns a new Env that lasts as
// long as its test.
func Publications(t *testing.T, open func(t *testing.T) storetest.Env) {
	env := open(t)
	run(t, map[string][]contract{"publications": publications}, func(*testing.T) storetest.Env { return env })
	run(t, map[string][]contract{"publication leases": led}, open)
}

// led contains the contracts that advance the clock and so need their own store.
var led = []contract{
	{Name: "of twenty candidates, one leads until its lease ends", Test: publicationLead},
}

var publications = []contract{
	{Name: "a leader that returns under its name begins a new term", Test: publicationBack},
	{Name: "a term that has ended writes nothing", Test: publicationFenced},
	{Name: "a leader that resigns can be replaced at once, and a former leader cannot resign", Test: publicationResign},
	{Name: "each tenant with events after its cursor is found, and no other", Test: publicationUnpublished},
}

// lead makes owner the leader, or fails the test.
func (f *fixture) lead(name, owner string) int64 {
	f.t.Helper()
	epoch, err := f.Publications.Lead(f.t.Context(), name, owner, time.Minute)
	if err != nil || epoch == 0 {
		f.t.Fatalf("lead: epoch %d, %v", epoch, err)
	}
	return epoch
}

func publicationLead(f *fixture) {
	name := newID().String()
	epochs := make([]int64, 20)
	want := func() {
		f.t.Helper()
		storetest.Together(len(epochs), func(i int) {
			var err error
			if epochs[i], err = f.Publications.Lead(f.t.Context(), name, "node "+newID().String(), time.Minute); err != nil {
				f.t.Error(err)
			}
		})
		if n := len(slices.DeleteFunc(slices.Clone(epochs), func(e int64) bool { return e == 0 })); n != 1 {
			f.t.Fatalf("%d leaders", n)
		}
	}
	want()
	first := slices.Max(epochs)
	if ours, err := f.Publications.Renew(f.t.Context(), name, first, 4*time.Minute); !ours || err != nil {
		f.t.Fatalf("renew: %v, %v", ours, err)
	}
	f.Advance(2 * time.Minute)
	if epoch, err := f.Publications.Lead(f.t.Context(), name, "another", time.Minute); epoch != 0 || err != nil {
		f.t.Fatalf("another owner leads during the renewed lease: epoch %d, %v", epoch, err)
	}
	f.Advance(3 * time.Minute)
	want()
	if next := slices.Max(epochs); next <= first {
		f.t.Errorf("the next term has epoch %d after %d", next, first)
	}
}

func publicationBack(f *fixture) {
	name := newID().String()
	first := f.lead(name, "a")
	if second := f.lead(name, "a"); second <= first {
		f.t.Errorf("epoch %d after %d", second, first)
	}
}

func publicationFenced(f *fixture) {
	name := newID().String()
	f.Happens()
	former := f.lead(name, "a")
	present := f.lead(name, "a")
	ours, err := f.Publications.Renew(f.t.Context(), name, former, time.Minute)
	moved, errMoved := f.Publications.Advance(
		f.t.Context(),
		name,
		former,
		f.TenantID(),
		trail.Position{TxID: 1 << 40, ID: 1},
	)
	if ours || moved || err != nil || errMoved != nil {
		f.t.Errorf("a former term: renewed %v, moved %v, %v, %v", ours, moved, err, errMoved)
	}
	if u := f.unpublished(name); u == nil || u.After != (trail.Position{}) {
		f.t.Errorf("the cursor is %+v", u)
	}
	if moved, err := f.Publications.Advance(f.t.Context(), name, present, f.TenantID(),
		trail.Position{TxID: 1 << 40, ID: 1}); !moved ||
		err != nil {
		f.t.Errorf("the current term: moved %v, %v", moved, err)
	}
}

func publicationResign(f *fixture) {
	name := newID().String()
	former := f.lead(name, "a")
	present := f.lead(name, "a")
	if err := f.Publications.Resign(f.t.Context(), name, former); err != nil {
		f.t.Fatal(err)
	}
	if epoch, err := f.Publications.Lead(f.t.Context(), name, "b", time.Minute); epoch != 0 || err != nil {
		f.t.Errorf("a former leader ended the current leader's term: epoch %d, %v", epoch, err)
	}
	if err := f.Publications.Resign(f.t.Context(), name, present); err != nil {
		f.t.Fatal(err)
	}
	f.lead(name, "b")
}

// unpublished returns the unpublished events of the fixture's tenant. Nil means there are none.
func (f *fixture) unpublished(name string) *trail.Unpublished {
	f.t.Helper()
	f.Settle(f.t)
	all, err := f.Publications.Unpublished(f.t.Context(), name)
	if err != nil {
		f.t.Fatal(err)
	}
	seen := map[uuid.UUID]bool{}
	var own *trail.Unpublished
	for i, u := range all {
		if seen[u.TenantID] {
			f.t.Errorf("%s was returned twice", u.TenantID)
		}
		if seen[u.TenantID] = true; u.TenantID == f.TenantID() {
			own = &all[i]
		}
	}
	return own
}

func publicationUnpublished(f *fixture) {
	name := newID().String()
	epoch := f.lead(name, "a")
	if u := f.unpublished(name); u != nil {
		f.t.Errorf("a tenant without events has unpublished events: %+v", u)
	}
	f.Happens()
	neighbour := begin(f.t, f.Env)
	neighbour.Happens()
	events := f.All()
	if u := f.unpublished(name); u == nil || u.After != (trail.Position{}) || !u.Since.Equal(events[0].At) {
		f.t.Errorf("unpublished %+v; want all events, since %v", u, events[0].At)
	}
	if moved, err := f.Publications.Advance(f.t.Context(), name, epoch, f.TenantID(), events[0].Position); !moved ||
		err != nil {
		f.t.Fatalf("advance: %v, %v", moved, err)
	}
	if u := f.unpublished(name); u != nil {
		f.t.Errorf("everything is published, but unpublished events are reported: %+v", u)
	}
	if u := neighbour.unpublished(name); u == nil {
		f.t.Error("the neighbour's event was not found")
	}
	f.Happens()
	if u := f.unpublished(name); u == nil || u.After != events[0].Position {
		f.t.Errorf("unpublished %+v; want after %+v", u, events[0].Position)
	}
	if u := f.unpublished(newID().String()); u == nil || u.After != (trail.Position{}) {
		f.t.Errorf("another publication: %+v; want all events", u)
	}
}
