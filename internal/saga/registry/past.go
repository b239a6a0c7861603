package registry

import (
	"time"

	"github.com/google/uuid"

	"github.com/skald-saga/skald/internal/audit/eventtype"
	"github.com/skald-saga/skald/internal/audit/operator"
	"github.com/skald-saga/skald/internal/saga"
	"github.com/skald-saga/skald/internal/strictjson"
)

// Past is a period in which a participant was held, from the moment its open gate was held until
// the gate opened again.
type Past struct {
	HeldAt      time.Time
	Reason      string     // why it was first held
	HeldBy      string     // the person who first held it; "" means Skald
	ReleasingAt *time.Time // when its most recent release began
	ReleasedAt  time.Time
	Waited      int64 // how many were waiting when its release began, at most
}

// Shown is how many past outages are returned for a participant.
const Shown = 10

// Passage says what a change of a gate begins and ends.
type Passage struct {
	Holds    bool // calls that were made or let through before are held
	Outage   bool // an outage begins as well
	Release  bool // waiting calls are let through from now on
	Released bool // the outage is over and all calls are made
}

// PassageOf returns what a change from one gate state to another begins and ends. Deleting a
// participant counts as opening its gate.
func PassageOf(before, after State) Passage {
	return Passage{
		Holds: after == Held && before != Held, Outage: after == Held && before == Open,
		Release: after == Releasing && before != Releasing, Released: after == Open && before != Open,
	}
}

// Event returns the audit event of a passage. ok is false if it has none. The event does not
// concern a saga; its data name the participant. past is the outage that a Released passage ends.
func (w Passage) Event(
	tenant uuid.UUID, name string, after *Gate, past *Past, by operator.By, now time.Time,
) (e saga.AuditEvent, ok bool) {
	data := map[string]any{"participant": name, "reason": after.Reason}
	e = saga.AuditEvent{
		TenantID: tenant, Type: eventtype.ParticipantHeld, StepIndex: saga.NoStep, At: now,
		Old: saga.NoState, New: saga.NoState, Actor: by.Actor, RequestID: by.RequestID,
	}
	if by.ActorName != "" {
		data["actor_name"] = by.ActorName
	}
	switch {
	case w.Holds:
		if after.HeldBy != "" {
			data["held_by"] = after.HeldBy
		}
	case w.Released:
		e.Type = eventtype.ParticipantReleased
		if past != nil {
			data["held_at"], data["held_because"], data["waited"] = past.HeldAt.UTC(), past.Reason, past.Waited
			data["lasted_ms"] = now.Sub(past.HeldAt).Milliseconds()
		}
	default:
		return e, false
	}
	e.Data, _ = strictjson.Encode(data) // texts, times and numbers can always be encoded
	return e, true
}
