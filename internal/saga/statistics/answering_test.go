package statistics

import (
	"strings"
	"testing"
	"time"

	"github.com/skald-saga/skald/internal/retry"
	"github.com/skald-saga/skald/internal/saga"
	"github.com/skald-saga/skald/internal/saga/explain"
	"github.com/skald-saga/skald/internal/saga/workflow"
)

func TestOtherSagasSayWhetherAParticipantAnswersAgain(t *testing.T) {
	call := func(minute int, status saga.LogStatus, class retry.Class) OtherCall {
		return OtherCall{At: noon.Add(time.Duration(minute) * time.Minute), Status: status, Class: class}
	}
	done := func(minute int) OtherCall { return call(minute, saga.LogSuccess, "") }
	fails := func(minute int) OtherCall { return call(minute, saga.LogFailed, retry.Unavailable) }
	refused := func(minute int) OtherCall { return call(minute, saga.LogFailed, retry.Refused) }
	for _, tt := range []struct {
		name        string
		calls       []OtherCall
		want        Reached
		since, last int // in minutes after noon
	}{
		{"no call since", []OtherCall{done(-1), done(0), fails(-2)}, ReachedUnknown, 0, 0},
		{"only refusals and skipped steps", []OtherCall{refused(2), call(3, saga.LogSkipped, "")}, ReachedUnknown, 0, 0},
		{"another failure", []OtherCall{fails(1)}, ReachedNot, 0, 0},
		{"a timeout", []OtherCall{call(1, saga.LogTimeout, retry.Timeout)}, ReachedNot, 0, 0},
		{"successes, in any order", []OtherCall{done(3), done(1), done(2)}, ReachedAgain, 1, 3},
		{"those before count not", []OtherCall{done(3), done(-1), done(2)}, ReachedAgain, 2, 3},
		{"successes after failures", []OtherCall{done(1), fails(2), done(3), done(4)}, ReachedAgain, 3, 4},
		{"a failure after successes", []OtherCall{done(1), done(3), fails(4)}, ReachedNot, 0, 0},
		{"a refusal between", []OtherCall{done(1), refused(2), done(3)}, ReachedAgain, 1, 3},
		{"a refusal after a failure", []OtherCall{fails(1), refused(2)}, ReachedNot, 0, 0},
	} {
		p := Participant{Host: "bank:8443", FailedAt: noon}
		p.Hear(tt.calls)
		since, last := noon.Add(time.Duration(tt.since)*time.Minute), noon.Add(time.Duration(tt.last)*time.Minute)
		if p.Reached != tt.want || tt.want == ReachedAgain && (!p.Since.Equal(since) || !p.Last.Equal(last)) {
			t.Errorf("%s: %+v", tt.name, p)
		}
		if s := p.Summary(); !strings.Contains(s, "bank:8443") || strings.Contains(s, "again") != (tt.want == ReachedAgain) {
			t.Errorf("%s: %q", tt.name, s)
		}
	}
}

// TestOnlyWithoutADefiniteAnswerAParticipantIsAskedFor: the call is the one that the saga waits for
// or has given up on.
func TestOnlyWithoutADefiniteAnswerAParticipantIsAskedFor(t *testing.T) {
	url := func(path string) *workflow.HTTPCall {
		return &workflow.HTTPCall{Method: "POST", URL: "http://H:80/" + path}
	}
	def := &workflow.Definition{Name: "w", Steps: []workflow.Step{
		{Name: "a", Action: workflow.Call{HTTP: url("do")}, Compensation: workflow.Compensation{Call: workflow.Call{HTTP: url("undo")}}},
		{Name: "b", Action: workflow.Call{Job: "nightly"}},
	}}
	r := saga.NewInstance(saga.Saga{TotalSteps: 2}, def)
	log := func(step int, a saga.Action, n int, status saga.LogStatus, class retry.Class) saga.StepLog {
		l := saga.StepLog{StepIndex: step, Action: a, Attempt: n, Status: status, StartedAt: noon}
		if status != saga.LogRunning {
			l.CompletedAt = new(noon)
		}
		if class != "" {
			l.Error = &saga.Error{Type: string(class)}
		}
		return l
	}
	do, undo := saga.Execute, saga.Compensate
	for name, tt := range map[string]struct {
		step int
		a    saga.Action
		logs []saga.StepLog
		want bool
	}{
		"nothing was called":         {0, do, nil, false},
		"a timeout":                  {0, do, []saga.StepLog{log(0, do, 1, saga.LogTimeout, retry.Timeout)}, true},
		"a failure":                  {0, do, []saga.StepLog{log(0, do, 1, saga.LogFailed, retry.ServerError)}, true},
		"a refusal":                  {0, do, []saga.StepLog{log(0, do, 1, saga.LogFailed, retry.Refused)}, false},
		"a success":                  {0, do, []saga.StepLog{log(0, do, 1, saga.LogSuccess, "")}, false},
		"one in flight, none before": {0, do, []saga.StepLog{log(0, do, 1, saga.LogRunning, "")}, false},
		"a refusal, then silence": {0, undo, []saga.StepLog{log(0, undo, 2, saga.LogTimeout, retry.Timeout),
			log(0, undo, 1, saga.LogFailed, retry.Refused)}, true},
		"silence, then a refusal": {0, undo, []saga.StepLog{log(0, undo, 1, saga.LogTimeout, retry.Timeout),
			log(0, undo, 2, saga.LogFailed, retry.Refused)}, false},
		"silence of the other direction": {0, undo, []saga.StepLog{log(0, do, 1, saga.LogTimeout, retry.Timeout)}, false},
		"a job":                          {1, do, []saga.StepLog{log(1, do, 1, saga.LogTimeout, retry.Timeout)}, false},
	} {
		x := explain.Explanation{Step: &explain.ExplainedStep{Index: tt.step, Action: tt.a}}
		if p, is := Unanswered(&x, &r, tt.logs); is != tt.want || is && p.Host != "h:80" {
			t.Errorf("%s: %+v %t", name, p, is)
		}
	}
	if _, is := Unanswered(&explain.Explanation{}, &r, nil); is {
		t.Error("a saga that has ended waits for a participant")
	}
}
