package app

import (
	"context"
	"time"

	"github.com/skald-saga/skald/internal/dlq/targets"
	"github.com/skald-saga/skald/internal/postgres"
	"github.com/skald-saga/skald/internal/saga"
	"github.com/skald-saga/skald/internal/saga/sagadb"
)

// NewSagaLetters returns the driver as another node would have it: without its own engine.
func NewSagaLetters(db *postgres.DB, letters targets.Letters) *targets.Saga {
	sagas := sagadb.NewSagas(db)
	return &targets.Saga{
		Sagas: sagas, Letters: letters, Definition: newPinned(sagadb.NewWorkflows(db)).definition,
		Commit: func(ctx context.Context, c saga.Change) error {
			errs, err := sagas.Commit(ctx, []saga.Change{c})
			if err == nil {
				err = errs[0]
			}
			return err
		},
		Wake: func(saga.Ref) {}, NewID: newID,
		Now: func() time.Time { return time.Now().UTC().Truncate(time.Microsecond) },
	}
}
