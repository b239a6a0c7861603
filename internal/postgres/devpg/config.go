package devpg

import (
	"errors"
	"log/slog"
	"time"
)

// User owns the private server and is its superuser, and Database is the
// database it owns, which exists when Start returns.
const (
	User     = "skald"
	Database = "skald"
)

// ErrVersionMismatch is returned, wrapped in an explanation, when the data
// directory was made by another major version of PostgreSQL than the programs
// found. Nothing was changed.
var ErrVersionMismatch = errors.New("another major version of PostgreSQL made this data")

// Config says what to start. Dir is required.
type Config struct {
	// Dir is made when missing. Its server is reachable by this directory alone:
	// two processes with the same Dir share one server.
	Dir string
	// Bin is the directory of `postgres` and `initdb`. Empty: FindBinaries
	// chooses, and prefers the version that made the data.
	Bin string
	// Settings are PostgreSQL settings, by name, for example fsync=off for data
	// that may be lost. They hold for this run of the server, not for a server
	// that is merely attached to. The address and port cannot be set.
	Settings map[string]string
	// Exclusive refuses with ErrInUse instead of attaching.
	Exclusive bool
	// Log hears of starts, stops and crashes. Nil: nobody does.
	Log *slog.Logger
}

// pollEvery is how often files of another process are looked at again.
const pollEvery = 10 * time.Millisecond
