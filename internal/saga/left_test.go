package saga

import (
	"fmt"
	"maps"
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"
	"pgregory.net/rapid"

	"github.com/skald-saga/skald/internal/dlq"
	"github.com/skald-saga/skald/internal/retry"
	"github.com/skald-saga/skald/internal/saga/workflow"
)

// undoWorld is a saga that compensates, with its surroundings: the effects at participants, and the
// letters as a store keeps them. For each step it is drawn whether the saga goes on after the
// step's compensation has given up.
type undoWorld struct {
	t       *rapid.T
	def     *workflow.Definition
	head    Saga
	logs    []StepLog
	letters map[uuid.UUID]dlq.Letter
	now     time.Time
	ids     uint64

	undone  map[int]int        // effects, by step
	settled map[int]bool       // by hand
	stale   map[uuid.UUID]bool // letters that were due for a retry when the saga was ended
	failing bool
	seen    map[string]int
}

func (u *undoWorld) moment() Moment {
	u.now = u.now.Add(time.Millisecond)
	return Moment{Now: u.now, Jitter: 0.5, CompensationTimeout: time.Minute, NewID: func() uuid.UUID {
		u.ids++
		return uuid.NewSHA1(uuid.Nil, fmt.Append(nil, u.ids))
	}}
}

func (u *undoWorld) load() Instance { return Rebuild(u.head, u.def, slices.Clone(u.logs)) }

// apply applies an event to the stored saga, commits it, and checks the stored result.
func (u *undoWorld) apply(e Event) bool {
	r := u.load()
	c, err := Apply(r, e, u.moment())
	if err != nil {
		return false
	}
	if c.Letter != nil {
		l := c.Letter.Letter
		if c.Letter.Outcome != dlq.GaveUp || c.Letter.ID != uuid.Nil {
			before, known := u.letters[c.Letter.ID]
			changed, err := dlq.Apply(before, dlq.SourceReported{SourceUpdate: c.Letter}, dlq.Moment{Now: u.now})
			if !known || err != nil {
				u.t.Fatalf("%T tells %s of the letter %s: %v", e, c.Letter.Outcome, c.Letter.ID, err)
			}
			l = changed.After
		}
		u.letters[l.ID] = l
		u.seen[string(c.Letter.Outcome)]++
	}
	for _, l := range c.Logs {
		same := func(o StepLog) bool {
			return o.StepIndex == l.StepIndex && o.Action == l.Action && o.Attempt == l.Attempt
		}
		if slices.ContainsFunc(u.logs, same) {
			u.t.Fatalf("%T: two rows for one attempt: %+v", e, l)
		}
		u.logs = append(u.logs, l)
	}
	u.head = c.After.Saga
	if got := u.load(); !reflect.DeepEqual(got, c.After) {
		u.t.Fatalf("%T: rebuilt (-decided +rebuilt):\n%s", e, cmp.Diff(c.After, got, cmp.AllowUnexported(Instance{})))
	}
	if why := inconsistent(&c.After); why != "" {
		u.t.Fatalf("%T leads to a saga that is %s: %+v", e, why, u.head)
	}
	u.check(e)
	return true
}

// check compares the open letters with those of the saga, and an end with the steps that were
// undone.
func (u *undoWorld) check(e Event) {
	open := map[uuid.UUID]int{}
	for id, l := range u.letters {
		if l.Status != dlq.Resolved {
			open[id] = l.Link.StepIndex
		}
	}
	if of := u.head.Letters(); !maps.Equal(open, of) {
		u.t.Fatalf("%T: %s: open are the letters %v, the saga has %v", e, u.head.State, open, of)
	}
	switch {
	case u.head.State == Failed:
		u.seen["failed"]++
		if len(u.head.left()) > 0 {
			u.seen["failed with several"]++
		}
		if reason := u.head.AttentionReason; len(open) == 0 && reason != nil && *reason != ReasonForced {
			u.t.Fatalf("%T: failed, and no letter says why", e)
		}
		for id := range open { // the letter's lease ends, unless its turn came before the saga was ended
			_, forced := e.(FailureForced)
			late := u.head.AttentionReason != nil && *u.head.AttentionReason == ReasonUndoTimeout || u.head.CompensationExpired
			if u.letters[id].Status == dlq.Retrying && !forced && !late && !u.stale[id] {
				u.t.Fatalf("%T: failed, and a letter is being retried: %+v", e, u.head.Interventions)
			}
			u.stale[id] = u.letters[id].Status == dlq.Retrying
		}
		for _, l := range u.head.left() {
			if l.Again {
				u.t.Fatalf("%T: failed, and something is to be repeated", e)
			}
		}
	case u.head.State.Terminal():
		for k := range u.def.Steps {
			if u.undone[k] != 1 && !u.settled[k] && !u.def.Steps[k].Compensation.None() {
				u.t.Fatalf("%T: ended as %s, but step %d was not undone: %v", e, u.head.State, k, u.undone)
			}
		}
		if u.head.partly() || u.head.repeats() {
			u.t.Fatalf("ended with %+v", u.head.Interventions)
		}
	default:
		if id := u.head.DeadLetter(); id != uuid.Nil && u.letters[id].Status != dlq.Retrying && !u.head.repeats() {
			u.t.Fatalf("%T: undoes, while its letter is %s", e, u.letters[id].Status)
		}
	}
}

// step drives the saga by one event, as its node would.
func (u *undoWorld) step() {
	r := u.load()
	if r.LeaseOwner == nil { // a node claims it
		u.head.LeaseOwner, u.head.NextRunAt, u.head.Attempt = new(int64(1)), nil, max(u.head.Attempt, 1)
		u.head.Version++
		r = u.load()
	}
	switch r.Next(u.now) {
	case Wait:
		u.now = *r.NextRunAt
	case Turn:
		if !u.apply(Turned{}) {
			u.t.Fatalf("cannot turn: %+v", u.head)
		}
	case Send:
		call := r.Call(Defaults{})
		if u.settled[call.Index] || u.undone[call.Index] > 1 {
			u.t.Fatalf("step %d is undone again", call.Index)
		}
		for k := range r.left() {
			if k > call.Index && !u.def.GoesOn(k) {
				u.t.Fatalf("step %d is undone, but step %d stops and is open", call.Index, k)
			}
		}
		o := Outcome{Verdict: Done, StartedAt: u.now, EndedAt: u.now, Request: call.Body}
		switch {
		case !u.failing || rapid.IntRange(0, 2).Draw(u.t, "goes well") == 0:
			u.undone[call.Index] = 1
		case rapid.Bool().Draw(u.t, "refused"):
			o.Verdict, o.Class, o.Code, o.Message = Refused, retry.Refused, "http_409", "no"
		default:
			o.Verdict, o.Class, o.Code, o.Message = Unknown, retry.Timeout, "timeout", "silence"
			if rapid.Bool().Draw(u.t, "applied in silence") {
				u.undone[call.Index] = 1
			}
		}
		if !u.apply(Answered{o}) {
			u.t.Fatalf("refuses the answer: %+v", u.head)
		}
	default:
		u.t.Fatalf("next is %d: %+v", r.Next(u.now), u.head)
	}
}

// meddle does something that operators, letters, or the clock may do at any time.
func (u *undoWorld) meddle() {
	r := u.load()
	of := slices.SortedFunc(maps.Values(r.Letters()), func(a, b int) int { return a - b })
	k := r.CurrentStep
	if len(of) > 0 {
		k = rapid.SampledFrom(of).Draw(u.t, "letter of")
	}
	what := rapid.SampledFrom([]string{"resume", "letter", "letter", "settle", "skip", "complete", "fail", "force", "late",
		"suspend", "resume from suspension"}).Draw(u.t, "meddle")
	order := func(v OrderVerb) bool {
		if r.State != Failed && k != r.CurrentStep {
			return false
		}
		was := u.settled[k]
		u.settled[k] = was || v != FailStep
		if u.apply(StepOrdered{Step: k, Order: Order{Verb: v, By: "op"}}) {
			return true
		}
		u.settled[k] = was
		return false
	}
	done := false
	switch what {
	case "resume":
		done = u.apply(ResumeRequested{By: "op"})
	case "letter":
		done = len(of) > 0 && u.apply(ResumeRequested{By: "op", Step: &k})
	case "settle":
		done = r.State == Failed && order(UndoneStep)
	case "skip":
		done = r.State == Failed && order(SkipStep)
	case "complete":
		done = r.State == Failed && order(CompleteStep)
	case "fail":
		done = order(FailStep)
	case "force":
		done = rapid.IntRange(0, 3).Draw(u.t, "force") == 0 && u.apply(FailureForced{By: "op"})
	case "late":
		if r.State == Compensating && rapid.IntRange(0, 3).Draw(u.t, "late") == 0 {
			at := u.now
			u.head.CompensationTimeoutAt = &at
			done = u.apply(DeadlinePassed{At: at})
		}
	case "suspend":
		done = u.apply(SuspendRequested{By: "op"})
	default:
		done = u.apply(UnsuspendRequested{By: "op"})
	}
	if done {
		u.seen[what+" in "+r.State.String()]++
	}
}

// TestCompensationsThatAreLeft checks that with go_on each compensation that gave up has its letter
// and can be repeated or settled separately, in any order and at any time. If all of them are
// settled, the saga ends as if none had given up.
func TestCompensationsThatAreLeft(t *testing.T) {
	seen := map[string]int{}
	for range 10 { // enough histories for rare events to occur as well
		rapid.Check(t, func(t *rapid.T) {
			u := &undoWorld{t: t, def: definition(rapid.StringMatching(`[un]{2,6}`).Draw(t, "steps")), now: noon, failing: true,
				letters: map[uuid.UUID]dlq.Letter{}, undone: map[int]int{}, settled: map[int]bool{}, seen: seen,
				stale: map[uuid.UUID]bool{}}
			u.def.Steps[0].Compensation = definition("u").Steps[0].Compensation
			u.def.OnCompensationFailure = rapid.SampledFrom([]workflow.OnUndoFailure{"", workflow.OnUndoFailureGoOn}).
				Draw(t, "all")
			for i := range u.def.Steps {
				u.def.Steps[i].OnCompensationFailure = rapid.SampledFrom([]workflow.OnUndoFailure{"", workflow.OnUndoFailureStop,
					workflow.OnUndoFailureGoOn, workflow.OnUndoFailureGoOn}).Draw(t, "step")
			}
			n := len(u.def.Steps)
			cause := CauseCancelled
			u.head = Saga{ID: uuid.UUID{9}, WorkflowName: "w", State: Running, TotalSteps: n, CurrentStep: n - 1, Attempt: 1,
				Version: 1, LeaseOwner: new(int64(1)), StartedAt: new(noon), CreatedAt: noon, UpdatedAt: noon}
			for i := range n - 1 {
				u.logs = append(u.logs, StepLog{StepIndex: i, StepName: u.def.Steps[i].Name, Action: Execute, Attempt: 1,
					Status: LogSuccess, Final: true, StartedAt: noon, CompletedAt: new(noon)})
			}
			u.head.EndCause, u.head.Error = &cause, &Error{Code: "SAGA_CANCELLED"}
			if !u.apply(Answered{Outcome{Verdict: Done, StartedAt: noon, EndedAt: noon}}) {
				t.Fatal("does not begin")
			}
			rounds := rapid.IntRange(0, 60).Draw(t, "rounds")
			for i := 0; i < 500 && (u.head.State != Cancelled || i < rounds); i++ {
				u.failing = i < rounds
				switch {
				case u.head.State == Cancelled:
					return
				case u.failing && rapid.IntRange(0, 3).Draw(t, "meddles") == 0:
					u.meddle()
				case u.head.SuspendedAt != nil:
					u.apply(UnsuspendRequested{})
				case u.head.State == Failed:
					if of := u.head.Letters(); len(of) > 0 && rapid.Bool().Draw(t, "by a letter") {
						k := slices.Min(slices.Collect(maps.Values(of)))
						u.apply(ResumeRequested{By: "op", Step: &k})
					} else if !u.apply(ResumeRequested{By: "op"}) {
						t.Fatalf("cannot resume: %+v", u.head)
					}
				default:
					u.step()
				}
			}
			if u.head.State != Cancelled {
				t.Fatalf("never ends: %s %+v", u.head.State, u.head.Interventions)
			}
		})
	}
	for _, what := range []string{"failed with several", "letter in failed", "letter in compensating", "settle in failed",
		"skip in failed", "complete in failed", "fail in compensating", "force in compensating", "late in compensating",
		"resume in failed", string(dlq.Succeeded), string(dlq.HandledManually), string(dlq.RetryStopped)} {
		if seen[what] == 0 {
			t.Errorf("never happened: %s", what)
		}
	}
	t.Logf("%v", seen)
}
