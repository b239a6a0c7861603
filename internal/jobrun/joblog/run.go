package joblog

import (
	"context"
	"log/slog"
	"time"

	"github.com/skald-saga/skald/internal/loop"
)

// Run executes one round per interval until ctx ends. With interval 0 it executes none. After each
// round it calls done, unless done is nil. Every node may call Run: nodes process logs in different
// orders, and a log that another node has moved costs only a query.
func (m *Mover) Run(ctx context.Context, every time.Duration, done func(Round, error)) {
	if every <= 0 {
		return
	}
	if done == nil {
		done = func(Round, error) {}
	}
	for loop.Sleep(ctx, loop.Jittered(every)) {
		r, err := m.Once(ctx)
		if ctx.Err() != nil {
			return
		}
		done(r, err)
		if err != nil {
			m.cfg.Log.WarnContext(ctx, "cannot move logs of job runs", slog.Any("error", err))
		} else if r.Moved+r.Purged+r.Erased > 0 {
			m.cfg.Log.InfoContext(ctx, "logs of job runs moved", slog.Int("logs", r.Moved), slog.Int64("bytes", r.Bytes),
				slog.Int("purged_runs", r.Purged), slog.Int("logs_deleted", r.Erased))
		}
	}
}
