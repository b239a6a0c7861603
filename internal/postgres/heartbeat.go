package postgres

import (
	"context"
	"time"
)

// beatEvery is the time between two heartbeats.
const beatEvery = time.Second

// heartbeat pings the server every second on a connection for leases, and abandons all connections
// to a server that does not respond, until stop.
func (db *DB) heartbeat(ctx context.Context) {
	tick := time.NewTicker(beatEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		began := time.Now()
		alive := db.beat(ctx)
		now := time.Now()
		if now.Sub(began) > silence+beatEvery { // this process was paused or starved of CPU time
			db.lines.restart(now)
			continue
		}
		quiet, overdue := db.lines.look(now)
		for _, p := range overdue {
			db.lines.silent(p, p.was)
		}
		for _, p := range quiet {
			if alive != nil && p != alive { // the sessions have moved to another server
				db.lines.silent(p, p.was)
			}
		}
	}
}

// beat returns the server that has answered, nil if none has.
func (db *DB) beat(ctx context.Context) (alive *peer) {
	waiting, cancel := context.WithTimeout(ctx, silence)
	defer cancel()
	s, err := db.Lease.Conn(waiting) // both connections may be in use, which proves nothing
	if err != nil {
		return nil
	}
	defer s.Close() //nolint:errcheck // it only pings
	_ = s.Raw(func(raw any) error {
		c, ok := raw.(*conn)
		if !ok {
			return nil
		}
		heard, began := c.line.of.heard.Load(), time.Now()
		asked, stop := context.WithTimeout(ctx, silence)
		defer stop()
		ended := c.line.until(asked, 0, false)
		defer ended()
		err := c.pqConn.Ping(context.WithoutCancel(ctx)) // canceling it would take longer
		switch took := time.Since(began); {
		case err == nil:
			alive = c.line.of
		case took >= silence && took < silence+beatEvery: // if it took longer, this process was paused
			db.lines.silent(c.line.of, heard)
		}
		return err
	})
	return alive
}
