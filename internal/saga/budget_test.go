package saga

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/skald-saga/skald/internal/saga/workflow"
)

// text returns a JSON string of n bytes.
func text(n int) json.RawMessage { return json.RawMessage(`"` + strings.Repeat("x", n-2) + `"`) }

func doneWith(out json.RawMessage) Event { return Answered{Outcome{Verdict: Done, Output: out}} }

// budgeted applies events with a budget.
func budgeted(t *testing.T, b Budget, r Instance, events ...Event) (Instance, Change) {
	t.Helper()
	var c Change
	for i, e := range events {
		m := moments(noon.Add(time.Duration(i+1) * time.Minute))
		m.Budget = b
		var err error
		if c, err = happens(r, e, m); err != nil {
			t.Fatalf("event %d: %v", i+1, err)
		}
		r = c.After
	}
	return r, c
}

func TestAnOutputBeyondTheBudgetFailsItsStepWhichIsCompensated(t *testing.T) {
	def := definition("uuu")
	start := NewInstance(New(Spec{ID: uuid.UUID{1}, Payload: text(100)}, def, 1, new(int64(42)), noon, 0), def)
	b := Budget{Saga: 1000}

	if r, _ := budgeted(t, b, start, doneWith(text(450)), doneWith(text(450))); r.State != Running || r.CurrentStep != 2 {
		t.Fatalf("a saga of exactly its budget is %s at step %d", r.State, r.CurrentStep)
	}
	r, c := budgeted(t, b, start, doneWith(text(450)), doneWith(text(451)))
	if r.State != Compensating || r.CurrentStep != 1 || r.Error == nil || r.Error.Code != CodeSagaTooLarge {
		t.Fatalf("%s at step %d, error %+v; want it to compensate the step that was applied", r.State, r.CurrentStep, r.Error)
	}
	if l := c.Logs[0]; l.Status != LogFailed || !l.Final || l.Response != nil {
		t.Errorf("step log %+v; want a final failure without the output", l)
	}
	if held := r.held(); held > 1000 {
		t.Errorf("it holds %d bytes", held)
	}
	if body := string(r.Call(Defaults{}).Body); !strings.HasSuffix(body, `"output":null}`) {
		t.Errorf("the compensation gets %.80s…; want no output", body[max(0, len(body)-80):])
	}
	r, _ = budgeted(t, b, r, doneWith(nil), doneWith(nil))
	if r.State != Compensated || !*r.Clean {
		t.Errorf("it ends as %s, clean %v", r.State, *r.Clean)
	}
}

func TestASagaKeepsItsBudgetToTheByte(t *testing.T) {
	def := definition("uuu")
	start := NewInstance(New(Spec{ID: uuid.UUID{1}, Payload: text(100)}, def, 1, new(int64(42)), noon, 0), def)
	for limit, want := range map[int64]State{1000: Running, 999: Compensating} { // a payload of 100, two outputs of 450
		r, _ := budgeted(t, Budget{Saga: limit}, start, doneWith(text(450)), doneWith(text(450)))
		if r.State != want {
			t.Errorf("1000 bytes within max_saga_bytes %d: %s", limit, r.State)
		}
	}
	run, _ := budgeted(t, Budget{}, start, doneWith(text(450)))
	undo := int64(run.bodySize(1, Compensate, run.outputsSize(), 0)) // larger than the request of the step itself
	for limit, want := range map[int64]bool{undo: false, undo - 1: true} {
		if _, unsendable := run.Unsendable(Budget{Request: limit}, noon); unsendable != want {
			t.Errorf("a request of %d bytes within max_request_bytes %d: refused %v", undo, limit, unsendable)
		}
	}
	// The compensation of a step has to carry the step's output; the count may be one byte too
	// large.
	run.CurrentStep = 0
	limit := int64(len(run.body(&def.Steps[0], Compensate)))
	for limit, want := range map[int64]State{limit + 1: Running, limit - 1: Compensating} {
		if r, _ := budgeted(t, Budget{Request: limit}, start, doneWith(text(450))); r.State != want {
			t.Errorf("an output carried by its compensation within max_request_bytes %d: %s", limit, r.State)
		}
	}
}

func TestAFlagBeforeAnOutputBeyondTheBudgetCompensatesThatStepToo(t *testing.T) {
	r, _ := budgeted(t, Budget{Saga: 50}, started("uu"), doneWith(nil), CancelRequested{By: "ann"}, doneWith(text(60)))
	if r.State != Compensating || r.CurrentStep != 1 || *r.EndCause != CauseCancelled {
		t.Errorf("%s at step %d because of %s", r.State, r.CurrentStep, *r.EndCause)
	}
}

func TestNoRequestIsBuiltBeyondTheBudget(t *testing.T) {
	def := definition("uu")
	start := NewInstance(New(Spec{ID: uuid.UUID{1}, Payload: text(500)}, def, 1, new(int64(42)), noon, 0), def)
	run, _ := budgeted(t, Budget{}, start, doneWith(text(300)))
	undo := run.bodySize(1, Compensate, run.outputsSize(), 0)

	if _, unsendable := run.Unsendable(Budget{Request: int64(undo)}, noon); unsendable {
		t.Error("a step whose requests just fit is not sent")
	}
	o, unsendable := run.Unsendable(Budget{Request: int64(undo) - 1}, noon)
	if !unsendable || o.Verdict != NotApplied || !o.Last || o.Code != CodeRequestTooLarge {
		t.Fatalf("unsendable %t, outcome %+v; its compensation could not be sent", unsendable, o)
	}
	after, _ := budgeted(t, Budget{}, run, Answered{o})
	if after.State != Compensating || after.CurrentStep != 0 || after.Error.Code != CodeRequestTooLarge {
		t.Errorf("%s at step %d: %+v; nothing was sent, so only the step before is undone", after.State, after.CurrentStep, after.Error)
	}
	doubtful, _ := budgeted(t, Budget{}, run, happenings["timeout"])
	if after, _ := budgeted(t, Budget{}, doubtful, Answered{o}); after.CurrentStep != 1 {
		t.Error("the step is not compensated although an earlier attempt may have been applied")
	}
}

func TestAnOutputThatNoCompensationCouldCarryIsDropped(t *testing.T) {
	def := definition("un")
	start := NewInstance(New(Spec{ID: uuid.UUID{1}, Payload: text(300)}, def, 1, new(int64(42)), noon, 0), def)
	fits, _ := budgeted(t, Budget{}, start, doneWith(text(200)))
	fits.CurrentStep = 0
	limit := int64(len(fits.body(&def.Steps[0], Compensate)))
	r, _ := budgeted(t, Budget{Request: limit + 1}, start, doneWith(text(200)))
	if r.CurrentStep != 1 || r.State != Running {
		t.Errorf("%s at step %d although the compensation fits", r.State, r.CurrentStep)
	}
	r, _ = budgeted(t, Budget{Request: limit - 1}, start, doneWith(text(200)))
	if r.State != Compensating || r.Error.Code != CodeSagaTooLarge {
		t.Fatalf("%s, %+v; want the step compensated", r.State, r.Error)
	}
	if _, unsendable := r.Unsendable(Budget{Request: limit - 1}, noon); unsendable {
		t.Error("its compensation cannot be sent")
	}
}

func TestAJobWhoseArgumentsExceedTheBudgetIsNotRequested(t *testing.T) {
	def := definition("uu")
	def.Steps[1].Action = workflow.Call{Job: "report", Args: json.RawMessage(`{"a":["${payload}","${payload}","${payload}"]}`)}
	start := NewInstance(New(Spec{ID: uuid.UUID{1}, Payload: text(400)}, def, 1, new(int64(42)), noon, 0), def)
	if r, c := budgeted(t, Budget{Request: 2000}, start, doneWith(nil)); c.Run == nil || r.State != Running {
		t.Fatalf("%s, run %+v", r.State, c.Run)
	}
	r, c := budgeted(t, Budget{Request: 1200}, start, doneWith(nil))
	if c.Run != nil || r.State != Compensating || r.CurrentStep != 0 || len(c.Logs) != 2 ||
		r.Error.Code != CodeRequestTooLarge {
		t.Errorf("%s at step %d, run %+v, %d logs, %+v", r.State, r.CurrentStep, c.Run, len(c.Logs), r.Error)
	}
}

func TestACompensationBeyondTheBudgetGivesUp(t *testing.T) {
	r, _ := budgeted(t, Budget{}, started("uu"), doneWith(text(200)), happenings["refused"])
	o, unsendable := r.Unsendable(Budget{Request: 300}, noon)
	if !unsendable {
		t.Fatal("it would be sent")
	}
	r, c := budgeted(t, Budget{Request: 300}, r, Answered{o})
	if r.State != Failed || c.Letter == nil || c.Letter.Letter.Content.Payload != nil {
		t.Errorf("%s, letter %+v; want a letter without the payload that nobody may build", r.State, c.Letter)
	}
}

func TestAnOperatorsOutputIsWithinTheBudget(t *testing.T) {
	r, _ := budgeted(t, Budget{}, started("uu"), doneWith(nil), happenings["timeout"])
	m := moments(noon)
	m.Budget.Saga = 100
	order := StepOrdered{Order: Order{Verb: CompleteStep, Output: text(101)}, Step: 1}
	if _, err := happens(r, order, m); err == nil {
		t.Error("an output beyond the budget is accepted")
	}
	order.Output = text(90)
	if _, err := happens(r, order, m); err != nil {
		t.Error(err)
	}
}
