package jobnotify

import (
	"context"
	"time"

	"github.com/lib/pq"
)

const (
	listenAgain = time.Second      // after a connection was lost
	listenPing  = 30 * time.Second // interval of checking the connection
)

// listen calls heard with the payload of each notification until ctx ends. It has a
// connection of its own: a listening one cannot be shared.
func (h *Hub) listen(ctx context.Context, heard func(payload string)) {
	for ctx.Err() == nil {
		h.notified(ctx, heard)
		select {
		case <-ctx.Done():
		case <-time.After(listenAgain):
		}
	}
}

// notified listens until the connection or ctx ends.
func (h *Hub) notified(ctx context.Context, heard func(payload string)) {
	heardOf := make(chan *pq.Notification, 32)
	conn, err := h.db.Listener(ctx, heardOf)
	if err != nil {
		return
	}
	defer conn.Close() //nolint:errcheck // nothing was written on it
	if _, err := conn.Listen(runsChannel); err != nil {
		return
	}
	ping := time.NewTicker(listenPing)
	defer ping.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case n, open := <-heardOf:
			if !open {
				return
			}
			if n != nil {
				heard(n.Extra)
			}
		case <-ping.C:
			if conn.Ping() != nil {
				return
			}
		}
	}
}
