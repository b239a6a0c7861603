package redislease

import (
	"log/slog"
	"time"

	"github.com/redis/go-redis/v9"
)

const (
	// defaultTimeout is how long a round trip may take, and so how long a caller
	// waits who asks something.
	defaultTimeout = 50 * time.Millisecond
	// dialTimeout may be longer: no caller waits for it. It is of all connections
	// that a client needs first.
	dialTimeout = time.Second
	// queued is how many notes may wait; further ones are lost.
	queued = 4096
	// batch is how many commands go out in one round trip.
	batch = 512
	// After a failure Redis is left alone for minPause, twice as long after each
	// further one, at most maxPause.
	minPause = 250 * time.Millisecond
	maxPause = 15 * time.Second
)

// Config of the hints. URL and Log are required.
type Config struct {
	URL     string        // see CheckURL
	Prefix  string        // first word of every key, such as "scheduler"; "": none
	Timeout time.Duration // 0: 50 ms
	Log     *slog.Logger
	// Done is told of every round trip, and of commands that are lost: they did not
	// reach Redis, or its answer did not come. Nil: nobody is.
	Done func(commands int, lost bool, took time.Duration)
}

// command is what one caller wants of Redis, and who waits for its answer.
type command struct {
	evals []eval
	reply chan<- []bool // nil: nobody waits; else it has room for the answer
}

// eval is one run of a script. It has one key: of two a Cluster may have one here
// and one there.
type eval struct {
	script *redis.Script
	key    string
	args   []any
}
