package httpapi

import "github.com/skald-saga/skald/internal/access"

// keyHandlers are the operations on API keys and credentials.
type keyHandlers struct {
	*Kit
	Keys access.Store
	// Development tells that nobody is asked for a credential.
	Development bool
}
