package memstore

import (
	"bytes"
	"context"
	"encoding/json"

	"github.com/skald-saga/skald/internal/saga"
)

// PutOrphan implements callback.Orphans.
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
