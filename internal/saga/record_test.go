package saga

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"

	"github.com/skald-saga/skald/internal/retry"
)

func TestALogHoldsTheWholeAttempt(t *testing.T) {
	begin, end := noon.Add(time.Second), noon.Add(3500*time.Millisecond)
	o := Outcome{Request: []byte(`{"in":1}`), StartedAt: begin, EndedAt: end}
	want := StepLog{
		ID: uuid.UUID{15: 1}, SagaID: uuid.UUID{1}, StepIndex: 0, StepName: "s0", Action: Execute, Attempt: 1,
		Request:     json.RawMessage(`{"in":1}`),
		StartedAt:   begin,
		CompletedAt: &end,
		DurationMS:  new(int64(2500)),
		UpdatedAt:   noon,
	}
	for _, tt := range []struct {
		name   string
		answer func(*Outcome)
		logged func(*StepLog)
	}{
		{"a success has the output", func(o *Outcome) {
			o.Verdict, o.Output = Done, json.RawMessage(`{"id":7}`)
		}, func(l *StepLog) {
			l.Status, l.Final, l.Response = LogSuccess, true, json.RawMessage(`{"id":7}`)
		}},
		{"a success without a body has none", func(o *Outcome) { o.Verdict = Done }, func(l *StepLog) {
			l.Status, l.Final = LogSuccess, true
		}},
		{"a refusal has its reason", func(o *Outcome) {
			o.Verdict, o.Class, o.Code, o.Message, o.Response = Refused, retry.Refused, "http_409", "sold out",
				json.RawMessage(`{"left":0}`)
		}, func(l *StepLog) {
			l.Status, l.Final, l.Response, l.Outcome = LogFailed, true, json.RawMessage(`{"left":0}`), new("http_409")
			l.Error = &Error{Code: "http_409", Message: "sold out", Type: "refused", Timestamp: noon,
				Details: json.RawMessage(`{"left":0}`)}
		}},
		{"no answer in time is a timeout", func(o *Outcome) {
			o.Verdict, o.Class, o.Code, o.Message = Unknown, retry.Timeout, "timeout", "no answer"
		}, func(l *StepLog) {
			l.Status, l.Outcome = LogTimeout, new("timeout")
			l.Error = &Error{Code: "timeout", Message: "no answer", Type: "timeout", Retryable: true, Timestamp: noon}
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			o, want := o, want
			tt.answer(&o)
			tt.logged(&want)
			c, err := happens(started("uu"), Answered{o}, moments(noon))
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff([]StepLog{want}, c.Logs); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestASkippedLogIsOverAtOnce(t *testing.T) {
	_, _, c := tell(t, started("nu"), "done refused")
	now := noon.Add(2 * time.Minute)
	want := StepLog{
		ID: uuid.UUID{15: 2}, SagaID: uuid.UUID{1}, StepIndex: 0, StepName: "s0", Action: Compensate, Attempt: 1,
		Status: LogSkipped, Final: true, StartedAt: now, CompletedAt: &now, UpdatedAt: now,
	}
	if diff := cmp.Diff(want, c.Logs[len(c.Logs)-1]); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestTheErrorSaysWhyTheSagaTurnedBack(t *testing.T) {
	for _, tt := range []struct {
		name, story     string
		code, kind, msg string
		retryable       bool
		cause           Cause
	}{
		{"a refused step", "done refused", "http_409", "refused", `step "s1": sold out`, false, CauseStepFailed},
		{"a step that gave up", "done 500 500 500", "http_500", "server_error", `step "s1": oops`, true, CauseStepFailed},
		{"a cancel", "done cancel refused", "SAGA_CANCELLED", "cancelled", "cancelled by ann: too late", false, CauseCancelled},
		{"an operator", "compensate done", "SAGA_COMPENSATE_REQUESTED", "operator", "compensation requested by op", false, CauseOperator},
		{"the deadline", "deadline done", "SAGA_TIMEOUT", "deadline", "the deadline passed", false, CauseDeadline},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r, _, _ := tell(t, started("uu"), tt.story)
			e := r.Error
			if e == nil {
				t.Fatal("it has no error")
			}
			want := *e
			want.Code, want.Type, want.Message, want.Retryable, want.Cause = tt.code, tt.kind, tt.msg, tt.retryable, nil
			if diff := cmp.Diff(want, *e); diff != "" {
				t.Errorf("the error (-want +got):\n%s", diff)
			}
			if r.EndCause == nil || *r.EndCause != tt.cause || r.ErrorMessage() != tt.msg {
				t.Errorf("cause %v, message %q; want %s, %q", r.EndCause, r.ErrorMessage(), tt.cause, tt.msg)
			}
		})
	}
	if r, _, _ := tell(t, started("u"), "timeout done"); r.Error != nil || r.ErrorMessage() != "" {
		t.Errorf("a completed saga has the error %+v", r.Error)
	}
}

func TestADirtyEndSaysWhatFailedAndWhyItWasTried(t *testing.T) {
	for _, tt := range []struct{ name, story, reason, code, msg string }{
		{"a compensation gave up", "done refused refused", "compensation_failed", "http_409", `the compensation of step "s0" gave up: sold out`},
		{"the deadline passed", "done refused 500 deadline turn", "compensation_timeout", "SAGA_COMPENSATION_TIMEOUT", "the compensation did not end before its deadline"},
		{"it gave up once more", "done refused refused resume garbage resume garbage", "compensation_failed", "invalid_response", `the compensation of step "s0" gave up: not JSON`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r, _, _ := tell(t, started("uu"), tt.story)
			if !r.NeedsAttention || r.AttentionReason == nil || *r.AttentionReason != tt.reason {
				t.Errorf("needs attention %v because of %v; want %s", r.NeedsAttention, r.AttentionReason, tt.reason)
			}
			if r.Clean == nil || *r.Clean {
				t.Errorf("clean %v, want false", r.Clean)
			}
			if r.Error.Code != tt.code || r.Error.Message != tt.msg {
				t.Errorf("error %+v, want %s, %q", r.Error, tt.code, tt.msg)
			}
			if why := r.Error.Cause; why == nil || why.Code != "http_409" || !strings.HasPrefix(why.Message, `step "s1"`) ||
				why.Cause != nil {
				t.Errorf("its cause is %+v, want what made the saga turn back, and nothing else", why)
			}
		})
	}
	r, _, _ := tell(t, started("uu"), "done refused refused resume done")
	if r.State != Compensated || *r.Clean != true || r.Error.Message != `step "s1": sold out` {
		t.Errorf("resumed and undone it is %s, and still says %+v", r.State, r.Error)
	}
	if r.NeedsAttention || r.AttentionReason != nil {
		t.Errorf("resumed and undone it needs attention: %v", r.AttentionReason)
	}
}

func TestTimes(t *testing.T) {
	minute := func(n int) *time.Time { return new(noon.Add(time.Duration(n) * time.Minute)) }
	for _, tt := range []struct {
		name, story string
		of          func(*Instance) *time.Time
		want        *time.Time
	}{
		{"started when created with an owner", "done", func(r *Instance) *time.Time { return r.StartedAt }, minute(0)},
		{"not completed while under way", "done", func(r *Instance) *time.Time { return r.CompletedAt }, nil},
		{"completed at the last commit", "done done", func(r *Instance) *time.Time { return r.CompletedAt }, minute(2)},
		{"completed at a dirty end, too", "done refused refused", func(r *Instance) *time.Time { return r.CompletedAt }, minute(3)},
		{"not completed any more when resumed", "done refused refused resume", func(r *Instance) *time.Time { return r.CompletedAt }, nil},
		{"cancel requested", "done cancel", func(r *Instance) *time.Time { return r.CancelRequestedAt }, minute(2)},
		{"timed out", "deadline", func(r *Instance) *time.Time { return r.TimedOutAt }, minute(1)},
		{"a late undo is not a time-out of the saga", "done refused deadline", func(r *Instance) *time.Time { return r.TimedOutAt }, nil},
		{"a flag is due at once", "done cancel", func(r *Instance) *time.Time { return r.NextRunAt }, minute(2)},
		{"the undo's deadline is due at once", "done refused deadline", func(r *Instance) *time.Time { return r.NextRunAt }, minute(3)},
		{"a resumed saga is due at once", "done refused refused resume", func(r *Instance) *time.Time { return r.NextRunAt }, minute(4)},
		{"nothing is due while it is driven", "timeout done", func(r *Instance) *time.Time { return r.NextRunAt }, nil},
		{"nor while a slow call runs", "timeout slow", func(r *Instance) *time.Time { return r.NextRunAt }, nil},
		{"nor while a slow undo runs", "done refused 500 slow", func(r *Instance) *time.Time { return r.NextRunAt }, nil},
		{"updated at each change", "timeout slow", func(r *Instance) *time.Time { return &r.UpdatedAt }, minute(2)},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r, _, _ := tell(t, started("uu"), tt.story)
			if diff := cmp.Diff(tt.want, tt.of(&r)); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestARetryWaitsByPolicyAndRetryAfter(t *testing.T) {
	for _, tt := range []struct {
		name, story string
		after, want time.Duration
	}{
		{"the initial interval", "", 0, 100 * time.Millisecond},
		{"twice that the second time", "timeout", 0, 200 * time.Millisecond},
		{"as long as the participant wishes", "", 5 * time.Second, 5 * time.Second},
		{"an hour at most", "", 1000 * time.Hour, time.Hour},
		{"an undo by its own policy", "done refused", 0, 100 * time.Millisecond},
		{"a crash does not make it longer", "crash", 0, 100 * time.Millisecond},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r := started("uu")
			if tt.story == "crash" {
				r.Attempt, r.Uncertain = 5, true // as a claim leaves it
			} else {
				r, _, _ = tell(t, r, tt.story)
			}
			attempt := r.Attempt
			e := Answered{Outcome{Verdict: NotApplied, Class: retry.Unavailable, RetryAfter: tt.after}}
			c, err := happens(r, e, moments(noon))
			if err != nil {
				t.Fatal(err)
			}
			if c.After.NextRunAt == nil || c.After.NextRunAt.Sub(noon) != tt.want || c.After.Attempt != attempt+1 {
				t.Errorf("due %v, attempt %d; want %v later, attempt %d", c.After.NextRunAt, c.After.Attempt, tt.want, attempt+1)
			}
			if task := c.After.Next(noon); task != Wait {
				t.Errorf("Next says %d before the time", task)
			}
			if task := c.After.Next(noon.Add(tt.want)); task != Send {
				t.Errorf("Next says %d when it is due", task)
			}
		})
	}
}

func TestTheCompensationDeadlineIsPinnedWhenItBegins(t *testing.T) {
	own := started("uu")
	own.CompensationTimeoutMS = new(int64(7))
	for _, tt := range []struct {
		name string
		r    Instance
		def  time.Duration
		want *int64
	}{
		{"the saga's own", own, time.Minute, new(int64(7))},
		{"else the server's", started("uu"), time.Minute, new(int64(60_000))},
		{"else none", started("uu"), 0, nil},
	} {
		t.Run(tt.name, func(t *testing.T) {
			m := moments(noon)
			m.CompensationTimeout = tt.def
			first, err := happens(tt.r, happenings["done"], m)
			if err != nil {
				t.Fatal(err)
			}
			c, err := happens(first.After, happenings["refused"], m)
			if err != nil {
				t.Fatal(err)
			}
			if first.StartsCompensation || !c.StartsCompensation {
				t.Errorf("StartsCompensation = %v going on, %v turning back", first.StartsCompensation, c.StartsCompensation)
			}
			if diff := cmp.Diff(tt.want, c.After.CompensationTimeoutMS); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// S2-50: the details of a failure that the participant reports are in the error of the step, of the
// saga and of the event, with the time of the change. If the saga's compensation gave up as well,
// the last cause is the reason for the compensation.
func TestAnErrorCarriesTheParticipantsStackTraceAndCause(t *testing.T) {
	why := func(trace, cause string) Outcome {
		return Outcome{Verdict: Refused, Class: retry.Refused, Code: "http_409", Message: "no", StackTrace: trace,
			Cause:     &Error{Code: "c", Type: "t", Message: cause, Cause: &Error{Code: "root", Type: "t", Message: "root"}},
			StartedAt: noon, EndedAt: noon}
	}
	causes := func(e *Error) (list []string) {
		for ; e != nil; e = e.Cause {
			list = append(list, e.Message+e.StackTrace)
			if e.Timestamp.IsZero() {
				t.Errorf("%q has no time", e.Message)
			}
		}
		return list
	}
	r, _, _ := tell(t, started("uu"), "done")
	apply := func(r Instance, o Outcome) Change {
		c, err := happens(r, Answered{Outcome: o}, moments(noon))
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
	c := apply(r, why(" at s1", "disk"))
	forward := []string{`step "s1": no at s1`, "disk", "root"}
	if diff := cmp.Diff(forward, causes(c.After.Error)); diff != "" {
		t.Errorf("the saga's error (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]string{"no at s1", "disk", "root"}, causes(c.Logs[0].Error)); diff != "" {
		t.Errorf("the step's error (-want +got):\n%s", diff)
	}
	c = apply(c.After, why(" at undo", "gone"))
	want := append([]string{`the compensation of step "s0" gave up: no at undo`, "gone", "root"}, forward...)
	if diff := cmp.Diff(want, causes(c.After.Error)); diff != "" {
		t.Errorf("the error of both (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]string{"no at undo", "gone", "root"}, causes(c.Logs[0].Error)); diff != "" {
		t.Errorf("the compensation's error (-want +got):\n%s", diff)
	}
}
