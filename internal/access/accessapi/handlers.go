// Package accessapi is the HTTP edge of API keys and of what a credential stands for.
package accessapi

import (
	"github.com/skald-saga/skald/internal/access"
	"github.com/skald-saga/skald/internal/rest"
)

// Handlers are the operations on API keys and credentials.
type Handlers struct {
	*rest.Kit
	Keys access.Store
	// Development tells that nobody is asked for a credential.
	Development bool
}
