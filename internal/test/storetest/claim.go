package storetest

import (
	"slices"
	"sync"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"

	"github.com/skald-saga/skald/internal/fault"
	"github.com/skald-saga/skald/internal/saga"
)

var claims = []contract{
	{"an unowned waiting saga is claimed when it is due, not before", claimDue},
	{"ended sagas and those of living nodes are left alone", claimLeavesAlone},
	{"a claim returns at most limit sagas, and each is claimed once", claimLimit},
	{"the first claim starts the saga", claimStarts},
	{"a released saga is claimed as it was left", claimReleased},
	{"a saga whose owner's lease has ended is taken over, and the outcome of its call is unknown", claimTakesOver},
	{"a saga taken over while compensating keeps compensating", claimTakesOverUndo},
	{"a takeover does not shorten a wait", claimKeepsWait},
	{"a takeover closes the rows its owner left RUNNING", claimClosesLogs},
	{"a dead node's sagas are taken over oldest first", claimOldest},
	{"a dead node's sagas are taken over even behind a long backlog", claimBacklog},
	{"a restarted node reclaims its sagas immediately", claimAfterRestart},
	{"a change by a former owner is stale", claimFences},
	{"eight concurrent claimers never get the same saga", claimRace},
}

func (f *fixture) claim(owner int64, limit int) []saga.Loaded {
	f.t.Helper()
	loaded, err := f.Ownership.Claim(f.t.Context(), owner, limit)
	if err != nil {
		f.t.Fatalf("claim: %v", err)
	}
	return loaded
}

// claimOne claims the only saga that can be claimed.
func (f *fixture) claimOne(owner int64) saga.Loaded {
	f.t.Helper()
	loaded := f.claim(owner, 10)
	if len(loaded) != 1 {
		f.t.Fatalf("claimed %d sagas, want 1", len(loaded))
	}
	if diff := cmp.Diff(f.load(loaded[0].Saga.ID), loaded[0]); diff != "" {
		f.t.Errorf("claimed (-stored +returned):\n%s", diff)
	}
	return loaded[0]
}

// dead registers a node that dies when die is called.
func (f *fixture) dead() (owner int64, die func()) {
	f.t.Helper()
	owner = f.register("mortal", 10*time.Second)
	return owner, func() { f.Advance(11 * time.Second) }
}

func claimDue(f *fixture) {
	f.stored(f.unowned(func(n *saga.NewSaga) { n.NextRunAt = new(n.NextRunAt.Add(time.Minute)) }))
	due := f.stored(f.unowned())[0]
	if got := f.claimOne(f.owner).Saga.ID; got != due.ID {
		f.t.Errorf("claimed %s, want the one that is due", got)
	}
	if got := f.claim(f.owner, 10); len(got) > 0 {
		f.t.Errorf("claimed %d sagas a minute early", len(got))
	}
	f.Advance(61 * time.Second)
	f.claimOne(f.owner)
}

func claimLeavesAlone(f *fixture) {
	f.stored(f.owned(f.owner))
	for _, state := range saga.States {
		if state.Terminal() || state == saga.Running || state == saga.Compensating {
			f.into(state)
		}
	}
	if got := f.claim(f.register("another node", time.Hour), 100); len(got) > 0 {
		f.t.Errorf("claimed %d sagas, and the first one is %s", len(got), got[0].Saga.State)
	}
}

func claimLimit(f *fixture) {
	dead, die := f.dead()
	var batch []saga.NewSaga
	for range 10 {
		batch = append(batch, f.unowned(), f.owned(dead))
	}
	f.stored(batch...)
	die()
	seen := map[uuid.UUID]int{}
	for _, want := range []int{7, 7, 6, 0} {
		got := f.claim(f.owner, 7)
		if len(got) != want {
			f.t.Errorf("claimed %d sagas, want %d", len(got), want)
		}
		for _, l := range got {
			seen[l.Saga.ID]++
		}
	}
	if len(seen) != len(batch) {
		f.t.Errorf("claimed %d sagas in all, want %d", len(seen), len(batch))
	}
}

// wantClaimed compares a claimed saga with its state before the claim, as changed by change.
func (f *fixture) wantClaimed(before saga.Saga, got saga.Saga, change func(want *saga.Saga)) {
	f.t.Helper()
	near(f, "time of the claim", &got.UpdatedAt, f.Now())
	want := before
	want.LeaseOwner, want.LeaseEpoch, want.Version = &f.owner, before.LeaseEpoch+1, before.Version+1
	want.NextRunAt, want.UpdatedAt = nil, got.UpdatedAt
	change(&want)
	if diff := cmp.Diff(want, got); diff != "" {
		f.t.Errorf("claimed (-want +got):\n%s", diff)
	}
}

func claimStarts(f *fixture) {
	run := f.stored(f.unowned(everything))[0]
	before := f.load(run.ID).Saga
	l := f.claimOne(f.owner)
	near(f, "start", l.Saga.StartedAt, f.Now())
	f.wantClaimed(before, l.Saga, func(want *saga.Saga) {
		want.Attempt, want.StartedAt = 1, l.Saga.StartedAt
	})
	f.check(f.play(saga.Rebuild(l.Saga, f.def, l.Logs), f.done(`{}`), f.done(`{}`), f.done(`{}`)))
}

func claimReleased(f *fixture) {
	for what, c := range map[string]saga.Change{
		"between steps":       f.apply(f.into(saga.Running), f.done(`{"n":2}`)),
		"waiting for a retry": f.apply(f.into(saga.Running), f.unanswered()),
		"between undos":       f.apply(f.into(saga.Compensating), f.unanswered()),
	} {
		c = c.Released(f.now())
		run := f.moved(c)
		f.Advance(10 * time.Second)
		before := f.load(run.ID).Saga
		f.wantClaimed(before, f.claimOne(f.owner).Saga, func(*saga.Saga) {})
		if f.t.Failed() {
			f.t.Fatal(what)
		}
	}
}

func claimTakesOver(f *fixture) {
	dead, die := f.dead()
	created := f.stored(f.owned(dead))[0]
	running := f.play(f.stored(f.owned(dead))[0], f.done(`{"n":1}`))
	die()
	claimed := map[uuid.UUID]saga.Loaded{}
	before := map[uuid.UUID]saga.Saga{created.ID: f.load(created.ID).Saga, running.ID: f.load(running.ID).Saga}
	for _, l := range f.claim(f.owner, 10) {
		claimed[l.Saga.ID] = l
	}
	for id, s := range before {
		f.wantClaimed(s, claimed[id].Saga, func(want *saga.Saga) {
			want.Attempt, want.Uncertain = 2, true
		})
	}
	l := claimed[running.ID]
	run := saga.Rebuild(l.Saga, f.def, l.Logs)
	lost, repeated := running.Call(saga.Defaults{}), run.Call(saga.Defaults{})
	if lost.Key != repeated.Key || string(lost.Body) != string(repeated.Body) || repeated.Attempt != 2 ||
		repeated.Fence != 2 {
		f.t.Errorf("the call after the takeover does not repeat the lost one: %+v, %+v", lost, repeated)
	}
	f.check(f.play(run, f.done(`{"n":2}`)))
}

func claimTakesOverUndo(f *fixture) {
	dead, die := f.dead()
	run := f.play(f.stored(f.owned(dead))[0], f.done(`{}`), f.refused(``))
	die()
	before := f.load(run.ID).Saga
	f.wantClaimed(before, f.claimOne(f.owner).Saga, func(want *saga.Saga) { want.Attempt, want.Uncertain = 2, true })
}

func claimKeepsWait(f *fixture) {
	dead, die := f.dead()
	o := f.unanswered().(saga.Answered)
	o.RetryAfter = time.Minute
	waiting := f.play(f.stored(f.owned(dead))[0], o)
	die() // 11 s later
	before := f.load(waiting.ID).Saga
	got := f.claimOne(f.owner).Saga
	if got.NextRunAt == nil || !got.NextRunAt.Equal(*before.NextRunAt) {
		f.t.Errorf("next run at %v after the takeover, want %v", got.NextRunAt, before.NextRunAt)
	}
	if got.LeaseOwner == nil || *got.LeaseOwner != f.owner || got.Attempt < waiting.Attempt {
		f.t.Errorf("owner %v, attempt %d; want %d and at least %d", got.LeaseOwner, got.Attempt, f.owner, waiting.Attempt)
	}
}

func claimClosesLogs(f *fixture) {
	dead, die := f.dead()
	run := f.play(f.stored(f.owned(dead))[0], f.done(`{}`), saga.Slow{StartedAt: f.now()})
	bystander := f.play(f.into(saga.Running), saga.Slow{StartedAt: f.now()})
	die()
	before := f.logsOf(run)
	l := f.claimOne(f.owner)
	logs := f.logsOf(run)
	if diff := cmp.Diff(before[0], logs[0]); diff != "" || len(logs) != 2 {
		f.t.Errorf("%d logs; the one that was already complete (-before +after):\n%s", len(logs), diff)
	}
	got := logs[1]
	near(f, "end of the lost call", got.CompletedAt, f.Now())
	if got.Error == nil || got.Error.Code != "owner_lost" || !got.Error.Retryable || got.Error.Message == "" {
		f.t.Errorf("error of the lost call: %+v", got.Error)
	}
	want := before[1]
	want.Status, want.Outcome, want.Error = saga.LogFailed, new("owner_lost"), got.Error
	want.CompletedAt, want.UpdatedAt = got.CompletedAt, got.UpdatedAt
	if diff := cmp.Diff(want, got); diff != "" {
		f.t.Errorf("the lost call's row (-want +got):\n%s", diff)
	}
	f.check(f.play(saga.Rebuild(l.Saga, f.def, l.Logs), f.done(`{}`))) // it has a row of its own
	if logs := f.logsOf(bystander); logs[1].Status != saga.LogRunning {
		f.t.Errorf("the row of a living node's call became %s", logs[1].Status)
	}
}

// claimOldest: sagas that were in flight are claimed first, by creation time and then by id;
// waiting sagas follow, by due time.
func claimOldest(f *fixture) {
	dead, die := f.dead()
	ids := []uuid.UUID{newID(), newID(), newID(), newID(), newID()} // in ascending order
	at := f.now()
	stored := func(id uuid.UUID, age time.Duration) saga.Instance {
		return f.stored(f.owned(dead, func(n *saga.NewSaga) { n.ID, n.CreatedAt = id, at.Add(-age) }))[0]
	}
	stored(ids[4], time.Minute)
	stored(ids[1], time.Minute)
	stored(ids[3], time.Hour)
	later, sooner := f.unanswered().(saga.Answered), f.unanswered().(saga.Answered)
	later.RetryAfter, sooner.RetryAfter = 50*time.Second, 20*time.Second
	f.play(stored(ids[0], 2*time.Hour), later)
	f.play(stored(ids[2], time.Second), sooner)
	die()
	var got []uuid.UUID
	for range ids {
		for _, l := range f.claim(f.owner, 1) {
			got = append(got, l.Saga.ID)
		}
	}
	if diff := cmp.Diff([]uuid.UUID{ids[3], ids[1], ids[4], ids[2], ids[0]}, got); diff != "" {
		f.t.Errorf("claimed in the order (-want +got):\n%s", diff)
	}
}

func claimBacklog(f *fixture) {
	dead, die := f.dead()
	run := f.stored(f.owned(dead))[0]
	die()
	for range 3 { // more sagas arrive than each claim takes
		f.stored(f.unowned(), f.unowned(), f.unowned(), f.unowned())
		for _, l := range f.claim(f.owner, 2) {
			if l.Saga.ID == run.ID {
				return
			}
		}
	}
	f.t.Errorf("the dead node's saga was never taken over")
}

func claimAfterRestart(f *fixture) {
	first := f.register("node", time.Hour)
	run := f.stored(f.owned(first))[0]
	f.stored(f.owned(f.owner)) // sagas of another node
	second := f.register("node", time.Hour)
	if got := f.claimOne(second).Saga; got.ID != run.ID || *got.LeaseOwner != second {
		f.t.Errorf("claimed %s for %d, want %s for %d", got.ID, *got.LeaseOwner, run.ID, second)
	}
}

func claimFences(f *fixture) {
	dead, die := f.dead()
	run := f.stored(f.owned(dead))[0]
	released := f.stored(f.unowned())[0]
	late := []saga.Change{f.apply(run, f.done(`{}`)), f.apply(released, saga.CancelRequested{})}
	die()
	if got := f.claim(f.owner, 10); len(got) != 2 {
		f.t.Fatalf("claimed %d sagas, want 2", len(got))
	}
	for i, c := range late {
		f.unchanged(c.After.ID, func() {
			f.wantFault(f.commit(c)[0], fault.Conflict, saga.CodeStale)
			c.Before.Version = f.load(c.After.ID).Saga.Version // now only the epoch can fence it off
			f.wantFault(f.commit(c)[0], fault.Conflict, saga.CodeStale)
		})
		if f.t.Failed() {
			f.t.Fatalf("change %d", i)
		}
	}
}

func claimRace(f *fixture) {
	dead, die := f.dead()
	for range 5 {
		batch := make([]saga.NewSaga, 100)
		for i := range batch {
			if batch[i] = f.unowned(); i%2 == 0 {
				batch[i] = f.owned(dead)
			}
		}
		f.stored(batch...)
	}
	die()
	var mu sync.Mutex
	by := map[uuid.UUID][]int64{} // guarded by mu
	owners := make([]int64, 8)
	for i := range owners {
		owners[i] = f.register("claimer "+string(rune('a'+i)), time.Hour)
	}
	together(len(owners), func(i int) {
		for empty := 0; empty < 3; { // a claim skips rows that another claim has locked
			loaded, err := f.Ownership.Claim(f.t.Context(), owners[i], 7)
			if err != nil {
				f.t.Errorf("claim: %v", err)
				return
			}
			if len(loaded) == 0 {
				empty++
			}
			mu.Lock()
			for _, l := range loaded {
				by[l.Saga.ID] = append(by[l.Saga.ID], *l.Saga.LeaseOwner)
			}
			mu.Unlock()
		}
	})
	for id, claimers := range by {
		if len(claimers) != 1 || !slices.Contains(owners, claimers[0]) {
			f.t.Errorf("saga %s was claimed by %v", id, claimers)
		}
	}
	if len(by) != 500 {
		f.t.Errorf("%d sagas were claimed, want 500", len(by))
	}
}
