// Package httpapi assembles the HTTP edge: the handlers of every subject behind one router
// and one sequence of checks, according to the contract (openapi.yaml).
//
// Every request passes, in this order: routing; authentication, authorization and the choice
// of the tenant; query (unknown or repeated parameters); size; UTF-8; strict JSON, which
// replaces the body by its canonical form; the contract's schema; its Idempotency-Key; binding; the handler, which
// checks what depends on meaning; redaction of what the caller may not see. Every failure
// ends in one writer of problem documents (problem.go).
//
// Files, each on top of those before it: keep, mistakes, contract, job_codes, codes, jobs, body,
// serve, authorize, check, deadletters, meta, methods, parameters, problem, redaction, server.
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
	"github.com/skald-saga/skald/internal/access/accessapi"
	"github.com/skald-saga/skald/internal/audit/auditapi"
	"github.com/skald-saga/skald/internal/audit/timeline"
	"github.com/skald-saga/skald/internal/dlq/dlqapi"
	"github.com/skald-saga/skald/internal/event/eventapi"
	"github.com/skald-saga/skald/internal/event/webhook"
	"github.com/skald-saga/skald/internal/jobrun/jobapi"
	"github.com/skald-saga/skald/internal/jobrun/workerapi"
	"github.com/skald-saga/skald/internal/rest"
	"github.com/skald-saga/skald/internal/rest/keyed"
	"github.com/skald-saga/skald/internal/saga"
	"github.com/skald-saga/skald/internal/saga/sagaapi"
	"github.com/skald-saga/skald/internal/saga/workflow"
)

// Version describes the running program.
type Version struct {
	Version, Commit, BuiltAt, Go string
}

// Readiness is what a node that can serve reports of itself.
type Readiness struct {
	SchemaVersion int      // of the database; 0: there is none
	Warnings      []string // what is wrong, though not with this node
}

// Config configures the edge. Fields are required unless their comment says otherwise.
type Config struct {
	Sagas     saga.Store
	Workflows workflow.Store
	Archive   saga.Archive
	Reports   saga.Reports
	// Create stores one saga and Commit writes one change, both durably before they
	// return, usually through a group commit. Their results are those of saga.Store.
	Create func(context.Context, saga.NewSaga) (saga.CreateResult, error)
	Commit func(context.Context, saga.Change) error
	// Answers keeps the responses of requests with an Idempotency-Key, where no resource
	// carries the key.
	Answers keyed.Store
	Engine  sagaapi.Engine
	// Trail is the audit trail, Follow streams what is added to it, and Verify checks a
	// tenant's seals from a sequence number on, at most limit of them.
	Trail  saga.Trail
	Follow auditapi.Follow
	Verify func(ctx context.Context, tenant uuid.UUID, from int64, limit int) (saga.Verification, error)
	// Streams is called with the number of open live streams of events whenever it
	// changes. Nil: not called.
	Streams func(open int)
	Keys    access.Store
	// Identify returns the principal of a credential. Fault: Unauthenticated with
	// access.CodeInvalid. It is called for every request.
	Identify func(ctx context.Context, credential string) (access.Principal, error)
	// Development replaces Identify: no credential is required, and every caller is
	// access.Anonymous.
	Development bool
	Webhooks    webhook.Store
	Deliveries  webhook.Log
	// CheckEndpoint returns why deliveries could never be sent to a webhook's URL, ""
	// when they may; the text is shown to the tenant.
	CheckEndpoint func(url string) (reason string)
	// CheckParticipant returns the same for the URL of a step. Nil: every URL may be called.
	CheckParticipant func(url string) (reason string)
	// DeadLetters is the dead-letter queue. Nil: there is none, and its operations
	// return 503.
	DeadLetters *dlqapi.DeadLetters
	// Jobs is job runs. Nil: there are none, and their operations return 503.
	// Timeline reads what happened under a correlation id; nil: 503.
	Timeline timeline.Store
	Jobs     *Jobs
	// Node returns the node that drives a saga, see saga.Ownership. Nil: nodes are unknown.
	Node func(ctx context.Context, owner int64) (n saga.Node, known bool, err error)
	// Tenant is the tenant of requests whose credential names none.
	Tenant saga.Tenant
	// CursorKey signs cursors: at least 32 random bytes, the same on every node and after
	// every restart; otherwise cursors in clients' hands become invalid.
	CursorKey []byte
	Limits    rest.Limits
	// SagaTimeout and CompensationTimeout apply when neither the request nor the
	// definition specifies them; 0: no deadline.
	SagaTimeout         time.Duration
	CompensationTimeout time.Duration
	// Retention applies to workflows that do not specify theirs; RetentionBatch is how
	// many sagas are archived in one transaction, 500 when it is 0.
	Retention      saga.Retention
	RetentionBatch int
	// Storage reports on the store's tables. Nil: it has none.
	Storage func(context.Context) (saga.Storage, error)
	Now     func() time.Time
	NewID   func() uuid.UUID
	// Ready returns what is known of this node, with an error when it cannot serve; all of
	// it is shown to every caller. Nil: always ready.
	Ready func(context.Context) (Readiness, error)
	// Stopping is closed when the server begins to stop: requests that wait for a saga's
	// end are then answered with its current state. Nil: never closed.
	Stopping <-chan struct{}
	Version  Version
	Log      *slog.Logger
}

// The handlers of the subjects, by names that distinguish them in server.
type (
	sagas   = sagaapi.Handlers
	trail   = auditapi.Handlers
	letters = dlqapi.Handlers
	jobs    = jobapi.Handlers
	workers = workerapi.Handlers
	hooks   = eventapi.Handlers
	keys    = accessapi.Handlers
)

// server implements api.Operations with the handlers of all subjects.
type server struct {
	cfg      Config
	kit      *rest.Kit
	contract *contract
	router   chi.Router
	inUse    rest.InUse // Idempotency-Keys of requests in work
	*sagas
	*trail
	*letters // nil: there is no dead-letter queue, and its operations are unreachable
	*jobs    // nil: there are no job runs, and their operations are unreachable
	*workers // nil: see jobs
	*hooks
	*keys
}

// New returns the handler of every path of the contract except /metrics, for which another
// handler must be put in front of it. It is safe for concurrent use and starts no
// goroutines.
func New(cfg Config) (http.Handler, error) {
	if err := cfg.complete(); err != nil {
		return nil, fmt.Errorf("HTTP edge: %w", err)
	}
	c, err := loadContract(cfg.Limits)
	if err != nil {
		return nil, fmt.Errorf("HTTP edge: read the contract: %w", err)
	}
	kit := &rest.Kit{
		Clock: cfg.Now, NewID: cfg.NewID, Limits: cfg.Limits, Stopping: cfg.Stopping, Log: cfg.Log,
		Cursors: rest.Cursors{Key: cfg.CursorKey}, Streams: &rest.Streams{Max: cfg.Limits.MaxStreams, Changed: cfg.Streams},
	}
	s := &server{cfg: cfg, kit: kit, contract: c, router: chi.NewRouter()}
	s.assemble()
	s.router.NotFound(s.notFound)
	s.router.MethodNotAllowed(s.methodNotAllowed)
	checked := s.router.With(s.authorize, s.queueOpen, s.jobsOpen, s.checkQuery, s.checkBody, s.checkParameters, s.keep)
	decoded := api.Decode(s, api.Ways{Check: rest.Check, Unbound: s.unbound, Answer: s.answer})
	api.HandlerWithOptions(decoded, api.ChiServerOptions{BaseRouter: checked, ErrorHandlerFunc: s.unbound})
	s.ownPaths()
	return http.HandlerFunc(s.serve), nil
}

func (c *Config) complete() error {
	switch {
	case c.Sagas == nil, c.Workflows == nil, c.Archive == nil, c.Reports == nil, c.Create == nil, c.Commit == nil,
		c.Engine == nil, c.Answers == nil,
		c.Trail == nil, c.Follow == nil, c.Verify == nil, c.Keys == nil, c.Now == nil, c.NewID == nil, c.Log == nil:
		return errors.New("Sagas, Workflows, Archive, Reports, Create, Commit, Engine, Answers, Trail, Follow, Verify, Keys, Now, NewID and Log are required")
	case c.Development == (c.Identify != nil):
		return errors.New("either Identify or Development is required")
	case c.Webhooks == nil, c.Deliveries == nil, c.CheckEndpoint == nil:
		return errors.New("Webhooks, Deliveries and CheckEndpoint are required")
	case c.DeadLetters != nil && !c.DeadLetters.Complete():
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
	c.Limits.Complete()
	return nil
}

// assemble passes to the handlers of each subject what they need.
func (s *server) assemble() {
	cfg := &s.cfg
	s.sagas = sagaapi.New(&sagas{
		Kit: s.kit, Sagas: cfg.Sagas, Workflows: cfg.Workflows, Archive: cfg.Archive, Reports: cfg.Reports,
		Create: cfg.Create, Commit: cfg.Commit, Engine: cfg.Engine, Node: cfg.Node, Tenant: cfg.Tenant,
		SagaTimeout: cfg.SagaTimeout, CompensationTimeout: cfg.CompensationTimeout,
		CheckParticipant: cfg.CheckParticipant,
		Retention:        cfg.Retention, RetentionBatch: cfg.RetentionBatch, Jobs: cfg.Jobs != nil,
	})
	s.trail = &trail{Kit: s.kit, Sagas: cfg.Sagas, Trail: cfg.Trail, Follow: cfg.Follow, Verify: cfg.Verify,
		Timeline: cfg.Timeline}
	s.hooks = &hooks{Kit: s.kit, Webhooks: cfg.Webhooks, Deliveries: cfg.Deliveries, Workflows: cfg.Workflows,
		CheckEndpoint: cfg.CheckEndpoint}
	s.keys = &keys{Kit: s.kit, Keys: cfg.Keys, Development: cfg.Development}
	if q := cfg.DeadLetters; q != nil {
		s.letters = &letters{Kit: s.kit, DeadLetters: *q, CheckEndpoint: cfg.CheckEndpoint, LetterSchema: s.contract.letter}
		s.sagas.Actions, s.trail.Actions, s.trail.VerifyActions = q.Actions, q.Actions, q.VerifyActions
	}
	if j := cfg.Jobs; j != nil {
		s.jobs = &jobs{
			Kit: s.kit, Definitions: j.Definitions, Runs: j.Runs, Bulks: j.Bulks, Events: j.Events, Elections: j.Elections,
			Settings: j.Settings, Workers: j.Workers, StoreNow: j.Now, Offloaded: j.Offloaded, Sagas: cfg.Sagas,
		}
		if q := cfg.DeadLetters; q != nil {
			s.jobs.MaxLetters = q.RedriveLimits.Bulk
		}
		s.workers = workerapi.New(&workers{
			Kit: s.kit, Work: j.Work, Workers: j.Workers, Fences: j.Fences, Current: j.Current, Claim: j.Claim, Start: j.Start,
			Finish: j.Finish,
		}, j.MaxWaiting)
		if j.Admitted != nil {
			j.Admitted(s.workers.Admitted)
		}
	}
}
