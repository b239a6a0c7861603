package app

import (
	"github.com/google/uuid"
)

// newID returns a UUIDv7: ids that sort by time keep the hot part of an index small.
func newID() uuid.UUID { return uuid.Must(uuid.NewV7()) }
