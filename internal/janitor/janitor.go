// Package janitor does what must be done now and then, on every node: it
// checks that no saga is forgotten, lets old idempotency keys go, measures the
// tables and archives what has expired. All of it may run on several nodes at once.
package janitor

import (
	"context"
	"log/slog"
	"math/rand/v2"
	"time"

	"github.com/skald-saga/skald/internal/saga"
)

// Store is what the janitor needs of the database.
type Store interface {
	Stuck(ctx context.Context) (stuck int, live map[saga.State]int, err error)
	ExpireKeys(ctx context.Context, keep time.Duration) (int64, error)
}

// Config of Run. Store and Log are required.
type Config struct {
	Store   Store
	Log     *slog.Logger
	Check   time.Duration // 15 s: how often unfinished sagas are counted
	KeepKey time.Duration // 48 h: how long an idempotency key is kept; clients are promised 24 h
	// Counted is told what each check found; nil is fine.
	Counted func(stuck int, live map[saga.State]int)
	// Storage is asked at once and then every five minutes what the tables
	// take, and Measured is told; nil: neither.
	Storage  func(context.Context) (saga.Storage, error)
	Measured func(saga.Storage)
}

const measureEvery = 5 * time.Minute

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
	var keysExpired, measured time.Time
	for {
		check(ctx, cfg)
		if time.Since(keysExpired) > time.Hour {
			switch n, err := cfg.Store.ExpireKeys(ctx, cfg.KeepKey); {
			case err == nil:
				keysExpired = time.Now()
				cfg.Log.DebugContext(ctx, "idempotency keys expired", slog.Int64("count", n))
			case ctx.Err() == nil:
				cfg.Log.WarnContext(ctx, "cannot expire idempotency keys", slog.Any("error", err))
			}
		}
		if cfg.Storage != nil && time.Since(measured) > measureEvery {
			switch s, err := cfg.Storage(ctx); {
			case err == nil:
				cfg.Measured(s)
			case ctx.Err() == nil:
				cfg.Log.WarnContext(ctx, "cannot measure the tables", slog.Any("error", err))
			}
			measured = time.Now()
		}
		if !rest(ctx, time.Duration(float64(cfg.Check)*(0.8+0.4*rand.Float64()))) {
			return
		}
	}
}

// check proves invariant I1 now and then: no saga that nobody will look at again.
func check(ctx context.Context, cfg Config) {
	stuck, live, err := cfg.Store.Stuck(ctx)
	if err != nil {
		if ctx.Err() == nil {
			cfg.Log.WarnContext(ctx, "cannot count unfinished sagas", slog.Any("error", err))
		}
		return
	}
	if stuck > 0 {
		cfg.Log.ErrorContext(ctx, "sagas are stuck: nobody will look at them again", slog.Int("count", stuck))
	}
	cfg.Counted(stuck, live)
}
