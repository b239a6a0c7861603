// Package jobworker is the worker inside a node. It executes Skald's own commands and, if
// permitted, programs. It follows the worker protocol (jobrun.md 5b) like any other worker, but
// uses jobrun.Work instead of HTTP.
package jobworker

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/google/uuid"

	"github.com/skald-saga/skald/internal/fault"
	"github.com/skald-saga/skald/internal/jobrun"
	"github.com/skald-saga/skald/internal/loop"
)

// Command executes a run. ctx ends, with a cause, when the worker no longer holds the run, when a
// cancel is requested, or when the run has timed out; the command must then return. The result is
// JSON, or nil.
type Command func(ctx context.Context, r *Run) (result json.RawMessage, err error)

// Config configures a Worker. Every field is required.
type Config struct {
	Work        jobrun.Work
	Settings    func(context.Context) (jobrun.Settings, error)
	Tenant      uuid.UUID
	Node        string
	Version     string
	Queues      []string
	Concurrency int
	Commands    map[string]Command
	NewID       func() uuid.UUID
	// Leave detaches the worker of a node that stops. Nothing of this worker is left to wait for.
	Leave func(ctx context.Context, worker uuid.UUID) error
	Log   *slog.Logger
}

// Worker runs the commands of one tenant. Run may be called only once.
type Worker struct {
	cfg   Config
	wake  chan struct{} // capacity 1
	epoch int64         // the newest epoch of an assignment; used only by the claiming goroutine
}

// New returns a worker. It does nothing until Run is called.
func New(cfg Config) *Worker { return &Worker{cfg: cfg, wake: make(chan struct{}, 1)} }

// Wake makes the worker claim runs immediately if it serves the queue.
func (w *Worker) Wake(tenant uuid.UUID, queue string) {
	if tenant == w.cfg.Tenant && slices.Contains(w.cfg.Queues, queue) {
		w.signal()
	}
}

func (w *Worker) signal() {
	select {
	case w.wake <- struct{}{}:
	default:
	}
}

// Run works until ctx ends. It then ends the contexts of its commands, releases the unfinished
// runs, and detaches the worker.
func (w *Worker) Run(ctx context.Context) {
	for ctx.Err() == nil {
		id, settings, err := w.register(ctx)
		if err == nil {
			s := &session{w: w, id: id, held: map[uuid.UUID]*held{}}
			s.work(ctx, settings)
			continue
		}
		if ctx.Err() == nil {
			w.cfg.Log.WarnContext(ctx, "the node's own worker cannot register", slog.Any("error", err))
		}
		loop.Sleep(ctx, tryAgain)
	}
}

func (w *Worker) register(ctx context.Context) (uuid.UUID, jobrun.Settings, error) {
	settings, err := w.cfg.Settings(ctx)
	if err != nil {
		return uuid.Nil, settings, err
	}
	p := jobrun.WorkerProcess{
		ID: w.cfg.NewID(), TenantID: w.cfg.Tenant, Version: 1, State: jobrun.WorkerActive, Name: "skald", Node: w.cfg.Node,
		SDK: "skald-embedded", SDKVersion: w.cfg.Version,
		Queues: w.cfg.Queues, Commands: slices.Sorted(maps.Keys(w.cfg.Commands)), MaxRuns: w.cfg.Concurrency,
		Labels: []string{},
	}
	return p.ID, settings, w.cfg.Work.Register(ctx, p)
}

// session is the period during which the worker has one id.
type session struct {
	w    *Worker
	id   uuid.UUID
	busy sync.WaitGroup

	mu   sync.Mutex
	held map[uuid.UUID]*held
}

// work claims and executes runs until ctx ends or the id is detached. A detached worker finishes
// its runs, as the worker library does: no other worker has these runs, and their leases end as
// granted. It releases in time the runs that take longer.
func (s *session) work(ctx context.Context, settings jobrun.Settings) {
	here, end := context.WithCancel(ctx)
	defer end()
	var beating sync.WaitGroup
	beats, stopBeats := context.WithCancel(context.WithoutCancel(ctx))
	beating.Go(func() { s.beat(beats, settings.Seconds(jobrun.HeartbeatInterval), end) })
	for here.Err() == nil {
		if n := s.room(); n == 0 || !s.claim(here, n) {
			loop.Await(here, loop.Jittered(lookEvery), s.w.wake)
		}
	}
	done := make(chan struct{})
	go func() { s.busy.Wait(); close(done) }()
	loop.Await(ctx, settings.Seconds(jobrun.RunLease)/2, done)
	s.each(func(h *held) { h.stop(ErrStopping) })
	<-done
	stopBeats()
	beating.Wait()
	if ctx.Err() != nil {
		s.leave(ctx)
	}
}

// leave detaches the worker. If that fails, the worker becomes LOST after a while.
func (s *session) leave(ctx context.Context) {
	bounded, cancel := context.WithTimeout(context.WithoutCancel(ctx), confirmFor)
	defer cancel()
	if err := s.w.cfg.Leave(bounded, s.id); err != nil {
		s.w.cfg.Log.WarnContext(ctx, "cannot detach the node's own worker", slog.Any("error", err))
	}
}

// room returns how many more runs the worker can execute now.
func (s *session) room() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.w.cfg.Concurrency - len(s.held)
}

func (s *session) each(f func(*held)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, h := range s.held {
		f(h)
	}
}

// claim claims up to n runs and executes them. It returns false if there are no more for now. The
// runs are started before they are executed, because no run may be executed without the server's
// consent (J-26).
func (s *session) claim(ctx context.Context, n int) (more bool) {
	offers, err := s.w.cfg.Work.Claim(ctx, jobrun.ClaimRequest{TenantID: s.w.cfg.Tenant, WorkerID: s.id, Slots: n})
	if err != nil || len(offers) == 0 {
		if err != nil && ctx.Err() == nil && fault.KindOf(err) != fault.Gone { // heartbeats handle Gone
			s.w.cfg.Log.WarnContext(ctx, "the node's own worker cannot claim runs", slog.Any("error", err))
		}
		return false
	}
	asked := len(offers) == n
	if offers = s.current(ctx, offers); len(offers) == 0 {
		return false
	}
	fences := make([]jobrun.RunFence, len(offers))
	for i := range offers {
		fences[i] = jobrun.RunFence{RunID: offers[i].ID, Fence: offers[i].Fence()}
	}
	settings, err := s.w.cfg.Settings(ctx)
	if err != nil {
		return false
	}
	sent := time.Now()
	done, err := s.w.cfg.Work.Start(context.WithoutCancel(ctx), s.w.cfg.Tenant, fences)
	if err != nil {
		s.w.cfg.Log.WarnContext(ctx, "cannot start runs", slog.Any("error", err)) // their leases will expire
		return false
	}
	for i := range done {
		if done[i].Err == nil {
			s.begin(&offers[i].Run, sent, settings.Seconds(jobrun.RunLease))
		}
	}
	return asked
}

// current returns the runs that were assigned under the newest epoch that this process has seen,
// and releases the others. Epochs never fall. A node that assigns under an older epoch therefore
// does not know the current leader: its database is an abandoned or restored copy, and in the
// current database another worker may have the run.
func (s *session) current(ctx context.Context, offers []jobrun.Offer) (current []jobrun.Offer) {
	for i := range offers {
		r := &offers[i].Run
		f := r.Fence()
		if s.w.epoch = max(s.w.epoch, f.LeaderEpoch); f.LeaderEpoch == s.w.epoch {
			current = append(current, offers[i])
			continue
		}
		s.w.cfg.Log.ErrorContext(ctx, "refused a run of an older epoch: is this database an abandoned copy? "+
			"After a restore from a backup, restart the nodes", slog.String("run_id", r.ID.String()),
			slog.Int64("epoch", f.LeaderEpoch), slog.Int64("seen", s.w.epoch))
		reason := fmt.Sprintf("epoch %d is older than epoch %d, which the worker has already seen", f.LeaderEpoch, s.w.epoch)
		_, _ = s.w.cfg.Work.Release(context.WithoutCancel(ctx), s.w.cfg.Tenant, r.ID, f,
			jobrun.Released{Reason: reason}) // otherwise its lease expires
	}
	return current
}

// beat sends heartbeats until ctx ends or the server no longer knows the id; in the latter case it
// calls gone.
func (s *session) beat(ctx context.Context, interval time.Duration, gone func()) {
	for seq := int64(1); ctx.Err() == nil; seq++ {
		var beats []jobrun.Beat
		s.each(func(h *held) { beats = append(beats, h.beat()) })
		settings, err := s.w.cfg.Settings(ctx)
		sent := time.Now()
		if err == nil {
			interval = settings.Seconds(jobrun.HeartbeatInterval)
			bounded, cancel := context.WithTimeout(ctx, max(interval, time.Second))
			_, leases, beatErr := s.w.cfg.Work.Heartbeat(bounded, s.w.cfg.Tenant, s.id, seq, 0, beats)
			cancel()
			if err = beatErr; err == nil {
				s.renew(leases, sent, settings.Seconds(jobrun.RunLease))
			}
		}
		if fault.KindOf(err) == fault.Gone {
			s.w.cfg.Log.WarnContext(ctx, "the node's own worker was detached; finishing its runs and registering again")
			gone()
			s.confirm(ctx)
			return
		}
		if err != nil && ctx.Err() == nil {
			s.w.cfg.Log.WarnContext(ctx, "heartbeat of the node's own worker failed", slog.Any("error", err))
		}
		loop.Sleep(ctx, interval)
	}
}

// confirm confirms the runs of the detached worker, and stops the runs that it may not keep. It
// does not extend their leases.
func (s *session) confirm(ctx context.Context) {
	var doubted []*held
	s.each(func(h *held) { doubted = append(doubted, h) })
	for _, h := range doubted {
		bounded, cancel := context.WithTimeout(ctx, confirmFor)
		_, err := s.w.cfg.Work.Confirm(bounded, s.w.cfg.Tenant, h.run.ID, h.run.Fence())
		cancel()
		if fault.As(err) != nil {
			h.stop(ErrLost)
		}
	}
}

func (s *session) renew(leases []jobrun.Lease, sent time.Time, lease time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, l := range leases {
		h := s.held[l.RunID]
		switch {
		case h == nil:
		case !l.OK:
			h.stop(ErrLost)
		default:
			h.renew(sent, lease)
			if l.CancelRequested {
				h.stop(ErrCanceled)
			}
		}
	}
}
