package redislease

import (
	"log/slog"
	"time"

	"github.com/gomodule/redigo/redis"
)

const (
	// defaultTimeout bounds a round trip, and so how long a caller of Alive waits.
	defaultTimeout = 50 * time.Millisecond
	// dialTimeout may be longer because no caller waits for it. It bounds what is done to reach one
	// server.
	dialTimeout = time.Second
	// queued is the capacity of the queue of notes; when it is full, notes are dropped.
	queued = 4096
	// batch is the maximum number of commands in one round trip.
	batch = 512
	// After a failure, Redis is not used for minPause; the pause doubles with each further failure,
	// up to maxPause.
	minPause = 250 * time.Millisecond
	maxPause = 15 * time.Second
)

// Config configures Hints. URL and Log are required.
type Config struct {
	URL     string        // see CheckURL
	Prefix  string        // prefix of every key, such as "scheduler"; "": none
	Timeout time.Duration // 0: 50 ms
	Log     *slog.Logger
	// Done is called after every round trip, and for lost commands, which did not reach Redis or
	// whose response did not arrive. Nil: not called.
	Done func(commands int, lost bool, took time.Duration)
}

// command is a caller's command, with the channel for its result.
type command struct {
	evals []eval
	reply chan<- []bool // nil: no caller waits; otherwise it has capacity for the result
}

// eval is one execution of a script. It has one key, because in a Cluster two keys may be on two
// servers.
type eval struct {
	script *redis.Script
	key    string
	args   []any
}

// reply is what a server answered to a script.
type reply struct {
	yes bool // it returned 1
	err error
}
