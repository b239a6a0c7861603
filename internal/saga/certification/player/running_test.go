package player

import (
	"context"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/skald-saga/skald/internal/saga/certification"
	"github.com/skald-saga/skald/internal/test/patience"
)

// slow reports whether calls run beside others of their step.
func (p *participant) slow() bool {
	switch p.way {
	case waitsForRunning, waiterFrees, outlivesUndo, stoppedAndForgot, staysBusy:
		return true
	}
	return false
}

// leaving is a call whose caller leaves when it has begun.
type leaving struct{ begun chan struct{} }

// leaves makes the order of calls certain: a connection is cut when its call has begun, not before.
func (p *participant) leaves(r *http.Request) (begun func(context.Context)) {
	l := &leaving{make(chan struct{})}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.leaving[attemptOf(r.Header)] = l
	return func(ctx context.Context) {
		select {
		case <-l.begun:
		case <-ctx.Done():
		}
	}
}

func attemptOf(h http.Header) string { return h.Get("Idempotency-Key") + " " + h.Get("X-Saga-Attempt") }

// leavingOf returns nil if the caller will stay.
func (p *participant) leavingOf(h http.Header) *leaving {
	p.mu.Lock()
	defer p.mu.Unlock()
	l := p.leaving[attemptOf(h)]
	delete(p.leaving, attemptOf(h))
	return l
}

// running is an execute that is under way.
type running struct {
	leaves, left  bool // its caller
	patient, torn int  // calls that wait for its end, and whose callers stay, or will leave
	freed         bool // its key was given to another one
	stopped       bool // by its compensation, or a restart
	ended         bool
}

// until waits until it is so. It holds the lock.
func (p *participant) until(so func() bool) {
	p.changed.Broadcast()
	for !so() && !p.over {
		p.changed.Wait()
	}
}

// end releases all that waits.
func (p *participant) end() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.over = true
	p.changed.Broadcast()
}

// run is a call that may meet an execute of its step that is under way.
func (p *participant) run(w http.ResponseWriter, r *http.Request) {
	l := p.leavingOf(r.Header)
	p.mu.Lock()
	defer p.mu.Unlock()
	defer p.changed.Broadcast()
	defer context.AfterFunc(r.Context(), func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.changed.Broadcast()
	})()
	left := func() bool { return r.Context().Err() != nil }
	key, undo := r.Header.Get("Idempotency-Key"), r.Header.Get("X-Saga-Action") == "compensate"
	execute := strings.Replace(key, "/compensate", "/execute", 1)
	for other := p.running[execute]; other != nil; other = p.running[execute] {
		if p.besides(w, r, other, l, left) {
			return
		}
		other.patient++
		p.until(func() bool { return p.running[execute] != other })
	}
	if _, known := p.answers[key]; !known && !undo && !p.undone[stepOfKey(r.Header)] && !p.work(r.Header, l, left) {
		return
	}
	status, text := p.locked(r.Header)
	if before := p.freed[key]; before != nil { // its effect is seen when this call is answered
		p.until(func() bool { return before.ended })
	}
	w.WriteHeader(status)
	io.WriteString(w, text)
}

// besides is a call that meets another one, if it does not wait for the end of that.
func (p *participant) besides(
	w http.ResponseWriter, r *http.Request, other *running, l *leaving, left func() bool,
) bool {
	key, undo := r.Header.Get("Idempotency-Key"), r.Header.Get("X-Saga-Action") == "compensate"
	execute := strings.Replace(key, "/compensate", "/execute", 1)
	switch {
	case l != nil: // it gives up waiting when its caller leaves
		other.torn++
		close(l.begun)
		p.until(left)
		if other.torn--; p.way == waiterFrees {
			other.freed, p.freed[execute] = true, other
			delete(p.running, execute)
		}
	case other.leaves && p.way == staysBusy:
		w.WriteHeader(http.StatusTooEarly)
	case undo && other.leaves && p.way == stoppedAndForgot:
		p.until(func() bool { return other.left })
		other.stopped, p.answers[key] = true, "{}"
		delete(p.running, execute)
		io.WriteString(w, "{}")
	case undo && other.leaves && p.way == outlivesUndo:
		status, text := p.locked(r.Header)
		p.until(func() bool { return other.ended })
		w.WriteHeader(status)
		io.WriteString(w, text)
	default:
		return false
	}
	return true
}

// work is an execute while it runs: if its caller leaves, until another call waits for its end, or has done what lets
// it go wrong. It reports whether it ends as it should.
func (p *participant) work(h http.Header, l *leaving, left func() bool) (right bool) {
	key, me := h.Get("Idempotency-Key"), &running{leaves: l != nil}
	p.running[key] = me
	if l != nil {
		close(l.begun)
		p.until(left)
		me.left = true
		p.until(func() bool {
			waited := me.patient > 0 && me.torn == 0 && !me.freed
			return waited || me.stopped || me.freed && p.effects[key] > 0 || p.undone[stepOfKey(h)]
		})
	}
	if me.ended = true; p.running[key] == me {
		delete(p.running, key)
	}
	switch {
	case me.stopped:
		return false
	case me.freed, p.undone[stepOfKey(h)]:
		p.effects[key]++
		return false
	}
	return true
}

// However long calls run whose callers have left, nothing is said against the participant.
func TestAParticipantThatIsBusyForLongIsNotReported(t *testing.T) {
	t.Parallel()
	report, err := Run(patience.Context(t), newParticipant(staysBusy).serve(t))
	if err != nil || len(report.Findings) > 0 {
		t.Errorf("%v\n%s", err, report.Text())
	}
	for _, vector := range []string{"repeats-while-the-first-attempt-runs", "undo-while-an-attempt-runs"} {
		if !slices.ContainsFunc(report.Untried, func(u certification.Untried) bool { return u.Vector == vector }) {
			t.Errorf("%s is not among what was not tried\n%s", vector, report.Text())
		}
	}
}

// What is answered before its connection is cut has not been tried, and is not a finding.
func TestCallsThatAreAnsweredBeforeTheyAreCutAreNotTried(t *testing.T) {
	t.Parallel()
	cfg, sagas := newParticipant(right).serve(t), map[string]int{}
	cfg.leaves = func(r *http.Request) func(context.Context) {
		if r.Header.Get("X-Saga-Attempt") == "1" {
			sagas[r.Header.Get("X-Saga-Id")]++
		}
		return func(ctx context.Context) { <-ctx.Done() } // when there is an answer
	}
	report, err := Run(patience.Context(t), cfg)
	if err != nil || len(report.Findings) > 0 || report.Certified {
		t.Errorf("%v\n%s", err, report.Text())
	}
	cut := 0
	for _, u := range report.Untried {
		if strings.Contains(u.Reason, "before its connection could be cut") {
			cut++
		}
	}
	if cut != 4 || len(sagas) != cut*orders {
		t.Errorf("%d vectors not tried, with %d sagas; want 4, with %d each\n%s", cut, len(sagas), orders, report.Text())
	}
}
