package storetest

import (
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"

	"github.com/skald-saga/skald/internal/fault"
	"github.com/skald-saga/skald/internal/retry"
	"github.com/skald-saga/skald/internal/saga"
	"github.com/skald-saga/skald/internal/saga/workflow"
)

// Operators' changes are stored together with the rest of a change, and a saga with interventions
// is rebuilt exactly as its driver had it.
var interventions = []contract{
	{"after every intervention, the rebuilt run equals the committed one", intervenedStepByStep},
	{"one batch holds ordinary changes and interventions", intervenedInABatch},
	{"a failed compensation creates a dead letter, if the store has dead letters", undoGivesUp},
	{"a compensation that is left undone keeps its own dead letter", undoGoesOn},
	{"a result and a retry policy read back", rareFields},
}

// order is an operator's decision about a step.
func order(verb saga.OrderVerb, step int, output string) saga.Event {
	return saga.StepOrdered{Step: step, Order: saga.Order{Verb: verb, Output: raw(output), By: "op", Reason: "because"}}
}

// retried returns a retry request; its logs are set when it is played.
func retried(from int, patch string) saga.RetryRequested {
	return saga.RetryRequested{By: "op", FromStep: &from, Patch: raw(patch)}
}

// patched returns a retry request by an operator who knows that nothing was applied.
func patched(from int, patch string) saga.RetryRequested {
	r := retried(from, patch)
	r.NotApplied = true
	return r
}

func (f *fixture) interventions() map[string][]saga.Event {
	fail := saga.FailureForced{By: "op", Reason: "enough"}
	return map[string][]saga.Event{
		"skipped in flight":       {f.done(`1`), order(saga.SkipStep, 1, ""), f.unanswered(), f.done(`3`)},
		"skipped in a wait":       {f.done(`1`), f.done(`2`), f.unanswered(), order(saga.SkipStep, 2, ""), saga.Turned{}},
		"skipped in doubt":        {f.unanswered(), order(saga.SkipStep, 0, ""), saga.Turned{}, f.refused(``), f.done(``)},
		"completed by hand":       {f.unanswered(), order(saga.CompleteStep, 0, `{"b":[1.50],"aa":2}`), saga.Turned{}, f.done(`2`), f.refused(``), f.done(``)},
		"failed by hand":          {f.done(`1`), f.unanswered(), order(saga.FailStep, 1, ""), saga.Turned{}, f.done(``)},
		"done before the order":   {order(saga.SkipStep, 0, ""), f.done(`1`), order(saga.FailStep, 1, ""), f.done(`2`), f.done(``)},
		"undo skipped":            {f.done(`1`), f.refused(``), f.unanswered(), order(saga.SkipStep, 0, ""), saga.Turned{}},
		"stuck undo done by hand": {f.done(`1`), f.refused(``), f.refused(``), order(saga.CompleteStep, 0, "")},
		"undone by hand":          {f.done(`1`), f.refused(``), f.refused(``), order(saga.UndoneStep, 0, "")},
		"gave up twice":           {f.done(`1`), f.refused(``), f.refused(``), saga.ResumeRequested{By: "op"}, f.refused(``), saga.ResumeRequested{By: "op"}},
		"resumed, halted, undone": {f.done(`1`), f.refused(``), f.refused(``), saga.ResumeRequested{By: "op"}, fail, order(saga.UndoneStep, 0, "")},
		"waiting retry":           {f.done(`1`), f.unanswered(), saga.RetryRequested{By: "op"}, f.unanswered(), f.done(`2`), f.done(`3`)},
		"failed, then retried":    {f.done(`1`), f.refused(``), f.refused(``), saga.RetryRequested{By: "op"}, f.done(`2`), f.refused(``), f.done(``)},
		"halted, then retried":    {f.done(`1`), fail, patched(1, `{"order":null,"fixed":{"n":1.50}}`)},
		"halted, then resumed":    {f.done(`1`), f.done(`2`), fail, saga.ResumeRequested{By: "op"}},
		"halted in an undo":       {f.done(`1`), f.refused(``), fail, saga.ResumeRequested{By: "op"}},
		"from an earlier step":    {f.done(`1`), f.done(`2`), fail, retried(0, `{"order":2}`), f.done(``), f.unanswered(), f.done(``), f.done(`1`), f.done(`2`), f.done(`3`)},
		"suspended and resumed":   {f.done(`1`), saga.SuspendRequested{By: "op"}, f.done(`2`), saga.UnsuspendRequested{By: "op"}, f.done(`3`)},
		"ended while suspended":   {f.done(`1`), f.done(`2`), saga.SuspendRequested{By: "op"}, f.done(`3`)},
		"another deadline":        {saga.DeadlineSet{TimeoutMS: 90_000}, f.done(`1`), f.refused(``), saga.DeadlineSet{TimeoutMS: 5000}, f.done(``)},
		"completed by force":      {f.done(`1`), saga.Slow{StartedAt: f.now()}, saga.CompletionForced{Result: raw(`[1.50]`)}},
		"looked at":               {f.done(`1`), f.refused(``), f.refused(``), saga.Acknowledged{By: "op"}},
		"neglected, then moving":  {f.unanswered(), saga.Neglected{Reason: "no_progress"}, f.done(`1`), f.done(`2`), f.done(`3`)},
	}
}

func intervenedStepByStep(f *fixture) {
	for name, events := range f.interventions() {
		f.t.Run(name, func(t *testing.T) {
			f := f.in(t)
			run := f.stored(f.owned(f.owner))[0]
			for i, e := range events {
				if r, is := e.(saga.RetryRequested); is {
					r.Logs = f.logsOf(run)
					e = r
				}
				if run.LeaseOwner == nil && !run.State.Terminal() {
					l := f.load(run.ID).Saga // unowned, as after a claim
					run.TimeoutAt, run.CompensationTimeoutAt, run.SuspendedAt = l.TimeoutAt, l.CompensationTimeoutAt, l.SuspendedAt
				}
				run = f.play(run, e)
				f.check(run)
				if t.Failed() {
					t.Fatalf("after event %d, %#v", i, e)
				}
				l := f.load(run.ID).Saga
				run.TimeoutAt, run.CompensationTimeoutAt, run.SuspendedAt = l.TimeoutAt, l.CompensationTimeoutAt, l.SuspendedAt
			}
		})
	}
}

func intervenedInABatch(f *fixture) {
	runs := f.stored(f.owned(f.owner), f.owned(f.owner), f.owned(f.owner))
	before := f.load(runs[0].ID).Saga
	changes := []saga.Change{
		f.apply(runs[0], f.done(`1`)),
		f.apply(runs[1], saga.SuspendRequested{By: "op"}),
		f.apply(runs[2], saga.DeadlineSet{By: "op", TimeoutMS: time.Hour.Milliseconds()}),
	}
	for i, err := range f.commit(changes...) {
		if err != nil {
			f.t.Fatalf("change %d: %v", i, err)
		}
		f.check(changes[i].After)
	}
	after := []saga.Saga{f.load(runs[0].ID).Saga, f.load(runs[1].ID).Saga, f.load(runs[2].ID).Saga}
	if !after[0].TimeoutAt.Equal(*before.TimeoutAt) || after[0].SuspendedAt != nil || after[0].Interventions != nil {
		f.t.Errorf("an ordinary change in a batch with interventions: %+v", after[0])
	}
	if after[1].SuspendedAt == nil || !after[1].TimeoutAt.Equal(*runs[1].TimeoutAt) {
		f.t.Errorf("suspended: %+v", after[1])
	}
	if moved := after[2].TimeoutAt.Sub(*runs[2].TimeoutAt); moved < 50*time.Minute || moved > 70*time.Minute {
		f.t.Errorf("the deadline changed from a minute to an hour, but moved by %s", moved)
	}
}

func undoGivesUp(f *fixture) {
	run := f.play(f.stored(f.owned(f.owner))[0], f.done(`1`), f.refused(``))
	lost := f.apply(run, f.refused(``)) // decided just before another writer committed
	for range 3 {
		run = f.play(run, f.refused(``))
		f.check(run)
		open := []uuid.UUID(nil)
		if f.OpenLetters != nil {
			open = f.OpenLetters(f.t, run.ID)
		}
		switch {
		case f.OpenLetters == nil && run.DeadLetter() != uuid.Nil:
			f.t.Fatal("the saga names a letter of a store without dead letters")
		case f.OpenLetters != nil && (len(open) != 1 || open[0] != run.DeadLetter()):
			f.t.Fatalf("the open letters are %s, the saga names %s", open, run.DeadLetter())
		}
		if err := f.commit(lost)[0]; !fault.IsCode(err, saga.CodeStale) {
			f.t.Fatalf("an outdated change: %v", err)
		}
		run = f.play(run, saga.ResumeRequested{By: "op"})
	}
	run = f.play(run, f.done(``))
	f.check(run)
	if run.State != saga.Compensated {
		f.t.Errorf("after its compensation, the saga is %s", run.State)
	}
	if f.OpenLetters != nil && len(f.OpenLetters(f.t, run.ID)) != 0 {
		f.t.Errorf("after its compensation, the saga has the open letters %s", f.OpenLetters(f.t, run.ID))
	}
}

// undoGoesOn: both compensations of a saga give up. The letters that the saga names are always the
// open ones, whichever compensation is retried, and a letter that was closed in the meantime is
// replaced.
func undoGoesOn(f *fixture) {
	def := *f.def
	def.OnCompensationFailure = workflow.OnUndoFailureGoOn
	run := f.stored(f.owned(f.owner))[0]
	run.Def = &def
	reload := func() {
		f.t.Helper()
		l := f.load(run.ID)
		run = saga.Rebuild(l.Saga, &def, l.Logs)
		var open []uuid.UUID
		if f.OpenLetters != nil {
			open = f.OpenLetters(f.t, run.ID)
		}
		f.sameIDs("letters", slices.Collect(maps.Keys(run.Letters())), open)
	}
	run = f.play(run, f.done(`1`), f.done(`2`), saga.CancelRequested{By: "op"}, f.done(`3`))
	run = f.play(run, f.refused(``))
	reload()
	if run.State != saga.Compensating || run.CurrentStep != 0 {
		f.t.Fatalf("the saga is %s at step %d", run.State, run.CurrentStep)
	}
	run = f.play(run, f.refused(``))
	reload()
	if run.State != saga.Failed || len(run.LeftSteps()) != 1 || f.OpenLetters != nil && len(run.Letters()) != 2 {
		f.t.Fatalf("the saga is %s with %+v", run.State, run.Interventions)
	}
	run = f.play(run, saga.ResumeRequested{By: "op", Step: new(2)}, f.refused(``))
	reload()
	run = f.play(run, saga.StepOrdered{Step: 2, Order: saga.Order{Verb: saga.UndoneStep, By: "op", Reason: "by hand"}})
	reload()
	if run.State != saga.Failed || run.CurrentStep != 0 || len(run.LeftSteps()) != 0 {
		f.t.Fatalf("the saga is %s at step %d with %+v", run.State, run.CurrentStep, run.Interventions)
	}
	run = f.play(run, saga.ResumeRequested{By: "op"}, f.done(``))
	reload()
	if run.State != saga.Cancelled || !*run.Clean {
		f.t.Errorf("the saga ended as %s: %+v", run.State, run.Interventions)
	}
}

func rareFields(f *fixture) {
	policy := &retry.Policy{MaxAttempts: 7, Jitter: new(0.0), RetryOn: []retry.Class{}}
	run := f.stored(f.owned(f.owner, func(n *saga.NewSaga) { n.RetryPolicy = policy }))[0]
	f.check(run)
	for _, result := range shapes() {
		one := f.stored(f.owned(f.owner))[0]
		one = f.play(one, f.done(`1`), saga.CompletionForced{Result: result})
		f.check(one)
		if got := f.load(one.ID).Saga.Result; canonical(got) != canonical(result) {
			f.t.Errorf("result %.200s reads back as %.200s", result, got)
		}
	}
}

// suspensions covers suspended sagas and the queries that look for work (invariant I15).
var suspensions = []contract{
	{"a suspended saga is not claimed, driven or timed out, and a resumed one keeps its remaining time", suspendedIsQuiet},
	{"a saga without progress is found once", neglectedIsFound},
}

func suspendedIsQuiet(f *fixture) {
	waiting := f.stored(f.unowned())[0]
	driven := f.stored(f.owned(f.owner))[0]
	for _, run := range []*saga.Instance{&waiting, &driven} {
		*run = f.play(*run, saga.SuspendRequested{By: "op"})
	}
	f.Advance(2 * time.Minute) // past the deadline of one minute and every due time
	other := f.register("another node", time.Hour)
	if got, err := f.Ownership.Claim(f.t.Context(), other, 10); err != nil || len(got) != 0 {
		f.t.Errorf("claimed %d suspended sagas, %v", len(got), err)
	}
	if got, err := f.Ownership.Overdue(f.t.Context(), saga.Deadline{}, 10); err != nil || len(got) != 0 {
		f.t.Errorf("%d suspended sagas are overdue, %v", len(got), err)
	}
	if got, err := f.Ownership.Due(f.t.Context(), f.owner, time.Second, 10); err != nil || len(got) != 0 {
		f.t.Errorf("%d suspended sagas are due, %v", len(got), err)
	}
	if stuck, _, err := f.Ownership.Stuck(f.t.Context()); err != nil || stuck != 0 {
		f.t.Errorf("%d suspended sagas are stuck, %v", stuck, err)
	}
	l := f.load(waiting.ID)
	run := f.play(saga.Rebuild(l.Saga, f.def, l.Logs), saga.UnsuspendRequested{By: "op"})
	got, err := f.Ownership.Claim(f.t.Context(), other, 10)
	if err != nil || len(got) != 1 || got[0].Saga.ID != run.ID {
		f.t.Fatalf("after the resumption %d claimed, %v", len(got), err)
	}
	left := got[0].Saga.TimeoutAt.Sub(f.now())
	if left < 30*time.Second || left > 90*time.Second {
		f.t.Errorf("%s of the saga's minute is left", left)
	}
}

func neglectedIsFound(f *fixture) {
	quiet := f.stored(f.unowned())[0]       // due but not claimed
	driven := f.stored(f.owned(f.owner))[0] // its call has no answer yet
	retried := f.play(f.stored(f.owned(f.owner))[0], f.done(`1`), f.unanswered())
	f.play(f.stored(f.unowned())[0], saga.SuspendRequested{}) // it waits for an operator, so it isn't neglected
	find := func(failures int) map[uuid.UUID]string {
		out := map[uuid.UUID]string{}
		q := saga.NeglectedQuery{Idle: time.Minute, Failures: failures, Limit: 2}
		for {
			page, next, err := f.Ownership.Neglected(f.t.Context(), q)
			if err != nil || len(page) > q.Limit {
				f.t.Fatalf("%d of at most %d, %v", len(page), q.Limit, err)
			}
			for _, n := range page {
				if out[n.Saga.ID] != "" {
					f.t.Errorf("saga %s is on two pages", n.Saga.ID)
				}
				out[n.Saga.ID] = n.Reason
			}
			if next == (saga.Ref{}) {
				return out
			}
			q.After = next
		}
	}
	if got := find(2); len(got) != 0 {
		f.t.Errorf("found immediately: %v", got)
	}
	if got := find(1); len(got) != 1 || got[retried.ID] != saga.ReasonFailing {
		f.t.Errorf("with one failure: %v", got)
	}
	f.Advance(2 * time.Minute)
	got := find(5)
	want := map[uuid.UUID]string{quiet.ID: saga.ReasonUnowned, driven.ID: saga.ReasonNoAnswer, retried.ID: got[retried.ID]}
	if diff := cmp.Diff(want, got); diff != "" || got[retried.ID] == "" {
		f.t.Errorf("after two minutes (-want +got):\n%s", diff)
	}
	l := f.load(quiet.ID)
	f.play(saga.Rebuild(l.Saga, f.def, l.Logs), saga.Neglected{Reason: saga.ReasonUnowned})
	if _, again := find(5)[quiet.ID]; again {
		f.t.Error("found again although it already needs attention")
	}
}
