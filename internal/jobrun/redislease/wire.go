package redislease

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/logging"
	"github.com/redis/go-redis/v9/maintnotifications"
)

// wire is the client with its failure state. It belongs to one goroutine.
type wire struct {
	cfg    Config
	client redis.UniversalClient // nil: there is none
	pause  time.Duration
	resume time.Time // Redis is not used before this time
}

// send makes one round trip, or none during a pause.
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
	if w.client != nil {
		_ = w.client.Close()
		w.client = nil
	}
}

// roundTrip sends the commands and reads their responses, within the timeout. It returns the
// commands without a response, and the error. An error response, such as that of a replica or of a
// server that is loading, counts as a failure too: another client may find the current master.
func (w *wire) roundTrip(ctx context.Context, commands []command) (lost []command, err error) {
	if w.client == nil {
		if err := w.connect(ctx); err != nil {
			return commands, err
		}
	}
	ctx, cancel := context.WithTimeout(ctx, w.cfg.Timeout)
	defer cancel()
	sent := w.exec(ctx, commands, (*redis.Script).EvalSha)
	if redis.HasErrorPrefix(firstError(sent), "NOSCRIPT") {
		// The server does not have the scripts: it is new or was flushed. All commands are sent
		// again, to keep their order; sending each script once is enough.
		sent = w.exec(ctx, commands, (*redis.Script).Eval)
	}
	for i, c := range commands {
		answer, failed := answers(sent[i])
		switch {
		case failed != nil:
			lost = append(lost, c)
			if err == nil {
				err = fmt.Errorf("ask redis: %w", failed)
			}
		case c.reply != nil:
			c.reply <- answer
		}
	}
	return lost, err
}

// exec sends the scripts of each command, by digest or in full.
func (w *wire) exec(ctx context.Context, commands []command,
	by func(*redis.Script, context.Context, redis.Scripter, []string, ...any) *redis.Cmd) [][]*redis.Cmd {
	pipe := w.client.Pipeline()
	sent := make([][]*redis.Cmd, len(commands))
	for i, c := range commands {
		for _, e := range c.evals {
			sent[i] = append(sent[i], by(e.script, ctx, pipe, []string{e.key}, e.args...))
		}
	}
	_, _ = pipe.Exec(ctx) // each has its own error
	return sent
}

func firstError(sent [][]*redis.Cmd) error {
	for _, cmds := range sent {
		for _, cmd := range cmds {
			if err := cmd.Err(); err != nil {
				return err
			}
		}
	}
	return nil
}

// answers reports which scripts of a command returned 1.
func answers(sent []*redis.Cmd) ([]bool, error) {
	yes := make([]bool, len(sent))
	for i, cmd := range sent {
		n, err := cmd.Int64()
		if err != nil {
			return nil, err
		}
		yes[i] = n == 1
	}
	return yes, nil
}

// connect creates a client and connects it to every server that it may need, because there is no
// time for that within a round trip.
func (w *wire) connect(ctx context.Context) error {
	o, err := parseURL(w.cfg.URL)
	if err != nil {
		return err
	}
	muteClients()
	o.Protocol = 2 // push messages are not used
	o.DisableIdentity = true
	o.MaintNotificationsConfig = &maintnotifications.Config{Mode: maintnotifications.ModeDisabled}
	o.ContextTimeoutEnabled = true // deadlines are set per round trip
	o.DialTimeout, o.ReadTimeout, o.WriteTimeout, o.PoolTimeout = dialTimeout, dialTimeout, dialTimeout, dialTimeout
	o.MaxRetries, o.DialerRetries = -1, 1  // no retries: the next round trip is one
	o.PoolSize, o.PipelinePoolSize = 2, -1 // the second is for clients that look for the master or the nodes

	w.client = redis.NewUniversalClient(o)
	ctx, cancel := context.WithTimeout(ctx, dialTimeout)
	defer cancel()
	if cluster, ok := w.client.(*redis.ClusterClient); ok {
		err = cluster.ForEachMaster(ctx, func(ctx context.Context, node *redis.Client) error { return node.Ping(ctx).Err() })
	} else {
		err = w.client.Ping(ctx).Err()
	}
	if err != nil {
		return fmt.Errorf("connect to redis: %w", err)
	}
	return nil
}

// muteClients keeps this process's Redis clients from writing to standard error, which is not its
// log. Relevant failures are returned as errors.
var muteClients = sync.OnceFunc(logging.Disable)
