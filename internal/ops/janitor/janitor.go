// Package janitor does periodic work on every node: it checks that no saga is forgotten, marks
// sagas that make no progress as needing attention, deletes old idempotency keys, measures the
// tables, rolls up the statistics and archives expired rows. Several nodes may run it at once.
package janitor

import (
	"context"
	"log/slog"
	"time"

	"github.com/skald-saga/skald/internal/fault"
	"github.com/skald-saga/skald/internal/loop"
	"github.com/skald-saga/skald/internal/ops/storage"
	"github.com/skald-saga/skald/internal/saga"
)

// Store is what the janitor needs from the database.
type Store interface {
	Stuck(ctx context.Context) (stuck int, live map[saga.State]int, err error)
	Neglected(ctx context.Context, q saga.NeglectedQuery) (page []saga.Stalled, next saga.Ref, err error)
	ExpireKeys(ctx context.Context, keep time.Duration) (int64, error)
	RollUp(ctx context.Context) error
}

// Config configures Run. Store and Log are required.
type Config struct {
	Store   Store
	Log     *slog.Logger
	Check   time.Duration // 15 s: how often unfinished sagas are counted and statistics rolled up
	KeepKey time.Duration // 48 h: how long an idempotency key is kept; the API promises 24 h
	// Counted is called with the result of each check. Optional.
	Counted func(stuck int, live map[saga.State]int)
	// Storage returns the sizes of the tables. Measured is called with them after the first pause
	// and then every five minutes. If nil, tables are not measured.
	Storage  func(context.Context) (storage.Storage, error)
	Measured func(storage.Storage)

	// Commit writes one change; see saga.Store. The janitor uses it to set Saga.NeedsAttention on
	// sagas that make no progress; nil means that it does not.
	Commit func(context.Context, saga.Change) error
	Now    func() time.Time
	// A saga makes no progress if it is due and has not changed for StalledAfter (15 min), or if
	// StalledFailures (20) attempts of a call have failed in a row.
	StalledAfter    time.Duration
	StalledFailures int
	// Raised is called for each saga that was marked as needing attention, with the reason.
	// Optional.
	Raised func(reason string)
}

const measureEvery = 5 * time.Minute

// raiseRest is the length of the pause after a search for sagas that make no progress, as a
// multiple of the duration of the search. The search reads every unfinished saga: with a million
// sagas waiting for a participant it took 3.7 s, a quarter of a core every 15 s.
const raiseRest = 20

// Run works until ctx ends.
func Run(ctx context.Context, cfg Config) {
	if cfg.Check == 0 {
		cfg.Check = 15 * time.Second
	}
	if cfg.KeepKey == 0 {
		cfg.KeepKey = 48 * time.Hour
	}
	if cfg.Counted == nil {
		cfg.Counted = func(int, map[saga.State]int) {}
	}
	if cfg.StalledAfter == 0 {
		cfg.StalledAfter = 15 * time.Minute
	}
	if cfg.StalledFailures == 0 {
		cfg.StalledFailures = 20
	}
	if cfg.Raised == nil {
		cfg.Raised = func(string) {}
	}
	// Work that concerns waiting sagas starts at once, the rest after the first pause. Otherwise
	// nodes that start one after the other, as in a rolling update, would all measure hundreds of
	// tables and indexes while they take over each other's sagas.
	work := upkeep{Config: cfg}
	for {
		check(ctx, cfg)
		if cfg.Commit != nil && !time.Now().Before(work.raiseAgain) {
			begun := time.Now()
			raise(ctx, cfg)
			work.raiseAgain = time.Now().Add(raiseRest * time.Since(begun))
		}
		if !loop.Sleep(ctx, loop.Jittered(cfg.Check)) {
			return
		}
		work.round(ctx)
	}
}

// upkeep is the work that is not urgent.
type upkeep struct {
	Config
	keysExpired, measured, raiseAgain time.Time
}

func (u *upkeep) round(ctx context.Context) {
	if err := u.Store.RollUp(ctx); err != nil && ctx.Err() == nil {
		u.Log.WarnContext(ctx, "cannot roll up the statistics", slog.Any("error", err))
	}
	if time.Since(u.keysExpired) > time.Hour {
		switch n, err := u.Store.ExpireKeys(ctx, u.KeepKey); {
		case err == nil:
			u.keysExpired = time.Now()
			u.Log.DebugContext(ctx, "idempotency keys expired", slog.Int64("count", n))
		case ctx.Err() == nil:
			u.Log.WarnContext(ctx, "cannot expire idempotency keys", slog.Any("error", err))
		}
	}
	if u.Storage != nil && time.Since(u.measured) > measureEvery {
		switch s, err := u.Storage(ctx); {
		case err == nil:
			u.Measured(s)
		case ctx.Err() == nil:
			u.Log.WarnContext(ctx, "cannot measure the tables", slog.Any("error", err))
		}
		u.measured = time.Now()
	}
}

// check counts the sagas that violate invariant I1: they are neither owned nor due, so no node
// would ever pick them up again.
func check(ctx context.Context, cfg Config) {
	stuck, live, err := cfg.Store.Stuck(ctx)
	if err != nil {
		if ctx.Err() == nil {
			cfg.Log.WarnContext(ctx, "cannot count unfinished sagas", slog.Any("error", err))
		}
		return
	}
	if stuck > 0 {
		cfg.Log.ErrorContext(ctx, "sagas are stuck: they are neither owned nor due", slog.Int("count", stuck))
	}
	cfg.Counted(stuck, live)
}

// raiseBatch is how many sagas are read at once.
const raiseBatch = 200

// raise sets NeedsAttention on sagas that make no progress. Any node may do this: if a saga has
// progressed in the meantime, the change is stale and is dropped. The mark is cleared when the saga
// progresses (saga.Apply) or an operator acknowledges it.
func raise(ctx context.Context, cfg Config) {
	q := saga.NeglectedQuery{Idle: cfg.StalledAfter, Failures: cfg.StalledFailures, Limit: raiseBatch}
	for ctx.Err() == nil {
		stalled, next, err := cfg.Store.Neglected(ctx, q)
		if err != nil {
			if ctx.Err() == nil {
				cfg.Log.WarnContext(ctx, "cannot look for sagas that make no progress", slog.Any("error", err))
			}
			return
		}
		raisePage(ctx, cfg, stalled)
		if next == (saga.Ref{}) {
			return
		}
		q.After = next
	}
}

func raisePage(ctx context.Context, cfg Config, stalled []saga.Stalled) {
	for i := range stalled {
		log := cfg.Log.With(slog.String("saga_id", stalled[i].Saga.ID.String()), slog.String("reason", stalled[i].Reason))
		change, err := saga.Apply(
			saga.Instance{Saga: stalled[i].Saga},
			saga.Neglected{Reason: stalled[i].Reason},
			saga.Moment{Now: cfg.Now()},
		)
		if err == nil {
			err = cfg.Commit(ctx, change)
		}
		switch {
		case err == nil:
			log.WarnContext(ctx, "a saga makes no progress")
			cfg.Raised(stalled[i].Reason)
		case ctx.Err() != nil:
			return
		case fault.KindOf(err) != fault.Conflict: // otherwise the saga has progressed
			log.WarnContext(ctx, "cannot raise attention for a saga that makes no progress", slog.Any("error", err))
		}
	}
}
