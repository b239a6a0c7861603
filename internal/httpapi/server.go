// Package httpapi assembles the HTTP edge: the handlers of all subjects behind one router and one
// sequence of checks, in accordance with the contract (openapi.yaml).
//
// Every request goes through these steps, in this order: routing; authentication, authorization and
// selection of the tenant; the query (unknown or repeated parameters); size; UTF-8; strict JSON,
// which replaces the body with its canonical form; the contract's schema; If-Match where required;
// the Idempotency-Key; binding; the handler, which checks the semantics; redaction of content that
// the caller may not see; and the names of actors. All failures are turned into problem documents
// in one place (problem.go).
//
// Files, each on top of those before it: deprecated, ifmatch, keep, mistakes, contract, codes, jobs, body,
// config, serve, limits, authorize, check, deadletters, meta, methods, names, parameters, problem, redaction,
// server, starting.
package httpapi

import (
	"context"
	"fmt"
	"net/http"
	"time"

	"github.com/go-chi/chi/v5"
	"github.com/google/uuid"

	"github.com/skald-saga/skald/api"
	"github.com/skald-saga/skald/internal/access/accessapi"
	"github.com/skald-saga/skald/internal/audit/auditapi"
	"github.com/skald-saga/skald/internal/dlq/dlqapi"
	"github.com/skald-saga/skald/internal/event/eventapi"
	"github.com/skald-saga/skald/internal/httpkit"
	"github.com/skald-saga/skald/internal/idempotency/claims"
	"github.com/skald-saga/skald/internal/jobrun/jobapi"
	"github.com/skald-saga/skald/internal/jobrun/workerapi"
	"github.com/skald-saga/skald/internal/ops/overviewapi"
	"github.com/skald-saga/skald/internal/saga"
	"github.com/skald-saga/skald/internal/saga/registryapi"
	"github.com/skald-saga/skald/internal/saga/sagaapi"
)

// The handlers of the subjects, under names that distinguish them in server.
type (
	sagas   = sagaapi.Handlers
	audited = auditapi.Handlers
	letters = dlqapi.Handlers
	jobs    = jobapi.Handlers
	workers = workerapi.Handlers
	hooks   = eventapi.Handlers
	keys    = accessapi.Handlers
	glance  = overviewapi.Handlers
	parties = registryapi.Handlers
)

// server implements api.Operations with the handlers of all subjects.
type server struct {
	cfg      Config
	kit      *httpkit.Kit
	contract *contract
	router   chi.Router
	inUse    claims.Requests // Idempotency-Keys of requests in progress
	*sagas
	*audited
	*letters // nil without a dead-letter queue, whose operations are then unreachable
	*jobs    // nil without job runs, whose operations are then unreachable
	*workers // nil: see jobs
	*hooks
	*keys
	*glance
	*parties
}

// New returns the handler for every path of the contract except /metrics, which another handler
// must serve in front of it. The handler is safe for concurrent use and starts no goroutines.
func New(cfg Config) (http.Handler, error) {
	if err := cfg.complete(); err != nil {
		return nil, fmt.Errorf("HTTP edge: %w", err)
	}
	c, err := loadContract(cfg.Limits, cfg.Docs)
	if err != nil {
		return nil, fmt.Errorf("HTTP edge: read the contract: %w", err)
	}
	kit := &httpkit.Kit{
		Clock: cfg.Now, NewID: cfg.NewID, Limits: cfg.Limits, Stopping: cfg.Stopping, Ends: cfg.Ends, Log: cfg.Log,
		Cursors: httpkit.Cursors{Key: cfg.CursorKey},
		Streams: &httpkit.Streams{
			Max: cfg.Limits.MaxStreams, MaxOfTenant: cfg.Limits.TenantStreams, Changed: cfg.Trail.Streams,
		},
	}
	s := &server{cfg: cfg, kit: kit, contract: c, router: chi.NewRouter()}
	s.assemble()
	s.router.NotFound(s.notFound)
	s.router.MethodNotAllowed(s.methodNotAllowed)
	checked := s.router.With(s.announce, s.apiOpen, s.authorize, s.queueOpen,
		s.jobsOpen, s.checkQuery, s.checkBody, s.checkParameters, s.keep)
	api.Route(checked, s, api.Ways{Check: httpkit.Check, Unbound: s.unbound, Answer: s.answer})
	s.ownPaths()
	return http.HandlerFunc(s.serve), nil
}

// gate returns the gate at which calls to a URL wait, nil if they need not wait.
func (s *server) gate(tenant uuid.UUID, url string) *api.GateWait {
	if s.cfg.Participants.Held == nil {
		return nil
	}
	return registryapi.GateWait(s.cfg.Participants.Held(tenant, url), s.cfg.Now())
}

// assemble creates the handlers of all subjects with their dependencies.
func (s *server) assemble() {
	cfg := &s.cfg
	of := &cfg.Sagas
	parts := cfg.Participants
	of.AtGate = func(ctx context.Context, of saga.Ref, now time.Time) (*saga.AtGate, error) {
		return registryapi.AtGate(ctx, parts.Store, parts.Gates, of, now)
	}
	if parts.Gates != nil {
		of.AtGates = parts.Gates.Waits
	}
	of.Secrets = parts.Secrets
	s.sagas = sagaapi.New(&sagas{Kit: s.kit, Sagas: cfg.Sagas, Tenant: cfg.Access.Tenant, Jobs: cfg.Jobs != nil})
	s.audited = &audited{Kit: s.kit, Sagas: of.Store, Archive: of.Archive, Trail: cfg.Trail.Events,
		Follow: cfg.Trail.Follow, Verify: cfg.Trail.Verify, Timeline: cfg.Trail.Timeline}
	s.hooks = &hooks{Kit: s.kit, Webhooks: cfg.Webhooks.Store, Deliveries: cfg.Webhooks.Deliveries,
		Workflows: of.Workflows, CheckEndpoint: cfg.Webhooks.CheckEndpoint, Gate: s.gate}
	s.parties = &parties{Kit: s.kit, Participants: cfg.Participants.Store, Gates: cfg.Participants.Gates,
		Secrets: parts.Secrets, CheckEndpoint: of.CheckParticipant, Changed: cfg.Participants.Changed}
	s.glance = overviewapi.New(&glance{Kit: s.kit, Store: cfg.Overview, Loops: cfg.Loops})
	s.keys = &keys{
		Kit: s.kit, Keys: cfg.Access.Keys, Sessions: cfg.Access.Sessions, Forget: cfg.Access.Forget,
		Development: cfg.Access.Development,
	}
	if q := cfg.DeadLetters; q != nil {
		s.letters = &letters{
			Kit: s.kit, DeadLetters: *q, CheckEndpoint: cfg.Webhooks.CheckEndpoint, LetterSchema: s.contract.letter,
			Gate: s.gate,
		}
		s.sagas.Actions, s.audited.Actions, s.audited.VerifyActions = q.Actions, q.Actions, q.VerifyActions
	}
	if j := cfg.Jobs; j != nil {
		s.jobs = &jobs{
			Kit: s.kit, Definitions: j.Definitions, Runs: j.Runs, Bulks: j.Bulks, Events: j.Events, Elections: j.Elections,
			Settings: j.Settings, Workers: j.Workers, Queues: j.Queues, StoreNow: j.Now, Offloaded: j.Offloaded, Sagas: of.Store,
			RefuseTopic: j.RefuseTopic, ArgsAllow: j.ArgsAllow,
		}
		if q := cfg.DeadLetters; q != nil {
			s.jobs.MaxLetters = q.RedriveLimits.Bulk
		}
		s.workers = workerapi.New(&workers{
			Kit: s.kit, Work: j.Work, Workers: j.Workers, Fences: j.Fences, Current: j.Current, Claim: j.Claim, Start: j.Start,
			Finish: j.Finish, Exchange: j.Exchange,
		}, j.MaxWaiting)
		if j.Admitted != nil {
			j.Admitted(s.workers.Admitted)
		}
	}
}
