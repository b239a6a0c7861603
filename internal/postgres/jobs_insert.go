package postgres

import (
	"context"
	"strings"

	"github.com/google/uuid"
	"github.com/jmoiron/sqlx"

	"github.com/skald-saga/skald/internal/jobrun"
)

// runInserts are the columns that a new run has values in, the types in which a
// batch of them travels, and the casts of those that are stored as another type.
// In the order of newRuns.add.
var runInserts = [...]struct{ name, travels, stored string }{
	{"id", "uuid", ""}, {"tenant_id", "uuid", ""}, {"definition_id", "uuid", ""}, {"definition_name", "text", ""}, {"spec_version", "bigint", ""},
	{"command_name", "text", ""}, {"version", "bigint", ""}, {"state", "text", ""}, {"trigger", "text", ""}, {"scheduled_for", "timestamptz", ""},
	{"available_at", "timestamptz", ""}, {"admitted_at", "timestamptz", ""}, {"queue", "text", ""}, {"priority", "bigint", ""},
	{"required_labels", "text", "::text[]"}, {"labels", "text", "::text[]"}, {"args", "text", "::jsonb"}, {"idempotency_key", "text", ""},
	{"concurrency_key", "text", ""}, {"concurrency_policy", "text", ""}, {"timeout_ms", "bigint", ""}, {"failures_used", "bigint", ""},
	{"max_losses", "bigint", ""}, {"finished_at", "timestamptz", ""}, {"checkpoint", "text", "::jsonb"}, {"root_run_id", "uuid", ""},
	{"retry_of_run_id", "uuid", ""}, {"retry_number", "bigint", ""}, {"saga_id", "uuid", ""}, {"saga_step", "bigint", ""}, {"saga_action", "text", ""},
	{"event_id", "uuid", ""}, {"letter_id", "uuid", ""}, {"backfill_id", "uuid", ""}, {"correlation_id", "text", ""}, {"trace_id", "text", ""},
	{"created_at", "timestamptz", ""}, {"updated_at", "timestamptz", ""}, {"initiated_by", "text", ""}, {"initiated_as", "text", ""},
}

// storeRuns stores a batch of new runs, whose parameters are those of newRuns,
// and answers the ids of those that are new; the others' keys, or slots (J1), are
// taken. Rows are inserted in the order of their keys, so that batches with the
// same keys wait for each other instead of deadlocking.
var storeRuns = func() string {
	var rows arrays
	var stored []string
	for i, c := range runInserts {
		rows.add(1+i, wireColumn{c.name, c.travels})
		stored = append(stored, "n."+c.name+c.stored)
	}
	return `
INSERT INTO jobs.job_runs AS r (` + strings.Join(rows.names, ", ") + `)
SELECT ` + strings.Join(stored, ", ") + `
  FROM ` + rows.as("n") + `
 ORDER BY n.tenant_id, n.idempotency_key
ON CONFLICT DO NOTHING
RETURNING r.id`
}()

// newRuns gathers a batch of runs for storeRuns.
type newRuns struct {
	db      *JobDB
	columns [len(runInserts)]column
}

func (c *newRuns) add(r *jobrun.Run) error {
	place := c.db.keys.SealerFor(r.TenantID, r.ID)
	args, err := seal(&place, fieldRunArgs, r.Args)
	if err != nil {
		return err
	}
	checkpoint, err := seal(&place, fieldRunCheckpoint, r.Checkpoint)
	if err != nil {
		return err
	}
	col := c.columns[:]
	next := func() *column {
		at := &col[0]
		col = col[1:]
		return at
	}
	next().uuid(r.ID)
	next().uuid(r.TenantID)
	next().uuid(r.DefinitionID)
	next().text(r.DefinitionName)
	next().int(int64(r.SpecVersion))
	next().text(r.CommandName)
	next().int(r.Version)
	next().text(string(r.State))
	next().text(string(r.Trigger))
	next().time(r.ScheduledFor)
	next().time(r.AvailableAt)
	next().timeOrNull(r.AdmittedAt)
	next().text(r.Queue)
	next().int(int64(r.Priority))
	next().text(textArray(r.RequiredLabels))
	next().text(textArray(r.Labels))
	next().json(args)
	next().text(r.IdempotencyKey)
	next().textUnlessEmpty(r.ConcurrencyKey)
	next().text(string(r.Concurrency))
	next().int(r.TimeoutMS)
	next().int(int64(r.FailuresUsed))
	next().int(int64(r.MaxLosses))
	next().timeOrNull(r.FinishedAt)
	next().json(checkpoint)
	next().uuid(r.RootRunID)
	next().uuidUnlessZero(r.RetryOfRunID)
	next().int(int64(r.RetryNumber))
	next().uuidUnlessZero(r.SagaID)
	if r.SagaID == uuid.Nil {
		next().null()
	} else {
		next().int(int64(r.SagaStep))
	}
	next().textUnlessEmpty(r.SagaAction)
	next().uuidUnlessZero(r.EventID)
	next().uuidUnlessZero(r.LetterID)
	next().uuidUnlessZero(r.BackfillID)
	next().textUnlessEmpty(r.CorrelationID)
	next().textUnlessEmpty(r.TraceID)
	next().time(r.CreatedAt)
	next().time(r.UpdatedAt)
	next().textUnlessEmpty(r.InitiatedBy)
	next().textUnlessEmpty(r.InitiatedAs)
	return nil
}

// insertRuns stores new runs in tx, a transaction of the writers' connections.
// created says of each whether it is new; of the others there is a run with the
// same idempotency key, or slot, which stays as it is (runOfKey reads it). Events
// and actions are the caller's, who also calls runsCreated after the commit.
func (db *JobDB) insertRuns(ctx context.Context, tx *sqlx.Tx, runs []jobrun.Run) (created []bool, err error) {
	if len(runs) == 0 {
		return nil, nil
	}
	batch := newRuns{db: db}
	at := make(map[uuid.UUID]int, len(runs))
	for i := range runs {
		if err := batch.add(&runs[i]); err != nil {
			return nil, err
		}
		at[runs[i].ID] = i
	}
	rows, err := db.queryIn(ctx, tx, storeRuns, parameters(batch.columns[:])...)
	if err != nil {
		return nil, err
	}
	created = make([]bool, len(runs))
	return created, eachRow(rows, func() error {
		var id uuid.UUID
		err := rows.Scan(&id)
		created[at[id]] = true
		return err
	})
}

// runsCreated wakes workers for those of the runs that are new and may be
// claimed, and the leader for those that are due and wait for their key, after the
// commit of insertRuns.
func (db *JobDB) runsCreated(runs []jobrun.Run, created []bool) {
	type place struct {
		tenant uuid.UUID
		queue  string
	}
	told, wanted := map[place]struct{}{}, false
	for i := range runs {
		r := &runs[i]
		if !created[i] || r.State != jobrun.Pending {
			continue
		}
		if r.AdmittedAt == nil {
			wanted = wanted || r.ConcurrencyKey != "" && !r.AvailableAt.After(r.CreatedAt)
			continue
		}
		at := place{r.TenantID, r.Queue}
		if _, ok := told[at]; !ok {
			told[at] = struct{}{}
			db.Hub.Admitted(at.tenant, at.queue)
		}
	}
	if wanted {
		db.Hub.WantLeader()
	}
}

// runEnded tells the leader, after the commit, that the key of a run has become
// free.
func (db *JobDB) runEnded(r *jobrun.Run) {
	if r.ConcurrencyKey != "" && r.State.Terminal() {
		db.Hub.WantLeader()
	}
}
