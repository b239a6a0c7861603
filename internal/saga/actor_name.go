package saga

import (
	"encoding/json"
	"slices"

	"github.com/skald-saga/skald/internal/principal"
)

// NameActor records the display name of an event's actor; "" records nothing.
func (e *AuditEvent) NameActor(name string) { e.Data = principal.WithName(e.Data, name) }

// Named returns the display name of an event's actor, and the rest of the event's data.
func (e *AuditEvent) Named() (name string, rest json.RawMessage) { return principal.NameIn(e.Data) }

// nameActors adds the display names to a decision's events: the name of the actor of the request,
// made at moment m, and of the actor of an order that the decision carried out.
func (d *decision) nameActors(m Moment) {
	if m.ActorName == "" && d.m.ActorName == "" {
		return
	}
	for i := range d.Audit {
		e := &d.Audit[i]
		switch {
		case e.Data == nil && slices.Contains(OperatorTypes, e.Type): // not requested: see recordOf
		case e.Actor == "":
		case e.Actor == m.Actor:
			e.NameActor(m.ActorName)
		case e.Actor == d.m.Actor:
			e.NameActor(d.m.ActorName)
		}
	}
}
