package sagadb

import (
	"context"
	"time"

	"github.com/google/uuid"
	"github.com/jmoiron/sqlx"

	"github.com/skald-saga/skald/internal/fault"
	"github.com/skald-saga/skald/internal/postgres"
	"github.com/skald-saga/skald/internal/saga"
)

// Decided is the decision about one saga.
type Decided struct {
	ID      uuid.UUID
	Change  saga.Change  // unless refused
	Refusal *fault.Error // nil means none
}

// Decide reads sagas and returns the result of decide for each, in the order of ids. The result is
// a refusal for a saga that is not live or cannot be decrypted.
func (st *Sagas) Decide(
	ctx context.Context, tenant uuid.UUID, ids []uuid.UUID, now time.Time,
	decide func(saga.Instance, []saga.StepLog, saga.Moment) (saga.Change, error),
) ([]Decided, error) {
	if len(ids) == 0 {
		return nil, nil
	}
	refs := make([]saga.Ref, len(ids))
	for i, id := range ids {
		refs[i] = saga.Ref{Tenant: tenant, ID: id}
	}
	loaded, err := st.Load(ctx, refs)
	if err != nil {
		return nil, err
	}
	byID := make(map[uuid.UUID]*saga.Loaded, len(loaded))
	for i := range loaded {
		byID[loaded[i].Saga.ID] = &loaded[i]
	}
	at := st.jobs.At(now)
	m := saga.Moment{Now: at.Now, NewID: at.NewID, Jitter: at.Jitter, CompensationTimeout: st.steps.CompensationTimeout,
		Budget: st.steps.Budget}
	out := make([]Decided, len(ids))
	for i, id := range ids {
		out[i].ID = id
		l := byID[id]
		if l == nil {
			out[i].Refusal = saga.NotFound(id)
			continue
		}
		def, err := st.workflowOf(ctx, &l.Saga)
		run, err := saga.Restored(l.Saga, def, err, l.Logs)
		if err != nil {
			return nil, err
		}
		out[i].Change, err = decide(run, l.Logs, m)
		if out[i].Refusal = fault.As(err); err != nil && out[i].Refusal == nil {
			return nil, err
		}
	}
	return out, nil
}

// Change writes changes in tx, each only if its precondition still holds. told must be called after
// the commit: it notifies the engine and the callers that wait for the sagas.
func (st *Sagas) Change(
	ctx context.Context, tx *sqlx.Tx, batch []saga.Change,
) (moved map[saga.Ref]bool, told func(), err error) {
	moved, begun, err := st.change(ctx, tx, batch)
	return moved, func() {
		begun()
		for i := range batch {
			if after := &batch[i].After; st.steps.Acted != nil && moved[after.Ref()] {
				st.steps.Acted(after.Saga)
			}
		}
	}, err
}

// Unstorable converts the error of a change whose content the database rejects into a refusal. It
// returns nil for other errors.
func (st *Sagas) Unstorable(err error) *fault.Error {
	switch {
	case err == nil:
		return nil
	case postgres.Violates(err, businessKeyIndex):
		return fault.New(fault.Conflict, saga.CodeBusinessKey, "another unfinished saga of the workflow has its business key")
	case postgres.DataError(err):
		return fault.New(fault.Invalid, saga.CodeUnstorable, "the database refused this change")
	}
	return nil
}
