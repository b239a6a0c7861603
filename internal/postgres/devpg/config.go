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

// ErrVersionMismatch is returned, wrapped in an explanation, when another major version of
// PostgreSQL than that of the binaries created the data directory. Nothing was changed.
var ErrVersionMismatch = errors.New("another major version of PostgreSQL made this data")

// Config describes the server to start. Dir is required.
type Config struct {
	// Dir is created when missing. The server is identified by this directory: two processes
	// with the same Dir share one server.
	Dir string
	// Bin is the directory of `postgres` and `initdb`. Empty: FindBinaries
	// chooses, and prefers the version that made the data.
	Bin string
	// Settings are PostgreSQL settings, by name, for example fsync=off for data that may be
	// lost. They apply to a server that is started, not to one that is attached to. The address
	// and port cannot be set.
	Settings map[string]string
	// Exclusive refuses with ErrInUse instead of attaching.
	Exclusive bool
	// Log receives starts, stops and crashes. Nil: they are not logged.
	Log *slog.Logger
}

// pollEvery is how often files of another process are read again.
const pollEvery = 10 * time.Millisecond
