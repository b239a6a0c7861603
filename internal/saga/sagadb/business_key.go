package sagadb

import (
	"context"
	"database/sql"
	"errors"
	"fmt"

	"github.com/google/uuid"

	"github.com/skald-saga/skald/internal/saga"
)

// businessKeyIndex prevents two unfinished sagas of a workflow from having the same key.
const businessKeyIndex = "uq_saga_business_key"

// activeKey selects the unfinished saga of a tenant, workflow and business key, which are given as
// SQL expressions. Its conditions are those of businessKeyIndex.
func activeKey(tenant, workflow, key string) string {
	return `SELECT o.id FROM saga.saga_states o WHERE o.tenant_id = ` + tenant + ` AND o.workflow_name = ` + workflow +
		` AND o.business_key = ` + key + ` AND o.business_key IS NOT NULL AND o.completed_at IS NULL`
}

// keyActive returns the result for a saga that was not created because its business key is taken.
// Created is 0 if the key is free. An idempotency key that was used in the meantime takes
// precedence.
func (st *Sagas) keyActive(ctx context.Context, n *saga.NewSaga) (saga.CreateResult, error) {
	other, err := st.activeSaga(ctx, &n.Saga)
	switch {
	case err != nil || other == uuid.Nil:
		return saga.CreateResult{}, err
	case !n.Join:
		return saga.CreateResult{Created: saga.KeyActive, Prior: other}, nil
	case n.Key == nil:
		return saga.CreateResult{Created: saga.Joined, Prior: other}, nil
	}
	stored, err := storeKey(ctx, st.db.Read, n.Key, other)
	switch {
	case err != nil:
		return saga.CreateResult{}, err
	case !stored:
		return st.whyNotCreated(ctx, n)
	}
	return saga.CreateResult{Created: saga.Joined, Prior: other}, nil
}

// activeSaga returns the unfinished saga that has the business key of s, or uuid.Nil if there is
// none.
func (st *Sagas) activeSaga(ctx context.Context, s *saga.Saga) (uuid.UUID, error) {
	var other uuid.UUID
	err := st.db.Read.GetContext(ctx, &other, activeKey("$1", "$2", "$3"), s.Tenant.ID, s.WorkflowName, *s.BusinessKey)
	if errors.Is(err, sql.ErrNoRows) {
		return uuid.Nil, nil
	}
	if err != nil {
		return uuid.Nil, fmt.Errorf("find the saga of a business key: %w", err)
	}
	return other, nil
}

// whyNotReopened returns the conflict of a change that would give two unfinished sagas the same
// key.
func (st *Sagas) whyNotReopened(ctx context.Context, c *saga.Change) ([]error, error) {
	other, err := st.activeSaga(ctx, &c.After.Saga)
	if err != nil {
		return nil, err
	}
	return []error{saga.BusinessKeyActive(*c.After.BusinessKey, other)}, nil
}
