package redrive

import (
	"context"
	"log/slog"
	"time"

	"github.com/skald-saga/skald/internal/dlq"
	"github.com/skald-saga/skald/internal/failpoint"
	"github.com/skald-saga/skald/internal/loop"
)

// reclaim ends retries whose node is gone.
func (r *Redriver) reclaim(ctx context.Context) {
	if r.batches(ctx, "cannot reclaim dead letters", r.withChance(r.cfg.Queue.Reclaim), r.cfg.Observer.Reclaimed) {
		r.cfg.Observer.Loop(LoopReclaim)
	}
}

// upkeep archives and purges letters, and deletes old counts.
func (r *Redriver) upkeep(ctx context.Context) {
	r.cfg.Round(ctx, func(ctx context.Context) {
		_, archived := r.Archive(ctx)
		if _, purged := r.Purge(ctx); archived && purged {
			r.cfg.Observer.Loop(LoopUpkeep)
		}
	})
}

// Archive moves letters past their retention to the archive and returns their number. ok is false
// if an error stopped it.
func (r *Redriver) Archive(ctx context.Context) (archived int, ok bool) {
	ok = r.batches(ctx, "cannot archive dead letters", func(ctx context.Context, limit int) (int, error) {
		n, err := r.cfg.Queue.Archive(ctx, limit)
		if err == nil && n > 0 {
			err = failpoint.Hit(failpoint.LetterMidArchive)
		}
		return n, err
	}, func(n int) { archived += n; r.cfg.Observer.Archived(n) })
	if archived > 0 {
		r.cfg.Log.InfoContext(ctx, "dead letters archived", slog.Int("count", archived))
	}
	return archived, ok
}

// Purge deletes archived letters past their retention and old counts of arrivals, and returns the
// number of letters. ok is false if an error stopped it.
func (r *Redriver) Purge(ctx context.Context) (purged int, ok bool) {
	ok = r.batches(ctx, "cannot purge archived dead letters", r.cfg.Queue.Purge, func(n int) { purged += n; r.cfg.Observer.Purged(n) })
	return purged, r.batches(ctx, "cannot expire counts of dead letters", r.cfg.Queue.Expire, func(int) {}) && ok
}

// withChance calls f with the randomness that its rules need.
func (r *Redriver) withChance(f func(context.Context, int, dlq.Chance) (int,
	error)) func(context.Context, int) (int, error) {
	return func(ctx context.Context, limit int) (int, error) { return f(ctx, limit, r.chance()) }
}

// batches calls f until it finds nothing more. It returns false after an error.
func (r *Redriver) batches(ctx context.Context, message string, f func(context.Context, int) (int, error),
	found func(int)) bool {
	for ctx.Err() == nil {
		n, err := f(ctx, r.cfg.Batch)
		if n > 0 {
			found(n)
		}
		if err != nil {
			r.warn(ctx, message, err)
			return false
		}
		if n < r.cfg.Batch {
			return true
		}
	}
	return false
}

// releases periodically releases letters that are no longer held by any policy. If many topics have
// held letters, it looks less often.
func (r *Redriver) releases(ctx context.Context) {
	for ctx.Err() == nil {
		began := time.Now()
		freed := 0
		if r.batches(ctx, "cannot release held dead letters", r.withChance(r.cfg.Queue.Release), func(n int) { freed += n }) && freed > 0 {
			r.cfg.Log.InfoContext(ctx, "held dead letters released", slog.Int("count", freed))
			r.Wake()
		}
		loop.Sleep(ctx, loop.Jittered(min(max(r.cfg.Poll, 20*time.Since(began)), time.Minute)))
	}
}

// Counting waiting letters reads all of them, which takes some seconds for a million. It may
// therefore use at most a hundredth of the time, but runs at least once per longest interval.
const (
	countEvery   = 15 * time.Second
	countShare   = 100
	countAtLeast = 5 * time.Minute
)

// counts periodically reports to the Observer how many letters are waiting.
func (r *Redriver) counts(ctx context.Context) {
	for ctx.Err() == nil {
		began := time.Now()
		r.count(ctx)
		loop.Sleep(ctx, loop.Jittered(min(max(countEvery, countShare*time.Since(began)), countAtLeast)))
	}
}

func (r *Redriver) count(ctx context.Context) {
	b, err := r.cfg.Queue.Backlog(ctx)
	if err != nil {
		r.warn(ctx, "cannot count dead letters", err)
		return
	}
	r.cfg.Observer.Backlog(b)
}
