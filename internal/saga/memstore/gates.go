package memstore

import (
	"bytes"
	"cmp"
	"context"
	"maps"
	"slices"
	"time"

	"github.com/google/uuid"

	"github.com/skald-saga/skald/internal/audit/operator"
	"github.com/skald-saga/skald/internal/event/webhook"
	"github.com/skald-saga/skald/internal/saga"
	"github.com/skald-saga/skald/internal/saga/registry"
)

// park is part of the commit of a change.
func (m *memory) park(c *saga.Change) {
	if c.Park == "" {
		return
	}
	w := parkedSaga{participant: c.Park, call: c.After.NextCall(), at: c.After.UpdatedAt}
	if was, there := m.parked[c.After.Ref()]; there && was.participant == w.participant && was.call == w.call {
		w.at = was.at
	}
	m.parked[c.After.Ref()] = w
}

// waits returns the stored saga if its next call is still the one that is parked.
func (m *memory) waits(ref saga.Ref, w parkedSaga) *saga.Saga {
	s := m.sagas[ref]
	if s == nil || s.State.Terminal() || s.SuspendedAt != nil || s.LeaseOwner != nil || s.NextRunAt == nil ||
		!s.NextRunAt.After(m.now()) || s.NextCall() != w.call {
		return nil
	}
	return s
}

// waitsFor reports whether a saga waits for f's participant. It is true if f names none.
func (m *memory) waitsFor(ref saga.Ref, f saga.Filter) bool {
	w, there := m.parked[ref]
	s := m.sagas[ref]
	return f.WaitsFor == "" || there && w.granted == nil && w.participant == f.WaitsFor && !s.State.Terminal() &&
		s.NextCall() == w.call
}

// queue returns the sagas that wait for a participant, the longest-waiting first.
func (m *memory) queue(tenant uuid.UUID, name string) (refs []saga.Ref) {
	for ref, w := range m.parked {
		if ref.Tenant == tenant && w.participant == name && w.granted == nil && m.waits(ref, w) != nil {
			refs = append(refs, ref)
		}
	}
	slices.SortFunc(refs, func(a, b saga.Ref) int {
		return cmp.Or(m.parked[a].at.Compare(m.parked[b].at), bytes.Compare(a.ID[:], b.ID[:]))
	})
	return refs
}

// takeBack revokes the grants of callers that have not made their calls yet, so that they wait
// again.
func (m *memory) takeBack(p *registry.Participant) {
	for ref, w := range m.parked {
		if ref.Tenant == p.TenantID && w.participant == p.Name {
			w.granted = nil
			m.parked[ref] = w
		}
	}
	for c, w := range m.callers {
		if c.TenantID == p.TenantID && w.participant == p.Name {
			w.granted = nil
			m.callers[c] = w
		}
	}
}

// Count implements registry.Gates.
func (st *Participants) Count(_ context.Context, _ string, sums []registry.Sum) error {
	st.m.mu.Lock()
	defer st.m.mu.Unlock()
	for _, s := range sums {
		s.Codes = maps.Clone(s.Codes)
		st.m.calls = append(st.m.calls, s)
	}
	return nil
}

// Look implements registry.Gates.
func (st *Participants) Look(_ context.Context, all []*registry.Participant, now time.Time) ([]registry.Seen, error) {
	st.m.mu.Lock()
	defer st.m.mu.Unlock()
	seen := make([]registry.Seen, len(all))
	for i, p := range all {
		seen[i] = st.m.seen(p, now)
	}
	return seen, nil
}

func (m *memory) seen(p *registry.Participant, now time.Time) (seen registry.Seen) {
	window, state := p.Since(now)
	if waiting := m.queue(p.TenantID, p.Name); len(waiting) > 0 {
		seen.Waiting, seen.WaitsSince = true, m.parked[waiting[0]].at
	}
	for _, c := range m.standing(p.TenantID, p.Name) {
		if at := m.standsSince(c); !seen.Waiting || at.Before(seen.WaitsSince) {
			seen.Waiting, seen.WaitsSince = true, at
		}
	}
	for i := range m.calls {
		s := &m.calls[i]
		if s.TenantID != p.TenantID || s.Participant != p.Name {
			continue
		}
		if !s.Bucket.Before(window) {
			seen.Calls, seen.Failed = seen.Calls+s.Calls, seen.Failed+s.Failed
		}
		if s.Bucket.Before(state) {
			continue
		}
		seen.Let, seen.LetFailed = seen.Let+s.Let, seen.LetFailed+s.LetFailed
		if s.LetOKAt != nil && s.LetOKAt.After(seen.LastLetOK) {
			seen.LastLetOK = *s.LetOKAt
		}
		if s.Pause != nil && s.Pause.After(seen.Pause) {
			seen.Pause = *s.Pause
		}
	}
	return seen
}

// Decide implements registry.Gates.
func (st *Participants) Decide(
	_ context.Context, p *registry.Participant, d registry.Decision, now time.Time,
) (granted int, stored bool, err error) {
	st.m.mu.Lock()
	defer st.m.mu.Unlock()
	id := nameID{p.TenantID, p.Name}
	present, there := st.m.participants[id]
	if !there || present.Epoch != p.Epoch {
		return 0, false, nil
	}
	if d.Changed {
		if d.Verb(p.Gate.State) == registry.VerbHeld {
			st.m.takeBack(p)
		}
		st.m.pass(p.TenantID, p.Name, present.Gate.State, &d.Gate, now)
		present.Gate = d.Gate
		present.Epoch++
		st.m.participants[id] = copyParticipant(present)
	}
	refs := st.m.queue(p.TenantID, p.Name)
	due := st.m.now().Truncate(time.Microsecond)
	for _, c := range st.m.standing(p.TenantID, p.Name) {
		if granted < d.Grants && (len(refs) == 0 || st.m.callers[c].at.Before(st.m.parked[refs[0]].at)) {
			w := st.m.callers[c]
			w.granted = &due
			st.m.callers[c] = w
			granted++
		}
	}
	for _, ref := range refs[:min(d.Grants-granted, len(refs))] {
		w := st.m.parked[ref]
		w.granted = &due
		s := copySaga(st.m.sagas[ref])
		s.NextRunAt = &due
		st.m.parked[ref], st.m.sagas[ref] = w, &s
		granted++
	}
	return granted, true, nil
}

// pass updates a gate's history of outages and the audit trail, as part of the gate's change.
func (m *memory) pass(tenant uuid.UUID, name string, before registry.State, after *registry.Gate, now time.Time) {
	w, id := registry.PassageOf(before, after.State), nameID{tenant, name}
	all := m.past[id]
	present := len(all) > 0 && all[0].ReleasedAt.IsZero()
	var over *registry.Past
	switch {
	case w.Outage:
		all = append([]registry.Past{{HeldAt: after.Since, Reason: after.Reason, HeldBy: after.HeldBy}}, all...)
		m.past[id] = all[:min(len(all), registry.Shown+1)]
	case w.Release && present:
		all[0].ReleasingAt, all[0].Waited = &now, max(all[0].Waited, int64(len(m.queue(tenant, name))))
	case w.Released && present:
		all[0].ReleasedAt = now
		over = &all[0]
	}
	if e, ok := w.Event(tenant, name, after, over, operator.By{}, now); ok {
		m.audit = append(m.audit, e)
	}
}

// Past implements registry.Gates.
func (st *Participants) Past(_ context.Context, tenant uuid.UUID, name string) ([]registry.Past, error) {
	st.m.mu.Lock()
	defer st.m.mu.Unlock()
	var over []registry.Past
	for _, p := range st.m.past[nameID{tenant, name}] {
		if !p.ReleasedAt.IsZero() && len(over) < registry.Shown {
			over = append(over, p)
		}
	}
	return over, nil
}

// Fly implements registry.Gates.
func (st *Participants) Fly(_ context.Context, node string, flights []registry.Flight) error {
	st.m.mu.Lock()
	defer st.m.mu.Unlock()
	for _, f := range flights {
		st.m.flights[nodeFlight{node, nameID{f.TenantID, f.Participant}}] = f
	}
	return nil
}

// standing returns the callers other than sagas that wait for a participant, in order of arrival.
func (m *memory) standing(tenant uuid.UUID, name string) (all []registry.Caller) {
	for c, w := range m.callers {
		if c.TenantID == tenant && w.participant == name && w.granted == nil {
			all = append(all, c)
		}
	}
	slices.SortFunc(all, func(a, b registry.Caller) int {
		return cmp.Or(m.callers[a].at.Compare(m.callers[b].at), bytes.Compare(a.ID[:], b.ID[:]))
	})
	return all
}

// standsSince returns the time since which a caller has been waiting. A webhook takes a new place
// for each of its deliveries; it has been waiting since the first of them was due.
func (m *memory) standsSince(c registry.Caller) time.Time {
	since := m.callers[c].at
	if h := m.hooks[c.ID]; h != nil && c.Kind == registry.Webhook {
		for _, d := range h.deliveries {
			if d.Status == webhook.Pending && d.DueAt.Before(since) {
				since = d.DueAt
			}
		}
	}
	return since
}

// TakeTurn implements registry.Gates.
func (st *Participants) TakeTurn(_ context.Context, participant string, c registry.Caller) (bool, error) {
	st.m.mu.Lock()
	defer st.m.mu.Unlock()
	w, there := st.m.callers[c]
	switch {
	case there && w.participant == participant && w.granted != nil:
		delete(st.m.callers, c)
		return true, nil
	case !there || w.participant != participant:
		st.m.callers[c] = parkedSaga{participant: participant, at: st.m.now()}
	}
	return false, nil
}

// Take implements registry.Gates.
func (st *Participants) Take(_ context.Context, grants []registry.Grant) ([]bool, error) {
	st.m.mu.Lock()
	defer st.m.mu.Unlock()
	taken := make([]bool, len(grants))
	for i, g := range grants {
		w, there := st.m.parked[g.Of]
		if there && w.granted != nil && w.participant == g.Participant && w.call == g.Call {
			delete(st.m.parked, g.Of)
			taken[i] = true
		}
	}
	return taken, nil
}

// Wait implements registry.Gates.
func (st *Participants) Wait(_ context.Context, of saga.Ref) (*registry.Wait, error) {
	st.m.mu.Lock()
	defer st.m.mu.Unlock()
	w, there := st.m.parked[of]
	if !there || w.granted != nil {
		return nil, nil //nolint:nilnil // it does not wait at a gate
	}
	return &registry.Wait{
		Participant: w.participant, Call: w.call, Since: w.at, Waiting: int64(len(st.m.queue(of.Tenant, w.participant))),
	}, nil
}

// Waits implements registry.Gates.
func (st *Participants) Waits(_ context.Context, tenant uuid.UUID, sagas []uuid.UUID) (map[uuid.UUID]string, error) {
	st.m.mu.Lock()
	defer st.m.mu.Unlock()
	at := map[uuid.UUID]string{}
	for _, id := range sagas {
		ref := saga.Ref{Tenant: tenant, ID: id}
		if name := st.m.parked[ref].participant; name != "" && st.m.waitsFor(ref, saga.Filter{WaitsFor: name}) {
			at[id] = name
		}
	}
	return at, nil
}

// Figures implements registry.Gates.
func (st *Participants) Figures(
	_ context.Context, tenant uuid.UUID, name string, since time.Time,
) (registry.Figures, error) {
	st.m.mu.Lock()
	defer st.m.mu.Unlock()
	f := registry.Figures{Codes: map[string]int64{}, Waiting: int64(len(st.m.queue(tenant, name)))}
	for at, n := range st.m.flights {
		if at.of == (nameID{tenant, name}) {
			f.InFlight += int64(n.InFlight)
		}
	}
	for i := range st.m.calls {
		s := &st.m.calls[i]
		if s.TenantID != tenant || s.Participant != name || s.Bucket.Before(since) {
			continue
		}
		f.Calls, f.Failed = f.Calls+s.Calls, f.Failed+s.Failed
		for code, n := range s.Codes {
			f.Codes[code] += n
		}
		for i, n := range s.Latencies {
			f.Latencies[i] += n
		}
	}
	return f, nil
}

// unusedAfter is how long a grant may stay unused by a node.
const unusedAfter = time.Minute

// Sweep implements registry.Gates.
func (st *Participants) Sweep(context.Context) error {
	st.m.mu.Lock()
	defer st.m.mu.Unlock()
	now := st.m.now()
	st.m.calls = slices.DeleteFunc(st.m.calls, func(s registry.Sum) bool { return now.Sub(s.Bucket) > time.Hour })
	for ref, w := range st.m.parked {
		s := st.m.sagas[ref]
		switch gone := s == nil || s.State.Terminal() || s.NextCall() != w.call; {
		case gone && (w.granted == nil || now.Sub(*w.granted) > unusedAfter):
			delete(st.m.parked, ref)
		case !gone && w.granted != nil && now.Sub(*w.granted) > unusedAfter && st.m.waits(ref, w) != nil:
			w.granted = nil
			st.m.parked[ref] = w
		}
	}
	return nil
}

// Nodes implements registry.Gates.
func (st *Participants) Nodes(context.Context) (n int, err error) {
	st.m.mu.Lock()
	defer st.m.mu.Unlock()
	for id := range st.m.nodes {
		if st.m.alive(id) {
			n++
		}
	}
	return n, nil
}
