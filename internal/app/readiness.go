package app

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/skald-saga/skald/db"
	"github.com/skald-saga/skald/internal/config"
	"github.com/skald-saga/skald/internal/httpapi"
	"github.com/skald-saga/skald/internal/loop"
	"github.com/skald-saga/skald/internal/ops/metrics"
	"github.com/skald-saga/skald/internal/postgres"
)

// How long readiness uses the last known state of the database, and how long it waits for a
// response.
const (
	conditionFor = 5 * time.Second // after a successful check
	failureFor   = time.Second     // after a failed check
	probeTime    = 1500 * time.Millisecond
	readyTime    = 1800 * time.Millisecond // for the whole response: load balancers' probes give up after 2 s
)

// condition checks the state of the database at most once every few seconds, no matter how many
// callers there are.
type condition struct {
	ask     func(context.Context) (postgres.Condition, error) // nil: there is no database
	metrics *metrics.Metrics
	now     func() time.Time

	mu    sync.Mutex
	known postgres.Condition // guarded by mu, like the fields below
	err   error
	until time.Time
	check chan struct{} // closed at the end of the check in progress; nil: none is in progress
}

// get returns the state of the database, which may be slightly out of date, or the error of ctx if
// ctx ends first.
func (c *condition) get(ctx context.Context) (postgres.Condition, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.now().Before(c.until) {
		return c.known, c.err
	}
	if c.check == nil {
		c.check = make(chan struct{})
		go c.renew(context.WithoutCancel(ctx), c.check)
	}
	check := c.check
	c.mu.Unlock()
	select {
	case <-check:
	case <-ctx.Done():
	}
	c.mu.Lock()
	if c.check == check { // the check has not ended
		return postgres.Condition{}, ctx.Err()
	}
	return c.known, c.err
}

// refresh brings the metrics of the database up to date.
func (c *condition) refresh(ctx context.Context) {
	if c.ask != nil {
		_, _ = c.get(ctx) // the metrics show the error
	}
}

// watch keeps the metrics up to date until ctx ends. It is for nodes without a lease, whose
// renewals would otherwise do this. It also measures the node's clock.
func (c *condition) watch(ctx context.Context) {
	for ctx.Err() == nil {
		c.refresh(ctx)
		loop.Sleep(ctx, loop.Jittered(2*conditionFor))
	}
}

func (c *condition) renew(ctx context.Context, done chan<- struct{}) {
	ctx, cancel := context.WithTimeout(ctx, probeTime)
	defer cancel()
	known, err := c.ask(ctx)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.known, c.err, c.check = known, err, nil
	c.until = c.now().Add(conditionFor)
	if err != nil {
		c.until = c.now().Add(failureFor)
	}
	c.metrics.Database(err == nil, known.Superuser, known.Off, postgres.Settings)
	close(done)
}

// ready reports within readyTime whether this node can serve. The text of the error is public.
func (n *node) ready(ctx context.Context) (httpapi.Readiness, error) {
	var is httpapi.Readiness
	select {
	case <-n.draining:
		return is, errors.New("the server is stopping")
	default:
	}
	within, cancel := context.WithTimeout(ctx, readyTime)
	defer cancel()
	if err := n.pinged(within); err != nil {
		return is, n.unready(ctx, err, "the database does not answer")
	}
	if n.database.ask != nil {
		c, err := n.database.get(within)
		if err != nil {
			return is, n.unready(ctx, err, "the database accepts no writes")
		}
		is.SchemaVersion, is.Warnings = c.Schema, c.Risks()
		switch expected := db.Version(); {
		case c.Schema < expected:
			return is, fmt.Errorf("the schema of the database is too old for this server: version %d, not %d", c.Schema, expected)
		case c.Schema > expected && !db.Has(c.Floor):
			return is, fmt.Errorf("the schema of the database is too new for this server: version %d no longer has what "+
				"version %d uses", c.Schema, expected)
		case c.Schema > expected: // an upgrade has migrated the schema, which older nodes can use
			is.Warnings = append(is.Warnings, fmt.Sprintf(
				"the schema of the database is newer than this server: version %d, not %d", c.Schema, expected))
		}
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
		return is, nil // other nodes drive the sagas that this node accepts
	}
	return is, n.engine.Healthy()
}

// pinged returns nil if the database answers before ctx ends.
func (n *node) pinged(ctx context.Context) error {
	answered := make(chan error, 1)
	go func() { answered <- n.ping(ctx) }()
	select {
	case err := <-answered:
		return err
	case <-ctx.Done():
		return ctx.Err()
	}
}

// unready logs why the database cannot be used and returns the public form of the reason: the
// public text of the error if it has one and is not a timeout, otherwise the given text.
func (n *node) unready(ctx context.Context, err error, otherwise string) error {
	words := postgres.Trouble(err)
	if words == "" || postgres.Late(err) {
		words = otherwise
	}
	if ctx.Err() == nil { // otherwise the client has merely disconnected
		n.opt.Log.WarnContext(ctx, "not ready: "+words, slog.Any("error", err))
	}
	return errors.New(words)
}
