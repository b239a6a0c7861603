package jobdb

import (
	"context"
	"database/sql"
	"errors"
	"time"

	"github.com/google/uuid"
	"github.com/jmoiron/sqlx"

	"github.com/skald-saga/skald/internal/jobrun"
	"github.com/skald-saga/skald/internal/postgres"
)

// followers are the follow-up runs that a run creates when it succeeds.
type followers struct {
	runs    []jobrun.Run
	created []bool
}

// emit stores the events and runs that r creates when it succeeds, in the same transaction. If one
// of them is invalid, it stores none. Faults: NotFound for a definition, Invalid for arguments.
func (st *Jobs) emit(
	ctx context.Context, tx *sqlx.Tx, r *jobrun.Run, what []jobrun.Emitted, now time.Time,
) (f followers, err error) {
	if len(what) == 0 {
		return f, nil
	}
	settings, err := st.settings(ctx)
	if err != nil {
		return f, err
	}
	m := st.db.At(now)
	for i, one := range what {
		if one.Event != nil {
			e := r.Emits(*one.Event, m)
			_, created, err := st.db.publishEvent(ctx, tx, r.TenantID, r.ID, &e, dedupeWindow(settings))
			if err == nil && created {
				err = st.db.publishLater(ctx, tx, r, &e)
			}
			if err != nil {
				return f, err
			}
		}
		if one.Run != nil {
			d, err := definitionOf(ctx, tx, r, one.Run)
			if err != nil {
				return f, err
			}
			next, err := r.Follow(one.Run, i, &d, settings, m)
			if err != nil {
				return f, err
			}
			f.runs = append(f.runs, next)
		}
	}
	f.created, err = st.db.InsertRuns(ctx, tx, f.runs)
	return f, err
}

var definitionToEmit = `
SELECT ` + DefinitionColumns + ` FROM jobs.job_definitions d
 WHERE d.tenant_id = $1 AND (d.id = $2 OR d.name = $3) AND d.deleted_at IS NULL
 ORDER BY d.id = $2 DESC NULLS LAST LIMIT 1`

// definitionOf returns the definition of the follow-up run n of r.
func definitionOf(ctx context.Context, tx *sqlx.Tx, r *jobrun.Run, n *jobrun.NextRun) (jobrun.Definition, error) {
	id, _ := uuid.Parse(n.Definition)
	d, err := DefinitionTable.One(
		tx.QueryRowContext(ctx, definitionToEmit, r.TenantID, postgres.NullIfZero(id), n.Definition))
	if errors.Is(err, sql.ErrNoRows) {
		return d, noDefinition(n.Definition)
	}
	if err == nil && d.Unreadable {
		err = d.Damaged()
	}
	return d, err
}
