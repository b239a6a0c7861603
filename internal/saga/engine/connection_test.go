package engine_test

import (
	"context"
	"errors"
	"time"

	"github.com/google/uuid"

	"github.com/skald-saga/skald/internal/saga"
	"github.com/skald-saga/skald/internal/saga/memstore"
)

// connection is one node's connection to the database. It can fail before or after a
// commit, and dies with its node.
type connection struct {
	*memstore.Sagas
	w      *world
	faults      // guarded by w.mu
	dead   bool // guarded by w.mu
}

// faults are the failures of a connection; nil functions never fail. They are called with
// w.mu held.
type faults struct {
	fault func(request) failure
	// latency is how long a request takes to reach the database, and its result back.
	latency func(op) (there, back time.Duration)
	// refuse is the database's error for the content of a change.
	refuse func(*saga.Change) error
}

// inject sets the faults of the node's connection from now on.
func (n *node) inject(t faults) {
	n.w.mu.Lock()
	defer n.w.mu.Unlock()
	n.connection.faults = t
}

// request is the argument of fault.
type request struct {
	op   op
	ids  []uuid.UUID // the sagas written or read, if known beforehand
	sees []int64     // for commits: the version on which each change is based
}

type op string

const (
	creating    op = "create"
	committing  op = "commit"
	claiming    op = "claim"
	loading     op = "load"
	releasing   op = "release"
	inquiring   op = "former"
	registering op = "register"
	renewing    op = "renew"
	resigning   op = "resign"
	lookingDue  op = "due"
	reaping     op = "overdue"
)

// failure is the result of a request.
type failure int

const (
	passes     failure = iota
	lostBefore         // nothing is written, and the caller gets an error
	lostAfter          // it is written, and the caller gets an error
	diesBefore         // the node dies before the commit
	diesAfter          // the node dies after the commit
)

var (
	errLost = errors.New("the connection is lost")
	errDead = errors.New("this node is dead")
)

func (c *connection) die() {
	c.w.mu.Lock()
	defer c.w.mu.Unlock()
	c.dead = true
}

func (c *connection) alive() bool {
	c.w.mu.Lock()
	defer c.w.mu.Unlock()
	return !c.dead
}

func (c *connection) distance(o op) (there, back time.Duration) {
	c.w.mu.Lock()
	defer c.w.mu.Unlock()
	if c.latency == nil {
		return 0, 0
	}
	return c.latency(o)
}

// do runs one transaction; f also does the bookkeeping.
func (c *connection) do(r request, f func()) error {
	there, back := c.distance(r.op)
	time.Sleep(there)
	defer time.Sleep(back)
	c.w.mu.Lock()
	defer c.w.mu.Unlock()
	if c.dead {
		return errDead
	}
	m := passes
	if c.fault != nil {
		m = c.fault(r)
	}
	if m != lostBefore && m != diesBefore {
		f()
	}
	c.dead = m == diesBefore || m == diesAfter
	switch m {
	case passes:
		return nil
	case diesBefore, diesAfter:
		return errDead
	}
	return errLost
}

func (c *connection) Create(ctx context.Context, batch []saga.NewSaga) (out []saga.CreateResult, err error) {
	r := request{op: creating}
	for i := range batch {
		r.ids = append(r.ids, batch[i].ID)
	}
	lost := c.do(r, func() {
		out, err = c.Sagas.Create(ctx, batch)
		for i := range out {
			if out[i].Created == saga.Stored {
				c.w.owned[batch[i].ID] = batch[i].LeaseOwner != nil
			}
		}
	})
	return out, errors.Join(lost, err)
}

func (c *connection) Commit(ctx context.Context, batch []saga.Change) (out []error, err error) {
	r := request{op: committing}
	for i := range batch {
		r.ids = append(r.ids, batch[i].After.ID)
		r.sees = append(r.sees, batch[i].Before.Version)
	}
	lost := c.do(r, func() {
		out = make([]error, len(batch))
		for i := range batch {
			if out[i] = c.commit(ctx, &batch[i]); out[i] == nil {
				c.w.committed(&batch[i])
			}
		}
	})
	return out, lost
}

// changed is a change as it was stored.
type changed struct {
	saga.Change
	refused error
}

// flush is Commit for a group commit.
func (c *connection) flush(ctx context.Context, batch []saga.Change) ([]changed, error) {
	refusals, err := c.Commit(ctx, batch)
	out := make([]changed, len(refusals))
	for i, refused := range refusals {
		out[i] = changed{batch[i], refused}
	}
	return out, err
}

func (c *connection) commit(ctx context.Context, change *saga.Change) error {
	if c.refuse != nil {
		if err := c.refuse(change); err != nil {
			return err
		}
	}
	batch := []saga.Change{*change}
	results, err := c.Sagas.Commit(ctx, batch)
	*change = batch[0]
	return errors.Join(append(results, err)...)
}

// committed does the bookkeeping of an accepted change. w.mu is held.
func (w *world) committed(c *saga.Change) {
	s := &c.After.Saga
	w.owned[s.ID] = s.LeaseOwner != nil
	first, ended := w.ends[s.ID]
	switch {
	case ended && first == saga.Failed && s.State == saga.Compensating:
		w.resumes[s.ID]++
		delete(w.ends, s.ID)
	case ended:
		w.t.Errorf("saga %s changes to %s after it has ended %s", s.ID, s.State, first)
	case s.State.Terminal():
		w.ends[s.ID] = s.State
	}
}

func (c *connection) Claim(ctx context.Context, owner int64, limit int) (out []saga.Loaded, err error) {
	lost := c.do(request{op: claiming}, func() {
		out, err = c.Sagas.Claim(ctx, owner, limit)
		for _, l := range out {
			if c.w.owned[l.Saga.ID] {
				c.w.takeovers[l.Saga.ID]++
			}
			c.w.owned[l.Saga.ID] = true
		}
	})
	if lost != nil {
		return nil, lost
	}
	return out, err
}

func (c *connection) Release(ctx context.Context, owner int64, refs []saga.Ref) (err error) {
	lost := c.do(request{op: releasing, ids: idsOf(refs)}, func() {
		err = c.Sagas.Release(ctx, owner, refs)
		for _, id := range idsOf(refs) {
			c.w.owned[id] = c.w.load(id).Saga.LeaseOwner != nil
		}
	})
	return errors.Join(lost, err)
}

func idsOf(refs []saga.Ref) []uuid.UUID {
	ids := make([]uuid.UUID, len(refs))
	for i, ref := range refs {
		ids[i] = ref.ID
	}
	return ids
}

func (c *connection) Load(ctx context.Context, refs []saga.Ref) (out []saga.Loaded, err error) {
	if lost := c.do(request{op: loading, ids: idsOf(refs)}, func() { out, err = c.Sagas.Load(ctx, refs) }); lost != nil {
		return nil, lost
	}
	return out, err
}

func (c *connection) Former(ctx context.Context, name string) (f saga.Incarnation, found bool, err error) {
	lost := c.do(request{op: inquiring}, func() { f, found, err = c.Sagas.Former(ctx, name) })
	return f, found, errors.Join(lost, err)
}

func (c *connection) Register(ctx context.Context, name, process string, ttl time.Duration) (owner int64, err error) {
	lost := c.do(request{op: registering}, func() { owner, err = c.Sagas.Register(ctx, name, process, ttl) })
	return owner, errors.Join(lost, err)
}

func (c *connection) Renew(ctx context.Context, owner int64, ttl time.Duration) (held bool, err error) {
	lost := c.do(request{op: renewing}, func() { held, err = c.Sagas.Renew(ctx, owner, ttl) })
	return held, errors.Join(lost, err)
}

func (c *connection) Resign(ctx context.Context, owner int64) (err error) {
	lost := c.do(request{op: resigning}, func() { err = c.Sagas.Resign(ctx, owner) })
	return errors.Join(lost, err)
}

func (c *connection) Due(ctx context.Context, owner int64, idle time.Duration, limit int) (out []saga.Ref, err error) {
	lost := c.do(request{op: lookingDue}, func() { out, err = c.Sagas.Due(ctx, owner, idle, limit) })
	return out, errors.Join(lost, err)
}

func (c *connection) Overdue(ctx context.Context, after saga.Deadline, limit int) (out []saga.Deadline, err error) {
	if lost := c.do(request{op: reaping}, func() { out, err = c.Sagas.Overdue(ctx, after, limit) }); lost != nil {
		return nil, lost
	}
	return out, err
}
