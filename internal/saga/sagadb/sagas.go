// Package sagadb keeps sagas, their step logs and events, and workflows on PostgreSQL.
//
// Read sagas.go first, then create.go and commit.go: every change of a saga is one
// batch of those. claim.go and ownership.go are what nodes drive by; letters.go,
// jobs.go and steer.go what a commit does to dead letters and job runs; list.go and
// read.go what people ask; archive.go and retention.go what becomes of ended ones;
// trail.go the events in order.
package sagadb

import (
	"encoding/json"
	"fmt"

	"github.com/skald-saga/skald/internal/dlq/dlqdb"
	"github.com/skald-saga/skald/internal/jobrun"
	"github.com/skald-saga/skald/internal/jobrun/jobdb"
	"github.com/skald-saga/skald/internal/postgres"
	"github.com/skald-saga/skald/internal/retry"
	"github.com/skald-saga/skald/internal/saga"
	"github.com/skald-saga/skald/internal/secret/envelope"
)

// Sagas is saga.Store and saga.Ownership on PostgreSQL.
type Sagas struct {
	db    *postgres.DB
	jobs  *jobdb.DB
	tell  *dlqdb.Teller // of dead letters
	steps stepJobs      // that are job runs
	turns turns         // of tenants, in claims
}

// NewSagas returns the saga store of db, beside which nothing runs jobs, with dead
// letters by the common policy.
func NewSagas(db *postgres.DB) *Sagas { return NewSagasWith(jobdb.NewDB(db, jobrun.Chance{}, nil)) }

// NewSagasWith returns the saga store beside jobs: steps that are job runs begin
// there, and jobs tells this store, and no other, of their ends (JobDB.OnEnded).
func NewSagasWith(jobs *jobdb.DB) *Sagas {
	st := &Sagas{db: jobs.DB, jobs: jobs, tell: jobs.Tell}
	jobs.OnEnded(st.runEnded)
	return st
}

// sagaColumns are what scanSaga reads, of s.
var sagaColumns = sagaTable.Selected("s")

// scanSaga reads one row of sagaColumns; jsonb becomes canonical again (invariant
// I7). Of a saga whose encrypted content cannot be decrypted (unreadable) it returns
// the ids.
func scanSaga(db *postgres.DB, row postgres.Scanner) (saga.Saga, error) {
	var s saga.Saga
	r := sagaRow{Saga: &s}
	err := sagaTable.Scan(row, &r)
	if err != nil {
		return s, err
	}
	sealer := db.Keys.SealerFor(s.Tenant.ID, s.ID)
	if s.Payload, err = postgres.Unseal(&sealer, fieldPayload, r.payload); err != nil {
		return s, err
	}
	if s.Metadata, err = postgres.Canonical(r.metadata); err != nil {
		return s, err
	}
	if s.Error, err = openError(&sealer, fieldError, r.failure); err != nil {
		return s, err
	}
	if r.policy != nil || r.interventions != nil || r.result != nil {
		return s, scanRare(&sealer, &r)
	}
	return s, nil
}

// scanRare reads what few sagas have.
func scanRare(sealer *envelope.Sealer, s *sagaRow) (err error) {
	if s.policy != nil {
		s.RetryPolicy = new(retry.Policy)
		if err := json.Unmarshal(s.policy, s.RetryPolicy); err != nil {
			return fmt.Errorf("stored retry policy: %w", err)
		}
	}
	interventions, err := postgres.Canonical(s.interventions)
	if err != nil {
		return err
	}
	if interventions != nil {
		s.Interventions = new(saga.Interventions)
		if err := json.Unmarshal(interventions, s.Interventions); err != nil {
			return fmt.Errorf("stored interventions: %w", err)
		}
		if s.Interventions, err = openInterventions(sealer, s.Interventions); err != nil {
			return err
		}
	}
	s.Result, err = postgres.Unseal(sealer, fieldResult, s.result)
	return err
}

// logColumns are what scanLog reads, of l.
var logColumns = logTable.Selected("l")

// scanLog reads one row of logColumns. placeOf returns the place of its saga's
// values. Of a log whose encrypted content cannot be decrypted it returns the ids.
func scanLog(row postgres.Scanner, placeOf func(saga.Ref) *envelope.Sealer) (saga.StepLog, error) {
	l, _, err := scanLogOf(row, placeOf)
	return l, err
}

// scanLogOf is scanLog that tells whose log it is.
func scanLogOf(row postgres.Scanner, placeOf func(saga.Ref) *envelope.Sealer) (l saga.StepLog, of saga.Ref, err error) {
	r := logRow{StepLog: &l}
	if err = logTable.Scan(row, &r); err != nil {
		return l, r.of, err
	}
	of, l.SagaID = r.of, r.of.ID
	sealer := placeOf(of)
	if l.Request, err = postgres.Unseal(sealer, logField(fieldRequest, &l), r.request); err != nil {
		return l, of, err
	}
	if l.Response, err = postgres.Unseal(sealer, logField(fieldResponse, &l), r.response); err != nil {
		return l, of, err
	}
	if l.Error, err = openError(sealer, logField(fieldLogError, &l), r.failure); err != nil {
		return l, of, err
	}
	return l, of, nil
}
