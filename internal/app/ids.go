package app

import (
	"github.com/google/uuid"
)

// newID makes UUIDv7: keys that sort by time keep the indexes' hot end small.
func newID() uuid.UUID { return uuid.Must(uuid.NewV7()) }
