package auditapi

import (
	"encoding/hex"
	"strconv"

	"github.com/google/uuid"

	"github.com/skald-saga/skald/api"
	"github.com/skald-saga/skald/internal/audit/trail"
	"github.com/skald-saga/skald/internal/httpkit"
	"github.com/skald-saga/skald/internal/saga"
	"github.com/skald-saga/skald/internal/saga/sagaapi"
)

// toAPIEvent converts an audit event; cursor is the position after it.
func toAPIEvent(e *trail.StoredEvent, cursor string) api.AuditEvent {
	name, data := e.Named()
	out := api.AuditEvent{
		ID: strconv.FormatInt(e.ID, 10), SagaID: e.SagaID, EventType: api.AuditEventType(e.Type), Timestamp: e.At,
		OldState: toAPIState(e.Old), NewState: toAPIState(e.New),
		StepName: httpkit.UnlessEmpty(e.StepName), EventData: data, Error: sagaapi.ToAPIError(e.Error),
		Actor: httpkit.UnlessEmpty(e.Actor), ActorName: httpkit.UnlessEmpty(name),
		RequestID: httpkit.UnlessEmpty(e.RequestID), TraceID: e.TraceID, SpanID: e.SpanID,
		WorkflowName: httpkit.UnlessEmpty(e.WorkflowName), CorrelationID: e.CorrelationID, BusinessKey: e.BusinessKey,
		Cursor: cursor,
	}
	if e.New != saga.NoState {
		status := api.SagaStatus(e.New.Status())
		out.Status = &status
	}
	if e.StepIndex != saga.NoStep {
		id := e.SagaID.String() + ":" + strconv.Itoa(e.StepIndex)
		out.StepIndex, out.StepID = &e.StepIndex, &id
	}
	if e.Attempt > 0 {
		out.Attempt = &e.Attempt
	}
	return out
}

func toAPIState(s saga.State) *api.SagaState {
	if s == saga.NoState {
		return nil
	}
	name := api.SagaState(s.String())
	return &name
}

// positive returns nil for 0.
func positive(n int) *int {
	if n == 0 {
		return nil
	}
	return &n
}

func toAPIVerification(v *trail.Verification, ofActions bool) api.AuditVerification {
	out := api.AuditVerification{
		Ok: v.FirstBad == nil, CheckedSeals: v.CheckedSeals, CheckedEvents: v.CheckedEvents,
		ArchivedSeals: positive(v.ArchivedSeals),
		PurgedSeals:   positive(v.PurgedSeals), PurgedEvents: positive(v.PurgedEvents),
	}
	switch {
	case v.Next > 0:
		out.NextSeq = &v.Next
	case v.FirstBad == nil || v.FirstBad.Seq == 0:
		out.UnsealedEvents = &v.Unsealed
	}
	if v.Head != nil {
		out.Head = &api.AuditVerification_Head{Seq: v.Head.Seq, Hash: hex.EncodeToString(v.Head.Hash),
			SealedAt: v.Head.SealedAt}
	}
	if bad := v.FirstBad; bad != nil {
		out.FirstBad = &api.AuditVerification_FirstBad{Kind: api.AuditVerificationFirstBadKind(bad.Kind), Detail: bad.Detail}
		if bad.Seq > 0 {
			out.FirstBad.Seq = &bad.Seq
		}
		if bad.EventID > 0 {
			id := strconv.FormatInt(bad.EventID, 10)
			out.FirstBad.EventID = &id
		}
		if id, err := uuid.Parse(bad.Subject); err == nil {
			if ofActions {
				out.FirstBad.ActionID = &id
			} else {
				out.FirstBad.SagaID = &id
			}
		}
	}
	return out
}
