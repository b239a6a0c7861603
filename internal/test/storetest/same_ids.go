package storetest

import (
	"slices"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"

	"github.com/skald-saga/skald/internal/audit/trail"
	"github.com/skald-saga/skald/internal/fault"
	"github.com/skald-saga/skald/internal/page"
	"github.com/skald-saga/skald/internal/saga"
	"github.com/skald-saga/skald/internal/saga/statistics"
)

// twins: two tenants each have a saga with the same id. No tenant sees, drives or ends the other's
// saga (decision 0047).
var twins = []contract{
	{"two tenants can have sagas with the same id, in one batch too", twinsLive},
	{"an answer completes the step log of its own saga", twinsComplete},
	{"each tenant's chain covers its own events for a shared id", twinsSealed},
	{"one of two sagas with the same id is archived and restored without the other", twinsArchived},
	{"both sagas with the same id are archived in one call, each with its own logs", twinsArchivedTogether},
	{"sagas with the same id have separate dead letters", twinsLetters},
}

var twinsOwned = []contract{
	{"a takeover does not close the step logs of another saga with the same id", twinsClaimed},
	{"one of two sagas with the same id is due or released without the other", twinsReleased},
}

// pair stores two sagas with the same id and the same idempotency key, one for each of two tenants,
// in one batch, and returns the other tenant's fixture.
func (f *fixture) pair(change ...func(*saga.NewSaga)) (other *fixture, mine, theirs saga.Instance) {
	f.t.Helper()
	other = begin(f.t, f.Env)
	return f.pairOf(other, f.owned(f.owner, change...), other.owned(other.owner, change...))
}

func (f *fixture) pairOf(other *fixture, a, b saga.NewSaga) (_ *fixture, mine, theirs saga.Instance) {
	f.t.Helper()
	b.ID = a.ID
	batch := []saga.NewSaga{withKey(a, f.key("k", "hash")), withKey(b, other.key("k", "hash"))}
	for i, r := range f.create(batch...) {
		if r.Created != saga.Stored {
			f.t.Fatalf("result %d of saga %d, want it stored", r.Created, i)
		}
	}
	return other, f.rebuilt(a.ID), other.rebuilt(b.ID)
}

// rebuilt reads a saga and rebuilds its instance.
func (f *fixture) rebuilt(id uuid.UUID) saga.Instance {
	f.t.Helper()
	l := f.load(id)
	if l.Saga.Tenant != f.tenant {
		f.t.Fatalf("the saga of tenant %s is of %s", f.tenant.ID, l.Saga.Tenant.ID)
	}
	return saga.Rebuild(l.Saga, f.def, l.Logs)
}

func twinsLive(f *fixture) {
	other, mine, theirs := f.pair()
	for _, of := range []*fixture{f, other} {
		again := of.unowned(func(n *saga.NewSaga) { n.ID = mine.ID })
		if r := of.create(again)[0]; r.Created != saga.IDTaken {
			f.t.Errorf("its own id a second time: result %d, want taken", r.Created)
		}
		if state, id, err := of.Sagas.Key(f.t.Context(), *of.key("k", "hash")); state != saga.KeySame || id != mine.ID ||
			err != nil {
			f.t.Errorf("the key is %d for %s, %v", state, id, err)
		}
	}
	loaded, err := f.Sagas.Load(f.t.Context(), []saga.Ref{mine.Ref(), theirs.Ref()})
	if err != nil || len(loaded) != 2 {
		f.t.Fatalf("loaded %d, %v; want both", len(loaded), err)
	}
	// One batch contains a change of each saga: both are written, with logs, events and keys.
	c, d := f.apply(mine, f.done(`{"mine":1}`)), other.apply(theirs, other.done(`{"theirs":1}`))
	c.Key, d.Key = f.key("c", "h"), other.key("c", "h")
	for i, err := range f.commit(c, d) {
		if err != nil {
			f.t.Fatalf("change %d: %v", i, err)
		}
	}
	f.check(c.After)
	other.check(d.After)
	mine, theirs = c.After, d.After
	// A stale change of one saga has no effect on the other.
	stale := other.apply(theirs, saga.CancelRequested{By: "eve"})
	stale.Before.Version--
	good := f.apply(mine, saga.CancelRequested{By: "ann"})
	if errs := f.commit(good, stale); errs[0] != nil || !fault.IsCode(errs[1], saga.CodeStale) {
		f.t.Fatalf("results %v, want the first written and the second stale", errs)
	}
	mine = f.play(good.After, f.refused(``), f.done(``))
	theirs = other.play(theirs, other.refused(`{"theirs":2}`), other.done(``))
	if mine.State != saga.Cancelled || theirs.State != saga.Compensated {
		f.t.Fatalf("states %s and %s", mine.State, theirs.State)
	}
	f.check(mine)
	other.check(theirs)
	wantLogs := map[*fixture]int{f: len(f.load(mine.ID).Logs), other: len(other.load(theirs.ID).Logs)}
	f.Settle(f.t)
	for of, run := range map[*fixture]saga.Instance{f: mine, other: theirs} {
		if s, err := of.Sagas.Get(f.t.Context(), of.tenant.ID, run.ID); err != nil || s.State != run.State ||
			s.Tenant != of.tenant {
			f.t.Errorf("get: %s of %s, %v", s.State, s.Tenant.ID, err)
		}
		found, err := of.Sagas.List(f.t.Context(), of.tenant.ID, saga.Filter{ByTime: page.ByTime{Limit: 10, Total: true}})
		if err != nil || len(found.Items) != 1 || found.Total != 1 || found.Items[0].State != run.State {
			f.t.Errorf("list: %d sagas, total %d, %v", len(found.Items), found.Total, err)
		}
		if logs := of.logsOf(run); len(logs) != wantLogs[of] {
			f.t.Errorf("%d logs, want %d", len(logs), wantLogs[of])
		}
		for _, e := range of.history(run.ID, trail.EventFilter{}, false, 100) {
			if e.TenantID != of.tenant.ID || e.WorkflowName != run.WorkflowName {
				f.t.Errorf("event %s of tenant %s, workflow %q", e.Type, e.TenantID, e.WorkflowName)
			}
		}
		stats := of.statistics(of.tenant.ID, statistics.StatisticsFilter{})
		if n := stats.Definitions[0].ByState[run.State]; len(stats.Definitions) != 1 || n != 1 {
			f.t.Errorf("statistics count %d, want 1", n)
		}
	}
}

func twinsComplete(f *fixture) {
	other, mine, theirs := f.pair()
	slow := saga.Slow{StartedAt: f.now()}
	mine, theirs = f.play(mine, slow), other.play(theirs, slow)
	mine = f.play(mine, f.done(`{"mine":1}`))
	f.check(mine)
	other.check(theirs)
	if l := other.logsOf(theirs); len(l) != 1 || l[0].Status != saga.LogRunning {
		f.t.Errorf("logs of the saga with the same id: %+v", l)
	}
}

func twinsSealed(f *fixture) {
	other, mine, theirs := f.pair()
	f.play(mine, f.done(`{}`))
	other.play(theirs, other.refused(``))
	f.Settle(f.t)
	for _, of := range []*fixture{f, other} {
		for of.seal() > 0 {
		}
		events := of.history(mine.ID, trail.EventFilter{}, false, 100)
		covered := of.checkChain()
		for _, e := range events {
			if !slices.Contains(covered, e.Position) {
				f.t.Errorf("event %s is not covered", e.Type)
			}
		}
		if len(covered) != len(events) {
			f.t.Errorf("%d events are covered, want the tenant's own %d", len(covered), len(events))
		}
	}
}

// pairEnded is pair with sagas that have ended, one completed and the other compensated.
func (f *fixture) pairEnded() (other *fixture, mine, theirs saga.Instance) {
	f.t.Helper()
	other, mine, theirs = f.pair()
	mine = f.play(mine, f.done(`{"n":1}`), f.done(`{"n":2}`), f.done(`{"n":3}`))
	theirs = other.play(theirs, other.done(`{"t":1}`), other.refused(`{"why":"no"}`), other.done(``))
	if mine.State != saga.Completed || theirs.State != saga.Compensated {
		f.t.Fatalf("states %s and %s", mine.State, theirs.State)
	}
	return other, mine, theirs
}

func twinsArchived(f *fixture) {
	other, mine, theirs := f.pairEnded()
	before, logs := f.load(mine.ID), f.logsOf(mine)
	other.unchanged(theirs.ID, func() {
		if n := f.archive(f.everythingEnded()); n != 1 {
			f.t.Fatalf("archived %d sagas, want 1", n)
		}
		f.absent(mine.ID)
		if a := f.getArchived(mine.ID); cmp.Diff(before.Saga, a.Saga) != "" || cmp.Diff(logs, a.Logs) != "" {
			f.t.Errorf("archived: %+v", a)
		}
		_, err := other.Archive.GetArchived(f.t.Context(), other.tenant.ID, theirs.ID, saga.Logs{})
		other.wantFault(err, fault.NotFound, saga.CodeNotFound)
		other.wantFault(other.restore(theirs.ID), fault.NotFound, saga.CodeNotFound)
		// The id stays taken for its own tenant, whether the saga is archived or live; for others
		// it is free.
		for _, of := range []*fixture{f, other} {
			if r := of.create(of.unowned(func(n *saga.NewSaga) { n.ID = mine.ID }))[0]; r.Created != saga.IDTaken {
				f.t.Errorf("result %d, want taken", r.Created)
			}
		}
		third := begin(f.t, f.Env)
		if r := third.create(third.unowned(func(n *saga.NewSaga) { n.ID = mine.ID }))[0]; r.Created != saga.Stored {
			f.t.Errorf("result %d, want the archived id of another tenant stored", r.Created)
		}
		if err := f.restore(mine.ID); err != nil {
			f.t.Fatal(err)
		}
	})
	if diff := cmp.Diff(before, f.load(mine.ID)); diff != "" {
		f.t.Errorf("restored (-before +after):\n%s", diff)
	}
}

func twinsArchivedTogether(f *fixture) {
	other, mine, theirs := f.pairEnded()
	f.archive(f.everythingEnded())
	other.archive(other.everythingEnded())
	for of, run := range map[*fixture]saga.Instance{f: mine, other: theirs} {
		a := of.getArchived(run.ID)
		want := saga.Rebuild(a.Saga, of.def, a.Logs)
		if a.Saga.State != run.State || a.Saga.Tenant != of.tenant || want.State != run.State ||
			len(a.Logs) != len(f.everyLog(run)) {
			f.t.Errorf("archived %s of %s with %d logs", a.Saga.State, a.Saga.Tenant.ID, len(a.Logs))
		}
		found := of.listArchived(saga.Filter{ByTime: page.ByTime{Limit: 10, Total: true}})
		if len(found.Items) != 1 || found.Total != 1 || found.Items[0].Saga.State != run.State {
			f.t.Errorf("%d sagas in the archive's list, total %d", len(found.Items), found.Total)
		}
	}
	if err := other.restore(theirs.ID); err != nil {
		f.t.Fatal(err)
	}
	other.check(theirs)
	if a := f.getArchived(mine.ID); a.Saga.State != saga.Completed {
		f.t.Errorf("the saga with the same id is %s", a.Saga.State)
	}
}

// everyLog has one element for each log of an ended saga of pairEnded: three attempts.
func (f *fixture) everyLog(saga.Instance) []struct{} { return make([]struct{}, 3) }

func twinsLetters(f *fixture) {
	if f.OpenLetters == nil {
		return
	}
	other, mine, theirs := f.pair()
	fail := func(of *fixture, run saga.Instance) saga.Instance {
		run = of.play(run, of.done(`{}`), of.refused(``), of.refused(`{"why":"no"}`))
		if run.State != saga.Failed {
			f.t.Fatalf("the saga is %s", run.State)
		}
		return of.rebuilt(run.ID)
	}
	mine, theirs = fail(f, mine), fail(other, theirs)
	if open := f.OpenLetters(f.t, mine.ID); len(open) != 2 || mine.DeadLetter() == theirs.DeadLetter() ||
		!slices.Contains(open, mine.DeadLetter()) || !slices.Contains(open, theirs.DeadLetter()) {
		f.t.Fatalf("open letters %s; want %s and %s", open, mine.DeadLetter(), theirs.DeadLetter())
	}
	mine = f.play(mine, saga.ResumeRequested{By: "ann"})
	for mine.State == saga.Compensating {
		mine = f.play(mine, f.done(``))
	}
	if open := f.OpenLetters(f.t, mine.ID); len(open) != 1 || open[0] != theirs.DeadLetter() {
		f.t.Errorf("open letters %s; want %s alone", open, theirs.DeadLetter())
	}
	other.check(theirs)
}

func twinsClaimed(f *fixture) {
	other := begin(f.t, f.Env)
	dead, die := f.dead()
	_, mine, theirs := f.pairOf(other, f.owned(dead), other.owned(other.owner))
	slow := saga.Slow{StartedAt: f.now()}
	f.play(mine, slow)
	other.play(theirs, slow)
	die()
	other.unchanged(theirs.ID, func() {
		if got := f.claim(f.owner, 10); len(got) != 1 || got[0].Saga.Ref() != mine.Ref() || len(got[0].Logs) != 1 ||
			got[0].Logs[0].Status != saga.LogFailed {
			f.t.Fatalf("claimed %+v", got)
		}
	})
	if l := f.load(mine.ID); *l.Saga.LeaseOwner != f.owner || l.Saga.Attempt != 2 {
		f.t.Errorf("taken over: %+v", l.Saga)
	}
}

func twinsReleased(f *fixture) {
	other := begin(f.t, f.Env)
	owner := f.register("of both", time.Hour)
	_, mine, theirs := f.pairOf(other, f.owned(owner), other.owned(owner))
	other.unchanged(theirs.ID, func() { f.release(owner, mine.ID) })
	if s := f.load(mine.ID).Saga; s.LeaseOwner != nil {
		f.t.Errorf("the released saga still has owner %d", *s.LeaseOwner)
	}
	f.Advance(31 * time.Second)
	refs, err := f.Ownership.Due(f.t.Context(), owner, 30*time.Second, 10)
	if err != nil || len(refs) != 1 || refs[0] != theirs.Ref() {
		f.t.Errorf("due: %v, %v; want %v", refs, err, theirs.Ref())
	}
	got := f.claim(owner, 10)
	if len(got) != 1 || got[0].Saga.Ref() != mine.Ref() {
		f.t.Errorf("claimed %+v, want %v", got, mine.Ref())
	}
}
