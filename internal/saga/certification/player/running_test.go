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

// slow reports whether calls run concurrently with others of their step.
func (p *participant) slow() bool {
	switch p.way {
	case waitsForRunning, waiterFrees, outlivesUndo, stoppedAndForgot, staysBusy:
		return true
	}
	return false
}

// leaving is a call whose caller disconnects once the call has begun.
type leaving struct{ begun chan struct{} }

// leaves makes the order of calls deterministic: a connection is cut only after its call has begun.
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

// running is an execute in progress.
type running struct {
	leaves, left  bool // whether its caller will disconnect, and has done so
	patient, torn int  // calls that wait for its end and whose callers will stay, or will disconnect
	freed         bool // its key was given to another call
	stopped       bool // stopped by its compensation or by a restart
	ended         bool
}

// until waits until so returns true. The caller holds the lock.
func (p *participant) until(so func() bool) {
	p.changed.Broadcast()
	for !so() && !p.over {
		p.changed.Wait()
	}
}

// end releases all waiting calls.
func (p *participant) end() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.over = true
	p.changed.Broadcast()
}

// run handles a call that may find an execute of its step in progress.
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
	if before := p.freed[key]; before != nil { // its effect is visible when this call is answered
		p.until(func() bool { return before.ended })
	}
	w.WriteHeader(status)
	io.WriteString(w, text)
}

// besides handles a call that finds another one in progress and does not wait for its end.
func (p *participant) besides(
	w http.ResponseWriter, r *http.Request, other *running, l *leaving, left func() bool,
) bool {
	key, undo := r.Header.Get("Idempotency-Key"), r.Header.Get("X-Saga-Action") == "compensate"
	execute := strings.Replace(key, "/compensate", "/execute", 1)
	switch {
	case l != nil: // it stops waiting when its caller disconnects
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

// work runs an execute. If its caller disconnects, it waits until another call waits for it or has
// made it go wrong. It reports whether the execute ends as it should.
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

// However long calls run after their callers have disconnected, there must be no finding against
// the participant.
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

// A call that is answered before its connection is cut counts as not tested, and is not a finding.
func TestCallsThatAreAnsweredBeforeTheyAreCutAreNotTried(t *testing.T) {
	t.Parallel()
	cfg, sagas := newParticipant(right).serve(t), map[string]int{}
	cfg.leaves = func(r *http.Request) func(context.Context) {
		if r.Header.Get("X-Saga-Attempt") == "1" {
			sagas[r.Header.Get("X-Saga-Id")]++
		}
		return func(ctx context.Context) { <-ctx.Done() } // closed when there is an answer
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
