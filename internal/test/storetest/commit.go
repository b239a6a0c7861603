package storetest

import (
	"errors"
	"slices"
	"sync/atomic"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"

	"github.com/skald-saga/skald/internal/fault"
	"github.com/skald-saga/skald/internal/idempotency"
	"github.com/skald-saga/skald/internal/saga"
)

var commits = []contract{
	{"a change based on another version is stale and writes nothing", commitStaleVersion},
	{"a change based on another epoch is stale and writes nothing", commitStaleEpoch},
	{"a change of an unknown saga is stale", commitUnknown},
	{"of twenty changes of one version, one is written", commitRace},
	{"of twenty batches with the same sagas, one writes each saga", commitBatchRace},
	{"a stale change does not affect its batch", commitBatch},
	{"a change that the database refuses does not affect its batch", commitPoisoned},
	{"two changes of one saga in one batch are refused", commitTwins},
	{"a change's key is stored with it", commitKey},
	{"a change whose key is taken is not written", commitKeyTaken},
	{"of twenty changes with one key, one is written", commitKeyRace},
	{"an attempt is recorded once", commitAttemptTwice},
	{"an ended saga never changes", commitEnded},
	{"a compensation's deadline runs on the store's clock, from the start of the compensation", commitCompensationDeadline},
	{"a batch of three hundred changes is written completely", commitMany},
	{"the outcomes of several steps are written in one change or not at all", commitTogether},
}

func commitStaleVersion(f *fixture) {
	run := f.into(saga.Running)
	for _, by := range []int64{-1, 1} {
		f.stale(run, func(c *saga.Change) { c.Before.Version += by })
	}
	f.check(f.play(run, f.done(`{}`)))
}

func commitStaleEpoch(f *fixture) {
	run := f.into(saga.Running)
	for _, by := range []int64{-1, 1} {
		f.stale(run, func(c *saga.Change) { c.Before.Epoch += by })
	}
}

// stale checks that changes of run that are based on a saga other than the stored one write
// nothing. Plain steps, other steps, changes with a key and operators' changes each have a
// statement of their own.
func (f *fixture) stale(run saga.Instance, based func(*saga.Change)) {
	f.t.Helper()
	for _, keyed := range []bool{false, true} {
		for _, e := range []saga.Event{f.done(`{}`), f.refused(``), saga.SuspendRequested{By: "op"}} {
			c := f.apply(run, e)
			if keyed {
				c.Key = withKey(saga.NewSaga{Saga: run.Saga}, f.key("of a stale change", "hash")).Key
			}
			based(&c)
			f.unchanged(run.ID, func() { f.wantFault(f.commit(c)[0], fault.Conflict, saga.CodeStale) })
		}
	}
}

func commitUnknown(f *fixture) {
	c := f.apply(saga.NewInstance(f.owned(f.owner).Saga, f.def), f.done(`{}`))
	f.wantFault(f.commit(c)[0], fault.Conflict, saga.CodeStale)
	f.absent(c.After.ID)
}

func commitRace(f *fixture) {
	run := f.stored(f.owned(f.owner))[0]
	changes := make([]saga.Change, 20)
	for i := range changes {
		changes[i] = f.apply(run, f.done(`{}`))
	}
	var written atomic.Int32
	together(len(changes), func(i int) {
		errs, err := f.Sagas.Commit(f.t.Context(), changes[i:i+1])
		switch {
		case err != nil:
			f.t.Errorf("commit: %v", err)
		case errs[0] == nil:
			written.Add(1)
		default:
			f.wantFault(errs[0], fault.Conflict, saga.CodeStale)
		}
	})
	l := f.load(run.ID)
	if written.Load() != 1 || l.Saga.Version != 2 || len(l.Logs) != 1 {
		f.t.Errorf(
			"%d changes were written, the saga is at version %d with %d logs; want 1, 2, 1",
			written.Load(),
			l.Saga.Version,
			len(l.Logs),
		)
	}
}

func commitBatchRace(f *fixture) {
	runs := f.stored(f.owned(f.owner), f.owned(f.owner), f.owned(f.owner), f.owned(f.owner), f.owned(f.owner))
	batches := make([][]saga.Change, 20)
	for i := range batches {
		for _, run := range runs {
			batches[i] = append(batches[i], f.apply(run, f.done(`{}`)))
		}
		if i%2 == 1 {
			slices.Reverse(batches[i]) // two nodes lock sagas in different orders
		}
	}
	var written atomic.Int32
	together(len(batches), func(i int) {
		errs, err := f.Sagas.Commit(f.t.Context(), batches[i])
		if err != nil {
			f.t.Errorf("commit: %v", err)
			return
		}
		for _, err := range errs {
			if err == nil {
				written.Add(1)
			}
		}
	})
	if int(written.Load()) != len(runs) {
		f.t.Errorf("%d changes were written of %d sagas", written.Load(), len(runs))
	}
	for _, run := range runs {
		if l := f.load(run.ID); l.Saga.Version != 2 || len(l.Logs) != 1 {
			f.t.Errorf("version %d, %d logs; want 2 and 1", l.Saga.Version, len(l.Logs))
		}
	}
}

func commitBatch(f *fixture) {
	a, b, c := f.into(saga.Running), f.into(saga.Compensating), f.into(saga.Running)
	stale := f.apply(b, f.done(``))
	stale.Before.Version--
	unknown := f.apply(saga.NewInstance(f.owned(f.owner).Saga, f.def), f.done(`{}`))
	batch := []saga.Change{f.apply(a, f.done(`{"a":1}`)), stale, f.apply(c, f.refused(`{"c":1}`)), unknown}
	f.unchanged(b.ID, func() {
		for i, err := range f.commit(batch...) {
			if refused := i%2 == 1; refused {
				f.wantFault(err, fault.Conflict, saga.CodeStale)
			} else if err != nil {
				f.t.Errorf("change %d: %v", i, err)
			}
		}
	})
	f.check(batch[0].After)
	f.check(batch[2].After)
}

func commitPoisoned(f *fixture) {
	run := f.into(saga.Running)
	poisons := map[string]saga.Change{
		"output":   f.apply(run, f.done(nul)),
		"refusal":  f.apply(run, f.refused(nul)),
		"message":  f.apply(run, saga.CancelRequested{Reason: "a\x00b"}),
		"log only": f.apply(run, f.done(`{}`)),
	}
	poisons["log only"].Logs[0].Request = raw(nul)
	for what, poison := range poisons {
		poison.Key = f.key("key of "+what, "hash")
		batch := []saga.Change{
			f.apply(f.into(saga.Running), f.done(`{}`)),
			poison,
			f.apply(f.into(saga.Running), f.done(`{}`)),
		}
		f.unchanged(run.ID, func() {
			errs := f.commit(batch...)
			if errs[0] != nil || errs[2] != nil {
				f.t.Errorf("%s: the other changes of the batch got %v and %v", what, errs[0], errs[2])
			}
			f.wantFault(errs[1], fault.Invalid, saga.CodeUnstorable)
		})
		if state, _, err := f.Sagas.Key(f.t.Context(), *poison.Key); state != saga.KeyNew || err != nil {
			f.t.Errorf("%s: the refused change's key is %d, %v; want new", what, state, err)
		}
		f.check(batch[0].After)
		f.check(batch[2].After)
	}
}

func commitTwins(f *fixture) {
	a, b := f.into(saga.Running), f.into(saga.Running)
	batch := []saga.Change{f.apply(a, f.done(`{}`)), f.apply(b, f.done(`{}`)), f.apply(a, f.refused(`{}`))}
	f.unchanged(a.ID, func() {
		f.unchanged(b.ID, func() {
			if errs, err := f.Sagas.Commit(f.t.Context(), batch); err == nil || fault.As(err) != nil {
				f.t.Errorf("results %v, %v; want an error without a fault", errs, err)
			}
		})
	})
}

func commitKey(f *fixture) {
	run := f.into(saga.Running)
	c := f.apply(run, saga.CancelRequested{By: "alice"})
	c.Key = withKey(saga.NewSaga{Saga: run.Saga}, f.key("k", "hash")).Key
	f.check(f.moved(c))
	if state, id, err := f.Sagas.Key(f.t.Context(), *c.Key); err != nil || state != saga.KeySame || id != run.ID {
		f.t.Errorf("the key is %d of saga %s, %v; want the same of %s", state, id, err, run.ID)
	}
}

func commitKeyTaken(f *fixture) {
	key := f.key("k", "hash")
	f.create(withKey(f.unowned(), key))
	a, b := f.into(saga.Running), f.into(saga.Running)
	c := f.apply(a, saga.CancelRequested{By: "alice"})
	c.Key = key
	neighbour := f.apply(b, f.done(`{}`))
	f.unchanged(a.ID, func() {
		errs := f.commit(c, neighbour)
		f.wantFault(errs[0], fault.Conflict, idempotency.CodeUsed)
		if errs[1] != nil {
			f.t.Errorf("the other change of the batch got %v", errs[1])
		}
		// A request that was sent twice concurrently is both stale and has a used key; the key then
		// leads to the result.
		c.Before.Version--
		f.wantFault(f.commit(c)[0], fault.Conflict, idempotency.CodeUsed)
		c.Key = f.key("fresh", "hash")
		f.wantFault(f.commit(c)[0], fault.Conflict, saga.CodeStale)
	})
	if state, _, err := f.Sagas.Key(f.t.Context(), *c.Key); state != saga.KeyNew || err != nil {
		f.t.Errorf("the stale change's key is %d, %v; want new", state, err)
	}
}

func commitKeyRace(f *fixture) {
	key := f.key("k", "hash")
	changes := make([]saga.Change, 20)
	for i := range changes {
		changes[i] = f.apply(f.stored(f.owned(f.owner))[0], saga.CancelRequested{By: "alice"})
		changes[i].Key = withKey(saga.NewSaga{Saga: changes[i].After.Saga}, key).Key
	}
	var winner atomic.Pointer[uuid.UUID]
	together(len(changes), func(i int) {
		errs, err := f.Sagas.Commit(f.t.Context(), changes[i:i+1])
		switch {
		case err != nil:
			f.t.Errorf("commit: %v", err)
		case errs[0] != nil:
			f.wantFault(errs[0], fault.Conflict, idempotency.CodeUsed)
		case !winner.CompareAndSwap(nil, &changes[i].After.ID):
			f.t.Errorf("a second change was written with the key")
		}
	})
	state, id, err := f.Sagas.Key(f.t.Context(), *key)
	if won := winner.Load(); err != nil || state != saga.KeySame || won == nil || id != *won {
		f.t.Errorf("the key is %d of saga %s, %v; want the same of the one that was written", state, id, err)
	}
	for _, c := range changes {
		want := int64(1)
		if c.After.ID == id {
			want = 2
		}
		if got := f.load(c.After.ID).Saga.Version; got != want {
			f.t.Errorf("saga %s is at version %d, want %d", c.After.ID, got, want)
		}
	}
}

func commitAttemptTwice(f *fixture) {
	run := f.into(saga.Running)
	first := f.moved(f.apply(run, f.unanswered()))
	second := f.apply(first, f.done(`{}`))
	second.Logs[0].Attempt--
	f.unchanged(run.ID, func() { f.wantFault(f.commit(second)[0], fault.Invalid, saga.CodeUnstorable) })
}

func commitEnded(f *fixture) {
	for _, state := range []saga.State{saga.Completed, saga.Compensated, saga.Cancelled, saga.TimedOut} {
		run := f.into(state)
		f.check(run)
		c := saga.Change{Before: saga.Precondition{Version: run.Version, Epoch: run.LeaseEpoch}, After: run}
		c.After.Version++
		c.After.State, c.After.CompletedAt, c.After.Clean = saga.Running, nil, nil
		c.After.UpdatedAt = f.now()
		f.unchanged(run.ID, func() { f.wantFault(f.commit(c)[0], fault.Invalid, saga.CodeUnstorable) })
	}
	// A saga whose compensation failed is the only exception.
	f.check(f.play(f.into(saga.Failed), saga.ResumeRequested{By: "op"}))
}

func commitCompensationDeadline(f *fixture) {
	run := f.into(saga.Running)
	if at := f.load(run.ID).Saga.CompensationTimeoutAt; at != nil {
		f.t.Errorf("the saga is not compensating, but has a compensation deadline %v", at)
	}
	timeout := f.load(run.ID).Saga.TimeoutAt
	from := f.Now()
	// In a batch with a change that gives up an undo, a store with dead letters uses another way of
	// writing.
	alone := []saga.Change{f.apply(run, f.refused(`{}`))}
	gaveUp, turned := f.into(saga.Compensating), f.into(saga.Running)
	among := []saga.Change{f.apply(gaveUp, f.refused(`{}`)), f.apply(turned, f.refused(`{}`))}
	for _, batch := range [][]saga.Change{alone, among} {
		errs, err := f.Sagas.Commit(f.t.Context(), batch)
		if err = errors.Join(append(errs, err)...); err != nil {
			f.t.Fatal(err)
		}
		after := &batch[len(batch)-1].After
		said, stored := after.CompensationTimeoutAt, f.load(after.ID).Saga.CompensationTimeoutAt
		if !cmp.Equal(said, stored) || stored == nil {
			f.t.Errorf("the change has the compensation deadline %v, but %v is stored", said, stored)
		}
	}
	run = alone[0].After
	began := f.load(run.ID).Saga
	near(f, "compensation deadline", began.CompensationTimeoutAt, from.Add(30*time.Second))
	if began.TimeoutAt == nil || !began.TimeoutAt.Equal(*timeout) {
		f.t.Errorf("the deadline of the forward phase became %v, was %v", began.TimeoutAt, timeout)
	}
	run = f.play(run, f.unanswered())
	if again := f.load(run.ID).Saga; !again.CompensationTimeoutAt.Equal(*began.CompensationTimeoutAt) {
		f.t.Errorf(
			"a retry moved the compensation deadline to %v, was %v",
			again.CompensationTimeoutAt,
			began.CompensationTimeoutAt,
		)
	}
	f.play(run, f.refused(`{}`), saga.ResumeRequested{By: "op"})
	if resumed := f.load(run.ID).Saga; !resumed.CompensationTimeoutAt.After(*began.CompensationTimeoutAt) {
		f.t.Errorf(
			"a resumed compensation has the deadline %v, not after the first one's %v",
			resumed.CompensationTimeoutAt,
			began.CompensationTimeoutAt,
		)
	}
}

func commitMany(f *fixture) {
	batch := make([]saga.NewSaga, 300)
	for i := range batch {
		batch[i] = f.owned(f.owner)
	}
	changes := make([]saga.Change, len(batch))
	for i, run := range f.stored(batch...) {
		changes[i] = f.apply(run, f.done(`{}`))
		if i%10 == 9 {
			changes[i].Before.Version++
		}
	}
	for i, err := range f.commit(changes...) {
		if stale := i%10 == 9; stale != (err != nil) {
			f.t.Errorf("change %d: %v", i, err)
		}
	}
}

// commitTogether writes outcomes that were held back (checkpoint: false) with the next outcome,
// whatever it is.
func commitTogether(f *fixture) {
	for name, last := range map[string]saga.Event{
		"done": f.done(`{"c":3}`), "refused": f.refused(`{"c":3}`), "unanswered": f.unanswered(),
	} {
		run := f.into(saga.Running)
		c := f.apply(run, f.done(`{"a":1}`))
		c = c.Then(f.apply(c.After, last))
		poisoned, stale := c, c
		poisoned.Logs = slices.Clone(c.Logs)
		poisoned.Logs[0].Request = raw(nul)
		stale.Before.Version++
		f.unchanged(run.ID, func() {
			f.wantFault(f.commit(poisoned)[0], fault.Invalid, saga.CodeUnstorable)
			f.wantFault(f.commit(stale)[0], fault.Conflict, saga.CodeStale)
		})
		want := len(f.load(run.ID).Logs) + len(c.Logs)
		after, logs := f.moved(c), len(f.load(run.ID).Logs)
		if after.Version != run.Version+1 || logs != want || len(c.Logs) < 2 {
			f.t.Errorf("%s: version %d and %d logs; want %d and %d", name, after.Version, logs, run.Version+1, want)
		}
		f.check(after)
	}
}
