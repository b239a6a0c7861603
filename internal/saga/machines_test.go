package saga

import (
	"bytes"
	"flag"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

var update = flag.Bool("update", false, "rewrite docs/state-machines.md")

const machinesPath = "../../docs/state-machines.md"

// TestStateMachinesPage checks that docs/state-machines.md matches the rules. To update the page:
// go test ./internal/saga -run StateMachines -update
func TestStateMachinesPage(t *testing.T) {
	var page bytes.Buffer
	writeStateMachines(&page)
	if *update {
		if err := os.WriteFile(machinesPath, page.Bytes(), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	got, err := os.ReadFile(machinesPath)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(page.String(), string(got)); diff != "" {
		t.Errorf("the page is out of date, run with -update (-rules +page):\n%s", diff)
	}
}

func writeStateMachines(w io.Writer) {
	fmt.Fprint(w, `# State machines

<!-- Generated from the rules by: go test ./internal/saga -run StateMachines -update -->

## Saga

`)
	writeDiagram(w)
	fmt.Fprint(w, `
`+"`status`, `state` and `lifecycle`"+` show one stored number in three vocabularies, so they cannot disagree. A saga
that failed may have left effects; only an operator can resume it.

`)
	table(w, "state", "name", "status", "lifecycle", "terminal", "meaning")
	for _, s := range States {
		row(w, int(s), code(s), code(s.Status()), lifecycle(s), yes(s.Terminal()), meanings[s])
	}
	fmt.Fprint(w, `
### Transitions

These are all transitions. One commit may contain several: the one that stores a step's outcome also moves on to the
next step.

`)
	table(w, "from", "to", "when")
	for _, e := range Edges {
		row(w, code(e.From), code(e.To), e.On)
	}
	fmt.Fprint(w, `
### Events

The states to which each event can lead, computed by applying it to every kind of saga. An empty cell is a conflict
(`+"`"+CodeStateConflict+"`"+`), whose problem document lists the allowed actions.

`)
	writeEvents(w)
	fmt.Fprint(w, `
### What operators may do

These are the actions of the API, from the rules themselves (`+"`internal/saga/actions.go`"+`).

`)
	table(w, "action", "permission", "what it does")
	for _, v := range Verbs {
		row(w, code(v.Verb), code(v.Needs), v.Description)
	}
	fmt.Fprint(w, `
### Final state after compensation

`)
	table(w, "end_cause", "state once everything is compensated")
	for _, c := range Causes {
		row(w, code(c), code(c.End()))
	}
	fmt.Fprint(w, `
## Step

A step's state is derived from the definition, the saga and its step logs; it is never stored.

`)
	table(w, "state", "name", "meaning")
	for i, name := range StepStateNames {
		row(w, i, code(name), stepMeanings[StepState(i)])
	}
	fmt.Fprint(w, `
The compensation of a step, shown while one is due:

`)
	table(w, "state", "name", "meaning")
	for i, name := range UndoStateNames {
		row(w, i, code(name), undoMeanings[CompensationState(i)])
	}
	fmt.Fprint(w, `
## Step log

One row per attempt. The row that decides about its step and action is marked `+"`final`"+`.

`)
	table(w, "status", "meaning")
	for _, s := range LogStatuses {
		row(w, code(s), logMeanings[s])
	}
}

func writeDiagram(w io.Writer) {
	fmt.Fprint(w, "```mermaid\nstateDiagram-v2\n    [*] --> pending\n")
	for _, e := range Edges {
		fmt.Fprintf(w, "    %s --> %s: %s\n", e.From, e.To, e.On)
	}
	for _, s := range States {
		if s.Terminal() {
			fmt.Fprintf(w, "    %s --> [*]\n", s)
		}
	}
	fmt.Fprint(w, "```\n")
}

// writeEvents applies the rules to every run that can exist.
func writeEvents(w io.Writer) {
	leads := map[string]map[State]map[State]bool{}
	for _, p := range points() {
		r := p.run()
		if inconsistent(&r) != "" {
			continue
		}
		for _, e := range events() {
			if e == nil || drivers(e) && !p.owned {
				continue
			}
			if c, err := happens(r, p.aimed(e), moments(noon)); err == nil {
				kind := strings.TrimPrefix(fmt.Sprintf("%T", e), "saga.")
				if leads[kind] == nil {
					leads[kind] = map[State]map[State]bool{}
				}
				if leads[kind][p.state] == nil {
					leads[kind][p.state] = map[State]bool{}
				}
				leads[kind][p.state][c.After.State] = true
			}
		}
	}
	from := slices.DeleteFunc(slices.Clone(States), func(s State) bool { return s.Terminal() && s != Failed })
	heads := []any{"event"}
	for _, s := range from {
		heads = append(heads, "in "+code(s))
	}
	table(w, heads...)
	for _, e := range eventMeanings {
		cells := []any{e.meaning}
		for _, s := range from {
			var to []string
			for _, next := range States {
				if leads[e.kind][s][next] {
					to = append(to, next.String())
				}
			}
			cells = append(cells, strings.Join(to, ", "))
		}
		row(w, cells...)
	}
}

var eventMeanings = []struct{ kind, meaning string }{
	{"Answered", "the call in flight has an outcome"},
	{"Slow", "the call in flight takes longer than `engine.slow_step_after`"},
	{"Turned", "its driver finds a flag while no call is in flight"},
	{"CancelRequested", "cancel"},
	{"CompensateRequested", "compensate"},
	{"DeadlinePassed", "the deadline of the phase passes"},
	{"ResumeRequested", "resume-compensation"},
	{"RetryRequested", "retry"},
	{"StepOrdered", "skip, complete or fail its current step"},
	{"SuspendRequested", "suspend"},
	{"UnsuspendRequested", "resume"},
	{"DeadlineSet", "extend-deadline"},
	{"CompletionForced", "force-complete"},
	{"FailureForced", "force-fail"},
	{"Acknowledged", "acknowledge"},
	{"Neglected", "the janitor finds that it makes no progress"},
}

var meanings = map[State]string{
	Pending:       "accepted, durable",
	Running:       "a step is in flight, or waits for its next attempt",
	StepCompleted: "between two steps, without a driver",
	Completed:     "every step is done",
	Compensating:  "being compensated, in exact reverse order",
	Compensated:   "failed, everything compensated",
	Failed:        "a compensation gave up or an operator forced the end: effects may remain, an operator must act",
	Cancelled:     "cancelled, everything compensated",
	TimedOut:      "the deadline passed, everything compensated",
}

var stepMeanings = map[StepState]string{
	StepStatePending:      "not sent yet",
	StepStateRunning:      "a call is in flight, or waits for its next attempt",
	StepStateCompleted:    "done",
	StepStateFailed:       "refused, or gave up; definitely not applied unless it is `in_doubt`",
	StepStateCompensating: "being compensated, or its compensation gave up",
	StepStateCompensated:  "compensated, or it has no compensation; `in_doubt` if no response had confirmed the step as done",
	StepStateSkipped:      "skipped; it will not be executed",
}

var undoMeanings = map[CompensationState]string{
	UndoStatePending:   "due after the compensation of later steps",
	UndoStateRunning:   "a call is in flight, or waits for its next attempt",
	UndoStateCompleted: "compensated",
	UndoStateFailed:    "gave up",
	UndoStateSkipped:   "nothing to call: the step has no compensation",
}

var logMeanings = map[LogStatus]string{
	LogSuccess: "done",
	LogFailed:  "refused, failed, or without a response",
	LogTimeout: "no response in time",
	LogSkipped: "nothing to call: the step has no compensation, or an operator skipped it or recorded that it was compensated elsewhere",
	LogRunning: "the call is in flight and takes longer than `engine.slow_step_after`",
}

func TestEveryWordOfThePageHasAMeaning(t *testing.T) {
	for _, s := range States {
		if meanings[s] == "" {
			t.Errorf("state %s has none", s)
		}
	}
	for i, name := range StepStateNames {
		if s := StepState(i); stepMeanings[s] == "" || s.String() != name {
			t.Errorf("step state %s has none, or another name", name)
		}
	}
	for i, name := range UndoStateNames {
		if s := CompensationState(i); undoMeanings[s] == "" || s.String() != name {
			t.Errorf("undo state %s has none, or another name", name)
		}
	}
	for _, s := range LogStatuses {
		if logMeanings[s] == "" {
			t.Errorf("log status %s has none", s)
		}
	}
	for _, e := range events() {
		kind := strings.TrimPrefix(fmt.Sprintf("%T", e), "saga.")
		if e != nil &&
			!slices.ContainsFunc(eventMeanings, func(m struct{ kind, meaning string }) bool { return m.kind == kind }) {
			t.Errorf("event %s has none", kind)
		}
	}
}

// lifecycle is one word, or two if it depends on whether the end is clean.
func lifecycle(s State) string {
	clean, unclean := s.Lifecycle(true), s.Lifecycle(false)
	if clean == unclean {
		return code(clean)
	}
	return fmt.Sprintf("%s, %s unless clean", code(clean), code(unclean))
}

func table(w io.Writer, heads ...any) {
	row(w, heads...)
	fmt.Fprintln(w, strings.Repeat("|---", len(heads))+"|")
}

func row(w io.Writer, cells ...any) {
	for _, c := range cells {
		fmt.Fprintf(w, "| %v ", c)
	}
	fmt.Fprintln(w, "|")
}

func code(v any) string { return fmt.Sprintf("`%v`", v) }

func yes(b bool) string {
	if b {
		return "yes"
	}
	return ""
}
