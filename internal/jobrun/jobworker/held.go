package jobworker

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"runtime/debug"
	"sync"
	"time"

	"github.com/google/uuid"

	"github.com/skald-saga/skald/internal/fault"
	"github.com/skald-saga/skald/internal/jobrun"
	"github.com/skald-saga/skald/internal/loop"
	"github.com/skald-saga/skald/internal/strictjson/plaintext"
)

// held is a run that this worker holds.
type held struct {
	run   jobrun.Run
	stop  context.CancelCauseFunc
	lease *time.Timer // stops the run when its lease expires by this machine's clock (J4)

	mu         sync.Mutex
	progress   *jobrun.Progress // guarded by mu, like checkpoint
	checkpoint []byte
}

// beat returns the part of a heartbeat about the run.
func (h *held) beat() jobrun.Beat {
	h.mu.Lock()
	defer h.mu.Unlock()
	return jobrun.Beat{RunID: h.run.ID, Fence: h.run.Fence(), Progress: h.progress, Checkpoint: h.checkpoint}
}

// renew extends the lease. The new duration counts from when the call was sent, and is shortened by
// a tenth.
func (h *held) renew(sent time.Time, lease time.Duration) {
	h.lease.Reset(time.Until(sent.Add(lease - lease/10)))
}

// begin executes a run in its own goroutine.
func (s *session) begin(r *jobrun.Run, sent time.Time, lease time.Duration) {
	ctx, stop := context.WithCancelCause(context.Background())
	h := &held{run: *r, stop: stop}
	h.lease = time.AfterFunc(time.Until(sent.Add(lease-lease/10)), func() { stop(ErrLost) })
	s.mu.Lock()
	s.held[r.ID] = h
	s.mu.Unlock()
	s.busy.Go(func() {
		defer func() {
			s.mu.Lock()
			delete(s.held, r.ID)
			s.mu.Unlock()
			h.lease.Stop()
			stop(nil)
			s.w.signal()
		}()
		s.do(ctx, h)
	})
}

// do executes the command and reports the result.
func (s *session) do(ctx context.Context, h *held) {
	if h.run.TimeoutMS > 0 {
		var done context.CancelFunc
		ctx, done = context.WithTimeoutCause(ctx, time.Duration(h.run.TimeoutMS)*time.Millisecond, ErrTimedOut)
		defer done()
	}
	out := newLog(func(c jobrun.LogChunk) error {
		call, cancel := context.WithTimeout(context.WithoutCancel(ctx), 15*time.Second)
		defer cancel()
		_, err := s.w.cfg.Work.AppendLog(call, s.w.cfg.Tenant, h.run.ID, h.run.Fence(), c)
		return err
	})
	r := &Run{Run: h.run, Stdout: out.writer("stdout"), Stderr: out.writer("stderr"), held: h}
	result, err := s.call(ctx, r)
	out.close()
	cause := context.Cause(ctx)
	log := s.w.cfg.Log.With(slog.String("run_id", h.run.ID.String()))
	var report func(context.Context) error
	fence, tenant := h.run.Fence(), s.w.cfg.Tenant
	switch {
	case err != nil && errors.Is(cause, ErrLost):
		log.Debug("a run was lost")
		return
	case err != nil && errors.Is(cause, ErrCanceled):
		report = func(ctx context.Context) error {
			_, err := s.w.cfg.Work.AckCancel(ctx, tenant, h.run.ID, fence)
			return err
		}
	case err != nil && errors.Is(cause, ErrStopping):
		report = func(ctx context.Context) error {
			_, err := s.w.cfg.Work.Release(ctx, tenant, h.run.ID, fence, jobrun.Released{Reason: cause.Error()})
			return err
		}
	default:
		res := resultOf(tenant, h.run.ID, fence, r, result, err)
		if res.TimedOut = err != nil && errors.Is(cause, ErrTimedOut); res.TimedOut && res.Error.Code == codeOfError {
			res.Error.Code = jobrun.ErrTimedOut
		}
		report = func(ctx context.Context) error { return finish(ctx, s.w.cfg.Work, res) }
	}
	if err := insist(report); err != nil {
		log.Warn("the result of a run was rejected", slog.Any("error", err))
	}
}

// call executes the command of a run. A panic counts as a failure.
func (s *session) call(ctx context.Context, r *Run) (result json.RawMessage, err error) {
	defer func() {
		if p := recover(); p != nil {
			s.w.cfg.Log.Error("a command panicked", slog.String("run_id", r.ID.String()), slog.Any("panic", p),
				slog.String("stack", string(debug.Stack())))
			err = &Failure{Code: "PANIC", Message: fmt.Sprint(p)}
		}
	}()
	do := s.w.cfg.Commands[r.CommandName]
	if do == nil {
		return nil, &Failure{Code: "UNKNOWN_COMMAND", Message: "the node does not know the command " + r.CommandName}
	}
	return do(ctx, r)
}

// codeOfError is the default code for an error that has none.
const codeOfError = "ERROR"

func resultOf(tenant, run uuid.UUID, f jobrun.Fence, r *Run, value json.RawMessage, err error) jobrun.Result {
	res := jobrun.Result{TenantID: tenant, RunID: run, Fence: f, Value: value, ExitCode: r.ExitCode,
		Resources: r.Resources}
	if err == nil {
		return res
	}
	failure := &Failure{Code: codeOfError, Message: err.Error()}
	errors.As(err, &failure)
	told := jobrun.Error{Code: failure.Code, Message: failure.Message, Retryable: !failure.Permanent}
	res.Value, res.Error = nil, told.Storable("", &plaintext.Members{})
	return res
}

func finish(ctx context.Context, work jobrun.Work, res jobrun.Result) error {
	done, err := work.Finish(ctx, []jobrun.Result{res})
	if err != nil {
		return err
	}
	return done[0].Err
}

// insist repeats a call until its outcome is known. A refusal counts as an outcome.
func insist(call func(context.Context) error) error {
	for begun := time.Now(); ; {
		ctx, cancel := context.WithTimeout(context.Background(), 15*time.Second)
		err := call(ctx)
		cancel()
		if err == nil || fault.As(err) != nil || time.Since(begun) > reportFor {
			return err
		}
		loop.Sleep(context.Background(), tryAgain)
	}
}

// Run is a run as its command sees it.
type Run struct {
	jobrun.Run
	// Stdout and Stderr write to the log of the run. Writing never fails.
	Stdout, Stderr io.Writer
	// ExitCode and Resources are reported with the result if the command sets them.
	ExitCode  *int
	Resources jobrun.Resources

	held *held
}

// Report records the command's progress, and the checkpoint from which the next attempt would
// continue. The next heartbeat sends only the last report.
func (r *Run) Report(p jobrun.Progress, checkpoint json.RawMessage) {
	r.held.mu.Lock()
	defer r.held.mu.Unlock()
	r.held.progress, r.held.checkpoint = &p, checkpoint
}

// Failure is an error with more details than its text.
type Failure struct {
	Code      string
	Message   string
	Permanent bool // do not retry
}

func (f *Failure) Error() string { return f.Message }

// These are the causes with which the context of a command ends.
var (
	ErrCanceled = errors.New("cancellation of the run was requested")
	ErrLost     = errors.New("the run no longer belongs to this worker")
	ErrTimedOut = errors.New("the run has taken longer than its definition allows")
	ErrStopping = errors.New("the node is stopping")
)
