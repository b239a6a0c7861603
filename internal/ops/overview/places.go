package overview

import (
	"time"

	"github.com/google/uuid"
)

// Incarnation is one run of a node, from start to end.
type Incarnation struct {
	ID         int64
	Name       string
	Version    string // version of Skald; empty: unknown
	Alive      bool
	LeaseUntil time.Time
	StartedAt  time.Time
	SeenAt     time.Time // when it last renewed its lease
	Sagas      Count     // sagas that it drives
	Runs       Count     // runs held by workers of this node
	Leads      bool      // whether it leads the job runs
}

// Loop is a background loop of a node.
type Loop struct {
	Name        string
	LastRound   time.Time     // or, before the first round, when the watchdog began to watch it
	Limit       time.Duration // time limit for the next round
	Late, Vital bool
}

// Tenant is a tenant that has had any activity here.
type Tenant struct {
	ID        uuid.UUID
	Attention Count      // sagas that need attention
	ActiveAt  *time.Time // when its trail was last sealed: about a second after its last event
}
