package worker

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/skald-saga/skald/internal/strictjson/plaintext"
)

// Run is a run that a handler executes.
type Run struct {
	ID             string
	Definition     string
	Command        string
	Args           json.RawMessage // nil means none
	Attempt        int             // starts at 1; grows with every assignment
	FencingToken   string          // for other systems; grows with every assignment of the concurrency key
	IdempotencyKey string          // is the same for every attempt
	ScheduledFor   time.Time
	LastCheckpoint json.RawMessage // the previous attempt's checkpoint; nil means none
	CorrelationID  string

	held *held
	out  *logWriter
	errs *logWriter

	mu      sync.Mutex
	emit    []any
	emitted int   // total size of its documents in bytes
	unsaid  error // why an emission failed
}

// Decode decodes the arguments into into, which stays unchanged if there are none.
func (r *Run) Decode(into any) error {
	if r.Args == nil {
		return nil
	}
	return json.Unmarshal(r.Args, into)
}

// DecodeCheckpoint decodes the previous attempt's checkpoint into into, which stays unchanged if
// there is none.
func (r *Run) DecodeCheckpoint(into any) error {
	if r.LastCheckpoint == nil {
		return nil
	}
	return json.Unmarshal(r.LastCheckpoint, into)
}

// Progress reports how far the run has progressed, as a percentage from 0 to 100. It is sent with
// the next heartbeat. A percentage that is not a number is left out, one outside the range is
// clamped, and the message is cut to 1,000 characters.
func (r *Run) Progress(percent float64, message string) {
	told := map[string]any{"message": plaintext.Text(message, plaintext.Characters(maxProgressText))}
	if p, ok := percentOf(percent); ok {
		told["percent"] = p
	}
	r.held.tell(func(h *held) { h.progress = told })
}

// Checkpoint stores v, as JSON, for the next attempt in case this one is lost. It is sent with the
// next heartbeat. The error says why v cannot be stored; the previous checkpoint then remains. The
// limit is 4 MiB.
func (r *Run) Checkpoint(v any) error {
	doc, err := documentOf(v, maxCheckpoint)
	if err == nil {
		r.held.tell(func(h *held) { h.checkpoint = doc })
	}
	return err
}

// Stdout returns the writer of the run's log. Output is sent every second, or sooner if there is
// much of it. Writes block while the server does not answer and the buffer is full. The output of a
// lost run is dropped.
func (r *Run) Stdout() io.Writer { return r.out }

// Stderr is like Stdout, for the log's other stream.
func (r *Run) Stderr() io.Writer { return r.errs }

// EmitEvent publishes an event in the transaction that completes the run, if the run succeeds. The
// error says why the event cannot be stored. The run then fails even if the handler ignores the
// error, because it must not succeed without the event.
func (r *Run) EmitEvent(eventType string, payload any) error {
	return r.emits("event", "event_type", eventType, "payload", payload)
}

// EmitRun creates a run of another definition (id or name) in the transaction that completes this
// one, if this one succeeds. Its errors are like those of EmitEvent.
func (r *Run) EmitRun(definition string, args any) error {
	return r.emits("run", "definition", definition, "args", args)
}

// emits adds an emission of the given kind and name, with its content in the given members.
func (r *Run) emits(kind, naming, name, holding string, held any) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	doc, err := documentOf(held, maxEmission-r.emitted)
	switch {
	case err != nil:
	case name == "" || name != plaintext.Text(name, plaintext.Characters(maxName)):
		err = fmt.Errorf("worker: the %s must have 1 to %d characters, in UTF-8 without NUL", naming, maxName)
	case len(r.emit) == maxEmitted:
		err = fmt.Errorf("worker: a run emits at most %d events and runs", maxEmitted)
	}
	if err != nil {
		r.unsaid = errors.Join(r.unsaid, err)
		return err
	}
	r.emitted += len(doc)
	r.emit = append(r.emit, map[string]any{kind: map[string]any{naming: name, holding: doc}})
	return nil
}

const maxEmitted = 100

// Failure is a handler's error with details. Texts that are too long are cut.
type Failure struct {
	Code      string // at most 100 bytes; "" means ERROR, or TIMED_OUT if the run timed out
	Message   string // at most 8 KiB
	Permanent bool   // do not retry
	ExitCode  *int
}

func (f *Failure) Error() string { return f.Message }

// failureOf returns the report of an error. code is the default for an error without a code.
func failureOf(err error, code string) (body map[string]any, exit *int32) {
	f := asFailure(err)
	if f.Code != "" {
		code = f.Code
	}
	return map[string]any{
		"code":      plaintext.Text(code, plaintext.Bytes(maxCode)),
		"message":   plaintext.Text(f.Message, plaintext.Bytes(maxMessage)),
		"retryable": !f.Permanent,
	}, exitOf(f.ExitCode)
}

// asFailure converts a handler's error to a Failure. The methods of the error are the handler's
// code and may panic, for example on a nil pointer.
func asFailure(err error) (f *Failure) {
	defer func() {
		if p := recover(); p != nil {
			f = &Failure{Message: fmt.Sprintf("%T, whose text cannot be read: %v", err, p)}
		}
	}()
	if errors.As(err, &f) && f != nil {
		return f
	}
	return &Failure{Message: err.Error()}
}

// held is a run on which this worker holds a lease.
type held struct {
	claimed
	cancel context.CancelCauseFunc

	mu         sync.Mutex
	lease      *time.Timer // ends the context when the lease ends by this machine's clock
	until      time.Time   // includes the monotonic clock
	progress   any
	checkpoint json.RawMessage
	news       int  // grows with every change that the next heartbeat reports
	told       int  // the value of news that the server has
	lost       bool // another worker may have the run: nothing is reported
}

// renew extends the lease. The lease counts from the time the request was sent, and ends a tenth
// early because clocks do not run at exactly the same speed.
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

// drop abandons the run.
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

// news is what a run reports in a heartbeat and the server does not have yet.
type news struct {
	progress   any
	checkpoint json.RawMessage
	upTo       int // the value of held.news that this includes
}

// untold returns the run's news. What the server already has is not repeated.
func (h *held) untold() (n news) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if n.upTo = h.news; h.news > h.told {
		n.progress, n.checkpoint = h.progress, h.checkpoint
	}
	return n
}

// beat returns the run's entry in a heartbeat.
func (h *held) beat(n news) map[string]any {
	b := map[string]any{
		"run_id": h.RunID, "attempt": h.Attempt, "lease_token": h.LeaseToken, "leader_epoch": h.LeaderEpoch,
	}
	if n.progress != nil {
		b["progress"] = n.progress
	}
	if n.checkpoint != nil {
		b["checkpoint"] = n.checkpoint
	}
	return b
}

// knows records that the server has the news, or has refused them permanently.
func (h *held) knows(n news) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.told = max(h.told, n.upTo)
}
