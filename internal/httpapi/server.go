// Package httpapi is the HTTP edge: it turns requests into one rule and one
// store call, and their results into answers of the contract (openapi.yaml).
//
// Every request passes, in this order: routing; query (unknown or repeated
// parameters); size; UTF-8; strict JSON, which replaces the body by its
// canonical form; the contract's schema; binding; the handler, which checks
// what only meaning can tell. Every way out but success leads to one writer
// of problem documents (problem.go).
package httpapi

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"time"

	"github.com/getkin/kin-openapi/openapi3filter"
	"github.com/go-chi/chi/v5"
	"github.com/google/uuid"
	nethttpmiddleware "github.com/oapi-codegen/nethttp-middleware"

	"github.com/skald-saga/skald/api"
	"github.com/skald-saga/skald/internal/saga"
	"github.com/skald-saga/skald/internal/workflow"
)

// Engine is what the edge needs of the saga engine of this node.
type Engine interface {
	// Admit reserves room for one saga, waiting briefly when there is none.
	// owner is nil when there still is none: the saga is then stored unowned
	// and claimed later. done must be called exactly once: with the stored
	// run, which starts at once, or with nil to give the room back.
	Admit(ctx context.Context) (owner *int64, done func(*saga.Run))
	// Wake makes the engine look at a saga now, because a flag was set.
	Wake(id uuid.UUID)
	// Watch returns a channel that is closed when the saga ends on this node;
	// its end on another node shows only in the store. stop must be called.
	Watch(id uuid.UUID) (ended <-chan struct{}, stop func())
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
}

// Version says what is running.
type Version struct{ Version, Commit, BuiltAt, Go string }

// Config is what the edge is made of. Fields are required unless said otherwise.
type Config struct {
	Sagas     saga.Store
	Workflows workflow.Store
	// Create stores one saga and Commit writes one change, durably on return;
	// usually through a group commit. Their results are those of saga.Store.
	Create func(context.Context, saga.NewSaga) (saga.CreateResult, error)
	Commit func(context.Context, saga.Change) error
	Engine Engine
	// Node tells who drives a saga, see saga.Ownership. Optional: nobody knows.
	Node func(ctx context.Context, owner int64) (n saga.Node, known bool, err error)
	// Tenant is the tenant of every request.
	Tenant saga.Tenant
	// CursorKey signs cursors: at least 32 random bytes, the same on every
	// node and after every restart, else cursors in clients' hands become invalid.
	CursorKey []byte
	Limits    Limits
	// SagaTimeout and CompensationTimeout stand in for what neither request
	// nor definition say; 0: no deadline.
	SagaTimeout         time.Duration
	CompensationTimeout time.Duration
	Now                 func() time.Time
	NewID               func() uuid.UUID
	// Ready returns nil when this node can serve, else why it cannot, in a
	// text that is shown to anybody. Optional: always ready.
	Ready func(context.Context) error
	// Stopping is closed when the server begins to stop: requests that wait
	// for a saga's end are then answered with what there is. Optional.
	Stopping <-chan struct{}
	Version  Version
	Log      *slog.Logger
}

// server implements api.StrictServerInterface.
type server struct {
	Config
	contract    *contract
	definitions *definitions
	inUse       inUse
	cursors     cursors
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
		definitions: newDefinitions(cfg.Workflows, workflow.Limits{MaxSteps: cfg.Limits.MaxSteps}),
		cursors:     cursors{key: cfg.CursorKey},
	}
	s.router.NotFound(s.notFound)
	s.router.MethodNotAllowed(s.methodNotAllowed)
	checked := s.router.With(s.checkQuery, s.checkBody,
		nethttpmiddleware.OapiRequestValidatorWithOptions(c.doc, &nethttpmiddleware.Options{
			Options: openapi3filter.Options{
				MultiError:          true,
				ExcludeRequestBody:  true, // checkBody has done that, without decoding payloads
				SkipSettingDefaults: true,
			},
			DiscardValidatedValue: true,
			ErrorHandlerWithOpts:  s.badParameters,
		}))
	strict := api.NewStrictHandlerWithOptions(s, nil, api.StrictHTTPServerOptions{
		RequestErrorHandlerFunc: s.unbound, ResponseErrorHandlerFunc: s.fail,
	})
	api.HandlerWithOptions(strict, api.ChiServerOptions{BaseRouter: checked, ErrorHandlerFunc: s.unbound})
	return http.HandlerFunc(s.serve), nil
}

func (c *Config) complete() error {
	switch {
	case c.Sagas == nil, c.Workflows == nil, c.Create == nil, c.Commit == nil, c.Engine == nil,
		c.Now == nil, c.NewID == nil, c.Log == nil:
		return errors.New("Sagas, Workflows, Create, Commit, Engine, Now, NewID and Log are required")
	case len(c.CursorKey) < 32:
		return errors.New("CursorKey needs at least 32 bytes")
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
