package jobdb

import (
	"context"
	"database/sql"
	"errors"
	"strconv"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/jmoiron/sqlx"

	"github.com/skald-saga/skald/internal/fault"
	"github.com/skald-saga/skald/internal/jobrun"
	"github.com/skald-saga/skald/internal/postgres"
)

// followers are the runs that a run made with its success.
type followers struct {
	runs    []jobrun.Run
	created []bool
}

// emit stores what r leaves behind with its success, in the transaction of that.
// Faults of what cannot be made, of which then nothing is: NotFound of a
// definition, Invalid of arguments.
func (st *Jobs) emit(ctx context.Context, tx *sqlx.Tx, r *jobrun.Run, what []jobrun.Emitted, now time.Time) (f followers, err error) {
	if len(what) == 0 {
		return f, nil
	}
	settings, err := st.settings(ctx)
	if err != nil {
		return f, err
	}
	for i, one := range what {
		if one.Event != nil {
			if err := st.emitEvent(ctx, tx, r, *one.Event, settings, now); err != nil {
				return f, err
			}
		}
		if one.Run != nil {
			next, err := st.nextRun(ctx, tx, r, i, one.Run, settings, now)
			if err != nil {
				return f, err
			}
			f.runs = append(f.runs, next)
		}
	}
	f.created, err = st.db.InsertRuns(ctx, tx, f.runs)
	return f, err
}

func (st *Jobs) emitEvent(ctx context.Context, tx *sqlx.Tx, r *jobrun.Run, e jobrun.NewEvent, s jobrun.Settings, now time.Time) error {
	if e.ID == uuid.Nil {
		e.ID = uuid.Must(uuid.NewV7())
	}
	if e.CorrelationID == "" {
		e.CorrelationID = r.CorrelationID
	}
	e.By = r.InitiatedBy
	if e.OccurredAt == nil {
		e.OccurredAt = &now
	}
	_, _, err := st.db.publishEvent(ctx, tx, r.TenantID, r.ID, &e, dedupeWindow(s))
	return err
}

const definitionToEmit = `
SELECT ` + DefinitionColumns + ` FROM jobs.job_definitions d
 WHERE d.tenant_id = $1 AND (d.id = $2 OR d.name = $3) AND d.deleted_at IS NULL
 ORDER BY d.id = $2 DESC NULLS LAST LIMIT 1`

// nextRun is the run that r wants to follow it, the i-th of what it emits. It
// follows as from an event: a policy that forbids it makes it SKIPPED.
func (st *Jobs) nextRun(ctx context.Context, tx *sqlx.Tx, r *jobrun.Run, i int, n *jobrun.NextRun, s jobrun.Settings, now time.Time) (jobrun.Run, error) {
	id, _ := uuid.Parse(n.Definition)
	d, err := ScanDefinition(tx.QueryRowContext(ctx, definitionToEmit, r.TenantID, postgres.NullIfZero(id), n.Definition))
	if errors.Is(err, sql.ErrNoRows) {
		return jobrun.Run{}, noDefinition(n.Definition)
	}
	if err != nil {
		return jobrun.Run{}, err
	}
	if !d.Enabled {
		return jobrun.Run{}, fault.New(fault.Conflict, jobrun.CodeConflict, "the job definition %s is disabled", d.Name)
	}
	if strings.HasPrefix(d.Spec.CommandName, jobrun.SystemPrefix) { // a worker's rights are none but its runs
		return jobrun.Run{}, fault.New(fault.Conflict, jobrun.CodeConflict, "a run cannot create runs of the built-in job %s", d.Name)
	}
	schema, err := jobrun.ParseSchema(d.Spec.ArgsSchema)
	if err != nil {
		return jobrun.Run{}, err
	}
	if err := schema.Check("/emit/"+strconv.Itoa(i)+"/run/args", d.Spec.Data(n.Args)); err != nil {
		return jobrun.Run{}, err
	}
	key := n.Key
	if key == "" {
		key = strconv.Itoa(i)
	}
	ask := jobrun.Request{Trigger: jobrun.ByEvent, Key: jobrun.FollowKey(r.ID, key), Args: n.Args, CorrelationID: r.CorrelationID, TraceID: r.TraceID, By: r.InitiatedBy}
	if n.ScheduledFor != nil {
		ask.ScheduledFor = *n.ScheduledFor
	}
	return jobrun.New(&d, ask, s, MomentAt(now)), nil
}
