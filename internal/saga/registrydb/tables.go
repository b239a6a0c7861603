package registrydb

import (
	"time"

	"github.com/google/uuid"

	"github.com/skald-saga/skald/internal/postgres"
	"github.com/skald-saga/skald/internal/saga/registry"
)

// Participants implements registry.Store and registry.Gates on PostgreSQL.
type Participants struct{ db *postgres.DB }

// New returns the store of participants in db.
func New(db *postgres.DB) *Participants { return &Participants{db} }

// participantTable is saga.participants.
var participantTable = postgres.NewTable(
	postgres.UUID("tenant_id", func(p *registry.Participant) *uuid.UUID { return &p.TenantID }),
	postgres.Text("name", func(p *registry.Participant) *string { return &p.Name }),
	postgres.Text("base_url", func(p *registry.Participant) *string { return &p.Settings.BaseURL }).WriteOnly(),
	postgres.Doc("settings", func(p *registry.Participant) *registry.Settings { return &p.Settings }),
	postgres.Int("version", func(p *registry.Participant) *int64 { return &p.Version }),
	postgres.Int("epoch", func(p *registry.Participant) *int64 { return &p.Epoch }),
	postgres.Text("state", func(p *registry.Participant) *registry.State { return &p.Gate.State }),
	postgres.Time("since", func(p *registry.Participant) *time.Time { return &p.Gate.Since }),
	postgres.Text("reason", func(p *registry.Participant) *string { return &p.Gate.Reason }),
	postgres.Text("held_by", func(p *registry.Participant) *string { return &p.Gate.HeldBy }),
	postgres.Time("counted_from", func(p *registry.Participant) *time.Time { return &p.Gate.CountedFrom }),
	postgres.TimeOrNil("next_canary", func(p *registry.Participant) **time.Time { return &p.Gate.NextCanary }),
	postgres.Float("rate", func(p *registry.Participant) *float64 { return &p.Gate.Rate }),
	postgres.TimeOrNil("waved_at", func(p *registry.Participant) **time.Time { return &p.Gate.WavedAt }),
	postgres.TimeOrNil("grown_at", func(p *registry.Participant) **time.Time { return &p.Gate.GrownAt }),
	postgres.Text("created_by", func(p *registry.Participant) *string { return &p.CreatedBy }),
	postgres.Time("created_at", func(p *registry.Participant) *time.Time { return &p.CreatedAt }),
	postgres.Time("updated_at", func(p *registry.Participant) *time.Time { return &p.UpdatedAt }),
)

var (
	participantColumns = participantTable.Selected("p")
	changedParticipant = participantTable.Without("created_by", "created_at")
	gateTable          = participantTable.Only("tenant_id", "name", "epoch", "state", "since", "reason", "held_by",
		"counted_from", "next_canary", "rate", "waved_at", "grown_at")
)
