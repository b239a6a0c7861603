// Package callback contains the rules for reports of participants that answer later: which report
// counts, and what is recorded of the others (decision 0163). Package saga decides what a report
// changes.
//
// The package is pure: values in, values out.
//
// Files, each on top of those before it: problems, callback.
package callback

import (
	"context"
	"time"

	"github.com/google/uuid"

	"github.com/skald-saga/skald/internal/audit/eventtype"
	"github.com/skald-saga/skald/internal/saga"
	"github.com/skald-saga/skald/internal/saga/callback/reported"
	"github.com/skald-saga/skald/internal/strictjson"
)

// Standing returns the state of an attempt and the result that has decided it. logs are the saga's
// step logs.
//
// An attempt that no log mentions may be in flight: its answer is not stored yet, and perhaps not
// even the outcome of the previous step (checkpoint: false). Its report must be sent again.
func Standing(r *saga.Instance, a reported.Attempt, logs []saga.StepLog) (reported.Standing, reported.Result) {
	for i := range logs {
		l := &logs[i]
		if l.StepIndex != a.Step || l.Action != actionOf(a) || l.Attempt != a.Number {
			continue
		}
		switch first := reported.Of(l.Outcome); {
		case first != "":
			return reported.Decided, first
		case l.Status != saga.LogRunning:
			return reported.Late, ""
		case r.Awaited() != nil && a == r.InFlight():
			return reported.Awaited, ""
		}
	}
	here := a.Step == r.CurrentStep && a.Number >= r.Attempt
	switch {
	case r.State.Terminal():
	case a.Undo && r.State == saga.Compensating && (here || a.Step < r.CurrentStep),
		!a.Undo && r.State.Forward() && (here || a.Step > r.CurrentStep):
		return reported.Early, ""
	}
	return reported.Late, ""
}

// Of returns the attempt of a call, for its callback URL.
func Of(c *saga.Call) reported.Attempt {
	return reported.Attempt{
		Tenant: c.Tenant, Saga: c.SagaID, Step: c.Index, Undo: c.Action == saga.Compensate, Number: c.Attempt,
	}
}

func actionOf(a reported.Attempt) saga.Action {
	if a.Undo {
		return saga.Compensate
	}
	return saga.Execute
}

// Wait returns the wait for the report of the current attempt, or nil if there is none.
func Wait(r *saga.Instance) *reported.Wait {
	l := r.Awaited()
	if l == nil || r.State.Terminal() {
		return nil
	}
	return &reported.Wait{
		Attempt: l.Attempt, Since: l.StartedAt, Until: r.NextRunAt, Progress: reported.ProgressIn(l.Response),
	}
}

// Actor is the actor of changes that participants report.
const Actor = "system:participant"

// Orphaned returns the event of a report that came too late and changes nothing else.
func Orphaned(r *saga.Instance, a reported.Attempt, result reported.Result, requestID string,
	at time.Time) saga.AuditEvent {
	e := saga.AuditEvent{
		TenantID: r.Tenant.ID, SagaID: r.ID, Type: eventtype.CallbackOrphaned, StepIndex: a.Step, Attempt: a.Number, At: at,
		Old: saga.NoState, New: saga.NoState, Actor: Actor, RequestID: requestID, TraceID: r.TraceID, SpanID: r.SpanID,
	}
	if a.Step < len(r.Def.Steps) {
		e.StepName = r.Def.Steps[a.Step].Name
	}
	data, err := strictjson.Encode(struct {
		Action saga.Action     `json:"action"`
		Result reported.Result `json:"result"`
	}{actionOf(a), result})
	if err == nil { // two words can always be encoded
		e.Data = data
	}
	return e
}

// Store is what stores of sagas provide for reports, in addition to storing changes.
type Store interface {
	// Awaiting returns which of these live sagas of a tenant wait for a report.
	Awaiting(ctx context.Context, tenant uuid.UUID, sagas []uuid.UUID) (map[uuid.UUID]bool, error)
	// PutOrphan stores the event of a report that came too late; it is durable on return. It does
	// nothing if there is already an event for the same attempt. The saga itself, live or archived,
	// does not change.
	PutOrphan(ctx context.Context, e *saga.AuditEvent) error
}
