// Package registry contains the rules for named participants: their settings, which calls belong to
// them, and the gate in front of them, which is open, held after too many failures, or releasing
// the waiting calls (decision 0144). The package is pure.
//
// Files, each on top of those before it: problems, standing, settings, address, gate, past, registry, match, binding,
// count, turn, store.
package registry

import (
	"time"

	"github.com/google/uuid"
)

// Participant is a service that steps call. It has settings and a gate.
type Participant struct {
	TenantID uuid.UUID
	Name     string
	Settings Settings
	Gate     Gate

	CreatedBy string
	CreatedAt time.Time
	UpdatedAt time.Time // when a person last changed it
	// Version grows with every change by a person, and Epoch with every change of the gate. A
	// change names the version or epoch on which it is based, and is stored only if that is still
	// the current one.
	Version int64
	Epoch   int64
}

// New returns a participant that has never been held.
func New(tenant uuid.UUID, name string, s Settings, by string, now time.Time) Participant {
	return Participant{
		TenantID: tenant, Name: name, Settings: s, Gate: Gate{State: Open, Since: now, CountedFrom: now},
		CreatedBy: by, CreatedAt: now, UpdatedAt: now, Version: 1, Epoch: 1,
	}
}

// With returns the participant with new settings, as its next version.
func (p Participant) With(s Settings, now time.Time) Participant {
	p.Settings = s
	return p.changed(now)
}

// Hold returns the participant as held by an operator with the given display name, as its next
// version.
func (p Participant) Hold(by, name, reason string, now time.Time) Participant {
	p.Gate = p.Gate.hold(by, name, reason, now)
	p.Epoch++
	return p.changed(now)
}

// Release returns the participant with its gate in state Releasing. changed is false if the gate is
// open. rate is the initial number of calls per second; 0 means the one in the settings.
func (p Participant) Release(by string, rate float64, now time.Time) (after Participant, changed bool) {
	if p.Gate.State == Open {
		return p, false
	}
	if rate <= 0 {
		rate = p.Settings.Outage.Release.StartPerS
	}
	p.Gate = p.Gate.releasedBy(by, rate, now)
	p.Epoch++
	return p.changed(now), true
}

func (p Participant) changed(now time.Time) Participant {
	p.Version++
	p.UpdatedAt = now
	return p
}

// Audited returns what the audit trail hashes: the data set by people.
func (p *Participant) Audited() any {
	return map[string]any{
		"name": p.Name, "settings": p.Settings, "state": p.Gate.State, "held_by": p.Gate.HeldBy, "version": p.Version,
	}
}

// Verbs of the audit trail.
const (
	VerbPut     = "put"
	VerbHold    = "hold"
	VerbRelease = "release"
)
