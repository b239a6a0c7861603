package postgres

import (
	"context"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"time"

	"github.com/google/uuid"

	"github.com/skald-saga/skald/internal/saga"
)

// createSagas stores a batch in one statement, so in one transaction: each
// saga whose workflow is enabled and still current, and whose idempotency key
// is new. Keys go in in order, so that two nodes with the same keys wait for
// each other instead of deadlocking. A taken id fails the whole statement; the
// caller then stores the batch one by one.
const createSagas = `
WITH c AS MATERIALIZED (
	SELECT * FROM json_to_recordset($1::json) AS c (
		id uuid, tenant_id uuid, tenant_region text, tenant_major int, tenant_minor int, saga_type text,
		workflow_name text, workflow_version int, floating bool, name text, description text,
		business_key text, correlation_id text, initiated_by text, trace_id text, span_id text,
		payload jsonb, metadata jsonb, total_steps int, step_attempt int, lease_owner bigint, lease_epoch bigint,
		next_run_at timestamptz, timeout_ms bigint, compensation_timeout_ms bigint,
		created_at timestamptz, started_at timestamptz,
		key text, key_principal text, key_route text, key_hash text)
), runnable AS MATERIALIZED (
	SELECT c.* FROM c JOIN saga.workflows w ON w.tenant_id = c.tenant_id AND w.name = c.workflow_name
	 WHERE w.enabled AND (NOT c.floating OR w.latest_version = c.workflow_version)
), keyed AS (
	INSERT INTO saga.idempotency_keys (tenant_id, principal, route, key, request_hash, saga_id)
	SELECT tenant_id, key_principal, key_route, key, decode(key_hash, 'hex'), id FROM runnable
	 WHERE key IS NOT NULL ORDER BY tenant_id, key_principal, key_route, key
	ON CONFLICT DO NOTHING
	RETURNING saga_id
)
INSERT INTO saga.saga_states (
	id, tenant_id, tenant_region, tenant_major, tenant_minor, saga_type, workflow_name, workflow_version,
	name, description, business_key, correlation_id, initiated_by, trace_id, span_id, payload, metadata,
	total_steps, step_attempt, lease_owner, lease_epoch, next_run_at, timeout_ms, compensation_timeout_ms,
	timeout_at, created_at, updated_at, started_at)
SELECT id, tenant_id, tenant_region, tenant_major, tenant_minor, saga_type, workflow_name, workflow_version,
	name, description, business_key, correlation_id, initiated_by, trace_id, span_id, payload, metadata,
	total_steps, step_attempt, lease_owner, lease_epoch, next_run_at, timeout_ms, compensation_timeout_ms,
	now() + timeout_ms * interval '1 ms', created_at, created_at, started_at
  FROM runnable
 WHERE key IS NULL OR id IN (SELECT saga_id FROM keyed)
RETURNING id, timeout_at`

// newSagaDoc is one element of createSagas' parameter.
type newSagaDoc struct {
	ID                    uuid.UUID       `json:"id"`
	TenantID              uuid.UUID       `json:"tenant_id"`
	TenantRegion          string          `json:"tenant_region"`
	TenantMajor           int             `json:"tenant_major"`
	TenantMinor           int             `json:"tenant_minor"`
	SagaType              string          `json:"saga_type"`
	WorkflowName          string          `json:"workflow_name"`
	WorkflowVersion       int             `json:"workflow_version"`
	Floating              bool            `json:"floating"`
	Name                  *string         `json:"name,omitempty"`
	Description           *string         `json:"description,omitempty"`
	BusinessKey           *string         `json:"business_key,omitempty"`
	CorrelationID         *string         `json:"correlation_id,omitempty"`
	InitiatedBy           string          `json:"initiated_by"`
	TraceID               *string         `json:"trace_id,omitempty"`
	SpanID                *string         `json:"span_id,omitempty"`
	Payload               json.RawMessage `json:"payload,omitempty"`
	Metadata              json.RawMessage `json:"metadata,omitempty"`
	TotalSteps            int             `json:"total_steps"`
	Attempt               int             `json:"step_attempt"`
	LeaseOwner            *int64          `json:"lease_owner,omitempty"`
	LeaseEpoch            int64           `json:"lease_epoch"`
	NextRunAt             *time.Time      `json:"next_run_at,omitempty"`
	TimeoutMS             *int64          `json:"timeout_ms,omitempty"`
	CompensationTimeoutMS *int64          `json:"compensation_timeout_ms,omitempty"`
	CreatedAt             time.Time       `json:"created_at"`
	StartedAt             *time.Time      `json:"started_at,omitempty"`
	Key                   *string         `json:"key,omitempty"`
	KeyPrincipal          string          `json:"key_principal,omitempty"`
	KeyRoute              string          `json:"key_route,omitempty"`
	KeyHash               string          `json:"key_hash,omitempty"`
}

func newSagaDocOf(n *saga.NewSaga) newSagaDoc {
	s := &n.Saga
	d := newSagaDoc{
		ID: s.ID, TenantID: s.Tenant.ID, TenantRegion: s.Region, TenantMajor: s.Major, TenantMinor: s.Minor, SagaType: s.SagaType,
		WorkflowName: s.WorkflowName, WorkflowVersion: s.WorkflowVersion, Floating: n.Floating,
		Name: s.Name, Description: s.Description, BusinessKey: s.BusinessKey, CorrelationID: s.CorrelationID, InitiatedBy: s.InitiatedBy,
		TraceID: s.TraceID, SpanID: s.SpanID, Payload: s.Payload, Metadata: s.Metadata,
		TotalSteps: s.TotalSteps, Attempt: s.Attempt, LeaseOwner: s.LeaseOwner, LeaseEpoch: s.LeaseEpoch, NextRunAt: s.NextRunAt,
		TimeoutMS: s.TimeoutMS, CompensationTimeoutMS: s.CompensationTimeoutMS, CreatedAt: s.CreatedAt, StartedAt: s.StartedAt,
	}
	if k := n.Key; k != nil {
		d.Key, d.KeyPrincipal, d.KeyRoute, d.KeyHash = &k.Key, k.Principal, k.Route, hex.EncodeToString(k.Hash)
	}
	return d
}

// Create implements saga.Store.
func (st *Sagas) Create(ctx context.Context, batch []saga.NewSaga) ([]saga.CreateResult, error) {
	timeouts, err := again(func() (map[uuid.UUID]*time.Time, error) { return st.insert(ctx, batch) })
	switch {
	case err == nil:
	case dataError(err) && len(batch) > 1:
		return oneByOne(batch, func(one []saga.NewSaga) ([]saga.CreateResult, error) { return st.Create(ctx, one) })
	case violates(err, "saga_states_pkey"):
		return []saga.CreateResult{{Created: saga.IDTaken}}, nil
	case dataError(err):
		return []saga.CreateResult{{Created: saga.Unstorable}}, nil
	default:
		return nil, fmt.Errorf("create sagas: %w", err)
	}
	results := make([]saga.CreateResult, len(batch))
	for i := range batch {
		timeout, isStored := timeouts[batch[i].ID]
		if isStored {
			s := batch[i].Saga
			s.TimeoutAt = timeout
			results[i] = saga.CreateResult{Created: saga.Stored, Saga: s}
			continue
		}
		if results[i], err = st.whyNotCreated(ctx, &batch[i]); err != nil {
			return nil, err
		}
	}
	return results, nil
}

func (st *Sagas) insert(ctx context.Context, batch []saga.NewSaga) (map[uuid.UUID]*time.Time, error) {
	docs := make([]newSagaDoc, len(batch))
	for i := range batch {
		docs[i] = newSagaDocOf(&batch[i])
	}
	doc, err := json.Marshal(docs)
	if err != nil {
		return nil, fmt.Errorf("encode sagas: %w", err)
	}
	rows, err := st.db.queryWrite(ctx, createSagas, string(doc))
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	out := make(map[uuid.UUID]*time.Time, len(batch))
	for rows.Next() {
		var id uuid.UUID
		var timeout *time.Time
		if err := rows.Scan(&id, &timeout); err != nil {
			return nil, err
		}
		utc(timeout)
		out[id] = timeout
	}
	return out, rows.Err()
}

// whyNotCreated finds out, after the fact, why the statement left a saga out.
func (st *Sagas) whyNotCreated(ctx context.Context, n *saga.NewSaga) (saga.CreateResult, error) {
	if n.Key != nil {
		state, prior, err := st.Key(ctx, *n.Key)
		switch {
		case err != nil:
			return saga.CreateResult{}, err
		case state == saga.KeySame:
			return saga.CreateResult{Created: saga.Replayed, Prior: prior}, nil
		case state == saga.KeyOther:
			return saga.CreateResult{Created: saga.KeyReused}, nil
		}
	}
	var enabled []bool
	err := st.db.read.SelectContext(ctx, &enabled, `SELECT enabled FROM saga.workflows WHERE tenant_id = $1 AND name = $2`, n.Tenant.ID, n.WorkflowName)
	switch {
	case err != nil:
		return saga.CreateResult{}, fmt.Errorf("read workflow: %w", err)
	case len(enabled) == 0 || !enabled[0]:
		return saga.CreateResult{Created: saga.NotRunnable}, nil
	}
	return saga.CreateResult{Created: saga.NotCurrent}, nil
}

// Key implements saga.Store.
func (st *Sagas) Key(ctx context.Context, k saga.IdempotencyKey) (saga.KeyState, uuid.UUID, error) {
	var found []struct {
		Hash   []byte    `db:"request_hash"`
		SagaID uuid.UUID `db:"saga_id"`
	}
	err := st.db.read.SelectContext(ctx, &found, `
		SELECT request_hash, saga_id FROM saga.idempotency_keys
		 WHERE tenant_id = $1 AND principal = $2 AND route = $3 AND key = $4`, k.TenantID, k.Principal, k.Route, k.Key)
	switch {
	case err != nil:
		return saga.KeyNew, uuid.Nil, fmt.Errorf("read idempotency key: %w", err)
	case len(found) == 0:
		return saga.KeyNew, uuid.Nil, nil
	case string(found[0].Hash) != string(k.Hash):
		return saga.KeyOther, found[0].SagaID, nil
	}
	return saga.KeySame, found[0].SagaID, nil
}
