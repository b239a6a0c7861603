package scheduler

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/skald-saga/skald/internal/failpoint"
	"github.com/skald-saga/skald/internal/fault"
	"github.com/skald-saga/skald/internal/jobrun"
	"github.com/skald-saga/skald/internal/loop"
	"github.com/skald-saga/skald/internal/loop/lease"
)

const (
	// turn is the maximum time that one sweep gets within a round while it has more to do.
	turn = 2 * time.Second
	// wakeEvery is the shortest interval between two rounds started by Wake.
	wakeEvery = 20 * time.Millisecond
	// countEvery is how often the backlog is counted.
	countEvery = 15 * time.Second
)

// term is a term of this node as leader, and the progress made in it.
type term struct {
	jobrun.Term
	progress *lease.Progress
}

// lead executes the sweeps of a term until ctx ends. It returns false if the node could not start,
// in which case none of the sweeps run (F48), or if the term was over.
func (s *Scheduler) lead(ctx context.Context, is jobrun.Term, p *lease.Progress) bool {
	t := term{is, p}
	if err := s.prepare(ctx, t.Term); err != nil {
		if ctx.Err() == nil {
			s.cfg.Log.WarnContext(ctx, "cannot start the leader's term", slog.Int64("epoch", t.Epoch), slog.Any("error", err))
		}
		return ctx.Err() != nil
	}
	ctx, cancel := context.WithCancel(ctx)
	var counting sync.WaitGroup
	defer counting.Wait()
	defer cancel()
	counting.Go(func() { s.count(ctx) })
	all := s.sweeps()
	var prompt []Sweep
	for _, sweep := range all {
		if sweep.Prompt {
			prompt = append(prompt, sweep)
		}
	}
	next := time.Now()
	for {
		set := s.settings(ctx)
		round := prompt
		if due := !time.Now().Before(next); due {
			round, next = all, time.Now().Add(set.Seconds(jobrun.LeaderTick))
		}
		more, over := s.round(ctx, t, round, len(round) == len(all), set)
		switch {
		case ctx.Err() != nil:
			return true
		case over:
			return false
		case more:
			next = time.Now()
			continue
		}
		s.await(ctx, next)
	}
}

// prepare checks that this node can do the leader's work.
func (s *Scheduler) prepare(ctx context.Context, t jobrun.Term) error {
	bounded, cancel := context.WithTimeout(ctx, s.cfg.Timeout)
	defer cancel()
	if _, err := s.cfg.Settings(bounded); err != nil {
		return err
	}
	s.slots.forget()
	return s.cfg.Sweeps.Swept(bounded, t)
}

// await waits for the next sweep or wake-up, but at least for wakeEvery.
func (s *Scheduler) await(ctx context.Context, next time.Time) {
	loop.Sleep(ctx, min(wakeEvery, time.Until(next)))
	loop.Await(ctx, time.Until(next), s.wake)
}

// round executes the sweeps in order. It logs a failure and continues with the next sweep. more
// reports that a sweep had not finished when its turn ended, and over reports that the term is
// over.
func (s *Scheduler) round(ctx context.Context, t term, sweeps []Sweep, full bool,
	set jobrun.Settings) (more, over bool) {
	good := true
	for _, sweep := range sweeps {
		if ctx.Err() != nil {
			return false, false
		}
		unfinished, err := s.sweep(ctx, t, sweep, set)
		switch f := fault.As(err); {
		case err == nil:
			more = more || unfinished
		case ctx.Err() != nil:
			return false, false
		case f != nil && f.Code == jobrun.CodeNoLeader:
			s.cfg.Log.WarnContext(ctx, "the leader's term is over", slog.Int64("epoch", t.Epoch))
			return false, true
		default:
			good = false
			s.cfg.Log.WarnContext(ctx, "scheduler sweep failed", slog.String("sweep", sweep.Name), slog.Any("error", err))
		}
	}
	if !good || !full {
		return more, false
	}
	bounded, cancel := context.WithTimeout(ctx, s.cfg.Timeout)
	defer cancel()
	if err := s.cfg.Sweeps.Swept(bounded, t.Term); err != nil {
		f := fault.As(err)
		return more, f != nil && f.Code == jobrun.CodeNoLeader
	}
	t.progress.Made()
	s.cfg.Observer.Round()
	return more, false
}

// sweep executes one sweep until it has nothing left to do or its turn ends.
func (s *Scheduler) sweep(ctx context.Context, t term, sweep Sweep, set jobrun.Settings) (more bool, err error) {
	began, moved := time.Now(), 0
	defer func() { s.cfg.Observer.Swept(sweep.Name, moved, time.Since(began), err) }()
	for {
		point := failpoint.SchedSweep
		if sweep.Name == "admit" {
			point = failpoint.SchedAdmit
		}
		if err := failpoint.Hit(point); err != nil {
			return false, err
		}
		call, cancel := context.WithTimeout(ctx, s.cfg.Timeout)
		swept, err := sweep.Run(call, t.Term, set, set.Int(jobrun.SweepLimit))
		cancel()
		moved += swept.Moved
		for _, f := range swept.Failed {
			s.complain(ctx, sweep.Name, f)
		}
		if err != nil {
			return false, err
		}
		t.progress.Made()
		if !swept.More {
			return false, nil
		}
		if time.Since(began) > turn {
			return true, nil
		}
	}
}

// complain logs the items that a sweep could not process. It does so at growing intervals, because
// they fail in every round until they are repaired.
func (s *Scheduler) complain(ctx context.Context, sweep string, f jobrun.Failure) {
	if s.told.Due(f.ID.String(), time.Now()) {
		s.cfg.Log.WarnContext(ctx, "the scheduler cannot continue a "+f.What, slog.String("sweep", sweep),
			slog.String("id", f.ID.String()), slog.Any("error", f.Err))
	}
}

// count reports the backlog to the observer until ctx ends.
func (s *Scheduler) count(ctx context.Context) {
	for ctx.Err() == nil {
		bounded, cancel := context.WithTimeout(ctx, s.cfg.Timeout)
		b, err := s.cfg.Sweeps.Backlog(bounded)
		cancel()
		if err == nil {
			s.cfg.Observer.Backlog(b)
		}
		loop.Sleep(ctx, countEvery)
	}
}
