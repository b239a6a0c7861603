package storetest

import (
	"slices"
	"time"

	"github.com/google/uuid"

	"github.com/skald-saga/skald/internal/saga"
	"github.com/skald-saga/skald/internal/tenant"
)

var turns = []contract{
	{"tenants take turns when unowned sagas are claimed, each with its oldest", turnsOfUnowned},
	{"tenants take turns when a dead node's sagas are taken over", turnsOfLeftBehind},
	{"a claim of a single saga continues with the next tenant", turnsOneByOne},
	{"a tenant without due sagas costs no other tenant a turn", turnsOfDue},
}

// tenants returns the fixture's tenant and two more tenants that have its workflow.
func (f *fixture) tenants() [3]tenant.Tenant {
	f.t.Helper()
	all := [3]tenant.Tenant{f.tenant, {ID: newID()}, {ID: newID()}}
	for _, t := range all[1:] {
		if _, _, err := f.Env.Workflows.Register(f.t.Context(), t.ID, f.def, false, f.now()); err != nil {
			f.t.Fatal(err)
		}
	}
	return all
}

func forTenant(t tenant.Tenant) func(*saga.NewSaga) { return func(n *saga.NewSaga) { n.Tenant = t } }

// crowd stores 40 sagas of the first tenant, then 3 of the second and 1 of the third, all made by
// newSaga. It returns the ids by tenant, oldest first.
func (f *fixture) crowd(
	all [3]tenant.Tenant,
	newSaga func(...func(*saga.NewSaga)) saga.NewSaga,
) map[uuid.UUID][]uuid.UUID {
	f.t.Helper()
	ids := map[uuid.UUID][]uuid.UUID{}
	for i, n := range []int{40, 3, 1} {
		for range n {
			s := newSaga(forTenant(all[i]))
			f.stored(s)
			ids[all[i].ID] = append(ids[all[i].ID], s.ID)
		}
	}
	return ids
}

// wantTurns claims four sagas, three times. All sagas of the tenants with few must be claimed, and
// some of the oldest of the tenant with many.
func (f *fixture) wantTurns(all [3]tenant.Tenant, ids map[uuid.UUID][]uuid.UUID) {
	f.t.Helper()
	got := map[uuid.UUID][]uuid.UUID{}
	for range 3 {
		for _, l := range f.claim(f.owner, 4) {
			got[l.Saga.Tenant.ID] = append(got[l.Saga.Tenant.ID], l.Saga.ID)
		}
	}
	for i, t := range all {
		want := ids[t.ID]
		if i == 0 {
			n := len(got[t.ID])
			if n < 4 {
				f.t.Errorf("%d of 12 claimed sagas belong to the tenant with many", n)
			}
			want = want[:n]
		}
		slices.SortFunc(
			got[t.ID],
			func(a, b uuid.UUID) int { return slices.Index(ids[t.ID], a) - slices.Index(ids[t.ID], b) },
		)
		if !slices.Equal(got[t.ID], want) {
			f.t.Errorf("tenant %d got %v, want %v", i, got[t.ID], want)
		}
	}
}

func turnsOfUnowned(f *fixture) {
	all := f.tenants()
	f.wantTurns(all, f.crowd(all, f.unowned))
}

func turnsOfLeftBehind(f *fixture) {
	all := f.tenants()
	dead, die := f.dead()
	ids := f.crowd(all, func(change ...func(*saga.NewSaga)) saga.NewSaga { return f.owned(dead, change...) })
	die()
	f.wantTurns(all, ids)
}

func turnsOneByOne(f *fixture) {
	all := f.tenants()
	f.crowd(all, f.unowned)
	served := map[uuid.UUID]int{}
	for range 6 {
		for _, l := range f.claim(f.owner, 1) {
			served[l.Saga.Tenant.ID]++
		}
	}
	// The third tenant has only one saga; the other two tenants share the rest.
	if a, b, c := served[all[0].ID], served[all[1].ID], served[all[2].ID]; c != 1 || a+b != 5 || a < 2 || b < 2 {
		f.t.Errorf("of six claimed sagas, the tenants got %d, %d and %d", a, b, c)
	}
}

func turnsOfDue(f *fixture) {
	all := f.tenants()
	later := f.now().Add(24 * time.Hour)
	f.stored(f.unowned(forTenant(all[0]), func(n *saga.NewSaga) { n.NextRunAt = &later }))
	f.stored(f.unowned(forTenant(all[1]), func(n *saga.NewSaga) { n.NextRunAt = &later }))
	due := f.unowned(forTenant(all[2]))
	f.stored(due)
	for range 2 { // if idle tenants had turns, each claim could go to one of the other two tenants
		for _, l := range f.claim(f.owner, 1) {
			if l.Saga.ID == due.ID {
				return
			}
		}
	}
	f.t.Error("the only saga that is due was not claimed")
}
