package notify

import (
	"context"
	"time"

	"github.com/skald-saga/skald/internal/loop"
	"github.com/skald-saga/skald/internal/postgres"
)

const (
	listenAgain = time.Second // pause after a connection was lost

	selfChannel = "skald_line" // channel of messages to the sender itself
)

// listen receives until ctx ends.
func (l *Line) listen(ctx context.Context) {
	for ctx.Err() == nil {
		l.connected(ctx)
		l.open.Store(false)
		loop.Sleep(ctx, listenAgain)
	}
}

// connected listens until the connection or ctx ends. It uses a connection of its own, because a
// listening connection cannot be shared.
func (l *Line) connected(ctx context.Context) {
	conn, err := l.db.Listener(ctx)
	if err != nil {
		return
	}
	defer conn.Close()
	heard := l.channels()
	for channel := range heard {
		if err := conn.Listen(channel); err != nil {
			return
		}
	}
	l.Send(selfChannel, l.self)
	ping := time.NewTicker(postgres.ListenPing)
	defer ping.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-conn.Lost:
			return
		case n := <-conn.Notify:
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
