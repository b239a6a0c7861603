package engine

import (
	"context"
	"log/slog"
	"maps"
	"slices"
	"time"

	"github.com/skald-saga/skald/internal/failpoint"
	"github.com/skald-saga/skald/internal/saga"
)

// intakeBatch limits how many sagas are loaded or claimed at once.
const intakeBatch = 64

// intake feeds sagas to drives: sagas whose short wait is over, unowned sagas that are due, sagas
// of dead nodes, and sagas of this node that it has lost track of. A saga that runs normally never
// passes through it.
func (s *session) intake(ctx context.Context) {
	poll := time.NewTimer(0)
	defer poll.Stop()
	claim := false // there may be unowned work
	for {
		select {
		case <-ctx.Done():
			return
		case <-poll.C:
			s.adoptStrays(ctx)
			claim = true
			poll.Reset(s.e.jittered(s.e.cfg.Poll))
		case <-s.e.backlog:
			claim = true
		case <-s.readied:
		case <-s.slots.freed:
		}
		for ctx.Err() == nil {
			s.e.cfg.Observer.Loop("intake") // checked here, because a backlog keeps it in this loop
			more := s.resumeReady(ctx)
			if claim {
				got, left := s.claimSome(ctx)
				claim = left
				more = more || got
			}
			if !more {
				break
			}
		}
	}
}

// resumeReady drives sagas whose wait is over, while slots are free.
func (s *session) resumeReady(ctx context.Context) (more bool) {
	s.mu.Lock()
	n := min(s.ready.len(), intakeBatch)
	s.mu.Unlock()
	taken := s.slots.takeResumed(n)
	if len(taken) == 0 {
		return false
	}
	reserved := s.reserve(len(taken))
	loaded, err := s.e.cfg.Store.Load(ctx, slices.Collect(maps.Keys(reserved)))
	if err != nil {
		s.e.cfg.Log.WarnContext(ctx, "cannot load due sagas", slog.Any("error", err))
		for ref := range reserved {
			s.waitUntil(ref, s.e.cfg.Now().Add(s.e.jittered(s.e.cfg.Poll)))
		}
	}
	s.startLoaded(ctx, loaded, taken, func(run saga.Instance, seen witness, k kind) bool {
		return s.startReserved(run, seen, k, reserved)
	})
	s.unreserve(reserved)
	return err == nil
}

// claimSome claims one saga for each free slot. left reports whether there may be more. Without a
// lease it claims nothing.
func (s *session) claimSome(ctx context.Context) (got, left bool) {
	if !s.lease.Valid() {
		return false, false
	}
	taken := s.slots.takeResumed(intakeBatch)
	if len(taken) == 0 {
		return false, true
	}
	_ = failpoint.Hit(failpoint.ClaimBefore)
	loaded, err := s.e.cfg.Ownership.Claim(ctx, s.owner, len(taken))
	if lost := failpoint.Hit(failpoint.ClaimAfterCommit); err == nil {
		err = lost
	}
	if err == nil && slices.ContainsFunc(loaded, func(l saga.Loaded) bool { return l.Saga.LeaseEpoch > 1 }) {
		err = failpoint.Hit(failpoint.LeaseTakeover)
	}
	if err != nil {
		s.e.cfg.Log.WarnContext(ctx, "cannot claim sagas", slog.Any("error", err))
		loaded = nil // the claim may have been committed; if so, the sagas are adopted as strays
	}
	s.e.cfg.Observer.Claimed(len(loaded))
	s.startLoaded(ctx, loaded, taken, s.start)
	return len(loaded) > 0, len(loaded) > 0
}

// startLoaded starts the loaded sagas that belong to this node, and returns unused slots.
func (s *session) startLoaded(
	ctx context.Context,
	loaded []saga.Loaded,
	taken []kind,
	start func(saga.Instance, witness, kind) bool,
) {
	for _, l := range loaded {
		run, err := s.rebuild(ctx, l)
		if err != nil {
			s.waitUntil(l.Saga.Ref(), s.unreadable(ctx, l.Saga.Ref(), err))
			continue
		}
		if l.Saga.LeaseOwner == nil || *l.Saga.LeaseOwner != s.owner {
			continue
		}
		if start(run, witnessOf(&l), taken[0]) {
			taken = taken[1:]
		}
	}
	for _, k := range taken {
		s.slots.give(k)
	}
}

func (s *session) rebuild(ctx context.Context, l saga.Loaded) (saga.Instance, error) {
	def, err := s.e.cfg.Definition(ctx, l.Saga.Tenant.ID, l.Saga.WorkflowName, l.Saga.WorkflowVersion)
	if err == nil {
		err = saga.Fits(&l.Saga, def, l.Logs)
	}
	if err != nil {
		return saga.Instance{}, err
	}
	s.mu.Lock()
	delete(s.damaged, l.Saga.Ref())
	s.mu.Unlock()
	return saga.Rebuild(l.Saga, def, l.Logs), nil
}

// pause is the backoff of a saga whose workflow definition cannot be read.
type pause struct {
	until  time.Time
	length time.Duration
}

// longestPause limits the backoff, and so how long a saga still waits once its definition is
// readable again.
const longestPause = time.Minute

// unreadable returns when to try again to read a saga's workflow definition. The delay doubles with
// each failure, and each failure is logged once. A definition that was damaged, for example by a
// bad restore, stays damaged until an operator acts, and thousands of sagas may depend on it.
func (s *session) unreadable(ctx context.Context, ref saga.Ref, err error) time.Time {
	now := s.e.cfg.Now()
	s.mu.Lock()
	p, known := s.damaged[ref]
	told := known && now.Before(p.until)
	if !told {
		p.length = min(max(2*p.length, time.Second), longestPause)
		p.until = now.Add(s.e.jittered(p.length))
		s.damaged[ref] = p
	}
	s.mu.Unlock()
	if !told {
		s.e.cfg.Log.ErrorContext(ctx, "cannot read a saga's workflow definition",
			slog.String("saga_id", ref.ID.String()), slog.Any("error", err))
	}
	return p.until
}

// paused reports whether a saga is in backoff because its definition could not be read.
func (s *session) paused(ref saga.Ref) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	p, known := s.damaged[ref]
	return known && s.e.cfg.Now().Before(p.until)
}

// adoptStrays finds sagas of this node that are due but not driven, either because another node set
// a flag or because the result of a create was lost after its commit.
func (s *session) adoptStrays(ctx context.Context) {
	// The query may also find sagas that are being driven, which are left alone. The limit is above
	// their number.
	refs, err := s.e.cfg.Ownership.Due(ctx, s.owner, strayAfter, 2*s.e.cfg.MaxRunning+1000)
	if err != nil {
		if ctx.Err() == nil { // a session that is ending stops looking
			s.e.cfg.Log.WarnContext(ctx, "cannot find stray sagas", slog.Any("error", err))
		}
		return
	}
	for _, ref := range refs {
		if !s.paused(ref) {
			s.wake(ref)
		}
	}
}

// strayAfter is how long an owned saga may go without a change before the node
// checks that it still drives it.
const strayAfter = 5 * time.Second

// reap flags sagas whose deadline has passed. Every node does this, and the first commit wins. Each
// round goes through all of them, page by page, because those that cannot be flagged stay overdue
// and must not hide later ones.
func (s *session) reap(ctx context.Context) {
	for ctx.Err() == nil {
		s.e.sleep(ctx, s.e.cfg.ReaperInterval)
		if ctx.Err() != nil {
			return
		}
		_ = failpoint.Hit(failpoint.ReaperSelect)
		if err := s.reapAll(ctx); err != nil {
			s.e.cfg.Log.WarnContext(ctx, "cannot find overdue sagas", slog.Any("error", err))
			continue
		}
		s.e.cfg.Observer.Loop("reaper")
	}
}

func (s *session) reapAll(ctx context.Context) error {
	var after saga.Deadline
	for ctx.Err() == nil {
		page, err := s.e.cfg.Ownership.Overdue(ctx, after, reapBatch)
		if err != nil || len(page) == 0 {
			return err
		}
		after = page[len(page)-1]
		refs, passed := make([]saga.Ref, len(page)), make(map[saga.Ref]time.Time, len(page))
		for i := range page {
			refs[i], passed[page[i].Ref] = page[i].Ref, page[i].At
		}
		overdue, err := s.e.cfg.Store.Load(ctx, refs)
		if err != nil {
			return err
		}
		s.e.cfg.Observer.Loop("reaper") // a page also counts as progress
		for _, l := range overdue {
			s.flagOverdue(ctx, l, passed[l.Saga.Ref()])
		}
		if len(page) < reapBatch {
			return nil
		}
	}
	return nil
}

// reapBatch is how many overdue sagas are read at once.
const reapBatch = 500

// flagOverdue sets the flag for the deadline that a saga has missed. A failure is logged and left
// for the next round, and does not stop the others.
func (s *session) flagOverdue(ctx context.Context, l saga.Loaded, passed time.Time) {
	run, err := s.rebuild(ctx, l)
	if err != nil {
		s.unreadable(ctx, l.Saga.Ref(), err)
		// The flag can be set even if the definition is damaged.
		if run, err = saga.Restored(l.Saga, nil, err, l.Logs); err != nil {
			return
		}
	}
	change, err := saga.Apply(run, saga.DeadlinePassed{At: passed}, s.e.moment())
	if err != nil {
		return // the saga has changed since it was found overdue
	}
	_ = failpoint.Hit(failpoint.ReaperBeforeFlag)
	if err := s.e.cfg.Commit(ctx, &change); err != nil {
		if !stale(err) {
			s.e.cfg.Log.WarnContext(ctx, "cannot flag an overdue saga",
				slog.String("saga_id", l.Saga.ID.String()), slog.Any("error", err))
		}
		return
	}
	s.e.Wake(l.Saga.Ref())
	if change.After.State.Terminal() {
		s.e.finished(&change.After.Saga, nil)
	}
}
