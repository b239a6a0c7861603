package sagadb

import (
	"cmp"
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/google/uuid"
	"github.com/jmoiron/sqlx"

	"github.com/skald-saga/skald/internal/fault"
	"github.com/skald-saga/skald/internal/jobrun"
	"github.com/skald-saga/skald/internal/jobrun/jobdb"
	"github.com/skald-saga/skald/internal/postgres"
	"github.com/skald-saga/skald/internal/retry"
	"github.com/skald-saga/skald/internal/saga"
	"github.com/skald-saga/skald/internal/saga/workflow"
)

// This file implements saga steps that are job runs (decision 0039). A run is created in the
// transaction that brings its saga to the step, and the transaction that ends its last attempt
// advances the saga. Rows are always locked in the same order: runs, dead letters, sagas.

// JobSteps configures steps that are job runs. Nil functions are not called.
type JobSteps struct {
	// Settings returns the current settings of job runs; nil means the defaults.
	Settings func(context.Context) (jobrun.Settings, error)
	// CompensationTimeout applies to sagas that set none; 0 means no deadline.
	CompensationTimeout time.Duration
	Budget              saga.Budget
	// Moved is called soon after the commit for each saga that the end of a run has advanced. It is
	// a hint for the saga's engine and for callers that wait for its end.
	Moved func(saga.Saga)
	// Acted is called in the same way for each saga that a bulk operation has acted on.
	Acted func(saga.Saga)
}

// ConfigureJobSteps configures steps that are job runs. Call it before st is used.
func (st *Sagas) ConfigureJobSteps(s JobSteps) { st.steps.JobSteps = s }

// stepJobs is JobSteps with a cache of workflow definitions.
type stepJobs struct {
	JobSteps
	mu          sync.RWMutex
	definitions map[workflowID]*workflow.Definition // guarded by mu; a version never changes
}

type workflowID struct {
	tenant  uuid.UUID
	name    string
	version int
}

// maxDefinitions is how many definitions are cached before all of them are dropped.
const maxDefinitions = 10_000

// workflowOf returns the definition that a saga is pinned to.
func (st *Sagas) workflowOf(ctx context.Context, s *saga.Saga) (*workflow.Definition, error) {
	id := workflowID{s.Tenant.ID, s.WorkflowName, s.WorkflowVersion}
	j := &st.steps
	j.mu.RLock()
	d := j.definitions[id]
	j.mu.RUnlock()
	if d != nil {
		return d, nil
	}
	r, err := NewWorkflows(st.db).Get(ctx, id.tenant, id.name, id.version)
	if err != nil {
		return nil, err
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.definitions == nil || len(j.definitions) >= maxDefinitions {
		j.definitions = map[workflowID]*workflow.Definition{}
	}
	j.definitions[id] = r.Definition
	return r.Definition, nil
}

// hintAfter delays hints about a transaction that the caller commits, so that they follow the
// commit. A hint that comes too early has no effect, but nothing is lost, because its receiver also
// polls.
const hintAfter = 10 * time.Millisecond

func (s *stepJobs) settings(ctx context.Context) (jobrun.Settings, error) {
	if s.Settings == nil {
		return jobrun.NewSettings(0, nil), nil
	}
	return s.Settings(ctx)
}

const (
	// The principal of a saga is the actor of its first event, whose credential created the saga;
	// initiated_by is only the client's claim.
	requestedJob = `
SELECT d.id,
       d.name,
       d.spec_version,
       d.spec,
       (SELECT e.actor FROM saga.saga_events e WHERE e.saga_id = $3 ORDER BY e.id LIMIT 1)
  FROM jobs.job_definitions d
 WHERE d.tenant_id = $1 AND d.name = $2 AND d.deleted_at IS NULL`

	jobExists = `
SELECT EXISTS (SELECT FROM jobs.job_definitions d WHERE d.tenant_id = $1 AND d.name = $2 AND d.deleted_at IS NULL)`

	// A saga's letter is locked before the saga.
	letterOfSaga = `SELECT s.interventions->>'dead_letter' FROM saga.saga_states s WHERE s.tenant_id = $1 AND s.id = $2`

	// uncertainRuns reports whether an attempt in a chain of retries may have had an effect without
	// reporting it, because it was lost or timed out.
	uncertainRuns = `
SELECT EXISTS (SELECT FROM jobs.job_runs r
                WHERE r.tenant_id = $1 AND (r.id = $2 OR r.root_run_id = $2 AND r.retry_number > 0)
   AND (r.losses_used > 0 OR r.state = 'TIMED_OUT' OR r.error_code IN ('LOST', 'TIMED_OUT')))`
)

var lockSaga = `SELECT ` + sagaColumns + `
  FROM saga.saga_states s
 WHERE s.tenant_id = $1 AND s.id = $2
 FOR NO KEY UPDATE OF s`

// requestedRuns returns the runs that changes request, by the index of the change in the batch. A
// change creates no run if its job definition does not exist or cannot be read. It is then replaced
// by its other form (Change.WithoutRun) in batch, which must be the caller's own copy.
func (st *Sagas) requestedRuns(ctx context.Context, tx *sqlx.Tx, batch []saga.Change) (map[int]jobrun.Run, error) {
	runs := map[int]jobrun.Run{}
	for i := range batch {
		c := &batch[i]
		if c.Run == nil {
			continue
		}
		d := jobrun.Definition{TenantID: c.After.Tenant.ID}
		var spec []byte
		var by sql.NullString
		err := tx.QueryRowContext(ctx, requestedJob, d.TenantID, c.Run.Job, c.After.ID).Scan(&d.ID, &d.Name,
			&d.SpecVersion, &spec, &by)
		if err != nil && !errors.Is(err, sql.ErrNoRows) {
			return nil, fmt.Errorf("read the job definition %q: %w", c.Run.Job, err)
		}
		if err != nil || json.Unmarshal(spec, &d.Spec) != nil {
			batch[i] = c.WithoutRun()
			continue
		}
		settings, err := st.steps.settings(ctx)
		if err != nil {
			return nil, err
		}
		var named uuid.UUID
		if c.After.TenantInKeys {
			named = c.After.Tenant.ID
		}
		runs[i] = jobrun.New(&d, jobrun.Request{
			ID: c.Run.ID, Trigger: jobrun.BySaga,
			Key:  jobrun.SagaKey(named, c.After.ID, c.Run.Step, string(c.Run.Action), c.Run.Attempt),
			Args: c.Run.Args, SagaID: c.After.ID, SagaStep: c.Run.Step, SagaAction: string(c.Run.Action),
			CorrelationID: cmp.Or(textOf(c.After.CorrelationID), c.After.ID.String()), TraceID: textOf(c.After.TraceID),
			TraceState: textOf(c.After.TraceState), Baggage: textOf(c.After.Baggage), By: by.String,
		}, settings, st.jobs.At(c.After.UpdatedAt))
	}
	return runs, nil
}

func textOf(s *string) string {
	if s == nil {
		return ""
	}
	return *s
}

// beginRuns stores the runs of the changes that were written. after must be called after the
// commit.
func (st *Sagas) beginRuns(ctx context.Context, tx *sqlx.Tx, batch []saga.Change, runs map[int]jobrun.Run,
	moved map[saga.Ref]bool) (after func(), err error) {
	var list []jobrun.Run
	for i := range batch {
		if r, requested := runs[i]; requested && moved[batch[i].After.Ref()] {
			list = append(list, r)
		}
	}
	created, err := st.jobs.InsertRuns(ctx, tx, list)
	if err != nil {
		return nil, err
	}
	for i := range created {
		if !created[i] { // otherwise the saga would wait for a run that another change began
			return nil, fmt.Errorf("a job run with key %s already exists", list[i].IdempotencyKey)
		}
	}
	return func() { st.jobs.RunsCreated(list, created) }, nil
}

// runEnded is called in the transaction that ends the last run of a chain of retries. If a step of
// a saga waits for that chain, the saga advances in the same transaction. r and its chain are
// locked.
func (st *Sagas) runEnded(ctx context.Context, tx *sqlx.Tx, r *jobrun.Run) error {
	run, err := st.waitingFor(ctx, tx, r)
	if err != nil || run == nil {
		return st.db.PassOver(ctx, err)
	}
	o, err := outcomeOf(ctx, tx, r)
	if err != nil {
		return err
	}
	o.StartedAt, o.Request = run.begun, run.args
	m := st.jobs.At(*r.FinishedAt)
	change, err := saga.Apply(run.Instance, saga.Answered{Outcome: o}, saga.Moment{
		Now: m.Now, NewID: m.NewID, Jitter: m.Jitter, CompensationTimeout: st.steps.CompensationTimeout,
		Budget: st.steps.Budget,
	})
	if err != nil {
		return nil //nolint:nilerr // the saga no longer waits for this run
	}
	change = change.Released(m.Now)
	moved, begun, err := st.change(ctx, tx, []saga.Change{change})
	switch {
	case err != nil:
		return err
	case !moved[change.After.Ref()]:
		return fmt.Errorf("saga %s was changed under its lock", change.After.ID)
	}
	time.AfterFunc(hintAfter, func() {
		begun()
		if st.steps.Moved != nil {
			st.steps.Moved(change.After.Saga)
		}
	})
	return nil
}

// waitingSaga is a locked saga that waits for a run.
type waitingSaga struct {
	saga.Instance
	begun time.Time
	args  []byte
}

// waitingFor reads and locks the saga that waits for r. It returns nil if there is none.
func (st *Sagas) waitingFor(ctx context.Context, tx *sqlx.Tx, r *jobrun.Run) (*waitingSaga, error) {
	var letter sql.NullString
	switch err := tx.QueryRowContext(ctx, letterOfSaga, r.TenantID, r.SagaID).Scan(&letter); {
	case errors.Is(err, sql.ErrNoRows):
		return nil, nil //nolint:nilnil // the saga is in the archive
	case err != nil:
		return nil, err
	}
	if id, err := uuid.Parse(letter.String); err == nil {
		if _, err := tx.ExecContext(ctx, lockLetterOfSaga, r.TenantID, id); err != nil {
			return nil, err
		}
	}
	s, err := scanSaga(st.db, tx.QueryRowContext(ctx, lockSaga, r.TenantID, r.SagaID))
	if errors.Is(err, sql.ErrNoRows) || err == nil && s.State.Terminal() {
		return nil, nil //nolint:nilnil // see above
	}
	if err != nil {
		return nil, err
	}
	sealer := st.db.Keys.SealerFor(s.Tenant.ID, s.ID)
	rows, err := tx.QueryContext(ctx, `SELECT `+logColumns+`
	  FROM saga.saga_step_logs l
	 WHERE l.saga_id = $1 AND l.tenant_id = $2`, s.ID, s.Tenant.ID)
	if err != nil {
		return nil, err
	}
	var logs []saga.StepLog
	w := waitingSaga{}
	err = postgres.EachRow(rows, func() error {
		l, err := scanLog(rows, oneSealer(&sealer))
		if l.ID == r.RootRunID {
			w.begun, w.args = l.StartedAt, l.Request
		}
		logs = append(logs, l)
		return err
	})
	if err != nil {
		return nil, err
	}
	def, err := st.workflowOf(ctx, &s)
	if w.Instance, err = saga.Restored(s, def, err, logs); err != nil {
		return nil, err
	}
	if w.JobRun() != r.RootRunID {
		// The saga has continued without this run, or its definition cannot be read. In the latter
		// case the run is checked when the definition is readable again.
		return nil, nil //nolint:nilnil // see above
	}
	return &w, nil
}

// outcomeOf returns the outcome of the step whose run, or chain of retries, ended as r did.
func outcomeOf(ctx context.Context, tx postgres.Queryer, r *jobrun.Run) (saga.Outcome, error) {
	doubted := false
	if r.State != jobrun.Succeeded && r.State != jobrun.Skipped {
		if err := tx.QueryRowContext(ctx, uncertainRuns, r.TenantID, r.RootRunID).Scan(&doubted); err != nil {
			return saga.Outcome{}, err
		}
	}
	o := saga.OutcomeOfRun(saga.RunEnd{
		ID: r.ID, State: string(r.State), Result: r.Result, Error: r.Summary(), Doubted: doubted ||
			r.State == jobrun.Canceled && r.Attempt > 0,
		Reason: r.CancelReason, At: *r.FinishedAt,
	})
	if len(o.Output) == 0 {
		o.Output = nil
		return o, nil
	}
	var err error
	o.Output, err = postgres.Canonical(o.Output)
	return o, err
}

var latestOfChain = `
SELECT ` + jobdb.RunColumns + ` FROM jobs.job_runs r
 WHERE r.tenant_id = $1 AND (r.id = $2 OR r.root_run_id = $2 AND r.retry_number > 0)
 ORDER BY r.retry_number DESC
 LIMIT 1`

// neverBegun returns the outcome of a step whose run was not created (requestedRuns).
func (st *Sagas) neverBegun(ctx context.Context, c saga.JobCall) (*saga.Outcome, error) {
	o := &saga.Outcome{
		Verdict: saga.Refused, Class: retry.Refused, Code: "job_not_defined", Last: true,
		Message: fmt.Sprintf("there is no job definition %q", c.Job), Request: c.Args, StartedAt: c.Begun, EndedAt: c.Now,
	}
	var exists bool
	if err := st.db.Read.QueryRowContext(ctx, jobExists, c.Tenant, c.Job).Scan(&exists); err != nil {
		return nil, fmt.Errorf("find the job definition %q: %w", c.Job, err)
	}
	if exists {
		o.Code = "job_definition_unreadable"
		o.Message = fmt.Sprintf("the stored job definition %q was damaged when the step began", c.Job)
	}
	return o, nil
}

// CheckJobRun returns the outcome of a step's job run, or nil while it has none. It is
// engine.Config.CheckJobRun. cancel requests the cancellation of a run (jobrun.Runs), with the
// reason. A run that ends because it was canceled advances its saga in the same transaction.
func (st *Sagas) CheckJobRun(ctx context.Context, c saga.JobCall,
	cancel func(ctx context.Context, tenant, run uuid.UUID, reason string) error) (*saga.Outcome, error) {
	r, err := st.jobs.ScanRun(st.db.Read.QueryRowContext(ctx, latestOfChain, c.Tenant, c.ID))
	switch {
	case errors.Is(err, sql.ErrNoRows):
		// The run is stored with the change that requests it, and is kept until it has ended.
		return st.neverBegun(ctx, c)
	case err != nil:
		return nil, fmt.Errorf("check job run %s: %w", c.ID, err)
	case r.State.Terminal():
		o, err := outcomeOf(ctx, st.db.Read, &r)
		o.StartedAt, o.Request = c.Begun, c.Args
		return &o, err
	case !c.Stop:
		return nil, nil //nolint:nilnil // it is still running
	}
	if err := cancel(ctx, c.Tenant, r.ID, c.Why); err != nil && !fault.IsCode(err, jobrun.CodeConflict) {
		return nil, err
	}
	return nil, nil //nolint:nilnil // the run ends soon, or has just ended and advanced its saga
}
