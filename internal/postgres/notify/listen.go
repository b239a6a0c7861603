package notify

import (
	"context"
	"time"

	"github.com/lib/pq"

	"github.com/skald-saga/skald/internal/loop"
)

const (
	listenAgain = time.Second      // after a connection was lost
	listenPing  = 30 * time.Second // interval between checks of the connection

	selfChannel = "skald_line" // of messages to the sender
)

// listen receives until ctx ends.
func (l *Line) listen(ctx context.Context) {
	for ctx.Err() == nil {
		l.connected(ctx)
		l.open.Store(false)
		loop.Sleep(ctx, listenAgain)
	}
}

// connected listens until the connection or ctx ends. It uses its own connection: a listening
// one cannot be shared.
func (l *Line) connected(ctx context.Context) {
	came := make(chan *pq.Notification, 32)
	conn, err := l.db.Listener(ctx, came)
	if err != nil {
		return
	}
	defer conn.Close() //nolint:errcheck // nothing was written on it
	heard := l.channels()
	for channel := range heard {
		if _, err := conn.Listen(channel); err != nil {
			return
		}
	}
	l.Send(selfChannel, l.self)
	ping := time.NewTicker(listenPing)
	defer ping.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case n, open := <-came:
			if !open {
				return
			}
			if n != nil {
				heard[n.Channel](n.Extra)
			}
		case <-ping.C:
			if conn.Ping() != nil {
				return
			}
		}
	}
}

// channels returns the callbacks by channel.
func (l *Line) channels() map[string]func(string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	all := map[string]func(string){selfChannel: func(message string) {
		if message == l.self {
			l.open.Store(true)
		}
	}}
	for channel, heard := range l.heard {
		all[channel] = heard
	}
	return all
}
