// Package httpapi is the HTTP edge: it turns requests into one rule and one
// store call, and their results into answers of the contract (openapi.yaml).
//
// Every request passes, in this order: routing; who asks, whether they may, and
// for which tenant; query (unknown or repeated parameters); size; UTF-8; strict JSON, which replaces the body by its
// canonical form; the contract's schema; binding; the handler, which checks
// what only meaning can tell; the veil over what the reader may not see. Every way out but success leads to one writer
// of problem documents (problem.go).
package httpapi

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"time"

	"github.com/go-chi/chi/v5"
	"github.com/google/uuid"

	"github.com/skald-saga/skald/api"
	"github.com/skald-saga/skald/internal/access"
	"github.com/skald-saga/skald/internal/audit/timeline"
	"github.com/skald-saga/skald/internal/event/webhook"
	"github.com/skald-saga/skald/internal/saga"
	"github.com/skald-saga/skald/internal/saga/workflow"
)

// Engine is what the edge needs of the saga engine of this node.
type Engine interface {
	// Admit reserves room for one saga, waiting briefly when there is none.
	// owner is nil when there still is none: the saga is then stored unowned
	// and claimed later. done must be called exactly once: with the stored
	// run, which starts at once, or with nil to give the room back.
	Admit(ctx context.Context) (owner *int64, done func(*saga.Instance))
	// Wake makes the engine look at a saga now, because a flag was set.
	Wake(ref saga.Ref)
	// Watch returns a channel that is closed when the saga ends on this node;
	// its end on another node shows only in the store. stop must be called.
	Watch(ref saga.Ref) (ended <-chan struct{}, stop func())
}

// Limits bounds what clients may ask for. Zero fields mean the defaults in
// the comments, but for MaxWait.
type Limits struct {
	MaxBodyBytes     int64         // 1 MiB
	MaxWorkflowBytes int64         // 256 KiB; of a definition, inline steps included
	MaxSteps         int           // 100
	MaxJSONDepth     int           // 64; the whole body, its own braces included
	MaxWait          time.Duration // longer waits are cut to it; 0: nobody waits
	RequestTimeout   time.Duration // 30 s; for the work on a request, the wait it asked for apart
	MaxStreams       int           // 100; live streams of events at once
	StreamAge        time.Duration // 1 h; then a stream ends, and its client comes back with its credentials
	StreamSilence    time.Duration // 15 s; after it a comment is sent
	StreamWrite      time.Duration // 10 s; a reader that takes longer to take something is dismissed
}

// Version says what is running.
type Version struct{ Version, Commit, BuiltAt, Go string }

// Config is what the edge is made of. Fields are required unless said otherwise.
type Config struct {
	Sagas     saga.Store
	Workflows workflow.Store
	Archive   saga.Archive
	Reports   saga.Reports
	// Create stores one saga and Commit writes one change, durably on return;
	// usually through a group commit. Their results are those of saga.Store.
	Create func(context.Context, saga.NewSaga) (saga.CreateResult, error)
	Commit func(context.Context, saga.Change) error
	Engine Engine
	// Trail is the audit trail, Follow gives what is added to it, and Verify
	// checks a tenant's seals from a sequence number on, limit of them at most.
	Trail  saga.Trail
	Follow Follow
	Verify func(ctx context.Context, tenant uuid.UUID, from int64, limit int) (saga.Verification, error)
	// Streams is told how many live streams of events are open, whenever that
	// changes. Optional.
	Streams func(open int)
	Keys    access.Store
	// Identify returns who stands behind a credential. Fault: Unauthenticated
	// with access.CodeInvalid. It is on the way of every request.
	Identify func(ctx context.Context, credential string) (access.Principal, error)
	// Development stands in for Identify: nobody is asked for a credential, and
	// everybody is access.Anonymous.
	Development bool
	Webhooks    webhook.Store
	Deliveries  webhook.Log
	// CheckEndpoint says why deliveries could never go to a webhook's URL, "" when
	// they may; in words fit for the tenant.
	CheckEndpoint func(url string) (reason string)
	// DeadLetters is the dead-letter queue. Optional: there is none, and its
	// operations answer 503.
	DeadLetters *DeadLetters
	// Jobs is job runs. Optional: there are none, and their operations answer 503.
	// Timeline reads what happened under a correlation id; nil: 503.
	Timeline timeline.Store
	Jobs     *Jobs
	// Node tells who drives a saga, see saga.Ownership. Optional: nobody knows.
	Node func(ctx context.Context, owner int64) (n saga.Node, known bool, err error)
	// Tenant is the tenant of requests whose credential names none.
	Tenant saga.Tenant
	// CursorKey signs cursors: at least 32 random bytes, the same on every
	// node and after every restart, else cursors in clients' hands become invalid.
	CursorKey []byte
	Limits    Limits
	// SagaTimeout and CompensationTimeout stand in for what neither request
	// nor definition say; 0: no deadline.
	SagaTimeout         time.Duration
	CompensationTimeout time.Duration
	// Retention stands in for what workflows do not say of theirs;
	// RetentionBatch is how many sagas are archived in one transaction, 500
	// when it is 0.
	Retention      saga.Retention
	RetentionBatch int
	// Storage reports on the store's tables. Optional: it has none.
	Storage func(context.Context) (saga.Storage, error)
	Now     func() time.Time
	NewID   func() uuid.UUID
	// Ready returns nil when this node can serve, else why it cannot, in a
	// text that is shown to anybody. Optional: always ready.
	Ready func(context.Context) error
	// Stopping is closed when the server begins to stop: requests that wait
	// for a saga's end are then answered with what there is. Optional.
	Stopping <-chan struct{}
	Version  Version
	Log      *slog.Logger
}

// server implements api.Operations.
type server struct {
	Config
	contract    *contract
	definitions *definitions
	inUse       inUse
	cursors     cursors
	streams     streams
	waits       *waits // nil: there are no job runs
	router      chi.Router
}

// New returns the handler of every path of the contract but /metrics, which
// is somebody else's to serve in front of it. It is safe for concurrent use
// and starts no goroutines.
func New(cfg Config) (http.Handler, error) {
	if err := cfg.complete(); err != nil {
		return nil, fmt.Errorf("HTTP edge: %w", err)
	}
	c, err := loadContract(cfg.Limits)
	if err != nil {
		return nil, fmt.Errorf("HTTP edge: read the contract: %w", err)
	}
	s := &server{
		Config: cfg, contract: c, router: chi.NewRouter(),
		cursors: cursors{key: cfg.CursorKey},
		streams: streams{max: cfg.Limits.MaxStreams, changed: cfg.Streams},
	}
	s.definitions = newDefinitions(cfg.Workflows, workflow.Limits{MaxSteps: cfg.Limits.MaxSteps}, s.runnable)
	if cfg.Jobs != nil {
		s.waits = newWaits(cfg.Jobs.MaxWaiting, s.waitingLive)
		if cfg.Jobs.Admitted != nil {
			cfg.Jobs.Admitted(s.waits.admitted)
		}
	}
	s.router.NotFound(s.notFound)
	s.router.MethodNotAllowed(s.methodNotAllowed)
	checked := s.router.With(s.authorize, s.queueOpen, s.jobsOpen, s.checkQuery, s.checkBody, s.checkParameters)
	decoded := api.Decode(s, api.Ways{Unbound: s.unbound, Answer: s.answer})
	api.HandlerWithOptions(decoded, api.ChiServerOptions{BaseRouter: checked, ErrorHandlerFunc: s.unbound})
	return http.HandlerFunc(s.serve), nil
}

func (c *Config) complete() error {
	switch {
	case c.Sagas == nil, c.Workflows == nil, c.Archive == nil, c.Reports == nil, c.Create == nil, c.Commit == nil, c.Engine == nil,
		c.Trail == nil, c.Follow == nil, c.Verify == nil, c.Keys == nil, c.Now == nil, c.NewID == nil, c.Log == nil:
		return errors.New("Sagas, Workflows, Archive, Reports, Create, Commit, Engine, Trail, Follow, Verify, Keys, Now, NewID and Log are required")
	case c.Development == (c.Identify != nil):
		return errors.New("either Identify or Development is required")
	case c.Webhooks == nil, c.Deliveries == nil, c.CheckEndpoint == nil:
		return errors.New("Webhooks, Deliveries and CheckEndpoint are required")
	case c.DeadLetters != nil && !c.DeadLetters.complete():
		return errors.New("every field of DeadLetters is required")
	case len(c.CursorKey) < 32:
		return errors.New("CursorKey needs at least 32 bytes")
	}
	if c.Jobs != nil {
		c.Jobs.complete()
	}
	if c.Streams == nil {
		c.Streams = func(int) {}
	}
	if c.RetentionBatch == 0 {
		c.RetentionBatch = 500
	}
	l := &c.Limits
	if l.MaxBodyBytes == 0 {
		l.MaxBodyBytes = 1 << 20
	}
	if l.MaxWorkflowBytes == 0 {
		l.MaxWorkflowBytes = 256 << 10
	}
	if l.MaxSteps == 0 {
		l.MaxSteps = 100
	}
	if l.MaxJSONDepth == 0 {
		l.MaxJSONDepth = 64
	}
	if l.RequestTimeout == 0 {
		l.RequestTimeout = 30 * time.Second
	}
	if l.MaxStreams == 0 {
		l.MaxStreams = 100
	}
	if l.StreamAge == 0 {
		l.StreamAge = time.Hour
	}
	if l.StreamSilence == 0 {
		l.StreamSilence = 15 * time.Second
	}
	if l.StreamWrite == 0 {
		l.StreamWrite = 10 * time.Second
	}
	return nil
}

// now returns the time as stores keep it: UTC, in microseconds.
func (s *server) now() time.Time { return s.Now().UTC().Truncate(time.Microsecond) }

// bounded limits the work on a request; a client that leaves ends it.
func (s *server) bounded(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(ctx, s.Limits.RequestTimeout)
}

// promised is bounded for writes: what has begun to be stored is not given up
// because the client left. A saga that is stored must reach its driver.
func (s *server) promised(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.WithoutCancel(ctx), s.Limits.RequestTimeout)
}
