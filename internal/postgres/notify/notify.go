// Package notify sends short messages between nodes with LISTEN and NOTIFY. Each node listens on a
// single connection. Messages are hints: some arrive twice, and some are lost while the connection
// is down or if a pooler is in between.
package notify

import (
	"context"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/google/uuid"

	"github.com/skald-saga/skald/internal/loop"
	"github.com/skald-saga/skald/internal/postgres"
)

// Line is a node's channel to the other nodes. Messages are collected and sent together, because a
// NOTIFY in each transaction would serialize their commits: PostgreSQL holds a cluster-wide lock
// from the NOTIFY until the commit.
type Line struct {
	db   *postgres.DB
	self string // message that this node sends to itself to check that messages arrive

	mu      sync.Mutex
	heard   map[string]func(message string) // guarded by mu: callbacks by channel
	pending map[[2]string]struct{}          // guarded by mu: pairs of channel and message; nil until Run
	signal  chan struct{}                   // capacity 1
	open    atomic.Bool                     // a message from this node to itself has arrived on the current connection
}

// NewLine returns a line to the nodes that share db.
func NewLine(db *postgres.DB) *Line {
	return &Line{
		db: db, self: uuid.NewString(), heard: map[string]func(string){}, signal: make(chan struct{}, 1),
	}
}

// On registers a callback for the messages of a channel, including this node's own. It is
// called with one message at a time and must not block. Register before Run.
func (l *Line) On(channel string, heard func(message string)) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.heard[channel] = heard
}

// Send queues a message to every node. The message is dropped if Run is not running or the database
// rejects it.
func (l *Line) Send(channel, message string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.pending == nil {
		return
	}
	l.pending[[2]string{channel, message}] = struct{}{}
	select {
	case l.signal <- struct{}{}:
	default:
	}
}

// Open reports whether messages reach this node, that is, whether one of its own has come back on
// the current connection.
func (l *Line) Open() bool { return l.open.Load() }

// Run sends and receives until ctx ends. At most one call at a time.
func (l *Line) Run(ctx context.Context) {
	l.mu.Lock()
	l.pending = map[[2]string]struct{}{}
	l.mu.Unlock()
	var parts sync.WaitGroup
	defer func() {
		parts.Wait()
		l.mu.Lock()
		l.pending = nil
		l.mu.Unlock()
	}()
	parts.Go(func() { l.send(ctx) })
	l.listen(ctx)
}

const (
	// shortest and share pace the statements that notify: the pause is at least shortest, and at
	// least share times the duration of the last statement, so that they use at most a fifth of one
	// connection.
	shortest = 2 * time.Millisecond
	share    = 4
)

// notify is one transaction. Its commit does not wait for the disk: losing a message in a crash
// loses only a hint.
const notify = `
SELECT set_config('synchronous_commit', 'off', true), (SELECT count(pg_notify(m.channel, m.message))
  FROM unnest(string_to_array($1, E'\n'), string_to_array($2, E'\n')) AS m (channel, message))`

// send sends the collected messages. Messages that cannot be sent are dropped.
func (l *Line) send(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-l.signal:
		}
		channels, messages := l.take()
		began := time.Now()
		bounded, cancel := context.WithTimeout(ctx, time.Second)
		_, _ = l.db.SQL().ExecContext(bounded, notify, strings.Join(channels, "\n"), strings.Join(messages, "\n"))
		cancel()
		loop.Sleep(ctx, max(shortest, share*time.Since(began)))
	}
}

func (l *Line) take() (channels, messages []string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for m := range l.pending {
		channels, messages = append(channels, m[0]), append(messages, m[1])
	}
	clear(l.pending)
	return channels, messages
}
