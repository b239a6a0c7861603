package redislease

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"time"

	"github.com/gomodule/redigo/redis"
)

// wire consists of the connections and their failure state. It belongs to one goroutine.
type wire struct {
	cfg     Config
	servers *servers // nil: not connected
	pause   time.Duration
	resume  time.Time // Redis is not used before this time
}

// send makes one round trip. During a pause it makes none.
func (w *wire) send(ctx context.Context, commands []command) {
	begin := time.Now()
	lost := commands
	if begin.After(w.resume) {
		var err error
		if lost, err = w.roundTrip(ctx, commands); err != nil {
			w.failed(ctx, err)
		} else if w.pause > 0 {
			w.cfg.Log.InfoContext(ctx, "Redis is reachable again")
			w.pause = 0
		}
	}
	took := time.Since(begin)
	if answered := len(commands) - len(lost); answered > 0 {
		w.cfg.Done(answered, false, took)
		took = 0 // already counted
	}
	if len(lost) > 0 {
		w.cfg.Done(len(lost), true, took)
		for _, c := range lost {
			if c.reply != nil {
				c.reply <- nil
			}
		}
	}
}

// failed starts a pause. Only the first of several failures in a row is logged.
func (w *wire) failed(ctx context.Context, err error) {
	w.drop()
	if w.pause == 0 {
		w.cfg.Log.WarnContext(ctx, "Redis is unreachable; job runs continue without its hints", slog.Any("error", err))
	}
	w.pause = min(max(2*w.pause, minPause), maxPause)
	w.resume = time.Now().Add(w.pause)
}

func (w *wire) drop() {
	if w.servers != nil {
		w.servers.close()
		w.servers = nil
	}
}

// roundTrip sends the commands and reads their responses, within the timeout. It returns the
// commands without a response, and the error. An error response counts as a failure as well, for
// example from a replica, from a server that is loading, or from one that no longer has the key's
// slot, because other connections may find the current master.
func (w *wire) roundTrip(ctx context.Context, commands []command) (lost []command, err error) {
	if w.servers == nil {
		if w.servers, err = connect(ctx, w.cfg.URL); err != nil {
			return commands, fmt.Errorf("connect to Redis: %w", err)
		}
	}
	ctx, cancel := context.WithTimeout(ctx, w.cfg.Timeout)
	defer cancel()
	defer context.AfterFunc(ctx, w.servers.cut)()
	replies := w.servers.exec(commands, (*redis.Script).SendHash)
	if lacksScripts(replies) {
		// A server is new or was flushed. All commands are sent again, so that they keep their
		// order.
		replies = w.servers.exec(commands, (*redis.Script).Send)
	}
	for i, c := range commands {
		answer, failed := answers(replies[i])
		switch {
		case failed != nil:
			lost = append(lost, c)
			if err == nil {
				err = fmt.Errorf("query Redis: %w", cmp.Or(ctx.Err(), failed))
			}
		case c.reply != nil:
			c.reply <- answer
		}
	}
	return lost, err
}

// lacksScripts reports whether a server's error means that it has no script with the given digest.
func lacksScripts(replies [][]reply) bool {
	for _, of := range replies {
		for _, r := range of {
			if refused, ok := errors.AsType[redis.Error](r.err); ok && strings.HasPrefix(string(refused), "NOSCRIPT") {
				return true
			}
		}
	}
	return false
}

// answers reports which scripts of a command returned 1.
func answers(replies []reply) ([]bool, error) {
	yes := make([]bool, len(replies))
	for i, r := range replies {
		if r.err != nil {
			return nil, r.err
		}
		yes[i] = r.yes
	}
	return yes, nil
}
