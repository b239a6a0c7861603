package memstore

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/skald-saga/skald/internal/page"
	"github.com/skald-saga/skald/internal/saga/registry"
)

// Participants implements registry.Store and registry.Rows in memory. It has no audit trail.
type Participants struct{ m *memory }

// Get implements registry.Store.
func (st *Participants) Get(_ context.Context, tenant uuid.UUID, name string) (registry.Participant, error) {
	st.m.mu.Lock()
	defer st.m.mu.Unlock()
	p, there := st.m.participants[nameID{tenant, name}]
	if !there {
		return registry.Participant{}, registry.NotFound(name)
	}
	return copyParticipant(p), nil
}

// List implements registry.Store.
func (st *Participants) List(
	_ context.Context, tenant uuid.UUID, f registry.Filter,
) (page.Of[registry.Participant], error) {
	st.m.mu.Lock()
	defer st.m.mu.Unlock()
	var all []registry.Participant
	for _, p := range st.m.everyParticipant() {
		if p.TenantID == tenant && f.Matches(&p) {
			all = append(all, p)
		}
	}
	return page.In(f.Request, all, func(p *registry.Participant, after string) bool { return p.Name > after }), nil
}

// everyParticipant returns copies of all participants, ordered by tenant and name.
func (m *memory) everyParticipant() []registry.Participant {
	all := make([]registry.Participant, 0, len(m.participants))
	for _, p := range m.participants {
		all = append(all, copyParticipant(p))
	}
	slices.SortFunc(all, func(a, b registry.Participant) int {
		return cmp.Or(strings.Compare(a.TenantID.String(), b.TenantID.String()), strings.Compare(a.Name, b.Name))
	})
	return all
}

// Put implements registry.Store.
func (st *Participants) Put(_ context.Context, p registry.Participant, epoch int64, _ string) error {
	st.m.mu.Lock()
	defer st.m.mu.Unlock()
	id, count := nameID{p.TenantID, p.Name}, 0
	present, there := st.m.participants[id]
	for other, o := range st.m.participants {
		if other.tenant == p.TenantID {
			count++
			if other != id && o.Settings.BaseURL == p.Settings.BaseURL {
				return registry.Taken(p.Settings.BaseURL)
			}
		}
	}
	switch {
	case p.Version == 1 && there, there && present.Version != p.Version-1, there && epoch != 0 && present.Epoch != epoch:
		return registry.Stale(p.Name, present.Version)
	case p.Version == 1 && count >= registry.MaxPerTenant:
		return registry.Full()
	case p.Version > 1 && !there:
		return registry.NotFound(p.Name)
	case there && epoch == 0:
		p.Gate, p.Epoch = present.Gate, present.Epoch
	}
	if epoch != 0 && p.Gate.HeldBy != "" {
		st.m.takeBack(&p)
	}
	if there {
		st.m.pass(p.TenantID, p.Name, present.Gate.State, &p.Gate, p.UpdatedAt)
		p.CreatedAt, p.CreatedBy = present.CreatedAt, present.CreatedBy
	}
	st.m.participants[id] = copyParticipant(p)
	return nil
}

// Delete implements registry.Store.
func (st *Participants) Delete(_ context.Context, tenant uuid.UUID, name string, version int64) error {
	st.m.mu.Lock()
	defer st.m.mu.Unlock()
	present, there := st.m.participants[nameID{tenant, name}]
	switch {
	case !there:
		return registry.NotFound(name)
	case version != 0 && version != present.Version:
		return registry.Stale(name, present.Version)
	}
	now := st.m.now().Truncate(time.Microsecond)
	open := registry.Gate{State: registry.Open, Reason: "the participant was deleted"}
	st.m.pass(tenant, name, present.Gate.State, &open, now)
	delete(st.m.participants, nameID{tenant, name})
	delete(st.m.past, nameID{tenant, name})
	for ref, w := range st.m.parked {
		if ref.Tenant == tenant && w.participant == name {
			delete(st.m.parked, ref)
			if s := st.m.waits(ref, w); s != nil {
				due := copySaga(s)
				due.NextRunAt = &now
				st.m.sagas[ref] = &due
			}
		}
	}
	return nil
}

// Changed implements registry.Rows.
func (st *Participants) Changed(
	_ context.Context, since registry.Mark,
) (all []registry.Participant, next registry.Mark, changed bool, err error) {
	st.m.mu.Lock()
	defer st.m.mu.Unlock()
	var versions, epochs int64
	var newest time.Time
	for _, p := range st.m.participants {
		versions, epochs = versions+p.Version, epochs+p.Epoch
		if p.CreatedAt.After(newest) {
			newest = p.CreatedAt
		}
	}
	next = registry.Mark(fmt.Sprint(len(st.m.participants), "/", versions, "/", epochs, "/", newest.UnixMicro()))
	if next == since {
		return nil, since, false, nil
	}
	return st.m.everyParticipant(), next, true, nil
}
