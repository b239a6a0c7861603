package redislease

import (
	"log/slog"
	"time"

	"github.com/redis/go-redis/v9"
)

const (
	// defaultTimeout is how long a round trip may take, and so how long a caller of
	// Alive waits.
	defaultTimeout = 50 * time.Millisecond
	// dialTimeout may be longer, because no caller waits for it. It bounds the first
	// connections of a client together.
	dialTimeout = time.Second
	// queued is how many notes may wait; further ones are dropped.
	queued = 4096
	// batch is the greatest number of commands in one round trip.
	batch = 512
	// After a failure Redis is not used for minPause, twice as long after each further
	// failure, at most maxPause.
	minPause = 250 * time.Millisecond
	maxPause = 15 * time.Second
)

// Config of the hints. URL and Log are required.
type Config struct {
	URL     string        // see CheckURL
	Prefix  string        // first word of every key, such as "scheduler"; "": none
	Timeout time.Duration // 0: 50 ms
	Log     *slog.Logger
	// Done is called after every round trip, and for commands that are lost: they did
	// not reach Redis, or its answer did not arrive. Nil: not called.
	Done func(commands int, lost bool, took time.Duration)
}

// command is one caller's command, with the channel for its result.
type command struct {
	evals []eval
	reply chan<- []bool // nil: no caller waits; else it has room for the result
}

// eval is one run of a script. It has one key: a Cluster may have two keys on two
// servers.
type eval struct {
	script *redis.Script
	key    string
	args   []any
}
