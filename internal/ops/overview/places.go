package overview

import (
	"time"

	"github.com/google/uuid"
)

// Incarnation is a node from its start to its end.
type Incarnation struct {
	ID         int64
	Name       string
	Version    string // of Skald; empty: not known
	Alive      bool
	LeaseUntil time.Time
	StartedAt  time.Time
	SeenAt     time.Time // when it last renewed its lease
	Sagas      Count     // that it drives
	Runs       Count     // held by workers of this node
	Leads      bool      // the job runs
}

// Loop is a background loop of a node.
type Loop struct {
	Name        string
	LastRound   time.Time     // or when it began to be watched
	Limit       time.Duration // limit for finishing the next one
	Late, Vital bool
}

// Tenant is a tenant that has done something here.
type Tenant struct {
	ID        uuid.UUID
	Attention Count      // sagas that need it
	ActiveAt  *time.Time // when its trail was last sealed: about a second after its last event
}
