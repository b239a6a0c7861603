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

// story is an examination of one thing about answers that come later.
type story struct {
	*play
	Receiver
	tale
	found   []certification.Shown
	took    *time.Duration // until the first report of the examination
	every   time.Duration  // between looks for a report
	goesOn  bool           // the restart may come
	before  int            // the call whose report came before the restart was over; 0: none
	untried string         // why it proves nothing
	err     error          // reports could not be read
}

// tale is how a story goes.
type tale struct {
	name  string
	calls []string // of the action, or "compensate"
	again bool     // the first report to the first call is not taken
	play  func(context.Context, *story)
	// rest is what follows a restart of the participant; nil: none is needed.
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

// callback is the name of a call for its Receiver.
func callback(story string, n int) string { return fmt.Sprintf("%s-%d", story, n) }

// reply makes call n of the story, and again while it is not answered with a result.
func (s *story) reply(ctx context.Context, n int) certification.Reply {
	s.send(ctx, n-1, 0)
	r := s.Seen[n-1].Replies[0]
	if r.Status == http.StatusAccepted { // a promise is not an output
		delete(s.output, stepOf(s.Vector.Calls[n-1]))
	}
	return r
}

// breach records what call n shows.
func (s *story) breach(code string, n int, format string, args ...any) {
	b := certification.Breach{Code: code, Call: n, Seen: fmt.Sprintf("call %d ", n) + fmt.Sprintf(format, args...)}
	s.found = append(s.found, certification.Shown{Vector: s.Vector.Name, Breach: b, Curl: s.curl(n)})
}

// await waits for a report to one of the calls, and returns which that was; 0: none came.
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

// promised makes the first call, and reports whether it was answered later.
func (s *story) promised(ctx context.Context) bool {
	r := s.reply(ctx, 1)
	if r.Status != http.StatusAccepted {
		s.untried = fmt.Sprintf("a call with X-Saga-Callback is not answered later, with 202, but with %d %.200s",
			r.Status, cmp.Or(r.Error, r.Body))
	}
	return r.Status == http.StatusAccepted
}

// repeated makes the second call while the work of the first goes on, and reports whether it was answered later again.
func (s *story) repeated(ctx context.Context) bool {
	r := s.reply(ctx, 2)
	_, early := s.await(ctx, 0, 1)
	switch {
	case early == 0 && r.Status == http.StatusAccepted:
		return true
	case early > 0, r.Status == http.StatusOK, r.Status == http.StatusNoContent:
		s.untried = "the work was done before the call could be repeated"
	default:
		s.breach("later_repeat_refused", 2, "was answered %d %s while the work went on; right is 202 again", r.Status, r.Error)
	}
	return false
}

// outcome waits for the report of one of the calls; it is 0 if none came, or a wrong one.
func (s *story) outcome(ctx context.Context, last int, calls ...int) (t certification.Told, call int) {
	began := time.Now()
	t, call = s.await(ctx, s.LaterFor, calls...)
	*s.took = max(*s.took, time.Since(began))
	switch {
	case call == 0:
		s.breach("later_never_reported", last, "was answered later, and no report that Skald would take came within %s", s.LaterFor)
	case t.Wrong != "":
		s.invalid(last, t)
		return t, 0
	}
	return t, call
}

func (s *story) invalid(n int, t certification.Told) {
	s.breach("later_report_invalid", n, "was answered later, and the report was %q", t.Wrong)
}

// newest records a breach if the report went to call 1, and none comes to the newest call.
func (s *story) newest(ctx context.Context, call int) {
	if call != 1 {
		return
	}
	if _, newest := s.await(ctx, settle*pause, 2); newest == 0 {
		s.breach("later_old_callback", 2, "was answered later again, and the report went to the callback of call 1")
	}
}
