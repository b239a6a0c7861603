package devpg

import (
	"errors"
	"log/slog"
	"time"
)

// User is the superuser of the private server, and Database is the database that User owns. It
// exists when Start returns.
const (
	User     = "skald"
	Database = "skald"
)

// ErrVersionMismatch is returned, wrapped in an explanation, if the data directory was created by a
// different major version of PostgreSQL than that of the binaries. Nothing was changed.
var ErrVersionMismatch = errors.New("this data was created by a different major version of PostgreSQL")

// Config describes the server to start. Dir is required.
type Config struct {
	// Dir is created if it is missing. It identifies the server: two processes with the same Dir
	// share one server.
	Dir string
	// Bin is the directory of `postgres` and `initdb`. If empty, FindBinaries chooses, and prefers
	// the version that created the data.
	Bin string
	// Settings are PostgreSQL settings, by name, for example fsync=off for data that may be lost.
	// They apply only if Start starts the server, not if it attaches to one. The address and port
	// cannot be set.
	Settings map[string]string
	// Exclusive makes Start return ErrInUse instead of attaching.
	Exclusive bool
	// Log receives starts, stops and crashes. If nil, they are not logged.
	Log *slog.Logger
}

// pollEvery is how often the files of another process are reread.
const pollEvery = 10 * time.Millisecond
