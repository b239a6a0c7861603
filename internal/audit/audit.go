// Package audit maintains the audit trail. Tail follows the tenants' feeds for live watchers, Seal
// extends their hash chains, and Verify checks that nothing was changed.
package audit

import (
	"context"
	"log/slog"
	"time"

	"github.com/skald-saga/skald/internal/audit/trail"
	"github.com/skald-saga/skald/internal/loop"
)

// SealConfig configures the sealing loop. Chain and Log are required.
type SealConfig struct {
	Chain    trail.Sealed
	Log      *slog.Logger
	Interval time.Duration // 1 s; between rounds, but at least nine times the duration of the last round
	// Sealed is called after each round with the number of events that this node sealed in it and
	// the age of the oldest unsealed event, over all tenants. If it is nil, it is not called.
	Sealed func(events int, lag time.Duration)
}

// Seal seals new events until ctx ends. Every node runs it and skips events that another node has
// sealed. After a stop or a crash, the next round on any node seals the remaining events.
func Seal(ctx context.Context, cfg SealConfig) {
	if cfg.Interval == 0 {
		cfg.Interval = time.Second
	}
	if cfg.Sealed == nil {
		cfg.Sealed = func(int, time.Duration) {}
	}
	for {
		began := time.Now()
		events, lag, err := sealRound(ctx, cfg.Chain)
		switch {
		case err == nil:
			cfg.Sealed(events, lag)
		case ctx.Err() == nil:
			cfg.Log.WarnContext(ctx, "cannot seal audit events", slog.Any("error", err))
		}
		// With very many tenants, a round takes long. It must not keep a connection busy all the
		// time.
		pause := max(cfg.Interval, 9*time.Since(began))
		if !loop.Sleep(ctx, loop.Jittered(pause)) {
			return
		}
	}
}

// sealRound seals the new events of every tenant.
func sealRound(ctx context.Context, chain trail.Sealed) (events int, lag time.Duration, err error) {
	tenants, err := chain.Unsealed(ctx)
	if err != nil {
		return 0, 0, err
	}
	for _, t := range tenants {
		if !t.Settled {
			lag = max(lag, t.Age)
			continue
		}
		for {
			n, err := chain.Seal(ctx, t.TenantID)
			if err != nil {
				return events, lag, err
			}
			if events += n; n < trail.MaxSealed {
				break
			}
		}
	}
	return events, lag, nil
}
