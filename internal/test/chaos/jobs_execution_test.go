package chaos

import (
	"context"
	"fmt"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/google/uuid"
)

// execution is an attempt of a run from its worker's point of view.
type execution struct {
	w      *jobWorker
	r      *registration
	run    claimed
	rude   bool
	deaf   atomic.Bool // heartbeats leave it out
	ctx    context.Context
	halt   context.CancelCauseFunc
	logged int
	since  int64 // when its claim was sent, by the monotonic clock

	mu     sync.Mutex
	until  time.Time // guarded by mu: end of its lease by our clock, never later than by Skald's
	wanted bool      // guarded by mu: it was asked to stop
}

func newExecution(w *jobWorker, r *registration, c claimed, since int64, until time.Time) *execution {
	x := &execution{w: w, r: r, run: c, since: since, until: until, rude: w.chance(c.Args.Rude)}
	x.ctx, x.halt = context.WithCancelCause(r.ctx)
	x.note(entry{Kind: didClaim, State: c.State, Key: c.Key, Fencing: c.Fencing})
	return x
}

func (x *execution) fence() string { return x.run.ID + "/" + x.run.Token }

// body returns a request body with the fence and additional members.
func (x *execution) body(more map[string]any) map[string]any {
	b := map[string]any{
		"worker_id":    x.r.id,
		"attempt":      x.run.Attempt,
		"lease_token":  x.run.Token,
		"leader_epoch": x.run.Epoch,
	}
	for k, v := range more {
		b[k] = v
	}
	return b
}

func (x *execution) note(e entry) {
	e.Worker, e.Run, e.Job, e.Attempt, e.Token, e.Epoch, e.Rude = x.r.id, x.run.ID, x.run.Job, x.run.Attempt, x.run.Token,
		x.run.Epoch, x.rude
	e.Key = x.run.Key
	x.w.journal.write(e)
}

type halted string

func (h halted) Error() string { return string(h) }

// stop ends the work because the run no longer belongs to the worker.
func (x *execution) stop(why string) { x.halt(halted(why)) }

// cancel ends the work because a cancellation was requested. A rude execution ignores it.
func (x *execution) cancel() {
	x.mu.Lock()
	x.wanted = true
	x.mu.Unlock()
}

func (x *execution) canceled() bool {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.wanted && !x.rude
}

func (x *execution) renew(until time.Time) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if until.After(x.until) {
		x.until = until
	}
}

// over returns how long ago the lease ended, or a negative duration if it hasn't ended yet.
func (x *execution) over() time.Duration {
	x.mu.Lock()
	defer x.mu.Unlock()
	return time.Since(x.until)
}

// live executes the run from its start to its report, unless it is stopped.
func (x *execution) live() {
	defer x.halt(nil)
	x.w.orders.at(atClaimed)
	if x.run.State != "RUNNING" && !x.start() {
		return
	}
	if x.over() > 0 { // it was delayed for so long that another worker may have the run
		if x.confirm(); x.over() > 0 {
			return
		}
	}
	x.note(entry{Kind: didBegin, Fencing: x.run.Fencing, Since: x.since})
	how := x.work()
	x.note(entry{Kind: didEnd, How: how})
	x.w.orders.at(atFinished)
	switch how {
	case "done":
		emit := x.emits()
		x.report(
			"complete",
			"SUCCEEDED",
			map[string]any{"result": map[string]any{"token": x.run.Token}, "exit_code": 0, "emit": emit},
		)
	case "failed", "hopeless":
		x.report(
			"fail",
			"FAILED",
			map[string]any{"error": map[string]any{"code": "CHAOS", "message": how, "retryable": how == "failed"}},
		)
	case "late":
		x.report(
			"fail",
			"TIMED_OUT",
			map[string]any{"error": map[string]any{"code": "SLOW", "message": "too slow", "retryable": true}, "timed_out": true},
		)
	case "given back":
		x.report("release", "ORPHANED", map[string]any{"reason": "chaos"})
	case "canceled":
		x.report("cancel-ack", "CANCELED", nil)
	}
}

// start starts the run. It doesn't give up halfway: if the outcome of the start is unknown, the
// worker must find it out.
func (x *execution) start() bool {
	ctx, cancel := context.WithTimeout(x.ctx, 15*time.Second)
	defer cancel()
	for ctx.Err() == nil {
		sent := time.Now()
		x.w.orders.during(atStarting, x.w)
		h := x.w.call(ctx, "/job-runs/"+x.run.ID+"/start", x.body(nil), 1500*time.Millisecond)
		var said struct {
			Lease    int64 `json:"lease_ms"`
			State    string
			Replayed bool
		}
		if h.unknown() {
			pause(ctx, x.w.between(20*time.Millisecond, 100*time.Millisecond))
			continue
		}
		h.into(&said)
		x.note(
			entry{Kind: didHear, Call: "start", Status: h.status, Code: h.code(), State: said.State, Replayed: said.Replayed},
		)
		x.renew(sent.Add(time.Duration(said.Lease) * time.Millisecond))
		return h.status == http.StatusOK
	}
	return false
}

// work behaves as the run's manner specifies and returns how the work ended. After its lease has
// ended, it continues for as long as Skald waits for a confirmation, and tries to confirm in the
// meantime.
func (x *execution) work() string {
	m := &x.run.Args
	began, length := time.Now(), x.w.between(
		time.Duration(m.Least)*time.Millisecond,
		time.Duration(max(m.Least, m.Most))*time.Millisecond,
	)
	limit, half := time.Duration(x.run.Timeout)*time.Millisecond, false
	for spent := time.Duration(0); spent < length; spent = time.Since(began) {
		if !half && spent >= length/2 {
			half = true
			x.w.orders.at(atRunning)
			if d, ok := x.w.orders.next(atConfirming); ok {
				x.doubted(d)
			}
			x.progress()
		}
		if m.Logs > x.logged && spent*time.Duration(m.Logs) >= length*time.Duration(x.logged) {
			x.log()
		}
		switch {
		case x.ctx.Err() != nil:
			return "stopped: " + context.Cause(x.ctx).Error()
		case x.canceled():
			return "canceled"
		case limit > 0 && time.Since(began) >= limit && !x.rude:
			return "late"
		case x.over() > x.w.cfg.Confirm-300*time.Millisecond:
			return "stopped: its lease ended"
		case x.over() > 0:
			x.confirm()
		}
		pause(x.ctx, min(20*time.Millisecond, length-spent))
	}
	switch {
	case x.w.chance(m.Release):
		return "given back"
	case x.w.chance(m.Perma):
		return "hopeless"
	case x.w.chance(m.Fail):
		return "failed"
	}
	return "done"
}

// doubted sends nothing about the run until Skald considers it in doubt, and then injects d.
func (x *execution) doubted(d pointFault) {
	x.deaf.Store(true)
	for x.over() < x.w.cfg.Confirm/4 && x.ctx.Err() == nil {
		pause(x.ctx, 20*time.Millisecond)
	}
	d.do()
	x.deaf.Store(false)
}

// confirm asks Skald whether the run may continue.
func (x *execution) confirm() {
	sent := time.Now()
	h := x.w.call(x.ctx, "/job-runs/"+x.run.ID+"/confirm-continuation", x.body(nil), 300*time.Millisecond)
	var said struct {
		Lease    int64 `json:"lease_ms"`
		Continue bool
	}
	switch {
	case h.into(&said) && said.Continue:
		x.note(entry{Kind: didHear, Call: "confirm-continuation", Status: h.status})
		x.renew(sent.Add(time.Duration(said.Lease) * time.Millisecond))
	case h.status == http.StatusConflict:
		x.note(entry{Kind: didHear, Call: "confirm-continuation", Status: h.status, Code: h.code()})
		x.stop("refused: " + cutCode(h.code()))
	}
}

// progress reports progress, which renews the lease.
func (x *execution) progress() {
	sent := time.Now()
	h := x.w.call(
		x.ctx,
		"/job-runs/"+x.run.ID+"/progress",
		x.body(map[string]any{"percent": 50, "checkpoint": map[string]any{"by": x.run.Attempt}}),
		300*time.Millisecond,
	)
	var said struct {
		Lease  int64 `json:"lease_ms"`
		Cancel bool  `json:"cancel_requested"`
	}
	if h.into(&said) {
		x.renew(sent.Add(time.Duration(said.Lease) * time.Millisecond))
		if said.Cancel {
			x.cancel()
		}
	} else if h.status == http.StatusConflict {
		x.note(entry{Kind: didHear, Call: "progress", Status: h.status, Code: h.code()})
		x.stop("refused: " + cutCode(h.code()))
	}
}

// log sends a chunk and repeats it until the chunk is known to be stored.
func (x *execution) log() {
	text := fmt.Sprintf("%s attempt %d line %d\n", x.run.Token, x.run.Attempt, x.logged)
	h := x.w.call(
		x.ctx,
		"/job-runs/"+x.run.ID+"/logs",
		x.body(map[string]any{"seq": x.logged, "chunk": text}),
		300*time.Millisecond,
	)
	if h.status == http.StatusOK {
		x.note(entry{Kind: didLog, Seq: x.logged, Text: text})
		x.logged++
	}
}

// emits returns the events and runs that a successful run creates.
func (x *execution) emits() []map[string]any {
	m, out := &x.run.Args, []map[string]any{}
	if m.EmitType != "" {
		out = append(
			out,
			map[string]any{
				"event": map[string]any{
					"event_type": m.EmitType,
					"dedupe_key": x.run.ID,
					"payload":    map[string]any{"of": x.run.ID},
				},
			},
		)
	}
	if m.EmitJob != "" {
		out = append(
			out,
			map[string]any{"run": map[string]any{"definition": m.EmitJob, "args": map[string]any{"Least": 10, "Most": 100}}},
		)
	}
	return out
}

// report reports how the run ended and repeats the call until it gets a response, even if the
// worker has become a zombie by then: rejecting its report is what the fence is for.
func (x *execution) report(call, outcome string, more map[string]any) {
	x.note(entry{Kind: didIntend, Call: call, Outcome: outcome})
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	claim := uuid.New()
	for ctx.Err() == nil {
		x.w.orders.during(atReporting, x.w)
		h := x.tell(ctx, call, more, claim)
		if h.unknown() {
			pause(ctx, x.w.between(20*time.Millisecond, 150*time.Millisecond))
			continue
		}
		var said struct {
			State    string
			Replayed bool
		}
		h.into(&said)
		x.note(
			entry{
				Kind:     didHear,
				Call:     call,
				Outcome:  outcome,
				Status:   h.status,
				Code:     h.code(),
				State:    said.State,
				Replayed: said.Replayed,
			},
		)
		return
	}
}
