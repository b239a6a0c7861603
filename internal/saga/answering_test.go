package saga

import (
	"strings"
	"testing"
	"time"

	"github.com/skald-saga/skald/internal/retry"
)

func TestOtherSagasSayWhetherAParticipantAnswersAgain(t *testing.T) {
	call := func(minute int, status LogStatus, class retry.Class) OtherCall {
		return OtherCall{At: noon.Add(time.Duration(minute) * time.Minute), Status: status, Class: class}
	}
	done := func(minute int) OtherCall { return call(minute, LogSuccess, "") }
	fails := func(minute int) OtherCall { return call(minute, LogFailed, retry.Unavailable) }
	refused := func(minute int) OtherCall { return call(minute, LogFailed, retry.Refused) }
	for _, tt := range []struct {
		name        string
		calls       []OtherCall
		want        Reached
		since, last int // minutes after noon
	}{
		{"no call since", []OtherCall{done(-1), done(0), fails(-2)}, ReachedUnknown, 0, 0},
		{"only refusals and skipped steps", []OtherCall{refused(2), call(3, LogSkipped, "")}, ReachedUnknown, 0, 0},
		{"another failure", []OtherCall{fails(1)}, ReachedNot, 0, 0},
		{"a timeout", []OtherCall{call(1, LogTimeout, retry.Timeout)}, ReachedNot, 0, 0},
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

// TestOnlyWithoutADefiniteAnswerAParticipantIsAskedFor: the call is the one that the saga waits for or gave up.
func TestOnlyWithoutADefiniteAnswerAParticipantIsAskedFor(t *testing.T) {
	for story, want := range map[string]bool{
		"": false, "timeout": true, "500": true, "unreached": true, "done": false, "timeout done": false,
		"done timeout": true, "refused": false, "done refused": false, "done refused 500": true, "done refused done": false,
		"done refused refused": false, "done refused 500 500 500": true, "timeout suspend": true, "timeout fail": false,
	} {
		r := started("uu")
		var logs []StepLog
		for i, word := range strings.Fields(story) {
			c, err := happens(r, happenings[word], moments(noon.Add(time.Duration(i)*time.Minute)))
			if err != nil {
				t.Fatalf("%q: %v", story, err)
			}
			r, logs = c.After, append(logs, c.Logs...)
		}
		x := Explain(&r, logs, true, noon)
		p, is := x.Unanswered(&r, logs)
		if is != want || is && p.Host != "h" {
			t.Errorf("%q: %+v %t", story, p, is)
		}
	}
}
