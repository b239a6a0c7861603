package janitor

import (
	"context"
	"log/slog"
	"math/rand/v2"
	"time"

	"github.com/skald-saga/skald/internal/loop"
	"github.com/skald-saga/skald/internal/saga"
)

// Archive is what retention needs of the store.
type Archive interface {
	ArchiveExpired(ctx context.Context, e saga.Expiry, limit int) (int, error)
}

// RetentionConfig of Retain. Archive and Log are required.
type RetentionConfig struct {
	Archive  Archive
	Log      *slog.Logger
	Default  saga.Retention // of workflows that say nothing
	Interval time.Duration  // how often; 0: Retain returns at once
	Batch    int            // 500; sagas per transaction
	// Done is told of every round that ended well; nil is fine.
	Done func()
	// Round makes a round by calling do, and puts on record what it took; nil: do alone.
	Round func(ctx context.Context, do func(context.Context))
}

// Retain archives the expired sagas of all tenants, every Interval, until ctx
// ends. Any number of nodes may do it: they share the work. After each batch it
// rests for as long as that took, so that a backlog never takes more than half
// of a connection's time; what a round leaves because of an error, the next
// one does.
func Retain(ctx context.Context, cfg RetentionConfig) {
	if cfg.Interval <= 0 {
		return
	}
	if cfg.Batch == 0 {
		cfg.Batch = 500
	}
	if cfg.Round == nil {
		cfg.Round = func(ctx context.Context, do func(context.Context)) { do(ctx) }
	}
	// Nodes that start together spread, and one that is restarted all the time
	// comes to it too.
	wait := time.Duration(rand.Float64() * float64(cfg.Interval) / 10)
	for loop.Sleep(ctx, wait) {
		var archived int
		var err error
		cfg.Round(ctx, func(ctx context.Context) { archived, err = retain(ctx, cfg) })
		switch {
		case err != nil && ctx.Err() == nil:
			cfg.Log.WarnContext(ctx, "cannot archive expired sagas", slog.Int("archived", archived), slog.Any("error", err))
		case archived > 0:
			cfg.Log.InfoContext(ctx, "expired sagas archived", slog.Int("count", archived))
		}
		if err == nil && cfg.Done != nil {
			cfg.Done()
		}
		wait = loop.Jittered(cfg.Interval)
	}
}

// retain archives until nothing is left, and returns how many it archived.
func retain(ctx context.Context, cfg RetentionConfig) (total int, err error) {
	for {
		began := time.Now()
		n, err := cfg.Archive.ArchiveExpired(ctx, saga.Expiry{Default: cfg.Default}, cfg.Batch)
		total += n
		if err != nil || n == 0 || !loop.Sleep(ctx, time.Since(began)) {
			return total, err
		}
	}
}
