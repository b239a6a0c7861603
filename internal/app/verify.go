package app

import (
	"context"
	"log/slog"

	"github.com/google/uuid"

	"github.com/skald-saga/skald/internal/audit"
	"github.com/skald-saga/skald/internal/config"
	"github.com/skald-saga/skald/internal/postgres"
	"github.com/skald-saga/skald/internal/saga"
)

// VerifyAudit checks a tenant's whole audit trail from a seal on, in the
// configured database, and calls progress after each part of it. The schema
// must be current; nothing is written.
func VerifyAudit(ctx context.Context, cfg config.Config, log *slog.Logger, tenant uuid.UUID, from int64, progress func(saga.Verification)) (saga.Verification, error) {
	cfg.Database.AutoMigrate = false
	db, stop, err := openAlone(ctx, cfg, log)
	if err != nil {
		return saga.Verification{}, err
	}
	defer stop()
	trail := postgres.NewTrail(db)
	for all := (saga.Verification{}); ; {
		v, err := audit.Verify(ctx, trail, tenant, from, 1000)
		if err != nil {
			return all, err
		}
		v.CheckedSeals, v.CheckedEvents = v.CheckedSeals+all.CheckedSeals, v.CheckedEvents+all.CheckedEvents
		if v.Head == nil {
			v.Head = all.Head
		}
		if all = v; v.Next == 0 || v.FirstBad != nil {
			return all, nil
		}
		progress(v)
		from = v.Next
	}
}
