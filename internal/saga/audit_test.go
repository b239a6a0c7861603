package saga

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/skald-saga/skald/internal/audit/eventtype"
)

// checkAudit replays the audit trail after a commit (invariant I10). The trail must take only legal
// edges, describe each by exactly one event, and end in the state of the row.
func (w *world) checkAudit(c *Change) {
	at := NoState
	for i := range w.audit {
		e := &w.audit[i]
		if !slices.Contains(eventtype.All, e.Type) || e.SagaID != w.head.ID || e.At.IsZero() {
			w.t.Fatalf("wrong event %+v", e)
		}
		if e.Old == NoState && e.New == NoState {
			continue
		}
		if e.Old != at || at != NoState && !edge(e.Old, e.New) {
			w.t.Fatalf("event %d tells of %d to %d after %d: %+v", i, e.Old, e.New, at, w.audit)
		}
		at = e.New
	}
	if at != w.head.State {
		w.t.Fatalf("the trail ends in %d, the saga is %s: %+v", at, w.head.State, w.audit)
	}
	if len(c.Audit) == 0 && !c.After.recorded {
		w.t.Fatalf("a change without an event: %+v", c)
	}
	w.checkAuditOfSteps()
}

// checkAuditOfSteps compares the trail with the step logs.
func (w *world) checkAuditOfSteps() {
	for i := range w.def.Steps {
		for t, is := range map[eventtype.Type]func(*StepLog) bool{
			eventtype.StepFinished: func(l *StepLog) bool { return l.Action == Execute && l.Status == LogSuccess },
			eventtype.UndoCompleted: func(l *StepLog) bool {
				return l.Action == Compensate && (l.Status == LogSuccess || l.Status == LogSkipped)
			},
		} {
			told, logged := 0, 0
			for k := range w.audit {
				if w.audit[k].Type == t && w.audit[k].StepIndex == i && w.audit[k].StepName == w.def.Steps[i].Name {
					told++
				}
			}
			for k := range w.logs {
				if w.logs[k].StepIndex == i && is(&w.logs[k]) {
					logged++
				}
			}
			if told != logged {
				w.t.Fatalf("step %d: %d events %s for %d logs", i, told, t, logged)
			}
		}
	}
}

func TestAuditOfASagaThatCompletes(t *testing.T) {
	w := definition("un")
	s := New(Spec{ID: uuid.UUID{1}}, w, 1, new(int64(1)), noon, 0)
	trail := []AuditEvent{s.Begun("shop", "r-1")}
	run := NewInstance(s, w)
	for range w.Steps {
		c, err := Apply(run, Answered{Outcome{Verdict: Done, StartedAt: noon, EndedAt: noon}}, moments(noon.Add(time.Second)))
		if err != nil {
			t.Fatal(err)
		}
		trail = append(trail, c.Audit...)
		run = c.After
	}
	var got []string
	for _, e := range trail {
		got = append(got, fmt.Sprintf("%s %s %d>%d", e.Type, e.StepName, e.Old, e.New))
	}
	// Each change of state is recorded in the specific event that describes it, and needs no
	// StateChanged event.
	want := "saga.started  -1>0|saga.step.started s0 0>1|saga.step.completed s0 1>2|saga.step.started s1 2>1|" +
		"saga.step.completed s1 -1>-1|saga.completed  1>3"
	if strings.Join(got, "|") != want {
		t.Errorf("got  %s\nwant %s", strings.Join(got, "|"), want)
	}
	if trail[0].Actor != "shop" || trail[0].RequestID != "r-1" || trail[1].At != noon {
		t.Errorf("first events %+v", trail[:2])
	}
}

func TestDigestChangesWithEveryPart(t *testing.T) {
	base := AuditEvent{
		TenantID: uuid.UUID{1}, SagaID: uuid.UUID{2}, Type: eventtype.StepFailed, StepIndex: 1,
		StepName: "pay", Attempt: 2, At: noon,
		Data:  []byte(`{"a":1}`),
		Old:   Running,
		New:   Compensating,
		Error: &Error{Code: "http_409", Message: "no", Timestamp: noon},
		Actor: "ann", RequestID: "r", TraceID: new("t"), SpanID: new("s"),
	}
	seen := map[[32]byte]string{}
	for what, change := range map[string]func(*AuditEvent){
		"nothing": func(*AuditEvent) {},
		"tenant":  func(e *AuditEvent) { e.TenantID[3]++ },
		"saga":    func(e *AuditEvent) { e.SagaID[3]++ },
		"type":    func(e *AuditEvent) { e.Type = eventtype.UndoFailed }, "step": func(e *AuditEvent) { e.StepIndex++ },
		"step name": func(e *AuditEvent) { e.StepName = "pa" }, "attempt": func(e *AuditEvent) { e.Attempt++ },
		"time": func(e *AuditEvent) { e.At = e.At.Add(time.Microsecond) }, "data": func(e *AuditEvent) { e.Data = nil },
		"old": func(e *AuditEvent) { e.Old = NoState }, "new": func(e *AuditEvent) { e.New = Failed },
		"error": func(e *AuditEvent) { e.Error = nil }, "actor": func(e *AuditEvent) { e.Actor = "bob" },
		"request": func(e *AuditEvent) { e.RequestID = "" }, "trace": func(e *AuditEvent) { e.TraceID = nil },
		"span":                  func(e *AuditEvent) { e.SpanID = nil },
		"a shift between parts": func(e *AuditEvent) { e.StepName, e.Type = "y", eventtype.StepFailed+"pa" },
	} {
		e := base
		change(&e)
		d := e.Digest()
		if same, twice := seen[d]; twice {
			t.Errorf("%s and %s have one digest", what, same)
		}
		seen[d] = what
	}
}
