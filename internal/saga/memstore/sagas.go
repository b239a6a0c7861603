package memstore

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/google/uuid"

	"github.com/skald-saga/skald/internal/fault"
	"github.com/skald-saga/skald/internal/idempotency"
	"github.com/skald-saga/skald/internal/saga"
	"github.com/skald-saga/skald/internal/strictjson"
)

// Sagas implements saga.Store, saga.Ownership and saga.Archive in memory.
type Sagas struct{ m *memory }

// Create implements saga.Store.
func (st *Sagas) Create(_ context.Context, batch []saga.NewSaga) ([]saga.CreateResult, error) {
	st.m.mu.Lock()
	defer st.m.mu.Unlock()
	out := make([]saga.CreateResult, len(batch))
	for i := range batch {
		out[i] = st.m.create(&batch[i])
	}
	return out, nil
}

func (m *memory) create(n *saga.NewSaga) saga.CreateResult {
	if n.Key != nil {
		if row, used := m.keys[keyOf(n.Key)]; used && row.hash == string(n.Key.Hash) {
			return saga.CreateResult{Created: saga.Replayed, Prior: row.sagaID}
		} else if used {
			return saga.CreateResult{Created: saga.KeyReused}
		}
	}
	h := m.heads[nameID{n.Tenant.ID, n.WorkflowName}]
	switch {
	case h == nil || !h.enabled:
		return saga.CreateResult{Created: saga.NotRunnable}
	case n.Floating && n.WorkflowVersion != len(h.versions):
		return saga.CreateResult{Created: saga.NotCurrent}
	case m.sagas[n.Ref()] != nil, m.archive[n.Ref()] != nil:
		return saga.CreateResult{Created: saga.IDTaken}
	case !storable(n.Payload) || !storable(n.Metadata):
		return saga.CreateResult{Created: saga.Unstorable}
	}
	if other := m.active(&n.Saga); other != nil {
		if !n.Join {
			return saga.CreateResult{Created: saga.KeyActive, Prior: other.ID}
		}
		if n.Key != nil {
			m.keys[keyOf(n.Key)] = keyRow{string(n.Key.Hash), other.ID, m.now()}
		}
		return saga.CreateResult{Created: saga.Joined, Prior: other.ID}
	}
	s := copySaga(&n.Saga)
	s.TimeoutAt = nil
	if s.TimeoutMS != nil {
		at := m.now().Add(time.Duration(*s.TimeoutMS) * time.Millisecond)
		s.TimeoutAt = micro(&at)
	}
	m.sagas[s.Ref()] = &s
	begun := s.Begun(n.Actor, n.RequestID)
	begun.NameActor(n.ActorName)
	m.audit = append(m.audit, copyEvent(begun))
	if n.Key != nil {
		m.keys[keyOf(n.Key)] = keyRow{string(n.Key.Hash), s.ID, m.now()}
	}
	return saga.CreateResult{Created: saga.Stored, Saga: copySaga(&s)}
}

// active returns the unfinished saga that has the business key of s, or nil if there is none.
func (m *memory) active(s *saga.Saga) *saga.Saga {
	if s.BusinessKey == nil {
		return nil
	}
	for _, other := range m.sagas {
		if other.BusinessKey != nil && *other.BusinessKey == *s.BusinessKey && other.Tenant.ID == s.Tenant.ID &&
			other.WorkflowName == s.WorkflowName && !other.State.Terminal() && other.ID != s.ID {
			return other
		}
	}
	return nil
}

// storable mimics jsonb, which rejects the same characters as package strictjson: NUL and unpaired
// surrogates.
func storable(j json.RawMessage) bool {
	if j == nil {
		return true
	}
	_, err := strictjson.Canonical(nil, j, strictjson.Stored)
	return err == nil
}

func storableError(e *saga.Error) bool {
	if e == nil {
		return true
	}
	j, err := json.Marshal(e)
	return err == nil && storable(j)
}

// Commit implements saga.Store.
func (st *Sagas) Commit(_ context.Context, batch []saga.Change) ([]error, error) {
	st.m.mu.Lock()
	defer st.m.mu.Unlock()
	seen := map[saga.Ref]bool{}
	for i := range batch {
		if seen[batch[i].After.Ref()] {
			return nil, fmt.Errorf("commit: two changes of saga %s in one batch", batch[i].After.ID)
		}
		seen[batch[i].After.Ref()] = true
	}
	out := make([]error, len(batch))
	for i := range batch {
		out[i] = st.m.commit(&batch[i])
	}
	return out, nil
}

func (m *memory) commit(c *saga.Change) error {
	if c.Key != nil {
		if _, used := m.keys[keyOf(c.Key)]; used {
			return saga.KeyUsed()
		}
	}
	now := m.sagas[c.After.Ref()]
	if now == nil || now.Version != c.Before.Version || now.LeaseEpoch != c.Before.Epoch {
		return c.Stale()
	}
	if now.State.Terminal() && !c.After.State.Terminal() {
		if other := m.active(now); other != nil {
			return saga.BusinessKeyActive(*now.BusinessKey, other.ID)
		}
	}
	ok := storableError(c.After.Error) && storable(c.After.Result) && (!now.State.Terminal() || now.State == saga.Failed)
	for i := range c.Logs {
		ok = ok && m.recordable(c.After.Ref(), &c.Logs[i])
	}
	for i := range c.Audit {
		ok = ok && storable(c.Audit[i].Data) && storableError(c.Audit[i].Error)
	}
	if !ok {
		return fault.New(fault.Invalid, saga.CodeUnstorable, "the store refused this change of saga %s", c.After.ID)
	}
	after := c.After.Saga
	if c.Letter != nil {
		after = c.WithoutLetter().After.Saga
	}
	s := copySaga(&after)
	s.Tenant, s.TimeoutAt, s.CompensationTimeoutAt, s.SuspendedAt = now.Tenant, now.TimeoutAt,
		now.CompensationTimeoutAt, now.SuspendedAt
	m.operate(&s, c.Operated)
	if c.StartsCompensation {
		s.CompensationTimeoutAt = nil
		if s.CompensationTimeoutMS != nil {
			at := m.now().Add(time.Duration(*s.CompensationTimeoutMS) * time.Millisecond)
			s.CompensationTimeoutAt = micro(&at)
		}
		c.After.CompensationTimeoutAt = copied(s.CompensationTimeoutAt)
	}
	m.troubles[s.Ref()] = m.troubles[s.Ref()].After(now, &c.After)
	m.sagas[s.Ref()] = &s
	m.park(c)
	for i := range c.Logs {
		m.record(c.After.Ref(), copyLog(&c.Logs[i]))
	}
	for i := range c.Audit {
		m.audit = append(m.audit, copyEvent(c.Audit[i]))
	}
	if c.Key != nil {
		m.keys[keyOf(c.Key)] = keyRow{string(c.Key.Hash), c.After.ID, m.now()}
	}
	return nil
}

// operate sets the fields that only operators change, using the store's clock.
func (m *memory) operate(s *saga.Saga, o *saga.Operated) {
	if o == nil {
		return
	}
	now := m.now()
	switch {
	case o.Suspend == nil:
	case *o.Suspend:
		s.SuspendedAt = micro(&now)
	default:
		s.SuspendedAt = nil
	}
	if o.DeadlineInMS != nil {
		at := now.Add(time.Duration(*o.DeadlineInMS) * time.Millisecond)
		switch {
		case s.State.Forward():
			s.TimeoutAt = micro(&at)
		case s.State == saga.Compensating:
			s.CompensationTimeoutAt = micro(&at)
		}
	}
}

// attempt returns the index of the log of the same attempt in its saga's logs, or -1.
func (m *memory) attempt(of saga.Ref, l *saga.StepLog) int {
	return slices.IndexFunc(m.logs[of], func(o saga.StepLog) bool {
		return o.StepIndex == l.StepIndex && o.Action == l.Action && o.Attempt == l.Attempt
	})
}

// recordable reports whether the database would accept a log: each attempt has only one row.
func (m *memory) recordable(of saga.Ref, l *saga.StepLog) bool {
	return storable(l.Request) && storable(l.Response) && storableError(l.Error) && (l.Completes || m.attempt(of, l) < 0)
}

// record appends a step log, or completes the RUNNING log of the same attempt.
func (m *memory) record(of saga.Ref, l saga.StepLog) {
	logs := m.logs[of]
	switch i := m.attempt(of, &l); {
	case i < 0 && !l.Completes:
		m.logs[of] = append(logs, l)
	case i >= 0 && logs[i].Status == saga.LogRunning:
		l.ID, l.StartedAt, l.Completes = logs[i].ID, logs[i].StartedAt, false
		logs[i] = l
	}
}

// Load implements saga.Store.
func (st *Sagas) Load(_ context.Context, refs []saga.Ref) ([]saga.Loaded, error) {
	st.m.mu.Lock()
	defer st.m.mu.Unlock()
	var out []saga.Loaded
	for _, ref := range slices.Compact(slices.SortedFunc(slices.Values(refs), saga.Ref.Compare)) {
		if s := st.m.sagas[ref]; s != nil {
			out = append(out, st.m.loaded(s))
		}
	}
	return out, nil
}

func (m *memory) loaded(s *saga.Saga) saga.Loaded {
	return saga.Loaded{Saga: copySaga(s), Logs: copyLogs(m.logs[s.Ref()])}
}

// Get implements saga.Store.
func (st *Sagas) Get(_ context.Context, tenant, id uuid.UUID) (saga.Saga, error) {
	st.m.mu.Lock()
	defer st.m.mu.Unlock()
	if s := st.m.sagas[saga.Ref{Tenant: tenant, ID: id}]; s != nil {
		return copySaga(s), nil
	}
	return saga.Saga{}, saga.NotFound(id)
}

// StepLogs implements saga.Store.
func (st *Sagas) StepLogs(_ context.Context, tenant, id uuid.UUID, want saga.Logs) ([]saga.StepLog, error) {
	st.m.mu.Lock()
	defer st.m.mu.Unlock()
	return saga.InOrder(wanted(copyLogs(st.m.logs[saga.Ref{Tenant: tenant, ID: id}]), want)), nil
}

// wanted drops the parts that were not requested from copies of logs.
func wanted(logs []saga.StepLog, want saga.Logs) []saga.StepLog {
	if len(want.IDs) > 0 {
		logs = slices.DeleteFunc(logs, func(l saga.StepLog) bool { return !slices.Contains(want.IDs, l.ID) })
	}
	for i := range logs {
		if want.Brief || want.Explained {
			logs[i].LeaveContent()
		}
	}
	if want.Explained {
		leaveErrors(logs, 5)
	}
	return logs
}

// leaveErrors keeps only the newest errors.
func leaveErrors(logs []saga.StepLog, most int) {
	byTime := make([]*saga.StepLog, 0, len(logs))
	for i := range logs {
		if logs[i].Error != nil {
			byTime = append(byTime, &logs[i])
		}
	}
	slices.SortStableFunc(byTime, func(a, b *saga.StepLog) int { return b.UpdatedAt.Compare(a.UpdatedAt) })
	for _, l := range byTime[min(most, len(byTime)):] {
		l.Error = nil
	}
}

// Key implements saga.Store.
func (st *Sagas) Key(_ context.Context, k idempotency.Key) (saga.KeyState, uuid.UUID, error) {
	st.m.mu.Lock()
	defer st.m.mu.Unlock()
	switch row, used := st.m.keys[keyOf(&k)]; {
	case !used:
		return saga.KeyNew, uuid.Nil, nil
	case row.hash != string(k.Hash):
		return saga.KeyOther, row.sagaID, nil
	default:
		return saga.KeySame, row.sagaID, nil
	}
}

// ExpireKeys deletes idempotency keys older than keep, and returns how many it deleted.
func (st *Sagas) ExpireKeys(_ context.Context, keep time.Duration) (int64, error) {
	st.m.mu.Lock()
	defer st.m.mu.Unlock()
	before, n := st.m.now().Add(-keep), len(st.m.keys)+len(st.m.answers)
	maps.DeleteFunc(st.m.keys, func(_ keyID, row keyRow) bool { return row.createdAt.Before(before) })
	maps.DeleteFunc(st.m.answers, func(_ keyID, row answerRow) bool { return row.createdAt.Before(before) })
	return int64(n - len(st.m.keys) - len(st.m.answers)), nil
}
