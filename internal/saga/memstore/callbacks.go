package memstore

import (
	"bytes"
	"context"
	"encoding/json"

	"github.com/google/uuid"

	"github.com/skald-saga/skald/internal/saga"
	"github.com/skald-saga/skald/internal/saga/callback/reported"
)

// Awaiting implements callback.Store.
func (st *Sagas) Awaiting(_ context.Context, tenant uuid.UUID, sagas []uuid.UUID) (map[uuid.UUID]bool, error) {
	st.m.mu.Lock()
	defer st.m.mu.Unlock()
	all := map[uuid.UUID]bool{}
	for _, id := range sagas {
		ref := saga.Ref{Tenant: tenant, ID: id}
		s := st.m.sagas[ref]
		if s == nil || s.State.Terminal() {
			continue
		}
		for _, l := range st.m.logs[ref] {
			if l.Status == saga.LogRunning && l.StepIndex == s.CurrentStep && l.Attempt == s.Attempt && l.Outcome != nil &&
				*l.Outcome == reported.CodeLater {
				all[id] = true
			}
		}
	}
	return all, nil
}

// PutOrphan implements callback.Store.
func (st *Sagas) PutOrphan(_ context.Context, e *saga.AuditEvent) error {
	st.m.mu.Lock()
	defer st.m.mu.Unlock()
	for i := range st.m.audit {
		of := &st.m.audit[i]
		if of.SagaID == e.SagaID && of.TenantID == e.TenantID && of.Type == e.Type && of.StepIndex == e.StepIndex &&
			of.Attempt == e.Attempt && bytes.Equal(actionIn(of.Data), actionIn(e.Data)) {
			return nil
		}
	}
	st.m.audit = append(st.m.audit, copyEvent(*e))
	return nil
}

// actionIn returns the action that an event is about.
func actionIn(data json.RawMessage) []byte {
	var of struct{ Action json.RawMessage }
	if json.Unmarshal(data, &of) != nil {
		return nil
	}
	return of.Action
}
