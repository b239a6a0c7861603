package postgres

import (
	"context"
	"time"

	"github.com/google/uuid"
	"github.com/jmoiron/sqlx"

	"github.com/skald-saga/skald/internal/jobrun"
)

// followers are the runs that a run made with its success.
type followers struct {
	runs    []jobrun.Run
	created []bool
}

// emit stores what r leaves behind with its success, in the transaction of that.
func (st *Jobs) emit(ctx context.Context, tx *sqlx.Tx, r *jobrun.Run, what []jobrun.Emitted, now time.Time) (f followers, err error) {
	if len(what) == 0 {
		return f, nil
	}
	settings, err := st.settings(ctx)
	if err != nil {
		return f, err
	}
	for _, one := range what {
		if one.Event == nil {
			continue
		}
		e := *one.Event
		if e.ID == uuid.Nil {
			e.ID = uuid.Must(uuid.NewV7())
		}
		if e.CorrelationID == "" {
			e.CorrelationID = r.CorrelationID
		}
		if e.OccurredAt == nil {
			e.OccurredAt = &now
		}
		if _, _, err := st.db.publishEvent(ctx, tx, r.TenantID, r.ID, &e, dedupeWindow(settings)); err != nil {
			return f, err
		}
	}
	return f, nil
}
