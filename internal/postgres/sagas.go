package postgres

import (
	"encoding/json"
	"fmt"

	"github.com/skald-saga/skald/internal/retry"
	"github.com/skald-saga/skald/internal/saga"
	"github.com/skald-saga/skald/internal/secret/envelope"
)

// Sagas is saga.Store and saga.Ownership on PostgreSQL.
type Sagas struct {
	db    *DB
	jobs  *JobDB
	tell  *Teller  // of dead letters
	steps stepJobs // that are job runs
	turns turns    // of tenants, in claims
}

// NewSagas returns the saga store of db, beside which nothing runs jobs, with dead
// letters by the common policy.
func NewSagas(db *DB) *Sagas { return NewSagasWith(NewJobDB(db, nil)) }

// NewSagasWith returns the saga store beside jobs: steps that are job runs begin
// there, and jobs tells this store, and no other, of their ends (JobDB.OnEnded).
func NewSagasWith(jobs *JobDB) *Sagas {
	st := &Sagas{db: jobs.DB, jobs: jobs, tell: jobs.tell}
	jobs.OnEnded(st.runEnded)
	return st
}

// sagaColumns are the head's columns in the order of scanSaga; %[1]s is the table's alias.
const sagaColumns = `s.id, s.tenant_id, s.tenant_in_keys, s.tenant_region, s.tenant_major, s.tenant_minor, s.saga_type,
	s.workflow_name, s.workflow_version, s.name, s.description, s.business_key, s.correlation_id, s.initiated_by,
	s.trace_id, s.span_id, s.payload, s.metadata, s.retry_policy, s.interventions, s.result_data, s.state, s.current_step, s.total_steps,
	s.step_attempt, s.step_failures, s.step_uncertain, s.version, s.lease_owner, s.lease_epoch, s.next_run_at,
	s.error, s.end_cause, s.clean, s.needs_attention, s.attention_reason, s.timeout_ms, s.compensation_timeout_ms,
	s.timeout_at, s.compensation_timeout_at, s.compensation_expired, s.timed_out_at, s.cancel_requested_at,
	s.suspended_at, s.created_at, s.started_at, s.completed_at, s.updated_at`

// scanSaga reads one row of sagaColumns. By hand: it is on the way of every
// claim and read, and jsonb must become canonical again (invariant I7). Of a
// saga whose encrypted content cannot be decrypted (unreadable) it returns the ids.
func scanSaga(db *DB, row scanner) (saga.Saga, error) {
	var s saga.Saga
	var payload, metadata, policy, interventions, result, failure []byte
	err := row.Scan(&s.ID, &s.Tenant.ID, &s.TenantInKeys, &s.Region, &s.Major, &s.Minor, &s.SagaType,
		&s.WorkflowName, &s.WorkflowVersion, &s.Name, &s.Description, &s.BusinessKey, &s.CorrelationID, &s.InitiatedBy,
		&s.TraceID, &s.SpanID, &payload, &metadata, &policy, &interventions, &result, &s.State, &s.CurrentStep, &s.TotalSteps,
		&s.Attempt, &s.Failures, &s.Uncertain, &s.Version, &s.LeaseOwner, &s.LeaseEpoch, &s.NextRunAt,
		&failure, &s.EndCause, &s.Clean, &s.NeedsAttention, &s.AttentionReason, &s.TimeoutMS, &s.CompensationTimeoutMS,
		&s.TimeoutAt, &s.CompensationTimeoutAt, &s.CompensationExpired, &s.TimedOutAt, &s.CancelRequestedAt,
		&s.SuspendedAt, &s.CreatedAt, &s.StartedAt, &s.CompletedAt, &s.UpdatedAt)
	if err != nil {
		return s, err
	}
	place := db.keys.SealerFor(s.Tenant.ID, s.ID)
	if s.Payload, err = opened(&place, fieldPayload, payload); err != nil {
		return s, err
	}
	if s.Metadata, err = canonical(metadata); err != nil {
		return s, err
	}
	if s.Error, err = openError(&place, fieldError, failure); err != nil {
		return s, err
	}
	if policy != nil || interventions != nil || result != nil {
		if err := scanRare(&place, &s, policy, interventions, result); err != nil {
			return s, err
		}
	}
	utc(&s.CreatedAt, &s.UpdatedAt)
	utc(s.NextRunAt, s.TimeoutAt, s.CompensationTimeoutAt, s.TimedOutAt, s.CancelRequestedAt, s.SuspendedAt, s.StartedAt, s.CompletedAt)
	return s, nil
}

// scanRare reads what few sagas have.
func scanRare(place *envelope.Sealer, s *saga.Saga, policy, interventions, result []byte) (err error) {
	if policy != nil {
		s.RetryPolicy = new(retry.Policy)
		if err := json.Unmarshal(policy, s.RetryPolicy); err != nil {
			return fmt.Errorf("stored retry policy: %w", err)
		}
	}
	if interventions, err = canonical(interventions); err != nil {
		return err
	}
	if interventions != nil {
		s.Interventions = new(saga.Interventions)
		if err := json.Unmarshal(interventions, s.Interventions); err != nil {
			return fmt.Errorf("stored interventions: %w", err)
		}
		if s.Interventions, err = openInterventions(place, s.Interventions); err != nil {
			return err
		}
	}
	s.Result, err = opened(place, fieldResult, result)
	return err
}

// logColumns are a step log's columns in the order of scanLog.
const logColumns = `l.id, l.saga_id, l.tenant_id, l.step_index, l.step_name, l.action, l.attempt, l.status, l.final, l.outcome_code,
	l.request_payload, l.response_payload, l.error, l.started_at, l.completed_at, l.duration_ms, l.updated_at`

// scanLog reads one row of logColumns. placeOf returns the place of its saga's
// values. Of a log whose encrypted content cannot be decrypted it returns the ids.
func scanLog(row scanner, placeOf func(saga.Ref) *envelope.Sealer) (saga.StepLog, error) {
	l, _, err := scanLogOf(row, placeOf)
	return l, err
}

// scanLogOf is scanLog that tells whose log it is.
func scanLogOf(row scanner, placeOf func(saga.Ref) *envelope.Sealer) (l saga.StepLog, of saga.Ref, err error) {
	var request, response, failure []byte
	err = row.Scan(&l.ID, &l.SagaID, &of.Tenant, &l.StepIndex, &l.StepName, &l.Action, &l.Attempt, &l.Status, &l.Final, &l.Outcome,
		&request, &response, &failure, &l.StartedAt, &l.CompletedAt, &l.DurationMS, &l.UpdatedAt)
	if err != nil {
		return l, of, err
	}
	of.ID = l.SagaID
	place := placeOf(of)
	if l.Request, err = opened(place, logField(fieldRequest, &l), request); err != nil {
		return l, of, err
	}
	if l.Response, err = opened(place, logField(fieldResponse, &l), response); err != nil {
		return l, of, err
	}
	if l.Error, err = openError(place, logField(fieldLogError, &l), failure); err != nil {
		return l, of, err
	}
	utc(&l.StartedAt, l.CompletedAt, &l.UpdatedAt)
	return l, of, nil
}
