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

// Steps of sagas that are job runs (decision 0039). A run begins in the
// transaction that brings its saga to the step, and the transaction that ends it
// for good brings the saga on. Rows are locked in one order: runs, dead letters,
// sagas.

// JobSteps is what steps that are job runs need from outside. Nil functions are
// not called.
type JobSteps struct {
	// Settings returns the settings of job runs as they stand; nil: the defaults.
	Settings func(context.Context) (jobrun.Settings, error)
	// CompensationTimeout is of sagas that name none; 0: no deadline.
	CompensationTimeout time.Duration
	// Moved is told of each saga that went on with the end of a run, soon after the
	// commit: a hint for its engine and for those who wait for its end.
	Moved func(saga.Saga)
}

// ConfigureJobSteps sets what steps that are job runs need. To be called before
// st is used.
func (st *Sagas) ConfigureJobSteps(s JobSteps) { st.steps.JobSteps = s }

// stepJobs is JobSteps with the definitions of workflows, which never change.
type stepJobs struct {
	JobSteps
	mu          sync.RWMutex
	definitions map[workflowID]*workflow.Definition // guarded by mu; versions never change
}

type workflowID struct {
	tenant  uuid.UUID
	name    string
	version int
}

// maxDefinitions is how many are kept before all are forgotten.
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

// hintAfter is when hints are given of what a transaction does that its caller
// commits. One that comes too early finds nothing, and nothing is lost by it:
// whoever is told also looks by himself.
const hintAfter = 10 * time.Millisecond

func (s *stepJobs) settings(ctx context.Context) (jobrun.Settings, error) {
	if s.Settings == nil {
		return jobrun.NewSettings(0, nil), nil
	}
	return s.Settings(ctx)
}

const (
	// Who is behind a saga is whose credential began it: initiated_by is what they say.
	askedJobs = `
SELECT d.id, d.name, d.spec_version, d.spec, (SELECT e.actor FROM saga.saga_events e WHERE e.saga_id = $3 ORDER BY e.id LIMIT 1)
  FROM jobs.job_definitions d
 WHERE d.tenant_id = $1 AND d.name = $2 AND d.deleted_at IS NULL`

	// The letter of a saga is locked before the saga.
	letterOfSaga = `SELECT s.interventions->>'dead_letter' FROM saga.saga_states s WHERE s.tenant_id = $1 AND s.id = $2`

	// Whether an attempt of a chain of retries may have done something without
	// saying so: it was lost, or cut off.
	doubtedRuns = `
SELECT EXISTS (SELECT FROM jobs.job_runs r WHERE r.tenant_id = $1 AND (r.id = $2 OR r.root_run_id = $2 AND r.retry_number > 0)
   AND (r.losses_used > 0 OR r.state = 'TIMED_OUT' OR r.error_code IN ('LOST', 'TIMED_OUT')))`
)

var lockSaga = `SELECT ` + sagaColumns + ` FROM saga.saga_states s WHERE s.tenant_id = $1 AND s.id = $2 FOR NO KEY UPDATE OF s`

// askedRuns returns the runs that changes ask for, each at its change's place in
// the batch. A change whose definition is not there begins none, and takes its other
// form in batch, which is the caller's own (Change.WithoutRun).
func (st *Sagas) askedRuns(ctx context.Context, tx *sqlx.Tx, batch []saga.Change) (map[int]jobrun.Run, error) {
	runs := map[int]jobrun.Run{}
	for i := range batch {
		c := &batch[i]
		if c.Run == nil {
			continue
		}
		d := jobrun.Definition{TenantID: c.After.Tenant.ID}
		var spec []byte
		var by sql.NullString
		err := tx.QueryRowContext(ctx, askedJobs, d.TenantID, c.Run.Job, c.After.ID).Scan(&d.ID, &d.Name,
			&d.SpecVersion, &spec, &by)
		if errors.Is(err, sql.ErrNoRows) {
			batch[i] = c.WithoutRun()
			continue
		}
		if err == nil {
			err = json.Unmarshal(spec, &d.Spec)
		}
		if err != nil {
			return nil, fmt.Errorf("read the job definition %q: %w", c.Run.Job, err)
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
			By: by.String,
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

// beginRuns stores the runs of those changes that were written. after is to be
// called after the commit.
func (st *Sagas) beginRuns(ctx context.Context, tx *sqlx.Tx, batch []saga.Change, runs map[int]jobrun.Run,
	moved map[saga.Ref]bool) (after func(), err error) {
	var list []jobrun.Run
	for i := range batch {
		if r, asked := runs[i]; asked && moved[batch[i].After.Ref()] {
			list = append(list, r)
		}
	}
	created, err := st.jobs.InsertRuns(ctx, tx, list)
	if err != nil {
		return nil, err
	}
	for i := range created {
		if !created[i] { // the saga would wait for a run that another change began
			return nil, fmt.Errorf("a job run with key %s already exists", list[i].IdempotencyKey)
		}
	}
	return func() { st.jobs.RunsCreated(list, created) }, nil
}

// RunEnded is called in the transaction in which the last run of a chain of
// retries ends that a step of a saga waits for: the saga goes on in it. r and its
// chain are locked.
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
	})
	if err != nil {
		return nil //nolint:nilerr // it does not wait for this any more
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

// waitingSaga is a saga that waits for a run, locked.
type waitingSaga struct {
	saga.Instance
	begun time.Time
	args  []byte
}

// waitingFor reads the saga that waits for r and locks it, nil when it does not.
func (st *Sagas) waitingFor(ctx context.Context, tx *sqlx.Tx, r *jobrun.Run) (*waitingSaga, error) {
	var letter sql.NullString
	switch err := tx.QueryRowContext(ctx, letterOfSaga, r.TenantID, r.SagaID).Scan(&letter); {
	case errors.Is(err, sql.ErrNoRows):
		return nil, nil //nolint:nilnil // it is in the archive
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
	rows, err := tx.QueryContext(ctx, `SELECT `+logColumns+` FROM saga.saga_step_logs l WHERE l.saga_id = $1 AND l.tenant_id = $2`, s.ID, s.Tenant.ID)
	if err != nil {
		return nil, err
	}
	var logs []saga.StepLog
	w := waitingSaga{}
	err = postgres.EachRow(rows, func() error {
		l, err := scanLog(rows, at(&sealer))
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
	if err != nil {
		return nil, err
	}
	if w.Instance = saga.Rebuild(s, def, logs); w.JobRun() != r.RootRunID {
		return nil, nil //nolint:nilnil // it went on without it
	}
	return &w, nil
}

// outcomeOf is what the end of a run means to the step that it is.
func outcomeOf(ctx context.Context, tx postgres.Queryer, r *jobrun.Run) (saga.Outcome, error) {
	doubted := false
	if r.State != jobrun.Succeeded && r.State != jobrun.Skipped {
		if err := tx.QueryRowContext(ctx, doubtedRuns, r.TenantID, r.RootRunID).Scan(&doubted); err != nil {
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
 WHERE r.tenant_id = $1 AND (r.id = $2 OR r.root_run_id = $2 AND r.retry_number > 0) ORDER BY r.retry_number DESC LIMIT 1`

// CheckJobRun looks after the job run of a step: engine.Config.CheckJobRun. cancel asks
// to cancel a run (jobrun.Runs), with the reason. A run that ends by that tells its
// saga itself.
func (st *Sagas) CheckJobRun(ctx context.Context, c saga.JobCall,
	cancel func(ctx context.Context, tenant, run uuid.UUID, reason string) error) (*saga.Outcome, error) {
	r, err := st.jobs.ScanRun(st.db.Read.QueryRowContext(ctx, latestOfChain, c.Tenant, c.ID))
	switch {
	case errors.Is(err, sql.ErrNoRows):
		// It is stored with the change that begins it, and kept until it has ended.
		return &saga.Outcome{
			Verdict: saga.Refused, Class: retry.Refused, Code: "job_not_defined", Last: true,
			Message: fmt.Sprintf("there is no job definition %q", c.Job), Request: c.Args, StartedAt: c.Begun, EndedAt: c.Now,
		}, nil
	case err != nil:
		return nil, fmt.Errorf("check job run %s: %w", c.ID, err)
	case r.State.Terminal():
		o, err := outcomeOf(ctx, st.db.Read, &r)
		o.StartedAt, o.Request = c.Begun, c.Args
		return &o, err
	case !c.Stop:
		return nil, nil //nolint:nilnil // it goes on
	}
	if err := cancel(ctx, c.Tenant, r.ID, c.Why); err != nil && !fault.IsCode(err, jobrun.CodeConflict) {
		return nil, err
	}
	return nil, nil //nolint:nilnil // it ends soon, or has ended just now and told its saga
}
