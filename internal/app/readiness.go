package app

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"github.com/skald-saga/skald/internal/config"
	"github.com/skald-saga/skald/internal/httpapi"
	"github.com/skald-saga/skald/internal/ops/metrics"
	"github.com/skald-saga/skald/internal/postgres"
)

// How long readiness relies on the last known state of the database, and how long it waits for a
// response.
const (
	conditionFor = 5 * time.Second // after a good one
	failureFor   = time.Second     // after a bad one
	probeTime    = 2 * time.Second
)

// condition checks the state of the database, at most every few seconds, however many callers there
// are.
type condition struct {
	ask     func(context.Context) (postgres.Condition, error) // nil: there is no database
	metrics *metrics.Metrics
	now     func() time.Time

	mu    sync.Mutex
	known postgres.Condition // guarded by mu, as are the others
	err   error
	until time.Time
}

// get returns the state of the database, which may be a moment old.
func (c *condition) get(ctx context.Context) (postgres.Condition, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if now := c.now(); !now.Before(c.until) {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), probeTime)
		defer cancel()
		c.known, c.err = c.ask(ctx)
		c.until = c.now().Add(conditionFor)
		if c.err != nil {
			c.until = c.now().Add(failureFor)
		}
		c.metrics.Database(c.err == nil, c.known.Superuser, c.known.Off, postgres.Settings)
	}
	return c.known, c.err
}

// refresh brings the metrics of the database up to date.
func (c *condition) refresh(ctx context.Context) {
	if c.ask != nil {
		_, _ = c.get(ctx) // the metrics show it
	}
}

// ready reports whether this node can serve; the error's text is public.
func (n *node) ready(ctx context.Context) (httpapi.Readiness, error) {
	var is httpapi.Readiness
	select {
	case <-n.draining:
		return is, errors.New("the server is stopping")
	default:
	}
	ping, cancel := context.WithTimeout(ctx, probeTime)
	defer cancel()
	if err := n.ping(ping); err != nil {
		if ctx.Err() == nil { // otherwise only the client has disconnected
			n.opt.Log.WarnContext(ctx, "not ready: the database does not answer", slog.Any("error", err))
		}
		return is, errors.New("the database does not answer")
	}
	if n.database.ask != nil {
		c, err := n.database.get(ctx)
		if err != nil {
			n.opt.Log.WarnContext(ctx, "not ready: the database accepts no writes", slog.Any("error", err))
			if of := postgres.Exhausted(err); of != "" {
				return is, errors.New("the database accepts no writes: it has run out of " + of)
			}
			return is, errors.New("the database accepts no writes")
		}
		is.SchemaVersion, is.Warnings = c.Schema, c.Risks()
	}
	if err := n.clockWrong(); err != nil {
		return is, err
	}
	late, vital := n.late()
	is.Warnings = append(is.Warnings, late...)
	if vital != nil {
		return is, vital
	}
	if !n.cfg.Has(config.RoleEngine) {
		return is, nil // other nodes drive the sagas that it accepts
	}
	return is, n.engine.Healthy()
}
