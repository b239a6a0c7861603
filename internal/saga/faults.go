package saga

import (
	"github.com/google/uuid"

	"github.com/skald-saga/skald/internal/fault"
	"github.com/skald-saga/skald/internal/idempotency"
)

// NotFound is the fault of a saga that does not exist for the tenant.
func NotFound(id uuid.UUID) *fault.Error {
	return fault.New(fault.NotFound, CodeNotFound, "there is no saga %s", id)
}

// Stale is the fault of a change whose precondition no longer holds.
func (c *Change) Stale() *fault.Error {
	return fault.New(fault.Conflict, CodeStale, "saga %s is no longer at version %d", c.After.ID, c.Before.Version)
}

// KeyUsed is the fault of a change whose idempotency key was already used.
func KeyUsed() *fault.Error {
	return fault.New(fault.Conflict, idempotency.CodeUsed, "this idempotency key is in use")
}

// IsArchived is the fault of an action on a saga that is in the archive.
func IsArchived(id uuid.UUID) *fault.Error {
	return fault.New(fault.Conflict, CodeArchived, "saga %s is in the archive: restore it first", id).
		Allowing(ArchivedActions())
}

// NotArchived is the fault of restoring a saga that is live.
func (s *Saga) NotArchived() *fault.Error {
	return fault.New(fault.Conflict, CodeNotArchived, "saga %s is not in the archive", s.ID).Allowing(s.AllowedActions())
}

// BusinessKeyActive is the fault of a saga whose business key belongs to another
// unfinished saga of the workflow.
func BusinessKeyActive(key string, other uuid.UUID) *fault.Error {
	return fault.New(fault.Conflict, CodeBusinessKey, "the saga %s has the business key %q and has not ended", other, key).
		With(fault.Field{Pointer: "/business_key", Code: "active", Message: "belongs to the unfinished saga " + other.String()})
}
