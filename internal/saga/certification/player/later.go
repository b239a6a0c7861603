package player

import (
	"cmp"
	"context"
	"fmt"
	"net/http"
	"time"

	"github.com/skald-saga/skald/internal/loop"
	"github.com/skald-saga/skald/internal/saga/certification"
)

// story is one test of deferred answers.
type story struct {
	*play
	Receiver
	tale
	found   []certification.Shown
	took    *time.Duration // longest wait for the first report in this certification
	every   time.Duration  // interval of the checks for a report
	goesOn  bool           // the restart may happen
	before  int            // the call whose report came before the restart was over; 0 means none
	untried string         // why the story proves nothing
	err     error          // why reports could not be read
}

// tale is the script of a story.
type tale struct {
	name  string
	calls []string // "execute" or "compensate" for each call
	again bool     // the first report to the first call is rejected
	play  func(context.Context, *story)
	// rest is what follows a restart of the participant. nil means that no restart is needed.
	rest func(context.Context, *story)
}

// tell begins a story.
func (c *player) tell(told tale, at Receiver) *story {
	v := c.plain()
	v.Name = told.name
	first := v.Calls[0]
	v.Calls = nil
	attempts := map[string]int{}
	for n, action := range told.calls {
		call := first
		attempts[action]++
		call.Action, call.Attempt = action, attempts[action]
		call.Restart = told.rest != nil && n == len(told.calls)-1
		to := at.Callback(callback(told.name, n+1), action == "compensate", told.again && n == 0)
		call.Headers = map[string]string{"X-Saga-Callback": to}
		v.Calls = append(v.Calls, call)
	}
	s := &story{play: c.begin(v), Receiver: at, tale: told}
	for n := range s.Seen {
		s.Seen[n].Replies = make([]certification.Reply, 1)
	}
	return s
}

// callback returns the name of a call for its Receiver.
func callback(story string, n int) string { return fmt.Sprintf("%s-%d", story, n) }

// reply makes call n of the story, and repeats it as long as the answer is not definite.
func (s *story) reply(ctx context.Context, n int) certification.Reply {
	s.send(ctx, n-1, 0)
	r := s.Seen[n-1].Replies[0]
	if r.Status == http.StatusAccepted { // a promise is not an output
		delete(s.output, stepOf(s.Vector.Calls[n-1]))
	}
	return r
}

// breach records a breach that call n shows.
func (s *story) breach(code string, n int, format string, args ...any) {
	b := certification.Breach{Code: code, Call: n, Seen: fmt.Sprintf("call %d ", n) + fmt.Sprintf(format, args...)}
	s.found = append(s.found, certification.Shown{Vector: s.Vector.Name, Breach: b, Curl: s.curl(n)})
}

// await waits for a report on one of the calls, and returns the number of that call, or 0 if none
// came.
func (s *story) await(ctx context.Context, d time.Duration, calls ...int) (t certification.Told, call int) {
	for end := time.Now().Add(d); ; {
		var failed error
		for _, n := range calls {
			got, err := s.First(ctx, callback(s.name, n))
			if got != nil {
				return *got, n
			}
			if err != nil {
				failed = err
			}
		}
		if time.Now().After(end) || !loop.Sleep(ctx, s.every) {
			s.err = failed
			return t, 0
		}
	}
}

// promised makes the first call, and reports whether it was answered with a promise.
func (s *story) promised(ctx context.Context) bool {
	r := s.reply(ctx, 1)
	if r.Status != http.StatusAccepted {
		s.untried = fmt.Sprintf("expected 202 (answered later) for a call with X-Saga-Callback, got %d %.200s",
			r.Status, cmp.Or(r.Error, r.Body))
	}
	return r.Status == http.StatusAccepted
}

// repeated makes the second call while the work of the first is in progress, and reports whether it
// was again answered with a promise.
func (s *story) repeated(ctx context.Context) bool {
	r := s.reply(ctx, 2)
	_, early := s.await(ctx, 0, 1)
	switch {
	case early == 0 && r.Status == http.StatusAccepted:
		return true
	case early > 0, r.Status == http.StatusOK, r.Status == http.StatusNoContent:
		s.untried = "the work was finished before the call could be repeated"
	default:
		s.breach("later_repeat_refused", 2, "got %d %s while the work was in progress; expected 202 again", r.Status, r.Error)
	}
	return false
}

// outcome waits for the report on one of the calls. call is 0 if none came or it was invalid.
func (s *story) outcome(ctx context.Context, last int, calls ...int) (t certification.Told, call int) {
	began := time.Now()
	t, call = s.await(ctx, s.LaterFor, calls...)
	*s.took = max(*s.took, time.Since(began))
	switch {
	case call == 0:
		s.breach("later_never_reported", last, "was answered later, but no report that Skald would accept arrived within %s", s.LaterFor)
	case t.Wrong != "":
		s.invalid(last, t)
		return t, 0
	}
	return t, call
}

func (s *story) invalid(n int, t certification.Told) {
	s.breach("later_report_invalid", n, "was answered later, but the report was invalid: %q", t.Wrong)
}

// newest records a breach if the report went to the callback of call 1 and none arrives at the
// newest callback.
func (s *story) newest(ctx context.Context, call int) {
	if call != 1 {
		return
	}
	if _, newest := s.await(ctx, settle*pause, 2); newest == 0 {
		s.breach("later_old_callback", 2, "was answered later again, but the report went to the callback of call 1")
	}
}
