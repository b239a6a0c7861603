package player

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/google/uuid"

	"github.com/skald-saga/skald/internal/loop"
	"github.com/skald-saga/skald/internal/saga/certification"
)

// RunnerConfig configures a Runner. Every field is required.
type RunnerConfig struct {
	Queue certification.Queue
	// Reach says how participants are called: Dial, TLS, Keys and Version.
	Reach func() Config
	// Inbox holds the reports that participants send to callbacks. Callback returns the URL of a
	// callback, or "" if participants cannot reach any node.
	Inbox    certification.Inbox
	Callback func(certification.Callback) string
	Now      func() time.Time
	NewID    func() uuid.UUID
	Round    func() // called after each poll of the database
	Log      *slog.Logger
}

// Limits for the tests that a node runs.
const (
	places     = 2                // tests running at once
	look       = 2 * time.Second  // interval of the polls for certifications of other nodes
	lease      = 30 * time.Second // lease of a node on a certification
	holdEvery  = 2 * time.Second  // interval at which the lease is extended and the progress stored
	longest    = 5 * time.Minute  // one test, not counting its races
	storing    = 10 * time.Second
	defaultFor = 10 * time.Second // one call
)

var errUnreachable = errors.New("participants cannot report to this node: set server.public_url")

var errLost = errors.New("the certification was canceled, or another node has taken it over")

// Runner runs the tests that were requested through the API. The nodes take pending certifications
// from the database and hold them by a lease. If a node dies, another one starts the certification
// from the beginning, and all calls get new ids.
type Runner struct {
	cfg  RunnerConfig
	wake chan struct{}
}

// NewRunner returns a Runner that does nothing before Run is called.
func NewRunner(cfg RunnerConfig) *Runner { return &Runner{cfg, make(chan struct{}, 1)} }

// Wake makes the Runner look for work immediately.
func (r *Runner) Wake() {
	select {
	case r.wake <- struct{}{}:
	default:
	}
}

// Run runs tests until ctx ends, and then returns the unfinished certifications to the queue.
func (r *Runner) Run(ctx context.Context) {
	room := make(chan struct{}, places)
	var busy sync.WaitGroup
	defer busy.Wait()
	for ctx.Err() == nil {
		full := len(room) == cap(room)
		if full {
			r.cfg.Round()
		}
		if full || !r.take(ctx, room, &busy) {
			loop.Await(ctx, loop.Jittered(look), r.wake)
		}
	}
}

// take starts one certification, and reports whether to look for another one immediately.
func (r *Runner) take(ctx context.Context, room chan struct{}, busy *sync.WaitGroup) bool {
	token := r.cfg.NewID()
	c, err := r.cfg.Queue.Take(ctx, token, lease)
	if err == nil {
		r.cfg.Round()
	}
	if err != nil || c == nil {
		if err != nil && ctx.Err() == nil {
			r.cfg.Log.WarnContext(ctx, "cannot look for certifications", slog.Any("error", err))
		}
		return false
	}
	room <- struct{}{} // cannot block, because only this loop fills it
	busy.Go(func() {
		defer func() {
			<-room
			r.Wake()
		}()
		r.examine(ctx, c, token)
	})
	return true
}

// examine tests one participant and stores the result.
func (r *Runner) examine(ctx context.Context, c *certification.Certification, token uuid.UUID) {
	work, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	bounded, cancel := context.WithTimeout(work, longest+time.Duration(c.RaceSeconds)*time.Second)
	defer cancel()
	var played, planned atomic.Int64
	var holding sync.WaitGroup
	done := make(chan struct{})
	holding.Go(func() { r.hold(work, *c, token, &played, &planned, done, stop) })
	cfg := r.cfg.Reach()
	cfg.URL, cfg.Compensation, cfg.Effects = c.URL, c.Asked.Compensation, c.Effects
	cfg.Step, cfg.Payload = c.Step, c.Payload
	cfg.RaceFor, cfg.Robust, cfg.Tenant = time.Duration(c.RaceSeconds)*time.Second, true, c.TenantID.String()
	if cfg.Timeout = time.Duration(c.TimeoutMS) * time.Millisecond; cfg.Timeout == 0 {
		cfg.Timeout = defaultFor
	}
	cfg.Progress = func(n, of int) { played.Store(int64(n)); planned.Store(int64(of)) }
	report, why := r.run(bounded, c, token, cfg)
	close(done)
	holding.Wait()
	if errors.Is(context.Cause(work), errLost) {
		return
	}
	keep, cancelKeep := context.WithTimeout(context.WithoutCancel(ctx), storing)
	defer cancelKeep()
	if ctx.Err() != nil {
		if err := r.cfg.Queue.Return(keep, c, token); err != nil { // then its lease expires
			r.cfg.Log.WarnContext(ctx, "cannot return a certification to the queue", slog.Any("error", err))
		}
		return
	}
	c.Planned = int(planned.Load())
	err := c.Done(report, why, r.cfg.Now())
	if err == nil {
		err = r.cfg.Queue.End(keep, c, token)
	}
	if err != nil { // its lease expires, and the test is started again
		r.cfg.Log.WarnContext(ctx, "cannot store the end of a certification",
			slog.String("certification_id", c.ID.String()), slog.Any("error", err))
	}
}

// run tests the participant of a certification.
func (r *Runner) run(
	ctx context.Context, c *certification.Certification, token uuid.UUID, cfg Config,
) (certification.Report, error) {
	if cfg.Later = c.Later; cfg.Later {
		cfg.LaterFor = time.Duration(c.LaterMS) * time.Millisecond
		at := &inbox{r.cfg.Inbox, r.cfg.Callback, c, token}
		if cfg.Reports = at; at.Callback("", false, false) == "" {
			return certification.Report{}, errUnreachable
		}
	}
	return Run(ctx, cfg)
}

// hold extends the lease and stores the progress until done. It stops a test whose lease the node
// has lost.
func (r *Runner) hold(ctx context.Context, c certification.Certification, token uuid.UUID,
	played, planned *atomic.Int64, done <-chan struct{}, stop context.CancelCauseFunc) {
	until := time.Now().Add(lease)
	for {
		loop.Await(ctx, holdEvery, done)
		select {
		case <-done:
			return
		case <-ctx.Done():
			return
		default:
		}
		c.Played, c.Planned = int(played.Load()), int(planned.Load())
		began := time.Now()
		bounded, cancel := context.WithTimeout(ctx, holdEvery)
		held, err := r.cfg.Queue.Hold(bounded, &c, token, lease)
		cancel()
		switch {
		case err == nil && held:
			until = began.Add(lease)
		case err == nil, time.Now().After(until):
			stop(errLost)
			return
		}
	}
}
