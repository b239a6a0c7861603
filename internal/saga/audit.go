package saga

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"time"

	"github.com/google/uuid"

	"github.com/skald-saga/skald/internal/audit/eventtype"
	"github.com/skald-saga/skald/internal/strictjson"
)

// NoState stands for "no state" in an AuditEvent.
const NoState State = -1

// NoStep stands for "no step" in an AuditEvent.
const NoStep = -1

// AuditEvent is one row of the audit trail (seed 2, saga_events). It is stored in the same
// transaction as the change that it describes and is never updated.
//
// Every change of state has exactly one event with Old and New. Its type is a specific one if there
// is one, and StateChanged otherwise. The New of each event is the Old of the next (invariant I10);
// the first has no Old.
type AuditEvent struct {
	TenantID  uuid.UUID
	SagaID    uuid.UUID
	Type      eventtype.Type
	StepIndex int    // NoStep if the event concerns no step
	StepName  string // "" if the event concerns no step
	Attempt   int    // the attempt of the step's call; 0 if the event concerns no call
	At        time.Time
	Data      json.RawMessage // canonical JSON object; nil means none
	Old, New  State           // both are NoState if the state stays the same; in the first event, only Old is
	Error     *Error
	Actor     string // the authenticated caller; "" means the engine
	RequestID string // of the API; "" means none
	TraceID   *string
	SpanID    *string
}

// Digest returns the SHA-256 of the event's content, which is stored with the event. The chain of
// the audit trail hashes digests, and a row that was changed no longer matches its digest. Every
// part is prefixed with its length, so that two different events never hash the same bytes.
func (e *AuditEvent) Digest() [sha256.Size]byte {
	b := make([]byte, 0, 512) // on the stack, because every transition calls this
	for _, n := range [...]int64{int64(e.StepIndex), int64(e.Attempt), e.At.UnixMicro(), int64(e.Old), int64(e.New)} {
		b = binary.BigEndian.AppendUint64(b, uint64(n)) //nolint:gosec // any 64 bits will do
	}
	b = append(append(b, e.TenantID[:]...), e.SagaID[:]...)
	b = part(b, string(e.Type))
	b = part(b, e.StepName)
	b = part(b, e.Data)
	b = part(b, e.errorJSON())
	b = part(b, e.Actor)
	b = part(b, e.RequestID)
	b = part(b, textOf(e.TraceID))
	b = part(b, textOf(e.SpanID))
	return sha256.Sum256(b)
}

// errorJSON returns the error in the form in which the database will return it (canonical JSON). An
// error that cannot be stored has no such form and needs no digest.
func (e *AuditEvent) errorJSON() []byte {
	if e.Error == nil {
		return nil
	}
	b, err := strictjson.Encode(e.Error)
	if err != nil {
		return nil
	}
	return b
}

func part[T string | json.RawMessage | []byte](b []byte, s T) []byte {
	b = binary.BigEndian.AppendUint32(b, uint32(len(s))) //nolint:gosec // no part is that long
	return append(b, s...)
}

func textOf(s *string) string {
	if s == nil {
		return ""
	}
	return *s
}

// event returns an event of the saga without a step or a state.
func (s *Saga) event(t eventtype.Type, at time.Time) AuditEvent {
	return AuditEvent{
		TenantID: s.Tenant.ID, SagaID: s.ID, Type: t, StepIndex: NoStep, At: at,
		Old: NoState, New: NoState, TraceID: s.TraceID, SpanID: s.SpanID,
	}
}

// nameOf returns the type of the event for a change from one state to another.
func nameOf(from, to State) eventtype.Type {
	switch {
	case to == Completed:
		return eventtype.SagaCompleted
	case to == Compensated, to == Failed:
		return eventtype.SagaFailed
	case to == Cancelled:
		return eventtype.SagaCancelled
	case to == TimedOut:
		return eventtype.SagaTimedOut
	case to == Compensating:
		return eventtype.CompensationStarted
	case to == StepCompleted:
		return eventtype.StepFinished
	case to == Running && from != Failed:
		return eventtype.StepStarted
	}
	return eventtype.StateChanged
}

// Begun returns the event of the saga's creation, which is stored with it.
func (s *Saga) Begun(actor, requestID string) AuditEvent {
	e := s.event(eventtype.SagaStarted, s.CreatedAt)
	e.New, e.Actor, e.RequestID = Pending, actor, requestID
	return e
}

// Restored returns the event of the saga's restore, which is stored with it. by and reason are as
// the client stated them, and actor is the authenticated caller.
func (s *Saga) Restored(actor, requestID, by, reason string, at time.Time) AuditEvent {
	e := s.event(eventtype.SagaRestored, at)
	e.Actor, e.RequestID = actor, requestID
	e.say(words{By: by, Reason: reason})
	return e
}

// words holds the data of an event; empty members are omitted.
type words struct {
	ActorName string     `json:"actor_name,omitempty"` // principal.WithName
	By        string     `json:"by,omitempty"`
	Cause     Cause      `json:"cause,omitempty"`
	Action    Action     `json:"action,omitempty"`
	Reason    string     `json:"reason,omitempty"`
	Skipped   bool       `json:"skipped,omitempty"`
	NextRunAt *time.Time `json:"next_run_at,omitempty"`

	Verb     string     `json:"verb,omitempty"`
	FromStep string     `json:"from_step,omitempty"`
	Patched  bool       `json:"input_patched,omitempty"`
	Deadline *time.Time `json:"deadline,omitempty"`
	Missing  []string   `json:"missing,omitempty"` // members of the result that have no value

	Changed  []string `json:"changed,omitempty"`  // members of the note
	Assignee *string  `json:"assignee,omitempty"` // the new assignee; "" means unassigned

	Bulk *uuid.UUID `json:"bulk,omitempty"` // the bulk operation that it belongs to

	Erased map[string]string `json:"erased_events,omitempty"` // digests of the remaining content, by event
}

// say sets the event's data.
func (e *AuditEvent) say(w words) {
	b, err := json.Marshal(w)
	if err == nil {
		b, err = strictjson.Canonical(nil, b, strictjson.Limits{})
	}
	if err != nil { // cannot happen: the API rejects text that JSON cannot encode
		b = nil
	}
	e.Data = b
}

// tell appends an event without a step or a state to the change.
func (d *decision) tell(t eventtype.Type) *AuditEvent {
	e := d.s.event(t, d.m.Now)
	e.Actor, e.RequestID = d.m.Actor, d.m.RequestID
	d.Audit = append(d.Audit, e)
	return &d.Audit[len(d.Audit)-1]
}

// tellOfStep appends an event about the current step's call.
func (d *decision) tellOfStep(t eventtype.Type) *AuditEvent {
	e := d.tell(t)
	e.StepIndex, e.StepName, e.Attempt = d.s.CurrentStep, d.After.Def.Steps[d.s.CurrentStep].Name, d.s.Attempt
	return e
}

// tellOfFailure appends the event of a call that will not be repeated, including whether its policy
// allows no further attempt.
func (d *decision) tellOfFailure(t eventtype.Type, o Outcome, exhausted bool) {
	d.tellOfStep(t).Error = d.outcomeError(o, o.Message)
	if exhausted {
		d.tellOfStep(eventtype.RetryExhausted)
	}
}

// tellSkipped appends the event of step k, which has no compensation.
func (d *decision) tellSkipped(k int) {
	e := d.tell(eventtype.UndoCompleted)
	e.StepIndex, e.StepName = k, d.After.Def.Steps[k].Name
	e.say(words{Skipped: true})
}
