package saga

import (
	"github.com/google/uuid"

	"github.com/skald-saga/skald/internal/fault"
)

// Codes of faults that stores return.
const (
	CodeStale      = "SAGA_VERSION_CONFLICT"
	CodeKeyUsed    = "REQ_IDEMPOTENCY_KEY_REUSED"
	CodeNotFound   = "SAGA_NOT_FOUND"
	CodeUnstorable = "SAGA_UNSTORABLE"
)

// NotFound is the fault of a saga that does not exist for the tenant.
func NotFound(id uuid.UUID) *fault.Error {
	return fault.New(fault.NotFound, CodeNotFound, "there is no saga %s", id)
}

// Stale is the fault of a change whose precondition no longer holds.
func (c *Change) Stale() *fault.Error {
	return fault.New(fault.Conflict, CodeStale, "saga %s is no longer at version %d", c.After.ID, c.Before.Version)
}

// KeyUsed is the fault of a change whose idempotency key is taken.
func KeyUsed() *fault.Error {
	return fault.New(fault.Conflict, CodeKeyUsed, "this idempotency key is in use")
}
