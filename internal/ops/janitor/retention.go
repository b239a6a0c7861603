package janitor

import (
	"context"
	"log/slog"
	"time"

	"github.com/skald-saga/skald/internal/audit/trail"
	"github.com/skald-saga/skald/internal/loop"
	"github.com/skald-saga/skald/internal/saga"
)

// Archive is the part of the store that retention needs.
type Archive interface {
	ArchiveExpired(ctx context.Context, e saga.Expiry, limit int) (int, error)
}

// RetentionConfig configures Retain. Archive and Log are required.
type RetentionConfig struct {
	Archive  Archive
	Log      *slog.Logger
	Default  saga.Retention // for workflows that do not set one
	Interval time.Duration  // between rounds; 0: Retain returns at once
	Batch    int            // 500; sagas per transaction
	// Events moves old audit events in accordance with EventRetention; nil means that they stay.
	Events         trail.EventArchive
	EventRetention trail.EventRetention
	// Done is called after every successful round. Optional.
	Done func()
	// Round runs a round by calling do and records what it archived; nil means that do is called directly.
	Round func(ctx context.Context, do func(context.Context))
}

// Retain archives the expired sagas of all tenants, every Interval, until ctx ends. Any number of
// nodes may run it; they share the work. After each batch it pauses for as long as the batch took,
// so that a backlog uses at most half of a connection's time. If a round fails, the next one
// archives the remaining sagas.
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
	// The random wait spreads out nodes that start at the same time. It is short so that a node
	// that restarts often still archives.
	wait := loop.Within(cfg.Interval / 10)
	for loop.Sleep(ctx, wait) {
		var archived int
		var err, eventsErr error
		cfg.Round(ctx, func(ctx context.Context) {
			archived, err = retain(ctx, cfg)
			if cfg.Events != nil {
				eventsErr = retainEvents(ctx, cfg)
			}
		})
		switch {
		case err != nil && ctx.Err() == nil:
			cfg.Log.WarnContext(ctx, "cannot archive expired sagas", slog.Int("archived", archived), slog.Any("error", err))
		case archived > 0:
			cfg.Log.InfoContext(ctx, "expired sagas archived", slog.Int("count", archived))
		}
		if err == nil && eventsErr == nil && cfg.Done != nil {
			cfg.Done()
		}
		wait = loop.Jittered(cfg.Interval)
	}
}

// retain archives until nothing is left to archive, and returns how many sagas it archived.
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

// retainEvents archives and purges audit events until there is nothing left to archive or purge.
func retainEvents(ctx context.Context, cfg RetentionConfig) error {
	if cfg.EventRetention == (trail.EventRetention{}) {
		return nil
	}
	var archived, purged int64
	var failed error
	for {
		began := time.Now()
		moved, dropped, err := cfg.Events.ArchiveEvents(ctx, cfg.EventRetention)
		archived, purged = archived+moved, purged+dropped
		if err != nil {
			failed = err
		}
		if moved+dropped == 0 || !loop.Sleep(ctx, time.Since(began)) {
			break
		}
	}
	if failed != nil && ctx.Err() == nil {
		cfg.Log.WarnContext(ctx, "cannot archive audit events", slog.Any("error", failed))
	}
	if archived+purged > 0 {
		cfg.Log.InfoContext(ctx, "old audit events moved", slog.Int64("archived", archived), slog.Int64("purged", purged))
	}
	return failed
}
