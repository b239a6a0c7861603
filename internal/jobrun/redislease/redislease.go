// Package redislease keeps the short leases of job runs in Redis (J-24) as hints. The leases in
// PostgreSQL are authoritative, so a Redis that is slow, unavailable, empty or wrong affects only
// performance (docs/decisions/0034-redis-leases.md).
//
// One goroutine uses Redis: a single server, a Sentinel setup or a Cluster. Callers queue their
// notes and continue; a caller that needs a response waits at most for the timeout.
package redislease

import (
	"context"
	"fmt"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/google/uuid"

	"github.com/skald-saga/skald/internal/jobrun"
)

// Hints implements jobrun.LeaseHints with Redis. It does nothing until Run is called.
type Hints struct {
	cfg   Config
	queue chan command
}

// New validates the configuration. It does not connect.
func New(cfg Config) (*Hints, error) {
	if err := CheckURL(cfg.URL); err != nil {
		return nil, err
	}
	if cfg.Timeout <= 0 {
		cfg.Timeout = defaultTimeout
	}
	if cfg.Done == nil {
		cfg.Done = func(int, bool, time.Duration) {}
	}
	return &Hints{cfg, make(chan command, queued)}, nil
}

// Scripts are idempotent, because a batch may be sent twice.
var (
	// hold stores a worker unless a later attempt or a foreign value is stored. ARGV: attempt,
	// value, milliseconds.
	hold = redis.NewScript(1, `local v = redis.pcall('GET', KEYS[1])
if type(v) == 'table' then return 0 end
if v and v ~= ARGV[2] then
  local a = tonumber(string.match(v, '^(%d+) '))
  if not a or a >= tonumber(ARGV[1]) then return 0 end
end
redis.call('SET', KEYS[1], ARGV[2], 'PX', ARGV[3])
return 1`)
	// release deletes the key if it contains exactly this fence. ARGV: value.
	release = redis.NewScript(1, `if redis.pcall('GET', KEYS[1]) == ARGV[1] then return redis.call('DEL', KEYS[1]) end
return 0`)
	// alive reports whether exactly this fence is stored. ARGV: value.
	alive = redis.NewScript(1, `if redis.pcall('GET', KEYS[1]) == ARGV[1] then return 1 end
return 0`)
)

func (h *Hints) key(run uuid.UUID) string {
	key := "jobrun:lease:" + run.String()
	if h.cfg.Prefix != "" {
		key = h.cfg.Prefix + ":" + key
	}
	return key
}

// value consists of attempt, worker and token. A runner on the same machine may compare it with its
// own value.
func value(f jobrun.Fence) string {
	return fmt.Sprintf("%d %s %s", f.Attempt, f.WorkerID, f.LeaseToken)
}

// Hold implements jobrun.LeaseHints.
func (h *Hints) Hold(runs ...jobrun.HeldRun) {
	for _, r := range runs {
		h.note(
			command{evals: []eval{{hold, h.key(r.RunID), []any{r.Fence.Attempt, value(r.Fence), max(r.TTL.Milliseconds(), 1)}}}})
	}
}

// Release implements jobrun.LeaseHints.
func (h *Hints) Release(runs ...jobrun.RunFence) {
	for _, r := range runs {
		h.note(command{evals: []eval{{release, h.key(r.RunID), []any{value(r.Fence)}}}})
	}
}

// note queues a command. It returns false if the command was dropped.
func (h *Hints) note(c command) bool {
	select {
	case h.queue <- c:
		return true
	default:
		h.cfg.Done(1, true, 0)
		return false
	}
}

// Alive implements jobrun.LeaseHints.
func (h *Hints) Alive(ctx context.Context, runs []jobrun.RunFence) []bool {
	unknown := make([]bool, len(runs))
	if len(runs) == 0 {
		return unknown
	}
	reply := make(chan []bool, 1)
	c := command{reply: reply}
	for _, r := range runs {
		c.evals = append(c.evals, eval{alive, h.key(r.RunID), []any{value(r.Fence)}})
	}
	if !h.note(c) {
		return unknown
	}
	late := time.NewTimer(h.cfg.Timeout)
	defer late.Stop()
	select {
	case known := <-reply:
		if known == nil {
			return unknown
		}
		return known
	case <-late.C:
	case <-ctx.Done():
	}
	return unknown
}

// Run communicates with Redis until ctx ends. Commands that are still queued then are lost.
func (h *Hints) Run(ctx context.Context) {
	w := wire{cfg: h.cfg}
	defer w.drop()
	for {
		select {
		case <-ctx.Done():
			return
		case first := <-h.queue:
			w.send(ctx, h.gather(first))
		}
	}
}

// gather collects queued commands without waiting.
func (h *Hints) gather(first command) []command {
	commands := []command{first}
	for len(commands) < batch {
		select {
		case c := <-h.queue:
			commands = append(commands, c)
		default:
			return commands
		}
	}
	return commands
}

var _ jobrun.LeaseHints = (*Hints)(nil)
