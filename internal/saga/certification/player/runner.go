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
	// Inbox has what participants report to callbacks, whose URLs Callback returns; "": they reach no node.
	Inbox    certification.Inbox
	Callback func(certification.Callback) string
	Now      func() time.Time
	NewID    func() uuid.UUID
	Round    func() // called after each look at the database
	Log      *slog.Logger
}

// Bounds of the examinations of a node.
const (
	places     = 2                // examined at once
	look       = 2 * time.Second  // for certifications of other nodes
	lease      = 30 * time.Second // of a node on what it examines
	holdEvery  = 2 * time.Second  // the lease is extended, and the progress stored
	longest    = 5 * time.Minute  // one examination, beside its races
	storing    = 10 * time.Second
	defaultFor = 10 * time.Second // one call
)

var errUnreachable = errors.New("participants cannot report to this node: set server.public_url")

var errLost = errors.New("it was canceled, or another node has it")

// Runner examines participants that were asked for by the API: the nodes take what waits from the database, and hold
// it by a lease. What a node leaves behind that dies is begun again by another: all calls then have new ids.
type Runner struct {
	cfg  RunnerConfig
	wake chan struct{}
}

// NewRunner returns a Runner that does nothing until Run.
func NewRunner(cfg RunnerConfig) *Runner { return &Runner{cfg, make(chan struct{}, 1)} }

// Wake makes it look for work now.
func (r *Runner) Wake() {
	select {
	case r.wake <- struct{}{}:
	default:
	}
}

// Run examines participants until ctx ends, and then gives back what it has not finished.
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

// take begins one examination, and reports whether to look for another one at once.
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
	room <- struct{}{} // only this loop fills it
	busy.Go(func() {
		defer func() {
			<-room
			r.Wake()
		}()
		r.examine(ctx, c, token)
	})
	return true
}

// examine examines one participant, and stores how it ended.
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
		if err := r.cfg.Queue.Return(keep, c, token); err != nil { // then its lease ends
			r.cfg.Log.WarnContext(ctx, "a certification could not be given back", slog.Any("error", err))
		}
		return
	}
	c.Planned = int(planned.Load())
	err := c.Done(report, why, r.cfg.Now())
	if err == nil {
		err = r.cfg.Queue.End(keep, c, token)
	}
	if err != nil { // its lease ends, and it is examined again
		r.cfg.Log.WarnContext(ctx, "the end of a certification could not be stored",
			slog.String("certification_id", c.ID.String()), slog.Any("error", err))
	}
}

// run examines the participant of a certification.
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

// hold extends the lease and stores the progress until done. An examination that the node no longer holds stops.
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
