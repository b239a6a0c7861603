// Package audit is what goes on around the audit trail: Tail follows the
// tenants' feeds for all who watch them live, Seal keeps their hash chains
// growing, and Verify proves that nothing was changed.
package audit

import (
	"context"
	"log/slog"
	"math/rand/v2"
	"time"

	"github.com/skald-saga/skald/internal/loop"
	"github.com/skald-saga/skald/internal/saga"
)

// SealConfig of the sealing loop. Chain and Log are required.
type SealConfig struct {
	Chain    saga.Sealed
	Log      *slog.Logger
	Interval time.Duration // 1 s; between rounds, and at least nine times what the last one took
	// Sealed is told after each round how many events this node has sealed in it
	// and how old the first one is that is still unsealed, of all tenants; nil is fine.
	Sealed func(events int, lag time.Duration)
}

// Seal seals what is written until ctx ends. Every node runs it; what one does
// another need not. After a stop or a crash the next round, of whichever node,
// covers what is there.
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
		// With very many tenants a round takes long: it may not take all the time.
		pause := max(cfg.Interval, 9*time.Since(began))
		if !loop.Sleep(ctx, time.Duration(float64(pause)*(0.9+0.2*rand.Float64()))) {
			return
		}
	}
}

// sealRound seals what every tenant has.
func sealRound(ctx context.Context, chain saga.Sealed) (events int, lag time.Duration, err error) {
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
			if events += n; n < saga.MaxSealed {
				break
			}
		}
	}
	return events, lag, nil
}
