package storetest

import (
	"slices"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"

	"github.com/skald-saga/skald/internal/fault"
	"github.com/skald-saga/skald/internal/saga"
	"github.com/skald-saga/skald/internal/saga/workflow"
)

var duties = []contract{
	{"released sagas can be claimed by any node when they are due", releaseFrees},
	{"only the owner's unfinished sagas are released", releaseOnlyOwn},
	{"a node's due sagas are those whose wait is over or that were flagged", dueWaits},
	{"a node's due sagas include those it has neglected", dueIdle},
	{"at most limit due sagas are returned", dueLimit},
	{"a saga is overdue from its deadline until it is flagged", overdueForward},
	{"a deadline passes while a failed step has suspended its saga, and only once after the pivot", overdueStopped},
	{"a compensation is overdue from its own deadline until it is flagged", overdueUndo},
	{"at most limit overdue sagas are returned, of both phases together", overdueLimit},
	{"overdue sagas are listed in pages, oldest deadline first, each once", overduePages},
	{"no saga is stuck, and the live ones are counted by state", stuckNone},
	{"a saga that no node will ever look at is stuck", stuckSome},
}

func (f *fixture) release(owner int64, ids ...uuid.UUID) {
	f.t.Helper()
	if err := f.Ownership.Release(f.t.Context(), owner, f.refs(ids...)); err != nil {
		f.t.Fatalf("release: %v", err)
	}
}

func releaseFrees(f *fixture) {
	between := f.into(saga.Running)
	waiting := f.play(f.into(saga.Running), f.unanswered())
	undoing := f.into(saga.Compensating)
	first := f.stored(f.owned(f.owner))[0]
	before := map[uuid.UUID]saga.Saga{}
	for _, run := range []saga.Instance{between, waiting, undoing, first} {
		before[run.ID] = f.load(run.ID).Saga
	}
	f.release(f.owner, between.ID, waiting.ID, undoing.ID, first.ID, newID())
	for id, was := range before {
		got := f.load(id).Saga
		near(f, "time of the release", &got.UpdatedAt, f.Now())
		want := was
		want.LeaseOwner, want.Version, want.UpdatedAt = nil, was.Version+1, got.UpdatedAt
		switch id {
		case between.ID, undoing.ID, first.ID:
			near(f, "due time", got.NextRunAt, f.Now())
			want.NextRunAt = got.NextRunAt
		}
		if diff := cmp.Diff(want, got); diff != "" {
			f.t.Errorf("released (-want +got):\n%s", diff)
		}
	}
	f.unchanged(between.ID, func() {
		f.wantFault(f.commit(f.apply(between, f.done(`{}`)))[0], fault.Conflict, saga.CodeStale)
	})
	another := f.register("another node", time.Hour)
	if got := f.claim(another, 10); len(got) != 3 {
		f.t.Errorf("another node claims %d sagas, want the 3 that are due", len(got))
	}
	f.Advance(10 * time.Second)
	if got := f.claimOne(another); got.Saga.ID != waiting.ID || got.Saga.Uncertain != waiting.Uncertain ||
		got.Saga.Attempt != waiting.Attempt {
		f.t.Errorf("claimed %+v, want the waiting one as it was", got.Saga)
	}
}

func releaseOnlyOwn(f *fixture) {
	another := f.register("another node", time.Hour)
	others := f.stored(f.owned(another), f.unowned())
	ended := f.into(saga.Completed)
	for _, id := range []uuid.UUID{others[0].ID, others[1].ID, ended.ID} {
		f.unchanged(id, func() { f.release(f.owner, id) })
	}
	f.release(f.owner)
}

// wantDue checks which of an owner's sagas are due.
func (f *fixture) wantDue(owner int64, idle time.Duration, want ...uuid.UUID) {
	f.t.Helper()
	refs, err := f.Ownership.Due(f.t.Context(), owner, idle, 100)
	if err != nil {
		f.t.Fatalf("due: %v", err)
	}
	var ids []uuid.UUID
	for _, ref := range refs {
		ids = append(ids, ref.ID)
	}
	f.sameIDs("due", want, ids)
}

func (f *fixture) sameIDs(what string, want, got []uuid.UUID) {
	f.t.Helper()
	count := func(ids []uuid.UUID) map[uuid.UUID]int {
		m := map[uuid.UUID]int{}
		for _, id := range ids {
			m[id]++
		}
		return m
	}
	if diff := cmp.Diff(count(want), count(got)); diff != "" {
		f.t.Errorf("%s (-want +got):\n%s", what, diff)
	}
}

func dueWaits(f *fixture) {
	waiting := f.play(f.into(saga.Running), f.unanswered()) // waits for a second
	f.into(saga.Running)                                    // being driven right now
	flagged := f.into(saga.Running)
	f.into(saga.Completed)
	f.stored(f.unowned())
	f.play(f.stored(f.owned(f.register("another node", time.Hour)))[0], f.unanswered())
	f.wantDue(f.owner, time.Hour)
	f.play(flagged, saga.CancelRequested{})
	f.wantDue(f.owner, time.Hour, flagged.ID)
	f.Advance(2 * time.Second)
	f.wantDue(f.owner, time.Hour, flagged.ID, waiting.ID)
}

func dueIdle(f *fixture) {
	o := f.unanswered().(saga.Answered)
	o.RetryAfter = time.Hour
	f.play(f.into(saga.Running), o) // it waits, so it isn't neglected
	neglected := f.into(saga.Running)
	f.Advance(time.Minute)
	f.into(saga.Running)
	f.wantDue(f.owner, 2*time.Minute)
	f.wantDue(f.owner, 30*time.Second, neglected.ID)
}

func dueLimit(f *fixture) {
	for range 5 {
		f.into(saga.Running)
	}
	f.Advance(time.Minute)
	for limit, want := range map[int]int{2: 2, 5: 5, 9: 5} {
		ids, err := f.Ownership.Due(f.t.Context(), f.owner, time.Second, limit)
		if err != nil || len(ids) != want {
			f.t.Errorf("%d of at most %d, %v; want %d", len(ids), limit, err, want)
		}
	}
}

func (f *fixture) overdue(after saga.Deadline, limit int) []saga.Deadline {
	f.t.Helper()
	page, err := f.Ownership.Overdue(f.t.Context(), after, limit)
	if err != nil {
		f.t.Fatalf("overdue: %v", err)
	}
	return page
}

func (f *fixture) wantOverdue(want ...uuid.UUID) {
	f.t.Helper()
	var got []uuid.UUID
	for _, d := range f.overdue(saga.Deadline{}, 100) {
		got = append(got, d.ID)
	}
	f.sameIDs("overdue", want, got)
}

// passDeadline flags a saga as overdue.
func (f *fixture) passDeadline(id uuid.UUID) {
	f.t.Helper()
	l := f.load(id)
	f.play(saga.Rebuild(l.Saga, f.def, l.Logs), saga.DeadlinePassed{})
}

func overdueForward(f *fixture) {
	// The workflow's timeout is one minute.
	f.into(saga.Completed)
	f.into(saga.Failed)
	f.stored(f.owned(f.owner, func(n *saga.NewSaga) { n.TimeoutMS = nil }))
	f.stored(f.owned(f.owner, func(n *saga.NewSaga) { n.TimeoutMS = new(int64(3_600_000)) }))
	unowned, pending, running := f.stored(f.unowned())[0], f.stored(f.owned(f.owner))[0], f.into(saga.Running)
	between := f.into(saga.StepCompleted)
	f.wantOverdue()
	f.Advance(61 * time.Second)
	all := []uuid.UUID{unowned.ID, pending.ID, running.ID, between.ID}
	f.wantOverdue(all...)
	for _, d := range f.overdue(saga.Deadline{}, 100) {
		if at := f.load(d.ID).Saga.TimeoutAt; !d.At.Equal(*at) {
			f.t.Errorf("the deadline is %v, want %v", d.At, at)
		}
	}
	for _, id := range all {
		f.passDeadline(id)
	}
	f.wantOverdue()
}

// overdueStopped: a saga's deadline keeps running while the saga is suspended at a failed step, but
// not while an operator has suspended it. After the pivot, a deadline passes only once.
func overdueStopped(f *fixture) {
	def := *f.def
	def.OnFailure, def.Steps = workflow.OnFailureSuspend, slices.Clone(def.Steps)
	def.Steps[0].Pivot = true
	refused := f.refused(``)
	started := f.stored(f.owned(f.owner), f.owned(f.owner), f.owned(f.owner))
	for i := range started {
		started[i].Def = &def
	}
	stopped := f.play(started[0], refused)
	besides := f.play(f.play(started[1], saga.SuspendRequested{By: "op"}), refused)
	past := f.play(f.play(started[2], f.done(`1`)), refused)
	f.wantOverdue()
	f.Advance(61 * time.Second)
	f.wantOverdue(stopped.ID, past.ID)
	for _, d := range f.overdue(saga.Deadline{}, 100) {
		l := f.load(d.ID)
		after := f.play(saga.Rebuild(l.Saga, &def, l.Logs), saga.DeadlinePassed{At: d.At}).Saga
		if turned := after.EndCause != nil; turned != (d.ID == stopped.ID) {
			f.t.Errorf("compensating: %v, %+v", turned, after)
		}
	}
	f.wantOverdue()
	l := f.load(past.ID)
	f.play(saga.Rebuild(l.Saga, &def, l.Logs), saga.DeadlineSet{By: "op", TimeoutMS: 60_000})
	f.Advance(61 * time.Second)
	f.wantOverdue(past.ID) // a new deadline can pass again
	l = f.load(besides.ID)
	resumed := f.play(saga.Rebuild(l.Saga, &def, l.Logs), saga.UnsuspendRequested{By: "op"})
	s := f.load(resumed.ID).Saga
	if s.SuspendedAt != nil || s.Interventions.Stopped != nil || s.TimeoutAt.Before(f.now()) {
		f.t.Errorf("resumed: %+v", s)
	}
}

func overdueUndo(f *fixture) {
	// The workflow's compensation timeout is half a minute, and its timeout is one minute.
	undoing := f.into(saga.Compensating)
	f.into(saga.Compensated)
	f.Advance(29 * time.Second)
	f.wantOverdue()
	f.Advance(2 * time.Second)
	f.wantOverdue(undoing.ID)
	if d := f.overdue(saga.Deadline{}, 1)[0]; !d.At.Equal(*f.load(d.ID).Saga.CompensationTimeoutAt) {
		f.t.Errorf("the deadline is %v", d.At)
	}
	f.passDeadline(undoing.ID)
	f.wantOverdue()
	f.Advance(time.Hour) // the deadline of the forward phase no longer applies
	f.wantOverdue()
}

func overdueLimit(f *fixture) {
	for range 3 {
		f.into(saga.Running)
		f.into(saga.Compensating)
	}
	f.Advance(2 * time.Minute)
	for limit, want := range map[int]int{2: 2, 4: 4, 9: 6} {
		if got := len(f.overdue(saga.Deadline{}, limit)); got != want {
			f.t.Errorf("%d of at most %d, want %d", got, limit, want)
		}
	}
}

// overduePages: these sagas stay overdue because they are not flagged, and yet each of them is
// listed exactly once.
func overduePages(f *fixture) {
	var want, got []uuid.UUID
	for range 3 {
		want = append(want, f.into(saga.Running).ID, f.into(saga.Compensating).ID)
	}
	f.Advance(2 * time.Minute)
	var last saga.Deadline
	for range len(want) {
		page := f.overdue(last, 2)
		for _, d := range page {
			if d.At.Before(last.At) {
				f.t.Errorf("the deadline %v comes after %v", d.At, last.At)
			}
			got, last = append(got, d.ID), d
		}
		if len(page) == 0 {
			break
		}
	}
	f.sameIDs("overdue, page by page", want, got)
}

func (f *fixture) wantStuck(want int, states map[saga.State]int) {
	f.t.Helper()
	stuck, live, err := f.Ownership.Stuck(f.t.Context())
	if err != nil || stuck != want {
		f.t.Errorf("%d sagas are stuck, %v; want %d", stuck, err, want)
	}
	if diff := cmp.Diff(states, live); diff != "" {
		f.t.Errorf("live sagas by state (-want +got):\n%s", diff)
	}
}

func stuckNone(f *fixture) {
	f.wantStuck(0, map[saga.State]int{})
	dead, die := f.dead()
	for _, state := range saga.States {
		f.into(state)
	}
	f.into(saga.Running)
	f.play(f.into(saga.Running), f.unanswered())               // waits for its retry
	f.play(f.into(saga.Failed), saga.ResumeRequested{})        // reopened, waits for an owner
	f.play(f.stored(f.owned(dead))[0], saga.CancelRequested{}) // flagged, its owner dies
	die()
	f.wantStuck(0, map[saga.State]int{saga.Pending: 2, saga.Running: 3, saga.StepCompleted: 1, saga.Compensating: 2})
}

func stuckSome(f *fixture) {
	const nobody = 1 << 40
	f.stored(
		f.unowned(func(n *saga.NewSaga) { n.NextRunAt = nil }), // waits for nothing
		f.owned(nobody), // a node that never existed
		f.unowned(), f.owned(f.owner),
	)
	f.wantStuck(2, map[saga.State]int{saga.Pending: 4})
}
