// Package erasuredb erases the content of sagas, dead letters and job runs in PostgreSQL, in one
// transaction.
package erasuredb

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/google/uuid"
	"github.com/jmoiron/sqlx"
	"github.com/lib/pq"

	"github.com/skald-saga/skald/internal/audit/auditdb"
	"github.com/skald-saga/skald/internal/audit/operator"
	"github.com/skald-saga/skald/internal/dlq"
	"github.com/skald-saga/skald/internal/dlq/dlqdb"
	"github.com/skald-saga/skald/internal/erasure"
	"github.com/skald-saga/skald/internal/fault"
	"github.com/skald-saga/skald/internal/jobrun"
	"github.com/skald-saga/skald/internal/postgres"
	"github.com/skald-saga/skald/internal/saga"
	"github.com/skald-saga/skald/internal/saga/sagadb"
)

// Store erases content. It implements erasure.Eraser.
type Store struct{ db *postgres.DB }

// New returns the store on db.
func New(db *postgres.DB) *Store { return &Store{db} }

// These statements find the content that an erasure by a key concerns. They skip content that was
// already erased, so that repeated requests eventually find nothing.
const (
	ofBusinessKey = `
SELECT s.id
  FROM saga.saga_states s
 WHERE s.tenant_id = $1 AND s.business_key = $2 AND s.payload IS DISTINCT FROM $4::jsonb
 UNION ALL
SELECT s.id
  FROM saga.saga_states_archive s
 WHERE s.tenant_id = $1 AND s.business_key = $2 AND s.payload IS DISTINCT FROM $4::jsonb
 ORDER BY 1 LIMIT $3`
	ofCorrelation = `
SELECT s.id
  FROM saga.saga_states s
 WHERE s.tenant_id = $1 AND s.correlation_id = $2 AND s.payload IS DISTINCT FROM $4::jsonb
 UNION ALL
SELECT s.id
  FROM saga.saga_states_archive s
 WHERE s.tenant_id = $1 AND s.correlation_id = $2 AND s.payload IS DISTINCT FROM $4::jsonb
 ORDER BY 1 LIMIT $3`
	lettersOfCorrelation = `
SELECT m.id FROM dlq.dlq_messages m WHERE m.tenant_id = $1 AND m.terms @> ARRAY[$4::integer] AND m.correlation_id = $2
 UNION ALL
SELECT m.id
  FROM dlq.dlq_messages_archive m
 WHERE m.tenant_id = $1 AND m.terms @> ARRAY[$4::integer] AND m.correlation_id = $2
 ORDER BY 1 LIMIT $3`
	runsOfCorrelation = `
SELECT r.id FROM jobs.job_runs r WHERE r.tenant_id = $1 AND r.correlation_id = $2
   AND (r.args IS NOT NULL
        OR r.progress IS NOT NULL
        OR r.checkpoint IS NOT NULL
        OR r.result IS NOT NULL
        OR r.error->>'message' <> 'erased')
 ORDER BY r.id LIMIT $3`
)

// runsOf selects the runs that were chosen directly, and the runs of the chosen sagas.
const runsOf = `
SELECT r.id FROM jobs.job_runs r WHERE r.tenant_id = $1 AND r.id = ANY ($2::uuid[])
 UNION
SELECT r.id FROM jobs.job_runs r WHERE r.tenant_id = $1 AND r.saga_id = ANY ($3::uuid[])`

// termsOf returns the search terms for the letters of sagas and runs.
func termsOf(tenant uuid.UUID, sagas, runs []uuid.UUID) []int32 {
	terms := make([]int32, 0, len(sagas)+len(runs))
	for _, id := range sagas {
		terms = append(terms, dlqdb.Term(tenant, dlqdb.TermSaga, id.String()))
	}
	for _, id := range runs {
		terms = append(terms, dlqdb.Term(tenant, dlqdb.TermJobRun, id.String()))
	}
	return terms
}

// errCounted rolls a dry run back. Only the erasure itself yields an exact count.
var errCounted = errors.New("a dry run")

// Erase implements erasure.Eraser, in one transaction.
func (st *Store) Erase(ctx context.Context, e erasure.Erasure) (erasure.Erasures, error) {
	erased, err := postgres.RetryCollision(func() (erasure.Erasures, error) {
		var erased erasure.Erasures
		err := st.db.InWrite(ctx, func(tx *sqlx.Tx) (err error) {
			erased, err = erase(ctx, tx, &e)
			return err
		})
		return erased, err
	})
	if errors.Is(err, errCounted) {
		return erased, nil
	}
	return erased, postgres.Wrap("erase content", err)
}

// purged is what saga.purge_contents returns.
type purged struct {
	erasure.Erasures
	Heads         []uuid.UUID `json:"erased_sagas"`
	ActiveSagas   []uuid.UUID `json:"active_sagas"`
	ActiveLetters []uuid.UUID `json:"active_letters"`
	ActiveRuns    []uuid.UUID `json:"active_runs"`
}

func erase(ctx context.Context, tx *sqlx.Tx, e *erasure.Erasure) (erasure.Erasures, error) {
	sagas, letters, runs, err := chosen(ctx, tx, e)
	if err != nil {
		return erasure.Erasures{}, err
	}
	more := max(len(sagas), len(letters), len(runs)) == erasure.MaxErased
	var all []uuid.UUID
	if err := tx.SelectContext(ctx, &all, runsOf, e.TenantID, pq.Array(runs), pq.Array(sagas)); err != nil {
		return erasure.Erasures{}, err
	}
	var doc []byte
	err = tx.GetContext(ctx, &doc, `SELECT saga.purge_contents($1, $2::uuid[], $3::uuid[], $4::uuid[], $5::integer[])`,
		e.TenantID, pq.Array(sagas), pq.Array(letters), pq.Array(all), pq.Array(termsOf(e.TenantID, sagas, all)))
	if err != nil {
		return erasure.Erasures{}, err
	}
	var p purged
	if err := json.Unmarshal(doc, &p); err != nil {
		return erasure.Erasures{}, fmt.Errorf("decode the result of an erasure: %w", err)
	}
	switch {
	case p.ActiveSagas != nil || p.ActiveLetters != nil || p.ActiveRuns != nil:
		return erasure.Erasures{}, erasure.NotErasable(p.ActiveSagas, p.ActiveLetters, p.ActiveRuns)
	case p.Sagas < len(sagas) && e.Subject.SagaID != uuid.Nil:
		return erasure.Erasures{}, saga.NotFound(e.Subject.SagaID)
	case p.Letters == 0 && e.Subject.LetterID != uuid.Nil:
		return erasure.Erasures{}, dlq.NotFound(e.Subject.LetterID)
	case p.Runs == 0 && e.Subject.RunID != uuid.Nil:
		return erasure.Erasures{}, fault.New(fault.NotFound, jobrun.CodeRunNotFound, "there is no job run %s",
			e.Subject.RunID)
	}
	p.More = more
	if err := sagadb.EraseNotes(ctx, tx, e.TenantID, p.Heads); err != nil {
		return erasure.Erasures{}, err
	}
	if p.Events, err = sagadb.EraseEvents(ctx, tx, e.TenantID, p.Heads, e.Event); err != nil {
		return erasure.Erasures{}, err
	}
	if e.DryRun {
		return p.Erasures, errCounted
	}
	return p.Erasures, recordErasure(ctx, tx, e, p.Erasures)
}

// chosen finds the resources that an erasure concerns.
func chosen(ctx context.Context, tx *sqlx.Tx, e *erasure.Erasure) (sagas, letters, runs []uuid.UUID, err error) {
	s, mark := &e.Subject, string(saga.ErasedContent)
	switch {
	case s.SagaID != uuid.Nil:
		return []uuid.UUID{s.SagaID}, nil, nil, nil
	case s.LetterID != uuid.Nil:
		return nil, []uuid.UUID{s.LetterID}, nil, nil
	case s.RunID != uuid.Nil:
		return nil, nil, []uuid.UUID{s.RunID}, nil
	case s.BusinessKey != "":
		err = tx.SelectContext(ctx, &sagas, ofBusinessKey, e.TenantID, s.BusinessKey, erasure.MaxErased, mark)
		return sagas, nil, nil, err
	}
	if err = tx.SelectContext(ctx, &sagas, ofCorrelation, e.TenantID, s.CorrelationID, erasure.MaxErased,
		mark); err != nil {
		return nil, nil, nil, err
	}
	term := dlqdb.Term(e.TenantID, dlqdb.TermCorrelation, s.CorrelationID)
	err = tx.SelectContext(ctx, &letters, lettersOfCorrelation, e.TenantID, s.CorrelationID, erasure.MaxErased, term)
	if err != nil {
		return nil, nil, nil, err
	}
	err = tx.SelectContext(ctx, &runs, runsOfCorrelation, e.TenantID, s.CorrelationID, erasure.MaxErased)
	return sagas, letters, runs, err
}

// recordErasure records the erasure, with the resources that were erased.
func recordErasure(ctx context.Context, tx *sqlx.Tx, e *erasure.Erasure, erased erasure.Erasures) error {
	detail, err := json.Marshal(erased)
	if err != nil {
		return err
	}
	return auditdb.PutAction(ctx, tx,
		operator.Acting(ctx).Did(e.ID, e.TenantID, e.At, operator.Erasure, e.Subject.String(), "erase", detail))
}
