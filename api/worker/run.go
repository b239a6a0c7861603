package worker

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"sync"
	"time"
)

// Run is a run that a handler executes.
type Run struct {
	ID             string
	Definition     string
	Command        string
	Args           json.RawMessage // nil: none
	Attempt        int             // from 1; grows with every assignment
	FencingToken   string          // for other systems: grows with every assignment of the concurrency key
	IdempotencyKey string          // the same for every attempt
	ScheduledFor   time.Time
	LastCheckpoint json.RawMessage // the previous attempt's checkpoint; nil: none
	CorrelationID  string

	held *held
	out  *logWriter
	errs *logWriter

	mu   sync.Mutex
	emit []any
}

// Decode decodes the arguments into into, which stays unchanged when there are none.
func (r *Run) Decode(into any) error {
	if r.Args == nil {
		return nil
	}
	return json.Unmarshal(r.Args, into)
}

// DecodeCheckpoint decodes the previous attempt's checkpoint into into, which stays
// unchanged when there is none.
func (r *Run) DecodeCheckpoint(into any) error {
	if r.LastCheckpoint == nil {
		return nil
	}
	return json.Unmarshal(r.LastCheckpoint, into)
}

// Progress reports how far the run has come, percent from 0 to 100. It is sent with the
// next heartbeat.
func (r *Run) Progress(percent float64, message string) {
	r.held.tell(func(h *held) {
		h.progress = map[string]any{"percent": min(max(percent, 0), 100), "message": clip(message, 1000)}
	})
}

// Checkpoint stores v, as JSON, for the next attempt in case this one is lost. It is
// sent with the next heartbeat.
func (r *Run) Checkpoint(v any) error {
	doc, err := json.Marshal(v)
	if err == nil {
		r.held.tell(func(h *held) { h.checkpoint = doc })
	}
	return err
}

// Stdout returns the writer of the run's log. Output is sent every second, sooner when
// there is much of it; writes block while the server does not answer and the buffer is
// full. The output of a lost run is dropped.
func (r *Run) Stdout() io.Writer { return r.out }

// Stderr is Stdout for the log's other stream.
func (r *Run) Stderr() io.Writer { return r.errs }

// EmitEvent publishes an event in the transaction that completes the run, if the run
// succeeds.
func (r *Run) EmitEvent(eventType string, payload any) {
	r.emits(map[string]any{"event": map[string]any{"event_type": eventType, "payload": payload}})
}

// EmitRun creates a run of another definition (id or name) in the transaction that
// completes this one, if this one succeeds.
func (r *Run) EmitRun(definition string, args any) {
	r.emits(map[string]any{"run": map[string]any{"definition": definition, "args": args}})
}

func (r *Run) emits(v any) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.emit = append(r.emit, v)
}

// Failure is a handler's error with more than a text.
type Failure struct {
	Code      string // at most 100 characters; "": ERROR
	Message   string
	Permanent bool // do not retry
	ExitCode  *int
}

func (f *Failure) Error() string { return f.Message }

// failureOf returns the report of an error.
func failureOf(err error) (body map[string]any, exit *int) {
	f := &Failure{}
	if !errors.As(err, &f) {
		f = &Failure{Message: err.Error()}
	}
	code := f.Code
	if code == "" {
		code = "ERROR"
	}
	return map[string]any{"code": clip(code, 100), "message": clip(f.Message, 8192), "retryable": !f.Permanent}, f.ExitCode
}

// held is a run that this worker holds a lease on.
type held struct {
	claimed
	cancel context.CancelCauseFunc

	mu         sync.Mutex
	lease      *time.Timer // ends the context when the lease does, by the clock of this machine
	until      time.Time   // with its monotonic clock
	progress   any
	checkpoint json.RawMessage
	news       int  // grows with each change that the next heartbeat reports
	told       int  // the value of news that the server knows
	lost       bool // another worker may have it: nothing is reported
}

// renew extends the lease: it counts from when the request was sent, and ends a tenth
// early, because clocks do not run equally fast.
func (h *held) renew(sent time.Time, lease time.Duration) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.until = sent.Add(lease - lease/10)
	if h.lease == nil {
		h.lease = time.AfterFunc(time.Until(h.until), func() { h.cancel(ErrLeaseOver) })
		return
	}
	h.lease.Reset(time.Until(h.until))
}

// drop gives the run up.
func (h *held) drop(why error) {
	h.mu.Lock()
	h.lost = true
	h.mu.Unlock()
	h.cancel(why)
}

func (h *held) isLost() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.lost
}

func (h *held) leaseEnd() time.Time {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.until
}

func (h *held) tell(f func(*held)) {
	h.mu.Lock()
	defer h.mu.Unlock()
	f(h)
	h.news++
}

// beat returns what a heartbeat reports of the run, and the value of news that this
// includes; what the server knows is not repeated.
func (h *held) beat() (b map[string]any, news int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	b = map[string]any{"run_id": h.RunID, "attempt": h.Attempt, "lease_token": h.LeaseToken, "leader_epoch": h.LeaderEpoch}
	if h.news > h.told && h.progress != nil {
		b["progress"] = h.progress
	}
	if h.news > h.told && h.checkpoint != nil {
		b["checkpoint"] = h.checkpoint
	}
	return b, h.news
}

// knows records the value of news that the server knows.
func (h *held) knows(news int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.told = max(h.told, news)
}
