package callback_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"

	"github.com/skald-saga/skald/internal/retry"
	"github.com/skald-saga/skald/internal/saga"
	"github.com/skald-saga/skald/internal/saga/callback"
	"github.com/skald-saga/skald/internal/saga/callback/reported"
	"github.com/skald-saga/skald/internal/saga/explain"
	"github.com/skald-saga/skald/internal/saga/workflow"
)

var noon = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

// started is the run of a saga all of whose participants may answer later and report within an
// hour. Its steps either have a compensation (u) or none (n).
func started(pattern string) saga.Instance {
	answer := &workflow.Answer{Later: "status == 202", LaterMS: time.Hour.Milliseconds()}
	tries := &retry.Policy{MaxAttempts: 3, InitialIntervalMS: 1000, Multiplier: 2, RetryOn: retry.Classes}
	def := &workflow.Definition{Name: "w", Retry: tries, CompensationRetry: tries}
	for i, c := range pattern {
		s := workflow.Step{Name: fmt.Sprint("s", i), Answer: answer}
		s.Action.HTTP = &workflow.HTTPCall{Method: "POST", URL: "http://h/do"}
		if c == 'u' {
			s.Compensation.HTTP, s.Compensation.Answer = &workflow.HTTPCall{Method: "POST", URL: "http://h/undo"}, answer
		}
		def.Steps = append(def.Steps, s)
	}
	return saga.NewInstance(saga.New(saga.Spec{ID: uuid.UUID{1}}, def, 1, new(int64(42)), noon, 0), def)
}

// answered is the event of an answered call.
func answered(v saga.Verdict, class retry.Class, code string) saga.Event {
	return saga.Answered{Outcome: saga.Outcome{
		Verdict: v, Class: class, Code: code, Request: []byte(`{"sent":1}`), StartedAt: noon, EndedAt: noon.Add(time.Second),
	}}
}

// happenings maps the words of the stories below to events.
var happenings = map[string]saga.Event{
	"later":     answered(saga.Later, "", ""),
	"done":      answered(saga.Done, "", ""),
	"refused":   answered(saga.Refused, retry.Refused, "http_409"),
	"turn":      saga.Turned{},
	"slow":      saga.Slow{StartedAt: noon},
	"cancel":    saga.CancelRequested{By: "ann"},
	"suspend":   saga.SuspendRequested{By: "op"},
	"unsuspend": saga.UnsuspendRequested{By: "op"},
	"fail":      saga.FailureForced{By: "op"},
}

// outcomes are the outcomes that reports give to an attempt.
var outcomes = map[reported.Result]saga.Outcome{
	reported.Done:    {Verdict: saga.Done, Code: "reported_done", Output: json.RawMessage(`{"o":1}`)},
	reported.Refused: {Verdict: saga.Refused, Class: retry.Refused, Code: "reported_refused", Message: "sold out"},
	reported.NotApplied: {
		Verdict: saga.NotApplied, Class: retry.Unavailable, Code: "reported_not_applied", Message: "busy",
	},
	reported.Unknown: {Verdict: saga.Unknown, Class: retry.ServerError, Code: "reported_unknown", Message: "lost"},
}

// laterWorld is a saga and its store, which consists of the head and the logs. After each word the
// saga is rebuilt from them, as a node would do.
type laterWorld struct {
	t    *testing.T
	run  saga.Instance
	logs []saga.StepLog
	now  time.Time
	// calls are the attempts that were answered "later", in order.
	calls []reported.Attempt
}

// write stores a change as the stores do.
func (w *laterWorld) write(c saga.Change) {
	for _, l := range c.Logs {
		i := slices.IndexFunc(w.logs, func(o saga.StepLog) bool {
			return o.StepIndex == l.StepIndex && o.Action == l.Action && o.Attempt == l.Attempt
		})
		completes := l.Completes
		switch l.Completes = false; {
		case completes && (i < 0 || w.logs[i].Status != saga.LogRunning):
			w.t.Fatalf("%+v completes nothing", l)
		case completes:
			l.ID, l.StartedAt = w.logs[i].ID, w.logs[i].StartedAt
			w.logs[i] = l
		case i >= 0:
			w.t.Fatalf("two logs of attempt %d", l.Attempt)
		default:
			w.logs = append(w.logs, l)
		}
	}
	if c.After.Awaited() != nil && (c.After.NextRunAt == nil || c.After.LeaseOwner != nil) {
		w.t.Fatalf("a saga that waits is due %v and has the owner %v", c.After.NextRunAt, c.After.LeaseOwner)
	}
	w.run = saga.Rebuild(c.After.Saga, w.run.Def, w.logs)
}

// claim changes a due saga as a claim would.
func (w *laterWorld) claim() {
	s := w.run.Saga
	if s.LeaseOwner != nil || s.NextRunAt == nil || s.NextRunAt.After(w.now) || s.SuspendedAt != nil {
		w.t.Fatalf("at %s there is nothing to claim: owner %v, due %v", w.now, s.LeaseOwner, s.NextRunAt)
	}
	s.LeaseOwner, s.NextRunAt = new(int64(42)), nil
	s.LeaseEpoch++
	s.Version++
	w.run = saga.Rebuild(s, w.run.Def, w.logs)
}

// do applies one word and returns the result, or "" if it was applied.
func (w *laterWorld) do(word string) string {
	w.now = w.now.Add(time.Minute)
	before := w.run
	verb, of, _ := strings.Cut(word, ":")
	var e saga.Event
	switch verb {
	case "later":
		e = happenings[verb]
		w.calls = append(w.calls, before.InFlight())
	case "claim":
		w.claim()
		return ""
	case "hour":
		w.now = w.now.Add(time.Hour)
		return ""
	case "report", "beat": // report:RESULT, or report:RESULT#CALL for a call that was answered later; beat:PERCENT
		result, number, _ := strings.Cut(of, "#")
		a := before.InFlight()
		if number != "" {
			a = w.calls[number[0]-'1']
		}
		r := saga.Reported{Attempt: a, Outcome: outcomes[reported.Result(result)]}
		if verb == "beat" {
			r.Beat = &reported.Progress{}
			if of != "" {
				r.Beat.Percent = new(float64)
				fmt.Sscan(of, r.Beat.Percent)
			}
		}
		switch s, first := callback.Standing(&before, a, w.logs); s {
		case reported.Early:
			return "early"
		case reported.Late:
			return "late"
		case reported.Decided:
			return "was_" + string(first)
		}
		e = r
	case "skip", "complete", "failstep":
		verbs := map[string]saga.OrderVerb{"skip": saga.SkipStep, "complete": saga.CompleteStep, "failstep": saga.FailStep}
		e = saga.StepOrdered{Step: before.CurrentStep, Order: saga.Order{Verb: verbs[verb], By: "op"}}
	default:
		if e = happenings[verb]; e == nil {
			w.t.Fatalf("no such word: %q", word)
		}
	}
	c, err := saga.Apply(before, e, saga.Moment{Now: w.now, NewID: uuid.New, Jitter: 0.5})
	if err != nil {
		return "refused"
	}
	if _, is := e.(saga.Reported); is {
		c = c.Released(w.now)
	}
	w.write(c)
	return ""
}

func (w *laterWorld) told() string {
	var all []string
	for _, l := range w.logs {
		text := fmt.Sprintf("%c%d#%d %s", l.Action[0], l.StepIndex, l.Attempt, l.Status)
		if l.Outcome != nil {
			text += " " + *l.Outcome
		}
		all = append(all, text)
	}
	return strings.Join(all, ", ")
}

// TestReports: a report decides at most one attempt, and only once, and a late report changes
// nothing (invariant I20).
func TestReports(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name, steps, story string // word=RESULT
		state              saga.State
		logs               string
	}{
		{"the saga waits", "uu", "later", saga.Running, "E0#1 RUNNING later"},
		{"done", "uu", "later report:done", saga.StepCompleted, "E0#1 SUCCESS reported_done"},
		{"done, the last step", "u", "later report:done", saga.Completed, "E0#1 SUCCESS reported_done"},
		{"the next step goes on", "uu", "later report:done claim done", saga.Completed,
			"E0#1 SUCCESS reported_done, E1#1 SUCCESS"},
		{"refused", "u", "later report:refused", saga.Compensated, "E0#1 FAILED reported_refused"},
		{"refused, and what was done is undone", "uu", "done later report:refused claim done", saga.Compensated,
			"E0#1 SUCCESS, E1#1 FAILED reported_refused, C0#1 SUCCESS"},
		{"not applied is retried, with a new attempt", "u", "later report:not_applied claim done", saga.Completed,
			"E0#1 FAILED reported_not_applied, E0#2 SUCCESS"},
		{"unknown is retried", "u", "later report:unknown claim later", saga.Running,
			"E0#1 FAILED reported_unknown, E0#2 RUNNING later"},
		{"a slow call that answers later", "u", "slow later report:done", saga.Completed, "E0#1 SUCCESS reported_done"},
		{"a report before the answer is stored", "u", "report:done=early later report:done", saga.Completed,
			"E0#1 SUCCESS reported_done"},
		{"a report while a slow call is in flight", "u", "slow report:done=early", saga.Running, "E0#1 RUNNING"},
		{"a repeat gets the first result", "uu", "later report:refused#1 report:done#1=was_refused", saga.Compensated,
			"E0#1 FAILED reported_refused"},
		{"a heartbeat puts the end off", "u", "later hour beat hour beat report:done", saga.Completed,
			"E0#1 SUCCESS reported_done"},
		{"without a report the attempt is in doubt", "u", "later hour claim turn", saga.Running, "E0#1 TIMEOUT later_expired"},
		{"and is made again", "u", "later hour claim turn done", saga.Completed, "E0#1 TIMEOUT later_expired, E0#2 SUCCESS"},
		{"until the policy gives up", "u", "later hour claim turn refused", saga.Compensating,
			"E0#1 TIMEOUT later_expired, E0#2 FAILED http_409"},
		{"a wait that is not over stays", "u", "later turn=refused report:done", saga.Completed, "E0#1 SUCCESS reported_done"},
		{"a report after the end of the wait, before a driver saw it", "u", "later hour report:done", saga.Completed,
			"E0#1 SUCCESS reported_done"},
		{"a report while a driver is about to end the wait", "u", "later hour claim report:done", saga.Completed,
			"E0#1 SUCCESS reported_done"},
		{"a report after the wait", "u", "later hour claim turn report:done#1=late", saga.Running, "E0#1 TIMEOUT later_expired"},
		{"a report of an older attempt", "u", "later hour claim turn later report:done#1=late report:done#2", saga.Completed,
			"E0#1 TIMEOUT later_expired, E0#2 SUCCESS reported_done"},
		{"cancel ends the wait in doubt", "u", "later cancel claim turn", saga.Compensating, "E0#1 TIMEOUT later_ended"},
		{"and the step is undone first", "uu", "done later cancel claim turn done done", saga.Cancelled,
			"E0#1 SUCCESS, E1#1 TIMEOUT later_ended, C1#1 SUCCESS, C0#1 SUCCESS"},
		{"a report after a cancel that no driver has seen", "u", "later cancel report:done claim done", saga.Cancelled,
			"E0#1 SUCCESS reported_done, C0#1 SUCCESS"},
		{"a heartbeat does not put a cancel off", "u", "later cancel beat=refused claim turn", saga.Compensating,
			"E0#1 TIMEOUT later_ended"},
		{"a cancel during the call", "u", "cancel later", saga.Compensating, "E0#1 TIMEOUT later_ended"},
		{"a report after a cancel", "u", "later cancel claim turn report:done#1=late", saga.Compensating,
			"E0#1 TIMEOUT later_ended"},
		{"an operator skips the step", "uu", "later skip claim turn", saga.Running, "E0#1 TIMEOUT later_ended, E0#2 SKIPPED operator"},
		{"an operator completes the step", "u", "later complete claim turn", saga.Completed,
			"E0#1 TIMEOUT later_ended, E0#2 SUCCESS operator"},
		{"an operator lets the step fail", "u", "later failstep claim turn", saga.Compensating,
			"E0#1 TIMEOUT later_ended, E0#2 FAILED operator"},
		{"a forced end", "u", "later fail", saga.Failed, "E0#1 FAILED operator"},
		{"a report after a forced end", "u", "later fail report:done#1=late", saga.Failed, "E0#1 FAILED operator"},
		{"a compensation may answer later", "uu", "done refused later report:done", saga.Compensated,
			"E0#1 SUCCESS, E1#1 FAILED http_409, C0#1 SUCCESS reported_done"},
		{"a compensation whose report does not come is repeated", "uu", "done refused later hour claim turn done", saga.Compensated,
			"E0#1 SUCCESS, E1#1 FAILED http_409, C0#1 TIMEOUT later_expired, C0#2 SUCCESS"},
		{"a compensation that was refused", "uu", "done refused later report:refused", saga.Failed,
			"E0#1 SUCCESS, E1#1 FAILED http_409, C0#1 FAILED reported_refused"},
		{"a report while the saga is suspended", "u", "later suspend report:done", saga.Completed, "E0#1 SUCCESS reported_done"},
		{"the wait ends while the saga is suspended", "u", "later suspend hour turn=refused unsuspend claim turn", saga.Running,
			"E0#1 TIMEOUT later_expired"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			w := laterWorld{t: t, run: started(tt.steps), now: noon}
			for _, word := range strings.Fields(tt.story) {
				word, want, _ := strings.Cut(word, "=")
				if got := w.do(word); got != want {
					t.Fatalf("%s: %q, want %q", word, got, want)
				}
			}
			if diff := cmp.Diff(fmt.Sprint(tt.state, ": ", tt.logs), fmt.Sprint(w.run.State, ": ", w.told())); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestTheWaitForAReport(t *testing.T) {
	t.Parallel()
	w := laterWorld{t: t, run: started("u"), now: noon}
	w.do("later")
	s := w.run.Saga
	if s.LeaseOwner != nil || s.NextRunAt == nil || !s.NextRunAt.Equal(w.now.Add(time.Hour)) || s.Uncertain {
		t.Errorf("the saga waits with the owner %v until %v, in doubt %v", s.LeaseOwner, s.NextRunAt, s.Uncertain)
	}
	if got := w.run.Next(w.now); got != saga.Wait {
		t.Errorf("the driver has to do %v", got)
	}
	if got := w.run.Next(w.now.Add(time.Hour)); got != saga.Turn {
		t.Errorf("at the end of the wait the driver has to do %v", got)
	}
	if v := saga.Steps(w.run, w.logs)[0]; v.Attempts != 1 || v.State != saga.StepStateRunning {
		t.Errorf("the step has %d attempts and is %v", v.Attempts, v.State)
	}
	w.do("beat:40")
	w.do("beat") // keeps what the last heartbeat said
	wait := callback.Wait(&w.run)
	if wait == nil || wait.Progress == nil || wait.Progress.Percent == nil || *wait.Progress.Percent != 40 ||
		!wait.Progress.At.Equal(w.now) || !wait.Until.Equal(w.now.Add(time.Hour)) || !wait.Since.Equal(noon) {
		t.Errorf("the wait is %+v", wait)
	}
	w.do("report:done")
	l := w.logs[0]
	if string(l.Request) != `{"sent":1}` || !l.StartedAt.Equal(noon) || string(l.Response) != `{"o":1}` ||
		!l.CompletedAt.Equal(w.now) || *l.DurationMS != w.now.Sub(noon).Milliseconds() || !l.Final {
		t.Errorf("the log is %+v", l)
	}
	if callback.Wait(&w.run) != nil {
		t.Error("it waits on")
	}
}

// A report on a step that the row has not reached may be genuine, because the saga's driver holds
// the outcome of the previous step in memory.
func TestReportsAheadOfTheRowAreEarly(t *testing.T) {
	t.Parallel()
	r := started("uuu")
	r.CurrentStep, r.State, r.Attempt = 1, saga.Running, 3
	of := func(step int, undo bool, number int) reported.Attempt {
		return reported.Attempt{Tenant: r.Tenant.ID, Saga: r.ID, Step: step, Undo: undo, Number: number}
	}
	for _, tt := range []struct {
		state saga.State
		of    reported.Attempt
		want  reported.Standing
	}{
		{saga.Running, of(2, false, 1), reported.Early},
		{saga.Running, of(1, false, 3), reported.Early},
		{saga.Running, of(1, false, 2), reported.Late},
		{saga.Running, of(0, false, 1), reported.Late},
		{saga.Running, of(2, true, 1), reported.Late},
		{saga.Compensating, of(0, true, 1), reported.Early},
		{saga.Compensating, of(1, true, 3), reported.Early},
		{saga.Compensating, of(1, true, 2), reported.Late},
		{saga.Compensating, of(2, true, 1), reported.Late},
		{saga.Compensating, of(2, false, 1), reported.Late},
		{saga.Failed, of(1, true, 3), reported.Late},
		{saga.Completed, of(2, false, 1), reported.Late},
	} {
		r.State = tt.state
		if got, _ := callback.Standing(&r, tt.of, nil); got != tt.want {
			t.Errorf("while %s, step %d undo %v #%d is %v, want %v", tt.state, tt.of.Step, tt.of.Undo, tt.of.Number, got, tt.want)
		}
	}
}

// Covers both results of a crash: either nothing or the whole change is in the store. If a driver
// dies while a claimed wait is about to end, the attempt is in doubt, and a newer one is made.
func TestAClaimOfADeadDriverEndsTheWait(t *testing.T) {
	t.Parallel()
	w := laterWorld{t: t, run: started("u"), now: noon}
	for _, word := range strings.Fields("later hour claim") {
		w.do(word)
	}
	l := &w.logs[0]
	l.Status, l.CompletedAt, l.Outcome = saga.LogFailed, &w.now, new("owner_lost")
	w.run.Attempt++ // as the claim of another node would
	w.run.Uncertain = true
	w.run = saga.Rebuild(w.run.Saga, w.run.Def, w.logs)
	if got := w.run.Next(w.now); got != saga.Send {
		t.Errorf("the next driver has to do %v", got)
	}
	for word, want := range map[string]string{"report:done#1": "late", "report:done": "early"} {
		if got := w.do(word); got != want {
			t.Errorf("%s: %s, want %s", word, got, want)
		}
	}
}

// The dry run of an action that ends a wait does not count on the report.
func TestADryRunOfACancelEndsTheWait(t *testing.T) {
	t.Parallel()
	w := laterWorld{t: t, run: started("u"), now: noon}
	w.do("later")
	m := saga.Moment{Now: w.now.Add(time.Minute), NewID: uuid.New, Jitter: 0.5}
	for name, tt := range map[string]struct {
		event    saga.Event
		calls    string
		end      saga.State
		inFlight bool
	}{
		"cancel":  {saga.CancelRequested{By: "op"}, "COMPENSATE s0", saga.Cancelled, false},
		"suspend": {saga.SuspendRequested{By: "op"}, "", saga.Completed, true},
	} {
		c, err := saga.Apply(w.run, tt.event, m)
		if err != nil {
			t.Fatal(err)
		}
		f := explain.Following(&c, &w.run, m, saga.Defaults{})
		calls := ""
		for _, p := range f.Calls {
			calls += string(p.Action) + " " + p.Step
		}
		if calls != tt.calls || f.EndState != tt.end || f.InFlight != tt.inFlight {
			t.Errorf("%s: %q to %s, in flight %v", name, calls, f.EndState, f.InFlight)
		}
	}
}
