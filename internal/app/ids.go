package app

import (
	"github.com/google/uuid"
)

// newID returns a UUIDv7: IDs in time order keep the hot part of an index small.
func newID() uuid.UUID { return uuid.Must(uuid.NewV7()) }
