package jobdb

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jmoiron/sqlx"

	"github.com/skald-saga/skald/internal/dlq"
	"github.com/skald-saga/skald/internal/jobrun"
	"github.com/skald-saga/skald/internal/strictjson"
)

// A new run retries the dead letter of a run, and the retry ends with that new run (one-product.md,
// point 4): jobrun.Ended returns the update of the letter, and putConsequences stores it with the
// run.

const (
	// heldLetter locks a letter if a retry still holds it under the given token.
	heldLetter = `
SELECT m.id FROM dlq.dlq_messages m
 WHERE m.tenant_id = $1 AND m.id = $2 AND m.status = 'RETRYING' AND m.retry_token = $3
   FOR NO KEY UPDATE OF m`
)

// jobOfLetter reads the definition for a new run, and the database's time.
var (
	madeOf      = DefinitionTable.Only("id", "name", "spec_version", "spec")
	jobOfLetter = `
SELECT ` + madeOf.Selected("d") + `, now() FROM jobs.job_definitions d
 WHERE d.tenant_id = $1 AND d.id::text = $2 AND d.deleted_at IS NULL
 UNION ALL
SELECT ` + madeOf.Selected("d") + `, now() FROM jobs.job_definitions d
 WHERE d.tenant_id = $1 AND d.name = $2 AND d.deleted_at IS NULL
 LIMIT 1`
)

// Rerun starts the run that retries a letter, in one transaction that checks the lease of the
// letter. A node that has lost the lease starts no run, and a retry that is started twice has only
// one run. The result is Accepted, because the end of the run decides about the letter.
func (st *Jobs) Rerun(ctx context.Context, l *dlq.Drive, now func() time.Time) dlq.Result {
	r := dlq.Result{StartedAt: now(), Outcome: dlq.Withdrawn}
	defer func() { r.EndedAt = now() }()
	switch {
	case l.Link.SagaID != uuid.Nil && l.Source == dlq.FromJob:
		r.Error = fmt.Sprintf("the run was a step of saga %s, which is compensating because of it: retry the saga, and resolve or discard this letter", l.Link.SagaID)
		return r
	case l.Send.Payload != nil && !isJSON(l.Send.Payload):
		r.Outcome, r.Error = dlq.FailedDrive, "the payload is not JSON, but the arguments of a run must be"
		return r
	}
	settings, err := st.settings(ctx)
	if err != nil {
		r.Error = "the settings of job runs cannot be read; try again"
		return r
	}
	var runs []jobrun.Run
	var created []bool
	err = st.db.InWrite(ctx, func(tx *sqlx.Tx) error {
		var held uuid.UUID
		if err := tx.QueryRowContext(ctx, heldLetter, l.TenantID, l.ID, l.Token).Scan(&held); err != nil {
			return err
		}
		d, at, err := jobByIDOrName(ctx, tx, l.TenantID, l.To.Job)
		if err != nil {
			return err
		}
		asked := jobrun.Request{
			Trigger: jobrun.ByLetter, Key: jobrun.LetterKey(l.ID, l.Number), Args: l.Send.Payload, LetterID: l.ID,
			CorrelationID: l.CorrelationID, TraceID: l.TraceID, By: l.Actor,
		}
		if asked.TraceState, asked.Baggage, asked.Repeats, err = traceOfLetter(ctx, tx, l); err != nil {
			return err
		}
		runs = []jobrun.Run{jobrun.New(&d, asked, settings, st.db.At(at))}
		created, err = st.db.InsertRuns(ctx, tx, runs)
		return err
	})
	switch {
	case err == nil:
		st.db.RunsCreated(runs, created)
		r.Accepted, r.Outcome = true, dlq.Uncertain
	case errors.Is(err, sql.ErrNoRows):
		r.Error = "the retry was ended concurrently"
	case errors.Is(err, errNoJob):
		r.Outcome, r.Error = dlq.FailedDrive, fmt.Sprintf("there is no job definition %q", l.To.Job)
	default:
		// It is unknown whether the run was started. If it was not, the letter's lease expires and
		// the retry counts as lost.
		r.Accepted, r.Outcome, r.Error = true, dlq.Uncertain, "the outcome of the commit that starts the run is unknown"
	}
	return r
}

var errNoJob = errors.New("no such job definition")

// traceOfRun reads the trace context that a run passes on, except the trace id, and the run's slot.
const traceOfRun = `
SELECT coalesce(r.tracestate, ''), coalesce(r.baggage, ''), r.scheduled_for
  FROM jobs.job_runs r WHERE r.tenant_id = $1 AND r.id = $2`

// traceOfLetter returns the trace context, except the trace id, that the retrying run passes on,
// and its slot. They come from the run that gave up, if it still exists. Otherwise the trace
// context comes from the letter's headers, and there is no slot.
func traceOfLetter(
	ctx context.Context, tx *sqlx.Tx, l *dlq.Drive,
) (state, baggage string, slot time.Time, err error) {
	if l.Link.JobRunID == uuid.Nil {
		state, baggage = l.Send.TraceContext()
		return state, baggage, slot, nil
	}
	err = tx.QueryRowContext(ctx, traceOfRun, l.TenantID, l.Link.JobRunID).Scan(&state, &baggage, &slot)
	if errors.Is(err, sql.ErrNoRows) {
		return "", "", slot, nil
	}
	return state, baggage, slot, err
}

// jobByIDOrName reads the definition for a new run, and the database's time. It returns errNoJob if
// there is none.
func jobByIDOrName(
	ctx context.Context, tx *sqlx.Tx, tenant uuid.UUID, idOrName string,
) (d jobrun.Definition, now time.Time, err error) {
	d, err = madeOf.One(tx.QueryRowContext(ctx, jobOfLetter, tenant, idOrName), &now)
	if errors.Is(err, sql.ErrNoRows) {
		err = errNoJob
	}
	d.TenantID = tenant
	return d, now, err
}

func isJSON(b []byte) bool {
	_, err := strictjson.Canonical(nil, b, strictjson.Limits{})
	return err == nil
}
