package participant

import "net/http"

// step is the recorded state of the calls of one step of one saga.
type step struct {
	Fence int64 `json:"fence"` // the highest fence seen
	// Seen is the newest run of the execute that reached the function. Done is the run that was
	// done and has not been undone since. 0 means none. Executes up to run Blocked have been
	// compensated or must no longer be done.
	Seen    int             `json:"seen,omitempty"`
	Done    int             `json:"done,omitempty"`
	Blocked int             `json:"blocked,omitempty"`
	Calls   map[string]kept `json:"calls,omitempty"` // answered calls by key
}

// verdict says what to do with a call.
type verdict int

const (
	perform verdict = iota + 1 // call the function
	succeed                    // nothing to undo: store a success without calling the function
	repeat                     // return the stored answer
	refuse                     // return an answer that is not stored
)

// judge decides what to do with a call, without changing anything. reply is the answer for repeat
// and refuse.
func (s *step) judge(c *Call) (v verdict, reply kept) {
	if c.Fence < s.Fence {
		return refuse, problem(http.StatusConflict, "OLDER_FENCE", "another node has taken over this saga: the call is late")
	}
	if known, found := s.Calls[c.Key]; found {
		if known.Digest != c.digest {
			return refuse, problem(http.StatusUnprocessableEntity, "KEY_REUSED", "the key came with another body before")
		}
		if known.Later != nil {
			return s.again(c, known)
		}
		return repeat, known
	}
	if c.Action == Execute {
		if why, open := s.closed(c.run); !open {
			return refuse, why
		}
	}
	switch {
	case s.undoing(): // the work being compensated must not change in the meantime
		return refuse, problem(http.StatusTooEarly, "NOT_APPLIED", "a compensation of the step goes on")
	case c.Action == Compensate && s.Done == 0 && !s.begun():
		return succeed, kept{}
	}
	return perform, kept{}
}

// came records that a call has reached the function, whatever its outcome: a later compensation
// must block this run too, and after a compensation no earlier execute may be done.
func (s *step) came(c *Call) {
	s.Fence = max(s.Fence, c.Fence)
	if c.Action == Execute {
		s.Seen = max(s.Seen, c.run)
		return
	}
	// Only runs that have arrived are blocked: the run number of a compensation may be ahead of
	// that of its execute.
	s.Blocked = max(s.Blocked, s.Seen)
}

// keep records the answer of a call that was judged perform or succeed. The refusal of a
// compensation is not kept: after the participant was repaired, Skald asks again with the same key.
func (s *step) keep(c *Call, answer kept) {
	done, last, begun := answer.Status < 300, s.Blocked, s.begun()
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
	case answer.Later != nil: // counts as done only when it is finished
	case c.Action == Execute && done:
		s.Done = c.run
	case c.Action == Compensate && (begun || s.Done > 0):
		s.undone()
	case c.Action == Compensate && s.Seen <= last:
		// Nothing has arrived since the previous compensation, so this one is for a run that never
		// arrived: the next one.
		s.Blocked = max(last+1, c.run)
	case c.Action == Compensate:
		s.Blocked = max(s.Blocked, c.run)
	}
}

// failed records that the function failed; before is the state that it had found. If another
// process has compensated the step since, this run was older than that compensation.
func (s *step) failed(c *Call, before step) {
	if v, _ := s.judge(c); v != perform {
		return
	}
	s.came(c)
	if c.Action == Execute && (s.Blocked > before.Blocked || s.Done == 0 && before.Done > 0) {
		s.Blocked = max(s.Blocked, c.run)
	}
}

// closed returns why an execute must no longer be done; ok means that it may be.
func (s *step) closed(run int) (why kept, ok bool) {
	switch {
	case run <= s.Blocked:
		return problem(http.StatusConflict, "ALREADY_COMPENSATED", "the step was compensated before"), false
	case run < s.Seen:
		return problem(http.StatusConflict, "SUPERSEDED", "an operator has replaced this call by another one"), false
	}
	return kept{}, true
}

// undoing reports whether a compensation was answered with Later and is not finished.
func (s *step) undoing() bool {
	for _, known := range s.Calls {
		if known.Later != nil && known.Later.Action == Compensate {
			return true
		}
	}
	return false
}

// begun reports whether the newest execute was answered with Later and has been neither finished
// nor compensated.
func (s *step) begun() bool {
	for _, known := range s.Calls {
		if p := known.Later; p != nil && p.Action == Execute && p.Run == s.Seen && !p.Over {
			return true
		}
	}
	return false
}

// undone records that nothing is left to undo.
func (s *step) undone() {
	s.Done = 0
	for key, known := range s.Calls {
		if p := known.Later; p != nil && p.Action == Execute && !p.Over {
			over := *p
			over.Over, known.Later = true, &over
			s.Calls[key] = known
		}
	}
}

// again is the answer to a repeat of a deferred call.
func (s *step) again(c *Call, known kept) (v verdict, reply kept) {
	if known.Later.Action == Execute {
		if why, open := s.closed(known.Later.Run); !open {
			return refuse, why
		}
	}
	if c.Callback == "" { // Skald would take 202 for a success
		return refuse, problem(http.StatusServiceUnavailable, "STILL_AT_WORK",
			"the call was answered later, but this one has no X-Saga-Callback")
	}
	return repeat, known
}

// newer stores the callback of a repeat, and reports whether it changed. Attempts may overtake each
// other.
func (s *step) newer(c *Call) bool {
	known := s.Calls[c.Key]
	if known.Later == nil || c.Attempt < known.Later.Attempt || c.Callback == known.Later.Callback {
		return false
	}
	p := *known.Later
	p.Callback, p.Attempt = c.Callback, c.Attempt
	known.Later = &p
	s.Calls[c.Key] = known
	return true
}

// pending returns the record of a call that still waits for its final answer.
func (s *step) pending(key string) (kept, error) {
	known := s.Calls[key]
	if known.Later == nil {
		return kept{}, ErrNotPending
	}
	if _, open := s.closed(known.Later.Run); known.Later.Action == Execute && !open {
		return kept{}, ErrCompensated
	}
	return known, nil
}

// finish gives a pending call its final answer. A status of 0 means that there is none, so that a
// repeat calls the function.
func (s *step) finish(key string, known, final kept) {
	done := final.Status > 0 && final.Status < 300
	if final.Status == 0 || known.Later.Action == Compensate && !done {
		delete(s.Calls, key)
		return
	}
	final.Digest = known.Digest
	s.Calls[key] = final
	switch {
	case !done:
	case known.Later.Action == Execute:
		s.Done = known.Later.Run
	default: // no execute has reached the function since: they get 425 until the compensation is finished
		s.undone()
	}
}
