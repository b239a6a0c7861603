package jobdb

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/jmoiron/sqlx"

	"github.com/skald-saga/skald/internal/dlq"
	"github.com/skald-saga/skald/internal/fault"
	"github.com/skald-saga/skald/internal/jobrun"
	"github.com/skald-saga/skald/internal/postgres"
)

// fenceRow is a run and the fence that its worker sent.
type fenceRow struct {
	tenant, run uuid.UUID
	jobrun.Fence
}

// fenceTable holds the fences of a batch of calls.
var fenceTable = postgres.NewTable(
	postgres.UUID("tenant_id", func(f *fenceRow) *uuid.UUID { return &f.tenant }),
	postgres.UUID("id", func(f *fenceRow) *uuid.UUID { return &f.run }),
	postgres.UUID("worker", func(f *fenceRow) *uuid.UUID { return &f.WorkerID }),
	postgres.Int("attempt", func(f *fenceRow) *int { return &f.Attempt }),
	postgres.UUID("token", func(f *fenceRow) *uuid.UUID { return &f.LeaseToken }),
	postgres.Int("epoch", func(f *fenceRow) *int64 { return &f.LeaderEpoch }),
)

var theFences = fenceTable.As("f")

// fences is a table f of a batch of fences with additional numbered columns. Its first column hides
// the number of rows from the planner. If the planner knew that a batch has one row, it would
// expect a custom plan to be cheaper than the prepared generic one and plan each such batch again,
// which takes longer than executing it.
func fences(more ...postgres.Params) string {
	const first = "@f.tenant_id::uuid[]"
	return strings.Replace(postgres.UnnestNumbered("f", append([]postgres.Params{theFences}, more...)...), first,
		"(SELECT "+first+")", 1)
}

// fenced is the condition that r is held under the fence f. It compares the state in a form that no
// index has, so that runs are looked up by id instead of among all runs of a worker.
const fenced = `r.id = f.id AND r.tenant_id = f.tenant_id AND r.assigned_worker_id = f.worker AND r.attempt = f.attempt
   AND r.lease_token = f.token AND r.leader_epoch = f.epoch AND r.state || ''`

// success is the stored result of a plain success, which is a success without further consequences.
type success struct {
	*jobrun.Result
	value []byte // sealed
}

var successTable = postgres.NewTable(
	postgres.IntOrNil("exit_code", func(s *success) **int { return &s.ExitCode }),
	postgres.JSON("result", func(s *success) *[]byte { return &s.value }),
	postgres.FloatOrNil("cpu", func(s *success) **float64 { return &s.Resources.CPUSecondsTotal }),
	postgres.IntOrNil("rss", func(s *success) **int64 { return &s.Resources.PeakRSSBytes }),
	postgres.IntOrNil("reads", func(s *success) **int64 { return &s.Resources.IOReadBytes }),
	postgres.IntOrNil("writes", func(s *success) **int64 { return &s.Resources.IOWriteBytes }),
)

// finishRuns ends runs that have succeeded without further consequences. It returns the batch
// position of each run that it has ended.
var finishRuns = postgres.Named(`
UPDATE jobs.job_runs r
   SET state = 'SUCCEEDED',
       version = r.version + 1,
       finished_at = clock_timestamp(),
       updated_at = clock_timestamp(),
       continuation_state = 'NONE',
       continuation_check_started_at = NULL,
       continuation_check_deadline_at = NULL,
       exit_code = f.exit_code,
       result = f.result::jsonb,
       resource_cpu_seconds_total = coalesce(f.cpu, r.resource_cpu_seconds_total),
       resource_peak_rss_bytes = coalesce(f.rss, r.resource_peak_rss_bytes),
       resource_io_read_bytes = coalesce(f.reads, r.resource_io_read_bytes),
       resource_io_write_bytes = coalesce(f.writes, r.resource_io_write_bytes)
  FROM `+fences(successTable.As("s"))+`
 WHERE `+fenced+movableTo(jobrun.Succeeded, jobrun.Worker)+` AND r.saga_id IS NULL AND r.letter_id IS NULL
RETURNING f.n, r.version, r.started_at, r.finished_at, r.concurrency_key IS NOT NULL`, theFences, successTable.As("s"))

// Finish implements jobrun.Work (W7, W8). One statement ends all plain successes of the batch. Each
// result with other consequences takes its own transaction, which locks the row.
func (st *Jobs) Finish(ctx context.Context, results []jobrun.Result) ([]jobrun.Done, error) {
	out := make([]jobrun.Done, len(results))
	settled := make([]bool, len(results))
	plain := successes(results)
	freed, err := postgres.RetryCollision(func() (bool, error) {
		return st.succeed(ctx, st.db.QueryWrite, results, plain, out, settled)
	})
	switch {
	case err == nil:
		st.ended(results, plain, settled, freed)
	case !postgres.DataError(err): // otherwise one by one, to find the row that cannot be stored
		return nil, fmt.Errorf("finish job runs: %w", err)
	}
	for i := range results {
		if settled[i] {
			continue
		}
		if out[i], err = st.finishOne(ctx, &results[i]); err != nil {
			return nil, err
		}
	}
	return out, nil
}

func compareIDs(a, b uuid.UUID) int { return slices.Compare(a[:], b[:]) }

// successes returns the indexes of the results without further consequences, ordered by run id, the
// order in which all transactions lock runs.
func successes(results []jobrun.Result) (plain []int) {
	for i := range results {
		if r := &results[i]; r.Error == nil && len(r.Emit) == 0 {
			plain = append(plain, i)
		}
	}
	slices.SortFunc(plain, func(a, b int) int { return compareIDs(results[a].RunID, results[b].RunID) })
	return plain
}

// succeed ends the runs whose results are at the indexes in plain, and marks those that it has
// ended. freed reports whether one of them frees a concurrency key.
func (st *Jobs) succeed(ctx context.Context, query postgres.QueryFunc,
	results []jobrun.Result, plain []int, out []jobrun.Done, settled []bool,
) (freed bool, err error) {
	if len(plain) == 0 {
		return false, nil
	}
	fences, said := fenceTable.Batch(len(plain)), successTable.Batch(len(plain))
	for _, i := range plain {
		r := &results[i]
		settled[i] = false
		sealer := st.db.Keys.SealerFor(r.TenantID, r.RunID)
		value, err := postgres.Seal(&sealer, fieldRunResult, r.Value)
		if err != nil {
			return false, err
		}
		fences.Add(&fenceRow{r.TenantID, r.RunID, r.Fence})
		said.Add(&success{r, value})
	}
	rows, err := query(ctx, finishRuns.Text, finishRuns.Args(fences, said)...)
	if err != nil {
		return false, err
	}
	err = postgres.EachRow(rows, func() error {
		var n int
		var version int64
		var started, finished time.Time
		var keyed bool
		if err := rows.Scan(&n, &version, &started, &finished, &keyed); err != nil {
			return err
		}
		freed = freed || keyed
		i := plain[n-1]
		settled[i] = true
		out[i] = jobrun.Done{Run: heldRun(results[i].TenantID, results[i].RunID, results[i].Fence)}
		r := &out[i].Run
		r.State, r.Version, r.StartedAt, r.FinishedAt = jobrun.Succeeded, version, &started, &finished
		r.Result, r.ExitCode, r.Resources = results[i].Value, results[i].ExitCode, results[i].Resources
		postgres.UTC(r.StartedAt, r.FinishedAt)
		return nil
	})
	return freed, err
}

// ended notifies those who wait for the end of these runs, after succeed has committed.
func (st *Jobs) ended(results []jobrun.Result, plain []int, settled []bool, freed bool) {
	for _, i := range plain {
		if settled[i] {
			st.db.over(results[i].TenantID, results[i].RunID)
		}
	}
	if freed {
		st.db.Hub.WantLeader()
	}
}

// heldRun is a run with only the fields known from the call.
func heldRun(tenantID, id uuid.UUID, f jobrun.Fence) jobrun.Run {
	return jobrun.Run{
		ID:          id,
		TenantID:    tenantID,
		WorkerID:    f.WorkerID,
		Attempt:     f.Attempt,
		LeaseToken:  f.LeaseToken,
		LeaderEpoch: f.LeaderEpoch,
	}
}

// finishOne ends one run with all consequences. Done contains the fault of this run; a returned
// error means an outage.
func (st *Jobs) finishOne(ctx context.Context, f *jobrun.Result) (d jobrun.Done, err error) {
	c := workerCall{f.TenantID, f.RunID, f.Fence, jobrun.CallComplete}
	if f.Error != nil {
		c.call = jobrun.CallFail
	}
	var made followers
	d.Run, d.Replayed, err = st.decide(ctx, c, func(tx *sqlx.Tx, r jobrun.Run, now time.Time) (jobrun.Run, error) {
		e, err := st.Apply(ctx, tx, &r, jobrun.Reported{Result: *f}, now)
		if err != nil {
			return r, err
		}
		if n := e.Retry; n != nil {
			d.RetryID, d.RetryAt = n.ID, new(n.AvailableAt.Truncate(time.Microsecond)) // with the stored precision
		}
		if e.LetterUpdate != nil && e.LetterUpdate.Outcome == dlq.GaveUp {
			d.LetterID = e.LetterUpdate.Letter.ID
		}
		made, err = st.emit(ctx, tx, &e.After, f.Emit, now)
		return e.After, err
	})
	switch {
	case err == nil:
		st.db.RunsCreated(made.runs, made.created)
		st.db.RunEnded(&d.Run)
		if len(f.Emit) > 0 { // one of them may be an event
			st.db.Hub.WantLeader()
		}
	case fault.As(err) != nil:
		d.Err = err
	case postgres.DataError(err):
		d.Err = fault.New(fault.Invalid, jobrun.CodeInvalid, "the database cannot store the result of the run").Because(err)
	default:
		return d, fmt.Errorf("finish job run %s: %w", f.RunID, err)
	}
	if d.Replayed {
		if d.Err = repeats(&d.Run, f); d.Err != nil {
			d.Replayed = false
			return d, nil
		}
	}
	if d.Replayed && c.call == jobrun.CallFail {
		return d, st.retryOf(ctx, &d)
	}
	return d, nil
}

// repeats applies jobrun.Run.Repeats to a stored run.
func repeats(r *jobrun.Run, f *jobrun.Result) (err error) {
	stored, said := *r, *f
	if stored.Result, err = postgres.Canonical(r.Result); err == nil {
		said.Value, err = postgres.Canonical(f.Value)
	}
	if err != nil {
		return nil //nolint:nilerr // they cannot be compared
	}
	return stored.Repeats(&said)
}

const retryOfRun = `SELECT r.id, r.available_at FROM jobs.job_runs r WHERE r.tenant_id = $1 AND r.idempotency_key = $2`

// retryOf sets in d the run that retries the given one.
func (st *Jobs) retryOf(ctx context.Context, d *jobrun.Done) error {
	rows, err := st.db.QueryWrite(ctx, retryOfRun, d.Run.TenantID, jobrun.RetryKey(d.Run.ID, d.Run.RetryNumber+1))
	if err != nil {
		return fmt.Errorf("look for the retry of job run %s: %w", d.Run.ID, err)
	}
	return postgres.EachRow(rows, func() error {
		d.RetryAt = new(time.Time)
		err := rows.Scan(&d.RetryID, d.RetryAt)
		postgres.UTC(d.RetryAt)
		return err
	})
}
