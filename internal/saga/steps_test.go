package saga

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"

	"github.com/skald-saga/skald/internal/retry"
	"github.com/skald-saga/skald/internal/saga/workflow"
)

// stepStory drives a saga of the steps a, b (without a compensation) and c by events, so that the
// views show states that Apply really produces.
type stepStory struct {
	t    *testing.T
	run  Instance
	logs []StepLog
	now  time.Time
}

func newStepStory(t *testing.T) *stepStory {
	call := workflow.Call{HTTP: &workflow.HTTPCall{Method: "POST", URL: "http://h/"}}
	undo := workflow.Compensation{Call: call}
	def := &workflow.Definition{Name: "w", Steps: []workflow.Step{
		{Name: "a", Action: call, Compensation: undo},
		{Name: "b", Action: call},
		{Name: "c", Action: call, Compensation: undo, CompensationRetry: &retry.Policy{MaxAttempts: 2}},
	}}
	s := &stepStory{t: t, now: time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)}
	owner := int64(1)
	id := uuid.MustParse("01234567-89ab-7def-8123-456789abcdef")
	s.run = NewInstance(New(Spec{ID: id, Payload: json.RawMessage(`{"p":1}`)}, def, 1, &owner, s.now, 0), def)
	return s
}

func (s *stepStory) apply(events ...Event) *stepStory {
	s.t.Helper()
	for _, e := range events {
		s.now = s.now.Add(time.Second)
		if a, ok := e.(Answered); ok {
			a.StartedAt, a.EndedAt = s.now.Add(-time.Second/2), s.now
			e = a
		}
		change, err := happens(s.run, e, Moment{Now: s.now, NewID: uuid.New, Jitter: 0.5})
		if err != nil {
			s.t.Fatalf("apply %T: %v", e, err)
		}
		s.run, s.logs = change.After, append(change.Logs, s.logs...) // the order of logs must not matter
	}
	return s
}

func (s *stepStory) String() string {
	var parts []string
	for _, v := range Steps(s.run, s.logs) {
		text := fmt.Sprintf("%s %s %d/%d", v.Name, v.State, v.Attempts, v.MaxAttempts)
		if u := v.Compensation; u != nil {
			text += fmt.Sprintf(" undo %s %d/%d", u.State, u.Attempts, u.MaxAttempts)
		}
		parts = append(parts, text)
	}
	return strings.Join(parts, "; ")
}

func TestStepsTellWhereASagaStands(t *testing.T) {
	ok := Answered{Outcome{Verdict: Done, Output: json.RawMessage(`{"o":1}`)}}
	no := Answered{Outcome{Verdict: Refused, Class: retry.Refused, Code: "http_409"}}
	late := Answered{Outcome{Verdict: Unknown, Class: retry.Timeout, Code: "timeout"}}
	cancel := CancelRequested{}
	for _, tt := range []struct {
		name   string
		events []Event
		want   string
	}{
		{"the first call is on its way", nil, "a running 1/3; b pending 0/3; c pending 0/3"},
		{"the first call is slow", []Event{Slow{}}, "a running 1/3; b pending 0/3; c pending 0/3"},
		{"one step is done", []Event{ok}, "a completed 1/3; b running 1/3; c pending 0/3"},
		{"the second waits for its second attempt", []Event{ok, late}, "a completed 1/3; b running 1/3; c pending 0/3"},
		{"a cancel during the wait", []Event{ok, late, cancel}, "a completed 1/3; b running 2/3; c pending 0/3"},
		{"all are done", []Event{ok, ok, ok}, "a completed 1/3; b completed 1/3; c completed 1/3"},
		{"the last is refused", []Event{ok, ok, no},
			"a compensating 1/3 undo running 1/20; b compensated 1/3 undo skipped 0/20; c failed 1/3"},
		{"everything is undone after that", []Event{ok, ok, no, ok},
			"a compensated 1/3 undo completed 1/20; b compensated 1/3 undo skipped 0/20; c failed 1/3"},
		{"the last may have been applied", []Event{ok, ok, late, late, late},
			"a completed 1/3 undo pending 0/20; b completed 1/3 undo pending 0/20; c compensating 3/3 undo running 1/2"},
		{"its undo waits for another attempt", []Event{ok, ok, late, late, late, late},
			"a completed 1/3 undo pending 0/20; b completed 1/3 undo pending 0/20; c compensating 3/3 undo running 1/2"},
		{"its undo gives up", []Event{ok, ok, late, late, late, late, late},
			"a completed 1/3 undo pending 0/20; b completed 1/3 undo pending 0/20; c compensating 3/3 undo failed 2/2"},
		{"its undo is resumed", []Event{ok, ok, late, late, late, late, late, ResumeRequested{}},
			"a completed 1/3 undo pending 0/20; b completed 1/3 undo pending 0/20; c compensating 3/3 undo running 3/2"},
		{"the deadline of compensating passes", []Event{ok, ok, late, late, late, DeadlinePassed{}, Turned{}},
			"a completed 1/3 undo pending 0/20; b completed 1/3 undo pending 0/20; c compensating 3/3 undo failed 0/2"},
		{"cancelled while the first call runs, which succeeds", []Event{cancel, ok, ok},
			"a compensated 1/3 undo completed 1/20; b pending 0/3; c pending 0/3"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if got := newStepStory(t).apply(tt.events...).String(); got != tt.want {
				t.Errorf("steps\n got %s\nwant %s", got, tt.want)
			}
		})
	}
}

func TestStepsBeforeAnythingIsSentArePending(t *testing.T) {
	s := newStepStory(t)
	s.run.Saga = New(Spec{ID: s.run.ID}, s.run.Def, 1, nil, s.now, 0)
	if got, want := s.String(), "a pending 0/3; b pending 0/3; c pending 0/3"; got != want {
		t.Errorf("unowned: %s, want %s", got, want)
	}
	if v := Steps(s.run, nil)[0]; v.StartedAt != nil || v.Input != nil || v.Output != nil {
		t.Errorf("a pending step has %+v", v)
	}
}

func TestStepsTellTimesDataAndErrors(t *testing.T) {
	s := newStepStory(t).apply(
		Answered{Outcome{Verdict: Done, Output: json.RawMessage(`{"o":1}`)}},
		Answered{Outcome{Verdict: Unknown, Class: retry.Timeout, Code: "timeout", Message: "no answer"}},
		Answered{Outcome{Verdict: Done, Output: nil}},
		Answered{Outcome{Verdict: Refused, Class: retry.Refused, Code: "http_409", Message: "no"}},
	)
	start := s.run.CreatedAt
	at := func(seconds float64) *time.Time {
		moment := start.Add(time.Duration(seconds * float64(time.Second)))
		return &moment
	}
	views := Steps(s.run, s.logs)
	for i := range views {
		views[i].Compensation = nil
	}
	id := s.run.ID
	want := []StepView{
		{
			ID:          id.String() + ":0",
			SagaID:      id,
			Index:       0,
			Name:        "a",
			State:       StepStateCompensating,
			Attempts:    1,
			MaxAttempts: 3,
			CreatedAt:   start,
			StartedAt: at(
				0.5,
			),
			LastAttemptAt: at(0.5),
			CompletedAt:   at(1),
			Input:         s.run.Payload,
			Output:        json.RawMessage(`{"o":1}`),
		},
		{
			ID:            id.String() + ":1",
			SagaID:        id,
			Index:         1,
			Name:          "b",
			State:         StepStateCompensated,
			Attempts:      2,
			MaxAttempts:   3,
			CreatedAt:     start,
			StartedAt:     at(1.5),
			LastAttemptAt: at(2.5),
			CompletedAt:   at(3),
			Input:         s.run.Payload,
		},
		{
			ID:            id.String() + ":2",
			SagaID:        id,
			Index:         2,
			Name:          "c",
			State:         StepStateFailed,
			Attempts:      1,
			MaxAttempts:   3,
			CreatedAt:     start,
			StartedAt:     at(3.5),
			LastAttemptAt: at(3.5),
			CompletedAt:   at(4),
			Input:         s.run.Payload,
			Error:         &Error{Code: "http_409", Message: "no", Type: "refused", Timestamp: *at(4)},
		},
	}
	if diff := cmp.Diff(want, views); diff != "" {
		t.Errorf("steps (-want +got):\n%s", diff)
	}
}

func TestWhatAPersonDecidedIsNoCall(t *testing.T) {
	logs := []StepLog{
		{Attempt: 4, Status: LogTimeout}, {Attempt: 3, Status: LogSuccess, Outcome: new(OutcomeOperator)},
		{Attempt: 2, Status: LogFailed, Outcome: new("http_503")}, {Attempt: 1, Status: LogFailed, Outcome: new("http_503")},
	}
	for n, want := range map[int]int{1: 1, 2: 2, 3: 2, 4: 3} {
		var of trail
		for i := range logs {
			if logs[i].Attempt <= n {
				of.add(&logs[i], 0)
			}
		}
		if got := of.calls(); got != want {
			t.Errorf("after %d attempts: %d calls, want %d", n, got, want)
		}
		if of.last.Attempt != n {
			t.Errorf("the last is %d, want %d", of.last.Attempt, n)
		}
	}
}
