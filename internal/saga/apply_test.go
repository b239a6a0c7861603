package saga

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"

	"github.com/skald-saga/skald/internal/fault"
	"github.com/skald-saga/skald/internal/retry"
)

// happenings are the words that the stories below consist of.
var happenings = map[string]Event{
	"done": Answered{Outcome{Verdict: Done, Output: json.RawMessage(`{"o":1}`)}},
	"refused": Answered{
		Outcome{
			Verdict:  Refused,
			Class:    retry.Refused,
			Code:     "http_409",
			Message:  "sold out",
			Response: json.RawMessage(`{"left":0}`),
		},
	},
	"oversize": Answered{
		Outcome{Verdict: Refused, Class: retry.ServerError, Code: "too_large", Message: "too large"},
	}, // an error class that is retried
	"resent": Answered{ // sent twice within the attempt, and then refused
		Outcome{Verdict: Refused, Class: retry.Refused, Code: "http_404", Message: "no route", InDoubt: true},
	},
	"timeout": Answered{Outcome{Verdict: Unknown, Class: retry.Timeout, Code: "timeout", Message: "no answer in 1s"}},
	"500":     Answered{Outcome{Verdict: Unknown, Class: retry.ServerError, Code: "http_500", Message: "oops"}},
	"garbage": Answered{
		Outcome{Verdict: Unknown, Class: retry.BadResponse, Code: "invalid_response", Message: "not JSON"},
	}, // not retried here
	"unreached": Answered{
		Outcome{Verdict: NotApplied, Class: retry.Network, Code: "dial", Message: "connection refused"},
	},
	"turn":       Turned{},
	"slow":       Slow{StartedAt: noon},
	"cancel":     CancelRequested{By: "ann", Reason: "too late"},
	"compensate": CompensateRequested{By: "op"},
	"deadline":   DeadlinePassed{},
	"resume":     ResumeRequested{By: "op"},
	"retry":      RetryRequested{By: "op"},
	"fail":       FailureForced{By: "op"},
	"suspend":    SuspendRequested{By: "op"},
}

// started is the run of a saga that is driven by the node that created it.
func started(pattern string) Instance {
	def := definition(pattern)
	return NewInstance(New(Spec{ID: uuid.UUID{1}}, def, 1, new(int64(42)), noon, 0), def)
}

// tell applies the words of a story at intervals of a minute. It returns the run, all logs as text,
// and the last change.
func tell(t *testing.T, r Instance, story string) (Instance, string, Change) {
	t.Helper()
	var logs []string
	var last Change
	for i, word := range strings.Fields(story) {
		e, known := happenings[word]
		if !known {
			t.Fatalf("no such word: %q", word)
		}
		c, err := happens(r, e, moments(noon.Add(time.Duration(i+1)*time.Minute)))
		if err != nil {
			t.Fatalf("%s (word %d of %q): %v", word, i+1, story, err)
		}
		for _, l := range c.Logs {
			text := fmt.Sprintf("%c%d#%d %s", l.Action[0], l.StepIndex, l.Attempt, l.Status)
			if l.Final {
				text += "!"
			}
			if l.Completes {
				text += "+"
			}
			logs = append(logs, text)
		}
		r, last = c.After, c
	}
	return r, strings.Join(logs, ", "), last
}

func TestStories(t *testing.T) {
	for _, tt := range []struct {
		name, steps, story string
		state              State
		step               int
		logs               string // ! means final, + means that it completes a RUNNING row
	}{
		{"every step done", "un", "done done", Completed, 2, "E0#1 SUCCESS!, E1#1 SUCCESS!"},
		{"the next call is intended at once", "uu", "done", Running, 1, "E0#1 SUCCESS!"},
		{"a refusal is final and undoes what was done before", "uuu", "done done refused", Compensating, 1, "E0#1 SUCCESS!, E1#1 SUCCESS!, E2#1 FAILED!"},
		{"a refusal is final whatever its class", "uu", "done oversize", Compensating, 0, "E0#1 SUCCESS!, E1#1 FAILED!"},
		{"everything is undone in reverse order", "uuu", "done done refused done done", Compensated, 0, "E0#1 SUCCESS!, E1#1 SUCCESS!, E2#1 FAILED!, C1#1 SUCCESS!, C0#1 SUCCESS!"},
		{"a refusal of the first step leaves nothing to undo", "uu", "refused", Compensated, 0, "E0#1 FAILED!"},
		{"no answer is tried again", "uu", "timeout 500", Running, 0, "E0#1 TIMEOUT, E0#2 FAILED"},
		{"no answer for good undoes the step itself, first", "uu", "done timeout 500 timeout", Compensating, 1, "E0#1 SUCCESS!, E1#1 TIMEOUT, E1#2 FAILED, E1#3 TIMEOUT!"},
		{"an answer that is not retried gives up at once", "uu", "garbage", Compensating, 0, "E0#1 FAILED!"},
		{"a refusal does not settle an earlier doubt", "uu", "done timeout refused", Compensating, 1, "E0#1 SUCCESS!, E1#1 TIMEOUT, E1#2 FAILED!"},
		{"the step in doubt is undone first", "uu", "done timeout refused done done", Compensated, 0, "E0#1 SUCCESS!, E1#1 TIMEOUT, E1#2 FAILED!, C1#1 SUCCESS!, C0#1 SUCCESS!"},
		{"nor after it was forced to fail and retried", "uu", "done timeout fail retry refused", Compensating, 1, "E0#1 SUCCESS!, E1#1 TIMEOUT, E1#2 FAILED!, E1#3 FAILED!"},
		{"nor one of what was sent twice", "uu", "done resent", Compensating, 1, "E0#1 SUCCESS!, E1#1 FAILED!"},
		{"nor does a refusal under a cancel", "u", "timeout cancel refused", Compensating, 0, "E0#1 TIMEOUT, E0#2 FAILED!"},
		{"an answer in the end does settle it", "uu", "timeout done refused", Compensating, 0, "E0#1 TIMEOUT, E0#2 SUCCESS!, E1#1 FAILED!"},
		{"never having been reached does not settle one", "uu", "done timeout unreached unreached", Compensating, 1, "E0#1 SUCCESS!, E1#1 TIMEOUT, E1#2 FAILED, E1#3 FAILED!"},
		{"never having been reached is not a doubt", "uu", "done unreached unreached unreached", Compensating, 0, "E0#1 SUCCESS!, E1#1 FAILED, E1#2 FAILED, E1#3 FAILED!"},
		{"an answer in the end is an answer", "u", "timeout unreached done", Completed, 1, "E0#1 TIMEOUT, E0#2 FAILED, E0#3 SUCCESS!"},
		{"a step without compensation is skipped", "unu", "done done refused", Compensating, 0, "E0#1 SUCCESS!, E1#1 SUCCESS!, E2#1 FAILED!, C1#1 SKIPPED!"},
		{"so is one in doubt", "un", "done garbage", Compensating, 0, "E0#1 SUCCESS!, E1#1 FAILED!, C1#1 SKIPPED!"},
		{"with nothing to call it ends at once", "nn", "done refused", Compensated, 1, "E0#1 SUCCESS!, E1#1 FAILED!, C0#1 SKIPPED!"},

		{"a cancel waits for the answer and undoes it too", "uu", "cancel done", Compensating, 0, "E0#1 SUCCESS!"},
		{"cancelled and undone is cancelled", "uu", "cancel done done", Cancelled, 0, "E0#1 SUCCESS!, C0#1 SUCCESS!"},
		{"the last step's success does not beat a cancel", "u", "cancel done done", Cancelled, 0, "E0#1 SUCCESS!, C0#1 SUCCESS!"},
		{"a refusal under a cancel was not applied", "u", "cancel refused", Cancelled, 0, "E0#1 FAILED!"},
		{"no answer under a cancel is not tried again", "uu", "done cancel timeout", Compensating, 1, "E0#1 SUCCESS!, E1#1 TIMEOUT!"},
		{"a cancel between two attempts undoes the doubt", "uu", "done timeout cancel turn", Compensating, 1, "E0#1 SUCCESS!, E1#1 TIMEOUT"},
		{"a cancel between two attempts that never arrived", "uu", "done unreached cancel turn", Compensating, 0, "E0#1 SUCCESS!, E1#1 FAILED"},
		{"a cancel before the call", "uu", "done cancel turn", Compensating, 0, "E0#1 SUCCESS!"},
		{"a cancel before the first call", "uu", "cancel turn", Cancelled, 0, ""},
		{"a deadline ends timed out", "u", "deadline done done", TimedOut, 0, "E0#1 SUCCESS!, C0#1 SUCCESS!"},
		{"a deadline before the first call", "u", "deadline turn", TimedOut, 0, ""},
		{"an operator's order ends compensated", "u", "compensate done done", Compensated, 0, "E0#1 SUCCESS!, C0#1 SUCCESS!"},

		{"an undo is tried again", "uu", "done refused 500 timeout done", Compensated, 0, "E0#1 SUCCESS!, E1#1 FAILED!, C0#1 FAILED, C0#2 TIMEOUT, C0#3 SUCCESS!"},
		{"an undo that gives up ends failed, there", "uuu", "done done refused 500 500 500", Failed, 1, "E0#1 SUCCESS!, E1#1 SUCCESS!, E2#1 FAILED!, C1#1 FAILED, C1#2 FAILED, C1#3 FAILED!"},
		{"an undo that is refused gives up at once", "uu", "done refused refused", Failed, 0, "E0#1 SUCCESS!, E1#1 FAILED!, C0#1 FAILED!"},
		{"nor does its class help an undo", "uu", "done refused oversize", Failed, 0, "E0#1 SUCCESS!, E1#1 FAILED!, C0#1 FAILED!"},
		{"a resumed undo counts on, with all its attempts", "uu", "done refused garbage resume 500 500 done", Compensated, 0, "E0#1 SUCCESS!, E1#1 FAILED!, C0#1 FAILED!, C0#2 FAILED, C0#3 FAILED, C0#4 SUCCESS!"},
		{"a resumed saga ends by its cause", "uu", "done cancel turn refused resume done", Cancelled, 0, "E0#1 SUCCESS!, C0#1 FAILED!, C0#2 SUCCESS!"},
		{"past its deadline a failing undo is the last", "uu", "done refused deadline 500", Failed, 0, "E0#1 SUCCESS!, E1#1 FAILED!, C0#1 FAILED!"},
		{"past its deadline no undo follows", "uuu", "done done refused deadline done turn", Failed, 0, "E0#1 SUCCESS!, E1#1 SUCCESS!, E2#1 FAILED!, C1#1 SUCCESS!"},
		{"past its deadline the last undo ends it well", "uu", "done refused deadline done", Compensated, 0, "E0#1 SUCCESS!, E1#1 FAILED!, C0#1 SUCCESS!"},
		{"past its deadline a wait is over", "uu", "done refused 500 deadline turn", Failed, 0, "E0#1 SUCCESS!, E1#1 FAILED!, C0#1 FAILED"},
		{"a resumed saga has a new deadline", "uu", "done refused deadline 500 resume 500 done", Compensated, 0, "E0#1 SUCCESS!, E1#1 FAILED!, C0#1 FAILED!, C0#2 FAILED, C0#3 SUCCESS!"},

		{"a slow call is visible and then completed", "u", "slow done", Completed, 1, "E0#1 RUNNING, E0#1 SUCCESS!+"},
		{"a slow call that fails", "u", "slow timeout done", Completed, 1, "E0#1 RUNNING, E0#1 TIMEOUT+, E0#2 SUCCESS!"},
		{"a slow call that is cancelled", "u", "slow cancel done slow done", Cancelled, 0, "E0#1 RUNNING, E0#1 SUCCESS!+, C0#1 RUNNING, C0#1 SUCCESS!+"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r, logs, _ := tell(t, started(tt.steps), tt.story)
			if r.State != tt.state || r.CurrentStep != tt.step {
				t.Errorf("%q ends %s at step %d, want %s at step %d", tt.story, r.State, r.CurrentStep, tt.state, tt.step)
			}
			if diff := cmp.Diff(tt.logs, logs); diff != "" {
				t.Errorf("logs of %q (-want +got):\n%s", tt.story, diff)
			}
		})
	}
}

// The deadline of one phase never ends the other phase, and a deadline that was moved has not
// passed.
func TestOnlyTheDeadlineOfThePhaseEndsIt(t *testing.T) {
	action, undo := noon.Add(time.Hour), noon.Add(24*time.Hour)
	for _, tt := range []struct {
		name, story string
		passed      time.Time
		takes       bool
	}{
		{"going forward, its own", "done", action, true},
		{"going forward, the one of compensating", "done", undo, false},
		{"going forward, an earlier one that was moved", "done", action.Add(-time.Minute), false},
		{"compensating, its own", "done refused", undo, true},
		{"compensating, the one of going forward", "done refused", action, false},
		{"flagged, but not turned", "done cancel", action, false},
		{"ended", "done done", action, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r, _, _ := tell(t, started("uu"), tt.story)
			r.TimeoutAt, r.CompensationTimeoutAt = &action, &undo
			if c, err := Apply(r, DeadlinePassed{At: tt.passed}, moments(undo)); (err == nil) != tt.takes {
				t.Errorf("%v; after it %+v", err, c.After.Saga)
			}
			r.TimeoutAt, r.CompensationTimeoutAt = nil, nil
			if _, err := Apply(r, DeadlinePassed{At: tt.passed}, moments(undo)); err == nil {
				t.Error("a phase without a deadline was ended by one")
			}
		})
	}
}

func TestARefusalNamesTheAllowedActions(t *testing.T) {
	const (
		flagged = "suspend force-fail" // while its driver has not acted on the flag yet
		forward = "cancel compensate skip-step complete-step fail-step suspend extend-deadline force-complete force-fail"
		undoing = "skip-step complete-step fail-step suspend extend-deadline force-fail"
	)
	for _, tt := range []struct{ name, story, refused, allowed string }{
		{"the first flag wins", "cancel", "deadline", flagged},
		{"cancelled twice", "cancel", "cancel", flagged},
		{"nothing turns back a completed saga", "done done", "cancel", ""},
		{"a running saga cannot be resumed", "done", "resume", forward},
		{"a compensating saga cannot be cancelled", "done refused", "cancel", undoing},
		{"a failed saga cannot turn back", "done refused refused", "compensate", "resume-compensation retry skip-step complete-step acknowledge"},
		{"what may have been undone cannot be retried", "done refused garbage", "retry", "resume-compensation skip-step complete-step acknowledge"},
		{"nor what may have been undone before a refusal", "done refused timeout refused", "retry", "resume-compensation skip-step complete-step acknowledge"},
		{"not even after it was resumed", "done refused garbage resume refused", "retry", "resume-compensation skip-step complete-step acknowledge"},
		{"nor what was sent twice and then refused", "done refused resent", "retry", "resume-compensation skip-step complete-step acknowledge"},
		{"nor what was ended by force while it was being undone", "done refused fail resume refused", "retry", "resume-compensation skip-step complete-step acknowledge"},
		{"what waits for no attempt cannot be retried", "done", "retry", forward},
		{"a clean end is final", "refused", "resume", ""},
		{"a late answer changes nothing", "refused", "done", ""},
		{"a turn without a flag", "done", "turn", forward},
		{"a recorded call cannot be turned away from", "slow cancel", "turn", flagged},
		{"a call is recorded once", "slow", "slow", forward},
		{"one deadline per phase", "done refused deadline", "deadline", flagged},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r, _, _ := tell(t, started("uu"), tt.story)
			_, err := happens(r, happenings[tt.refused], moments(noon))
			f := fault.As(err)
			if f == nil || f.Kind != fault.Conflict || f.Code != "SAGA_STATE_CONFLICT" {
				t.Fatalf("%s after %q: %v, want a conflict", tt.refused, tt.story, err)
			}
			if got := strings.Join(f.Allowed, " "); got != tt.allowed {
				t.Errorf("allowed %q, want %q", got, tt.allowed)
			}
			if want := "the saga is " + r.State.String() + "; "; !strings.HasPrefix(f.Detail, want) {
				t.Errorf("detail %q, want %q", f.Detail, want)
			}
		})
	}
}

func TestASagaNobodyDrivesIsCancelledAtOnce(t *testing.T) {
	def := definition("uu")
	unowned := NewInstance(New(Spec{ID: uuid.UUID{1}}, def, 1, nil, noon, 0), def)
	for word, want := range map[string]State{"cancel": Cancelled, "deadline": TimedOut, "compensate": Compensated} {
		r, logs, c := tell(t, unowned, word)
		if r.State != want || r.CompletedAt == nil || r.NextRunAt != nil {
			t.Errorf("%s: %s, %+v", word, r.State, r.Saga)
		}
		if logs != "" || c.StartsCompensation {
			t.Errorf("%s starts to undo something: logs %q", word, logs)
		}
	}
	// If the saga is abandoned between two steps, or while it waits, it has something to undo.
	for _, story := range []string{"done", "timeout"} {
		_, _, c := tell(t, started("uu"), story)
		c = c.Released(noon)
		for word := range map[string]bool{"cancel": true, "deadline": true, "compensate": true} {
			r, _, _ := tell(t, c.After, word)
			if !r.State.Forward() || r.NextRunAt == nil || r.Next(noon) != Turn {
				t.Errorf("%s after %s: %s, due %v", word, story, r.State, r.NextRunAt)
			}
		}
	}
}
