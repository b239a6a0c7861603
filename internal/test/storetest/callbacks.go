package storetest

import (
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/skald-saga/skald/internal/audit/eventtype"
	"github.com/skald-saga/skald/internal/audit/trail"
	"github.com/skald-saga/skald/internal/fault"
	"github.com/skald-saga/skald/internal/retry"
	"github.com/skald-saga/skald/internal/saga"
	"github.com/skald-saga/skald/internal/saga/callback"
	"github.com/skald-saga/skald/internal/saga/callback/reported"
)

var callbacks = []contract{
	{"a saga that waits for a report has no owner and is claimed at the end of the wait, in the same attempt", reportAwaited},
	{"a heartbeat postpones the end of the wait and stores its progress with the attempt", reportBeat},
	{"a call that was recorded as slow waits in its row, which the report completes", reportSlow},
	{"of several concurrent reports, exactly one is stored", reportRace},
	{"a report based on a read before a claim is stale", reportBehindAClaim},
	{"a node that dies after it has claimed the end of a wait leaves the attempt in doubt", reportOfADeadNode},
}

var orphans = []contract{
	{"a report that came too late is recorded once, and leaves its saga as it is", orphanOnce},
	{"a late report on an archived saga is recorded once as well", orphanArchived},
}

// answersLater drives a new saga to the point where it waits for up to an hour for a report on its
// first step.
func (f *fixture) answersLater(before ...saga.Event) saga.Instance {
	f.t.Helper()
	f.def = f.definition(`{"name": "order", "timeout_ms": 864000000, "retry": {"initial_interval_ms": 1000, "jitter": 0},
		"steps": [
			{"name": "reserve", "action": {"http": {"url": "http://stock/reserve"}}, "compensation": "none",
			 "answer": {"later": "status == 202", "later_ms": 3600000}},
			{"name": "label", "action": {"http": {"url": "http://post/label"}}, "compensation": "none"},
			{"name": "charge", "action": {"http": {"url": "http://bank/charge"}}, "compensation": "none"}]}`)
	run := f.play(f.stored(f.owned(f.owner))[0], before...)
	return f.play(run, saga.Answered{Outcome: f.outcome(saga.Later, "", "")})
}

// reports returns the event of a report on the attempt that the saga waits for.
func (f *fixture) reports(run *saga.Instance, r reported.Result) saga.Reported {
	e := saga.Reported{Attempt: reported.Attempt{
		Tenant: run.Tenant.ID, Saga: run.ID, Step: run.CurrentStep, Number: run.Attempt,
	}}
	if r == reported.Heartbeat {
		percent := 40.0
		e.Beat = &reported.Progress{Percent: &percent, Message: "поток ☃"}
		return e
	}
	e.Outcome = saga.Outcome{Verdict: saga.Done, Code: r.Code(), Output: raw(`{"id":"r1"}`)}
	if r != reported.Done {
		e.Outcome = saga.Outcome{Verdict: saga.Unknown, Class: retry.ServerError, Code: r.Code(), Message: "lost"}
	}
	return e
}

// report stores a report.
func (f *fixture) report(run saga.Instance, r reported.Result) saga.Instance {
	f.t.Helper()
	return f.moved(f.apply(run, f.reports(&run, r)).Released(f.now()))
}

func (f *fixture) wantAwaits(id uuid.UUID, is bool) *reported.Wait {
	f.t.Helper()
	l := f.load(id)
	run := saga.Rebuild(l.Saga, f.def, l.Logs)
	wait := callback.Wait(&run)
	if (wait != nil) != is {
		f.t.Fatalf("the saga awaits %+v", wait)
	}
	asked := []uuid.UUID{id, newID()}
	if all, err := f.Callbacks.Awaiting(f.t.Context(), run.Tenant.ID, asked); err != nil || all[id] != is || len(all) > 1 {
		f.t.Errorf("waiting sagas of the list: %v, %v", all, err)
	}
	if all, err := f.Callbacks.Awaiting(f.t.Context(), newID(), asked); err != nil || len(all) > 0 {
		f.t.Errorf("waiting sagas of another tenant: %v, %v", all, err)
	}
	return wait
}

func reportAwaited(f *fixture) {
	run := f.answersLater()
	f.check(run)
	f.wantStuck(0, map[saga.State]int{saga.Running: 1})
	f.wantAwaits(run.ID, true)
	if run.LeaseOwner != nil {
		f.t.Error("the saga has an owner")
	}
	f.Advance(50 * time.Minute)
	if n := len(f.claim(f.register("other", time.Hour), 10)); n != 0 {
		f.t.Fatalf("claimed %d sagas before the end of the wait", n)
	}
	f.Advance(11 * time.Minute)
	owner := f.register("third", time.Hour)
	got := f.claimOne(owner)
	if got.Saga.Attempt != run.Attempt || got.Saga.Uncertain || len(got.Logs) != 1 ||
		got.Logs[0].Status != saga.LogRunning {
		f.t.Errorf("claimed attempt %d, in doubt %v, with the logs %+v", got.Saga.Attempt, got.Saga.Uncertain, got.Logs)
	}
	after := f.play(saga.Rebuild(got.Saga, f.def, got.Logs), saga.Turned{})
	f.check(after)
	l := f.load(run.ID).Logs[0]
	if l.Status != saga.LogTimeout || *l.Outcome != reported.CodeExpired || after.Attempt != run.Attempt+1 ||
		!after.Uncertain {
		f.t.Errorf("after the wait: attempt %d, in doubt %v, log %+v", after.Attempt, after.Uncertain, l)
	}
}

func reportBeat(f *fixture) {
	run := f.answersLater()
	f.Advance(50 * time.Minute)
	l := f.load(run.ID)
	run = f.report(saga.Rebuild(l.Saga, f.def, l.Logs), reported.Heartbeat)
	f.check(run)
	f.Advance(50 * time.Minute)
	if n := len(f.claim(f.owner, 10)); n != 0 {
		f.t.Fatalf("claimed %d sagas before the end of the wait", n)
	}
	for _, want := range []saga.Logs{{}, {Brief: true}, {Explained: true}} {
		logs, err := f.Sagas.StepLogs(f.t.Context(), f.tenant.ID, run.ID, want)
		if err != nil || len(logs) != 1 {
			f.t.Fatalf("%d logs, %v", len(logs), err)
		}
		if p := reported.ProgressIn(logs[0].Response); p == nil || *p.Percent != 40 || p.Message != "поток ☃" {
			f.t.Errorf("logs %+v: the progress is %+v", want, p)
		}
	}
	l = f.load(run.ID)
	run = f.report(saga.Rebuild(l.Saga, f.def, l.Logs), reported.Done)
	f.check(run)
	if log := f.load(run.ID).Logs[0]; canonical(log.Response) != `{"id":"r1"}` || *log.Outcome != "reported_done" ||
		canonical(log.Request) != `{"step":"x","action":"y"}` {
		f.t.Errorf("the log is %+v", log)
	}
	f.wantAwaits(run.ID, false)
	if got := f.claimOne(f.owner); got.Saga.CurrentStep != 1 {
		f.t.Errorf("the saga continues at step %d", got.Saga.CurrentStep)
	}
}

func reportSlow(f *fixture) {
	l := f.load(f.answersLater(saga.Slow{StartedAt: f.now()}).ID)
	if len(l.Logs) != 1 || *l.Logs[0].Outcome != "later" {
		f.t.Fatalf("the logs are %+v", l.Logs)
	}
	run := f.report(saga.Rebuild(l.Saga, f.def, l.Logs), reported.Unknown)
	f.check(run)
	if logs := f.load(run.ID).Logs; len(logs) != 1 || logs[0].Status != saga.LogFailed {
		f.t.Errorf("the logs are %+v", logs)
	}
}

func reportRace(f *fixture) {
	run := f.answersLater()
	var stored atomic.Int64
	results := []reported.Result{reported.Done, reported.Unknown, reported.Heartbeat}
	together(6, func(i int) {
		c, err := saga.Apply(run, f.reports(&run, results[i%3]), f.moment())
		if err != nil {
			f.t.Error(err)
			return
		}
		errs, err := f.Sagas.Commit(f.t.Context(), []saga.Change{c.Released(f.now())})
		switch {
		case err != nil:
			f.t.Error(err)
		case errs[0] == nil:
			stored.Add(1)
		case !fault.IsCode(errs[0], saga.CodeStale):
			f.t.Errorf("report %d: %v", i, errs[0])
		}
	})
	if n := stored.Load(); n != 1 {
		f.t.Errorf("%d of 6 reports on the same version were stored", n)
	}
}

func reportBehindAClaim(f *fixture) {
	run := f.answersLater()
	f.Advance(61 * time.Minute)
	f.claimOne(f.owner)
	f.unchanged(run.ID, func() {
		c := f.apply(run, f.reports(&run, reported.Done)).Released(f.now())
		f.wantFault(f.commit(c)[0], fault.Conflict, saga.CodeStale)
	})
	l := f.load(run.ID) // it is accepted once the saga has been read again: the claim didn't end the wait
	after := f.report(saga.Rebuild(l.Saga, f.def, l.Logs), reported.Done)
	f.check(after)
	if after.CurrentStep != 1 || after.LeaseOwner != nil {
		f.t.Errorf("after the report: step %d, owner %v", after.CurrentStep, after.LeaseOwner)
	}
}

func reportOfADeadNode(f *fixture) {
	run := f.answersLater()
	f.Advance(61 * time.Minute)
	owner, die := f.dead()
	f.claimOne(owner)
	die()
	got := f.claimOne(f.register("heir", time.Hour))
	if got.Saga.Attempt != run.Attempt+1 || !got.Saga.Uncertain || *got.Logs[0].Outcome != "owner_lost" {
		f.t.Errorf("taken over at attempt %d, in doubt %v, log %+v", got.Saga.Attempt, got.Saga.Uncertain, got.Logs[0])
	}
	after := saga.Rebuild(got.Saga, f.def, got.Logs)
	if s, _ := callback.Standing(&after, f.reports(&run, reported.Done).Attempt, got.Logs); s != reported.Late {
		f.t.Errorf("a report on the previous attempt is %v", s)
	}
}

func orphanOnce(f *fixture) {
	run := f.into(saga.Completed)
	before := f.load(run.ID)
	f.putOrphans(&run)
	after := f.load(run.ID)
	if after.Saga.Version != before.Saga.Version || !after.Saga.UpdatedAt.Equal(before.Saga.UpdatedAt) {
		f.t.Error("the saga has changed")
	}
}

func orphanArchived(f *fixture) {
	run := f.ended(saga.Completed, time.Hour)
	if n := f.archive(f.everythingEnded()); n == 0 {
		f.t.Fatal("nothing was archived")
	}
	f.putOrphans(&run)
}

// putOrphans records late reports on two attempts, each of them twice.
func (f *fixture) putOrphans(run *saga.Instance) {
	f.t.Helper()
	for range 2 {
		for _, a := range []reported.Attempt{{Step: 0, Number: 1}, {Step: 0, Undo: true, Number: 1}} {
			e := callback.Orphaned(run, a, reported.Done, "r1", f.now())
			if err := f.Callbacks.PutOrphan(f.t.Context(), &e); err != nil {
				f.t.Fatal(err)
			}
		}
	}
	f.Settle(f.t)
	var told []string
	for _, e := range f.feed(trail.EventFilter{SagaID: run.ID}, 100) {
		if e.Type == eventtype.CallbackOrphaned {
			told = append(told, fmt.Sprint(e.StepName, " ", e.Attempt, " ", e.Actor, " ", e.RequestID, " ", canonical(e.Data)))
		}
	}
	want := fmt.Sprint([]string{
		`reserve 1 system:participant r1 {"action":"EXECUTE","result":"done"}`,
		`reserve 1 system:participant r1 {"action":"COMPENSATE","result":"done"}`,
	})
	if got := fmt.Sprint(told); got != want {
		f.t.Errorf("events %s, want %s", got, want)
	}
}

// Callbacks tests what stores do with participants' reports. open returns a new or emptied Env for
// each test.
func Callbacks(t *testing.T, open func(t *testing.T) Env) {
	run(t, map[string][]contract{"reports": callbacks, "late reports": orphans}, open)
}
