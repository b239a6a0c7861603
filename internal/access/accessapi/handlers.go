// Package accessapi is the HTTP API for API keys and sessions. It also returns the caller's own
// identity.
package accessapi

import (
	"github.com/google/uuid"

	"github.com/skald-saga/skald/internal/access"
	"github.com/skald-saga/skald/internal/httpkit"
)

// Handlers are the operations on API keys and credentials.
type Handlers struct {
	*httpkit.Kit
	Keys     access.Store
	Sessions access.Sessions
	// Forget makes this node forget a session that has ended.
	Forget func(session uuid.UUID)
	// Development means that requests need no credential.
	Development bool
}
