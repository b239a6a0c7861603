// Package scheduler is the leader's loop for job runs: it creates runs for slots, admits them, and
// ends or orphans those that are late or lost (requirements/jobrun.md, 5b). Every node runs it, and
// one of them leads. The rules are in package jobrun, the computation of slots is in package
// schedule, and the statements of the sweeps are in the store.
//
// A leader relies on its lease, measured by its own monotonic clock, until shortly before the lease
// ends. If its term is already over, the store refuses its writes (J5). It stops as soon as a
// renewal fails or another node leads. Running runs then continue; only new assignments
// stop.
package scheduler

import (
	"cmp"
	"context"
	"log/slog"
	"time"

	"github.com/google/uuid"

	"github.com/skald-saga/skald/internal/failpoint"
	"github.com/skald-saga/skald/internal/jobrun"
	"github.com/skald-saga/skald/internal/loop"
	"github.com/skald-saga/skald/internal/loop/lease"
)

// Sweep is a task that the leader executes in every round.
type Sweep struct {
	Name string
	// Run executes a part of the sweep. If there is more to do, it is called again.
	Run func(ctx context.Context, t jobrun.Term, s jobrun.Settings, limit int) (jobrun.Swept, error)
	// Prompt sweeps also run when the scheduler is woken (Wake).
	Prompt bool
}

// Config configures a Scheduler. Elections, Sweeps, Settings, ID, Node, NewID and Log are required.
// The comments on the other fields describe the meaning of zero.
type Config struct {
	Elections jobrun.Elections
	Sweeps    jobrun.Sweeps
	// Settings returns the current settings; it is called in every round.
	Settings func(context.Context) (jobrun.Settings, error)
	ID       uuid.UUID // of this process; new at every start
	Node     string
	NewID    func() uuid.UUID
	Log      *slog.Logger

	// More lists additional sweeps: events, backfills, bulks.
	More []Sweep
	// Timeout bounds each store call (F44); 0 means 10 s.
	Timeout time.Duration
	// Stalled is how long a leader may fail to finish a sweep before it steps down, so that another
	// node can try; 0 means 1 min.
	Stalled time.Duration

	Observer Observer
}

// Observer receives events. Nil functions are not called.
type Observer struct {
	// Leads is called when this node starts or stops leading.
	Leads func(leads bool, epoch int64)
	// Swept is called after each sweep of a round.
	Swept func(name string, moved int, took time.Duration, err error)
	// Round is called after each round in which no sweep failed (O5).
	Round func()
	// Backlog is called by the leader every 15 s.
	Backlog func(jobrun.Backlog)
}

// Scheduler runs the loop. It is safe for concurrent use.
type Scheduler struct {
	cfg   Config
	wake  chan struct{} // capacity 1
	slots *slots
	told  loop.Complaints
}

// New returns a scheduler that does nothing until Run is called.
func New(cfg Config) *Scheduler {
	cfg.Timeout, cfg.Stalled = cmp.Or(cfg.Timeout, 10*time.Second), cmp.Or(cfg.Stalled, time.Minute)
	o := &cfg.Observer
	if o.Leads == nil {
		o.Leads = func(bool, int64) {}
	}
	if o.Swept == nil {
		o.Swept = func(string, int, time.Duration, error) {}
	}
	if o.Round == nil {
		o.Round = func() {}
	}
	if o.Backlog == nil {
		o.Backlog = func(jobrun.Backlog) {}
	}
	return &Scheduler{
		cfg: cfg, wake: make(chan struct{}, 1),
		slots: &slots{store: cfg.Sweeps, newID: cfg.NewID, log: cfg.Log, timeout: cfg.Timeout},
	}
}

// Wake makes the leader look for runs that wait for a concurrency key and for published events
// immediately, without waiting for the next sweep. On other nodes it does nothing.
func (s *Scheduler) Wake() {
	select {
	case s.wake <- struct{}{}:
	default:
	}
}

// Run takes part in elections, and leads while elected, until ctx ends. Then it steps down, so that
// another node can lead immediately, and returns.
func (s *Scheduler) Run(ctx context.Context) {
	lease.Election[jobrun.Term]{
		TTL:      func(ctx context.Context) time.Duration { return s.settings(ctx).Seconds(jobrun.LeaderTTL) },
		Acquire:  s.acquire(),
		StepDown: s.cfg.Elections.StepDown,
		Lead:     s.lead,
		Leads:    func(leads bool, t jobrun.Term) { s.cfg.Observer.Leads(leads, t.Epoch) },
		Stalled:  s.cfg.Stalled,
		Log:      s.cfg.Log.With(slog.String("leader_of", "job scheduler")),
	}.Run(ctx)
	call, cancel := context.WithTimeout(context.WithoutCancel(ctx), 3*time.Second)
	defer cancel()
	if err := s.cfg.Elections.Gone(call, s.cfg.ID); err != nil {
		s.cfg.Log.WarnContext(ctx, "cannot remove this node from the list of schedulers", slog.Any("error", err))
	}
}

// acquire returns a function that renews or takes the leader's lease, with failpoints before a
// renewal and after taking the lease.
func (s *Scheduler) acquire() func(context.Context, time.Duration) (jobrun.Term, bool, error) {
	var led jobrun.Term // the term held at the last call; zero: none
	return func(ctx context.Context, ttl time.Duration) (t jobrun.Term, leads bool, err error) {
		if led != (jobrun.Term{}) {
			err = failpoint.Hit(failpoint.LeaderRenew)
		}
		if err == nil {
			t, leads, err = s.cfg.Elections.Acquire(ctx, s.cfg.ID, s.cfg.Node, ttl)
		}
		if err == nil && leads && t != led {
			err = failpoint.Hit(failpoint.LeaderAcquireAfter)
		}
		if err != nil || !leads {
			led = jobrun.Term{}
			return t, false, err
		}
		led = t
		return t, true, nil
	}
}

// sweeps returns the sweeps of a round in order. Lost and ended runs free keys first, and admission
// comes last. A new sweep is one line here.
func (s *Scheduler) sweeps() []Sweep {
	st := s.cfg.Sweeps
	all := []Sweep{
		{"slots", s.slots.make, false},
		{"reconcile", s.slots.reconcile, false},
		{"orphan", st.Orphan, false},
		{"doubt", st.Doubt, false},
		{"lose", st.Lose, false},
		{"time_out", st.TimeOut, false},
		{"end_canceled", st.EndCanceled, true},
		{"workers", st.WatchWorkers, false},
	}
	all = append(all, s.cfg.More...)
	return append(all, Sweep{"admit", st.Admit, true})
}

// Sweeps returns the names of the sweeps.
func (s *Scheduler) Sweeps() (names []string) {
	for _, sweep := range s.sweeps() {
		names = append(names, sweep.Name)
	}
	return names
}

// settings returns the settings. If they cannot be read, it returns the defaults, because an
// election must not fail for that reason.
func (s *Scheduler) settings(ctx context.Context) jobrun.Settings {
	bounded, cancel := context.WithTimeout(ctx, s.cfg.Timeout)
	defer cancel()
	set, err := s.cfg.Settings(bounded)
	if err != nil {
		if ctx.Err() == nil {
			s.cfg.Log.WarnContext(ctx, "cannot read the job settings; using the defaults", slog.Any("error", err))
		}
		return jobrun.NewSettings(0, nil)
	}
	return set
}
