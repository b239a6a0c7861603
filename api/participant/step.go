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
	case s.undoing(): // what it undoes must not change under it
		return refuse, problem(http.StatusTooEarly, "NOT_APPLIED", "a compensation of the step goes on")
	case c.Action == Compensate && s.Done == 0 && !s.begun():
		return succeed, kept{}
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
	case answer.Later != nil: // it is done when it is finished
	case c.Action == Execute && done:
		s.Done = c.run
	case c.Action == Compensate && (begun || s.Done > 0):
		s.undone()
	case c.Action == Compensate && s.Seen <= last:
		// Nothing has come since the compensation before, so this one is for a run that never arrived: the next.
		s.Blocked = max(last+1, c.run)
	case c.Action == Compensate:
		s.Blocked = max(s.Blocked, c.run)
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

// closed returns why an execute may no longer be done; ok: it may.
func (s *step) closed(run int) (why kept, ok bool) {
	switch {
	case run <= s.Blocked:
		return problem(http.StatusConflict, "ALREADY_COMPENSATED", "the step was compensated before"), false
	case run < s.Seen:
		return problem(http.StatusConflict, "SUPERSEDED", "an operator has replaced this call by another one"), false
	}
	return kept{}, true
}

// undoing says whether a compensation was answered later and is not finished.
func (s *step) undoing() bool {
	for _, known := range s.Calls {
		if known.Later != nil && known.Later.Action == Compensate {
			return true
		}
	}
	return false
}

// begun says whether the newest execute was answered later, is not finished, and not compensated.
func (s *step) begun() bool {
	for _, known := range s.Calls {
		if p := known.Later; p != nil && p.Action == Execute && p.Run == s.Seen && !p.Over {
			return true
		}
	}
	return false
}

// undone records that there is nothing to undo any more.
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

// again is the answer to a repeat of a call that was answered later.
func (s *step) again(c *Call, known kept) (v verdict, reply kept) {
	if known.Later.Action == Execute {
		if why, open := s.closed(known.Later.Run); !open {
			return refuse, why
		}
	}
	if c.Callback == "" { // Skald would take 202 for done
		return refuse, problem(http.StatusServiceUnavailable, "STILL_AT_WORK",
			"the call was answered later, but this one has no X-Saga-Callback")
	}
	return repeat, known
}

// newer keeps the callback of a repeat, and says whether it is another one. Attempts may overtake each other.
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

// pending returns what is known of a call that still waits for its answer.
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

// finish gives a pending call its answer. Without a status it has none: a repeat calls the function.
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
	default: // no execute has come as far as the function since: it gets 425
		s.undone()
	}
}
