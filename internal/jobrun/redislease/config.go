package redislease

import (
	"log/slog"
	"time"

	"github.com/gomodule/redigo/redis"
)

const (
	// defaultTimeout bounds a round trip, and thus how long a caller of Alive waits.
	defaultTimeout = 50 * time.Millisecond
	// dialTimeout may be longer, because no caller waits for it. It bounds the operations needed to
	// reach one server.
	dialTimeout = time.Second
	// queued is the capacity of the queue of notes. When the queue is full, notes are dropped.
	queued = 4096
	// batch is the maximum number of commands in one round trip.
	batch = 512
	// After a failure, Redis is not used for minPause. The pause doubles with each further failure,
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
	// Done is called after every round trip. It is also called for lost commands, which did not
	// reach Redis or whose response did not arrive. If it is nil, it is not called.
	Done func(commands int, lost bool, took time.Duration)
}

// command is a caller's command, with the channel for its result.
type command struct {
	evals []eval
	reply chan<- []bool // nil: no caller waits; otherwise it has capacity for the result
}

// eval is one execution of a script. It has only one key, because the servers of two keys may
// differ in a Cluster.
type eval struct {
	script *redis.Script
	key    string
	args   []any
}

// reply is a server's answer to a script.
type reply struct {
	yes bool // the script returned 1
	err error
}
