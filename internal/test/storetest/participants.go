package storetest

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/skald-saga/skald/internal/fault"
	"github.com/skald-saga/skald/internal/page"
	"github.com/skald-saga/skald/internal/saga/registry"
)

// ParticipantStore combines all interfaces that a store implements for named participants.
type ParticipantStore interface {
	registry.Store
	registry.Gates
}

// Participants tests registry.Store and registry.Rows.
func Participants(t *testing.T, open func(t *testing.T) Env) {
	run(t, map[string][]contract{"participants": participants, "gates": gates}, open)
}

var participants = []contract{
	{"a participant is read as it was stored, and only by its tenant", participantRead},
	{"a change based on another version or epoch is refused, and a change of the settings leaves the gate as it is", participantStale},
	{"two participants of a tenant never have the same URL", participantURL},
	{"participants are listed by name, filtered, in pages", participantList},
	{"a node reads all participants when one of them has changed, and nothing otherwise", participantChanged},
}

// party returns a new participant.
func (f *fixture) party(name string) registry.Participant {
	s := registry.Settings{
		BaseURL: "http://" + name + ".example/v1", TimeoutMS: 700, MaxInFlight: 3,
		Headers: map[string]string{"X-Team": "Bäcker", "Authorization": "not a secret"}, Outage: registry.DefaultOutage,
	}
	return registry.New(f.tenant.ID, name, s, "alice", f.now())
}

func (f *fixture) put(p registry.Participant, epoch int64) {
	f.t.Helper()
	if err := f.Participants.Put(f.t.Context(), p, epoch, registry.VerbPut); err != nil {
		f.t.Fatal(err)
	}
}

func (f *fixture) has(want registry.Participant) {
	f.t.Helper()
	got, err := f.Participants.Get(f.t.Context(), f.tenant.ID, want.Name)
	if err != nil {
		f.t.Fatal(err)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		f.t.Errorf("%s (-want +got):\n%s", want.Name, diff)
	}
}

func participantRead(f *fixture) {
	p := f.party("card")
	f.put(p, 0)
	f.has(p)
	p = p.Hold("bob", "", "maintenance", f.now())
	f.put(p, p.Epoch-1)
	f.has(p)
	p, _ = p.Release("bob", 3.5, f.now())
	f.put(p, p.Epoch-1)
	f.has(p)
	other := newID()
	_, err := f.Participants.Get(f.t.Context(), other, "card")
	f.wantFault(err, fault.NotFound, registry.CodeNotFound)
	f.wantFault(f.Participants.Delete(f.t.Context(), other, "card", 0), fault.NotFound, registry.CodeNotFound)
	f.wantFault(f.Participants.Delete(f.t.Context(), f.tenant.ID, "card", 1), fault.Precondition, registry.CodeStale)
	if err := f.Participants.Delete(f.t.Context(), f.tenant.ID, "card", p.Version); err != nil {
		f.t.Fatal(err)
	}
	_, err = f.Participants.Get(f.t.Context(), f.tenant.ID, "card")
	f.wantFault(err, fault.NotFound, registry.CodeNotFound)
	f.wantFault(f.Participants.Put(f.t.Context(), p.With(p.Settings, f.now()), 0, registry.VerbPut), fault.NotFound,
		registry.CodeNotFound)
}

func participantStale(f *fixture) {
	first := f.party("card")
	f.put(first, 0)
	put := func(p registry.Participant, epoch int64) error {
		return f.Participants.Put(f.t.Context(), p, epoch, registry.VerbPut)
	}
	f.wantFault(put(first, 0), fault.Precondition, registry.CodeStale)
	held := first.Hold("bob", "", "", f.now())
	f.put(held, first.Epoch)
	f.wantFault(put(held, first.Epoch), fault.Precondition, registry.CodeStale)
	again := held.Hold("eve", "", "", f.now())
	f.wantFault(put(again, first.Epoch), fault.Precondition, registry.CodeStale)
	f.has(held)
	// The gate has changed since the settings were read; writing the settings must leave the gate
	// as it is.
	other := first.Settings
	other.MaxInFlight = 9
	late := first
	late.Version = held.Version
	late = late.With(other, f.now())
	f.put(late, 0)
	late.Gate, late.Epoch = held.Gate, held.Epoch
	f.has(late)
}

func participantURL(f *fixture) {
	a, b := f.party("a"), f.party("b")
	f.put(a, 0)
	b.Settings.BaseURL = a.Settings.BaseURL
	f.wantFault(f.Participants.Put(f.t.Context(), b, 0, registry.VerbPut), fault.Conflict, registry.CodeURLTaken)
	b = f.party("b")
	f.put(b, 0)
	b = b.With(a.Settings, f.now())
	f.wantFault(f.Participants.Put(f.t.Context(), b, 0, registry.VerbPut), fault.Conflict, registry.CodeURLTaken)
	b = f.party("a")
	b.TenantID = newID()
	f.put(b, 0) // a participant of another tenant
}

func participantList(f *fixture) {
	for _, name := range []string{"b", "card-2", "Card", "card-1", "ß"} {
		p := f.party(name)
		if name == "card-1" {
			p = p.Hold("bob", "", "", f.now())
			p.Version = 1
		}
		f.put(p, 0)
	}
	names := func(filter registry.Filter) (all []string) {
		filter.Limit = 2
		for {
			found, err := f.Participants.List(f.t.Context(), f.tenant.ID, filter)
			if err != nil {
				f.t.Fatal(err)
			}
			for i := range found.Items {
				all = append(all, found.Items[i].Name)
			}
			if !found.More {
				return all
			}
			filter.After = new(all[len(all)-1])
		}
	}
	for _, tt := range []struct {
		filter registry.Filter
		want   []string
	}{
		{registry.Filter{}, []string{"Card", "b", "card-1", "card-2", "ß"}},
		{registry.Filter{Name: "card*"}, []string{"card-1", "card-2"}},
		{registry.Filter{Name: "card"}, nil},
		{registry.Filter{Name: "b"}, []string{"b"}},
		{registry.Filter{State: registry.Held}, []string{"card-1"}},
		{registry.Filter{Name: "b", State: registry.Held}, nil},
	} {
		if diff := cmp.Diff(tt.want, names(tt.filter)); diff != "" {
			f.t.Errorf("%+v (-want +got):\n%s", tt.filter, diff)
		}
	}
	found, err := f.Participants.List(f.t.Context(), f.tenant.ID,
		registry.Filter{Request: page.Request[string]{Limit: 1, Offset: 1, Total: true}})
	if err != nil || found.Total != 5 || len(found.Items) != 1 || found.Items[0].Name != "b" {
		f.t.Errorf("second of five: %+v, %v", found, err)
	}
}

func participantChanged(f *fixture) {
	var mark registry.Mark
	look := func() (mine map[string]registry.State, changed bool) {
		all, next, changed, err := f.Participants.Changed(f.t.Context(), mark)
		if err != nil {
			f.t.Fatal(err)
		}
		mark, mine = next, map[string]registry.State{}
		for i := range all {
			if all[i].TenantID == f.tenant.ID {
				mine[all[i].Name] = all[i].Gate.State
			}
		}
		return mine, changed
	}
	look()
	card, stock := f.party("card"), f.party("stock")
	for _, step := range []struct {
		do   func()
		want map[string]registry.State
	}{
		{func() { f.put(card, 0) }, map[string]registry.State{"card": registry.Open}},
		{func() { f.put(stock, 0) }, map[string]registry.State{"card": registry.Open, "stock": registry.Open}},
		{func() { f.put(card.Hold("bob", "", "", f.now()), 1) }, map[string]registry.State{"card": registry.Held, "stock": registry.Open}},
		{func() {
			if err := f.Participants.Delete(f.t.Context(), f.tenant.ID, "stock", 0); err != nil {
				f.t.Fatal(err)
			}
		}, map[string]registry.State{"card": registry.Held}},
	} {
		step.do()
		got, changed := look()
		if diff := cmp.Diff(step.want, got); diff != "" || !changed {
			f.t.Errorf("changed %t (-want +got):\n%s", changed, diff)
		}
		if got, changed := look(); changed || len(got) != 0 {
			f.t.Errorf("nothing has changed, but %v was read", got)
		}
	}
}
