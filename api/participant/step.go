package participant

import "net/http"

// step is what is known of the calls of one step of one saga.
type step struct {
	Fence int64 `json:"fence"` // the highest seen
	// Seen is the newest run of the execute that came as far as the function, Done the one that was done and not
	// undone since; 0: none. Executes up to run Blocked have been compensated, or may no longer be done.
	Seen    int             `json:"seen,omitempty"`
	Done    int             `json:"done,omitempty"`
	Blocked int             `json:"blocked,omitempty"`
	Calls   map[string]kept `json:"calls,omitempty"` // answered ones, by key
}

// verdict is what to do with a call.
type verdict int

const (
	perform verdict = iota + 1 // call the function
	succeed                    // there is nothing to undo: keep a success without calling the function
	repeat                     // give the answer that is known
	refuse                     // give an answer that is not kept
)

// judge decides what to do with a call. It changes nothing; reply is the answer of repeat and refuse.
func (s *step) judge(c *Call) (v verdict, reply kept) {
	if c.Fence < s.Fence {
		return refuse, problem(http.StatusConflict, "OLDER_FENCE", "another node has taken over this saga: the call is late")
	}
	if known, found := s.Calls[c.Key]; found {
		if known.Digest != c.digest {
			return refuse, problem(http.StatusUnprocessableEntity, "KEY_REUSED", "the key came with another body before")
		}
		return repeat, known
	}
	switch {
	case c.Action == Compensate && s.Done == 0:
		return succeed, kept{}
	case c.Action == Compensate:
		return perform, kept{}
	case c.run <= s.Blocked:
		return refuse, problem(http.StatusConflict, "ALREADY_COMPENSATED", "the step was compensated before")
	case c.run < s.Seen:
		return refuse, problem(http.StatusConflict, "SUPERSEDED", "an operator has replaced this call by another one")
	}
	return perform, kept{}
}

// came records that a call has come as far as the function, whatever becomes of it: a compensation that follows
// must close this run as well, and after a compensation no execute from before it may be done.
func (s *step) came(c *Call) {
	s.Fence = max(s.Fence, c.Fence)
	if c.Action == Execute {
		s.Seen = max(s.Seen, c.run)
		return
	}
	// No more is closed than has arrived: the run of a compensation may be ahead of that of its execute.
	s.Blocked = max(s.Blocked, s.Seen)
}

// keep records the answer of a call that was judged perform or succeed. A refused compensation is
// not kept: the participant is repaired, and asked again with the same key.
func (s *step) keep(c *Call, answer kept) {
	done, last := answer.Status < 300, s.Blocked
	s.came(c)
	if c.Action == Compensate && !done {
		return
	}
	if s.Calls == nil {
		s.Calls = map[string]kept{}
	}
	answer.Digest = c.digest
	s.Calls[c.Key] = answer
	switch {
	case c.Action == Execute && done:
		s.Done = c.run
	case c.Action == Compensate && s.Done == 0 && s.Seen <= last:
		// Nothing has come since the compensation before, so this one is for a run that never arrived: the next.
		s.Blocked = max(last+1, c.run)
	case c.Action == Compensate && s.Done == 0:
		s.Blocked = max(s.Blocked, c.run)
	case c.Action == Compensate:
		s.Done = 0
	}
}

// failed records that the function has failed, after it found the step as before. If the step was compensated
// since, by another process, this run was older than that.
func (s *step) failed(c *Call, before step) {
	if v, _ := s.judge(c); v != perform {
		return
	}
	s.came(c)
	if c.Action == Execute && (s.Blocked > before.Blocked || s.Done == 0 && before.Done > 0) {
		s.Blocked = max(s.Blocked, c.run)
	}
}
