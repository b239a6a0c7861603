package app

import (
	"cmp"
	"context"
	"crypto/tls"
	"log/slog"
	"net"
	"net/http"
	"os"
	"slices"
	"time"

	"github.com/google/uuid"

	"github.com/skald-saga/skald/internal/access/identity"
	"github.com/skald-saga/skald/internal/audit"
	"github.com/skald-saga/skald/internal/audit/trail"
	"github.com/skald-saga/skald/internal/config"
	"github.com/skald-saga/skald/internal/egress"
	"github.com/skald-saga/skald/internal/groupcommit"
	"github.com/skald-saga/skald/internal/httpapi"
	"github.com/skald-saga/skald/internal/httpkit"
	"github.com/skald-saga/skald/internal/httpkit/ratelimit"
	"github.com/skald-saga/skald/internal/jobrun/scheduler"
	"github.com/skald-saga/skald/internal/longpoll"
	"github.com/skald-saga/skald/internal/loop"
	"github.com/skald-saga/skald/internal/ops/metrics"
	"github.com/skald-saga/skald/internal/postgres"
	"github.com/skald-saga/skald/internal/saga"
	"github.com/skald-saga/skald/internal/saga/cache"
	"github.com/skald-saga/skald/internal/saga/certification/player"
	"github.com/skald-saga/skald/internal/saga/engine"
	"github.com/skald-saga/skald/internal/saga/participant"
	"github.com/skald-saga/skald/internal/saga/participantgate"
	"github.com/skald-saga/skald/internal/saga/registry"
	"github.com/skald-saga/skald/internal/saga/sagaapi"
	"github.com/skald-saga/skald/internal/saga/secrets"
	"github.com/skald-saga/skald/internal/secret/keeper"
	"github.com/skald-saga/skald/internal/secret/vault"
	"github.com/skald-saga/skald/internal/tenant"
)

// Options are the options of a run that are not part of the configuration.
type Options struct {
	Version httpapi.Version
	Log     *slog.Logger
	// EUID is the effective user ID of the process: root must not run the programs of jobs.
	EUID int
	// Hangup asks the node to reload what can be reloaded without a restart. Load then reads the
	// settings, and Level is set to the new log.level. All three are optional.
	Hangup <-chan os.Signal
	Load   func() (config.Config, error)
	Level  *slog.LevelVar
	// Ready is called once the API answers, with its base URL. Optional.
	Ready func(url string)
	// After signals the end of server.drain_delay; nil means time.After.
	After func(time.Duration) <-chan time.Time
}

// node is the assembled program.
type node struct {
	cfg  config.Config
	opt  Options
	name string // unique among the nodes of a database
	addr net.Addr
	stores
	clock       *postgres.Clock
	now         func() time.Time   // the current time according to clock
	policy      *egress.Policy     // the destinations that calls may reach
	trusted     func() *tls.Config // TLS for participants; nil: the system's authorities and no client certificate
	read        []reread
	loaded      config.Config // as Load returned them
	metrics     *metrics.Metrics
	database    *condition
	loops       *loop.Watchdog
	tail        *audit.Tail
	archive     archive
	writes      *writes
	callbacks   callbacks
	calls       *participant.Client
	known       *participantgate.Known // the registered participants
	secrets     *secrets.Bound         // secrets that participants may get; nil: none
	keeper      *keeper.Keeper         // keeps the values of secrets; nil: there are none
	vault       *vault.Reader          // reads the secrets in Vault; nil: there are none
	gate        *participantgate.Gate  // limits and holds calls to participants
	signing     func() [][]byte        // keys that sign calls to participants; nil: there are none
	examiner    *player.Runner
	definitions *pinned
	ends        *longpoll.Board
	takes       *groupcommit.Committer[registry.Grant, bool]    // grants of the gate
	loads       *groupcommit.Committer[*saga.Ref, *saga.Loaded] // shared reads for waiting requests
	engine      *engine.Engine
	notices     *notices
	letters     *letters             // nil: there is no dead-letter queue
	jobs        *jobs                // nil: there are no job runs
	leader      *scheduler.Scheduler // nil: this node cannot lead job runs
	checker     *identity.Checker    // nil in development mode
	handler     http.Handler
	draining    chan struct{} // closed on the signal to stop: the node is not ready, but still serves
	stopping    chan struct{} // closed just before the listening socket
}

// build assembles the node, but starts nothing. Each part may use the parts before it.
func build(
	ctx context.Context,
	cfg config.Config,
	opt Options,
	kept stores,
	clock *postgres.Clock,
	addr net.Addr,
) (*node, error) {
	n := &node{
		cfg: cfg, opt: opt, name: nodeName(cfg.Engine.NodeID, addr), addr: addr, stores: kept,
		clock: clock, now: clock.Now,
		draining: make(chan struct{}), stopping: make(chan struct{}),
	}
	for _, add := range []func(context.Context) error{
		n.addMetrics,
		n.addWrites,
		n.addParticipants,
		n.addSecrets,
		n.addCallbacks,
		n.addCalls,
		n.addExaminer,
		n.addNotices,
		n.addEnds,
		n.addEngine,
		n.addLetters,
		n.addJobs,
		n.addChecker,
		n.addHandler,
		n.addWatchdog,
	} {
		if err := add(ctx); err != nil {
			return nil, err
		}
	}
	return n, nil
}

func (n *node) addMetrics(context.Context) error {
	n.metrics = metrics.New(func() (int, int) {
		if n.engine == nil {
			return 0, 0
		}
		return n.engine.Load()
	})
	n.metrics.Clock(n.clock.Ahead)
	n.metrics.EngineLimit(n.cfg.Engine.MaxRunning)
	n.metrics.Risks(postgres.Settings)
	n.database = &condition{ask: n.condition, metrics: n.metrics, now: time.Now}
	return nil
}

// addWrites adds the write paths for sagas and the feed that they wake.
func (n *node) addWrites(context.Context) error {
	n.tail = audit.NewTail(n.trail, n.opt.Log)
	n.writes = newWrites(n.sagas, n.cfg.Engine.CommitBatch, n.metrics, n.tail.Wake)
	n.archive = archive{n.sagas, n.metrics}
	n.definitions = newPinned(n.workflows)
	cache.SetCache(&cache.Stored{
		Sagas: n.sagas, Workflows: n.workflows, Now: n.now, Timeout: n.cfg.Engine.DefaultSagaTimeout, Log: n.opt.Log,
	})
	return nil
}

// addCalls adds the client that calls participants and the policy for all outgoing calls.
func (n *node) addCalls(context.Context) (err error) {
	n.policy, err = egress.NewPolicy(n.cfg.Egress.Allow, n.cfg.Egress.Deny, n.cfg.Egress.AllowLoopback)
	if err != nil {
		return err
	}
	p := n.cfg.Participants
	if n.trusted, err = n.watchTLS("participants", p.TLSCertFile, p.TLSKeyFile, p.TLSCAFile); err != nil {
		return err
	}
	if n.signing, err = n.signingKeys(); err != nil {
		return err
	}
	n.calls = participant.New(participant.Config{
		Policy: n.policy, TLS: n.trusted, SigningKeys: n.signing, Secrets: n.secrets, Hidden: n.hidden,
		Callback: n.callbacks.url,
		Version:  n.opt.Version.Version, MaxResponseBytes: n.cfg.Engine.MaxResponseBytes,
		MaxJSONDepth: n.cfg.Limits.MaxJSONDepth, MaxIdlePerHost: 2 * n.cfg.Engine.MaxRunning, Now: n.now, Log: n.opt.Log,
	})
	return nil
}

func (n *node) addNotices(context.Context) (err error) {
	n.notices, err = n.newNotices()
	return err
}

// addEnds adds the board of requests that wait for a saga to end, on this node or another.
func (n *node) addEnds(context.Context) error {
	cfg := longpoll.Config{Max: n.cfg.Server.MaxWaiting, Count: n.metrics.Waiting}
	if n.jobStores != nil {
		line := n.jobStores.line
		cfg.Send, cfg.Linked = func(message string) { line.Send(endsChannel, message) }, line.Open
		n.ends = longpoll.New(cfg)
		line.On(endsChannel, n.ends.Receive)
		n.jobStores.onOver(func(tenant, run uuid.UUID) {
			n.ends.Ended(longpoll.Key{Kind: longpoll.JobRun, Tenant: tenant, ID: run}, nil)
		})
	} else {
		n.ends = longpoll.New(cfg)
	}
	n.loads = groupcommit.New(groupcommit.Config[*saga.Ref, *saga.Loaded]{
		Flush: func(ctx context.Context, batch []*saga.Ref) ([]*saga.Loaded, error) {
			return loadEach(ctx, n.sagas, batch)
		},
		Key: func(r *saga.Ref) any { return r }, // requests for one saga share a batch
	})
	return nil
}

// endsChannel is the notification channel for longpoll.Board's messages.
const endsChannel = "skald_ends"

// loadEach reads each of the sagas. The result is nil for a saga that does not exist or cannot be read.
func loadEach(ctx context.Context, store saga.Store, batch []*saga.Ref) ([]*saga.Loaded, error) {
	refs := make([]saga.Ref, len(batch))
	for i, r := range batch {
		refs[i] = *r
	}
	slices.SortFunc(refs, saga.Ref.Compare)
	found, err := store.Load(ctx, slices.Compact(refs))
	if err != nil {
		return nil, err
	}
	by := make(map[saga.Ref]*saga.Loaded, len(found))
	for i := range found {
		by[found[i].Saga.Ref()] = &found[i]
	}
	out := make([]*saga.Loaded, len(batch))
	for i, r := range batch {
		out[i] = by[*r]
	}
	return out, nil
}

// sagaEnded notifies the requests that wait for a saga to end.
func (n *node) sagaEnded(ref saga.Ref, committed *saga.Loaded) {
	n.ends.Ended(longpoll.Key{Kind: longpoll.Saga, Tenant: ref.Tenant, ID: ref.ID}, longpoll.Committed(committed))
}

func (n *node) addEngine(context.Context) error {
	e := n.cfg.Engine
	n.engine = engine.New(engine.Config{
		Store: n.sagas, Ownership: n.sagas, Commit: n.writes.Drive,
		Definition: n.definitions.definition, Call: n.calls.Call, CheckJobRun: n.checkJobRuns(),
		Address: n.known.Address, Gate: n.gate,
		Node: n.name, Process: thisProcess(), Gone: isGone, Unfit: n.clockWrong, Now: n.now,
		Ended: n.sagaEnded, NewID: newID, Log: n.opt.Log,
		LeaseTTL: e.LeaseTTL, ReaperInterval: e.ReaperInterval, SlowAfter: e.SlowStepAfter,
		Checkpoint:   time.Duration(e.CheckpointMS) * time.Millisecond,
		DrainTimeout: max(e.DrainTimeout, 1), StepTimeout: e.DefaultStepTimeout,
		CompensationTimeout: e.DefaultCompensationTimeout, Budget: budget(n.cfg.Limits), MaxRunning: e.MaxRunning,
		Observer: n.metrics.Engine(),
	})
	n.joinSteps()
	return nil
}

func (n *node) addLetters(context.Context) (err error) {
	n.letters, err = n.newLetters()
	return err
}

// addJobs adds job runs: the built-in definitions, this node's own worker, and its scheduler, which
// may become the leader.
func (n *node) addJobs(ctx context.Context) (err error) {
	if n.jobs, err = n.newJobs(ctx); err != nil {
		return err
	}
	if err := n.ensureBuiltIns(ctx); err != nil {
		return err
	}
	if n.jobs != nil {
		n.jobs.own = n.newJobWorker(n.jobs)
	}
	n.leader = n.newScheduler()
	return nil
}

func (n *node) addChecker(ctx context.Context) (err error) {
	n.checker, err = checker(ctx, n.cfg, n.keys, n.sessions, n.addr, n.now, n.opt.Log)
	return err
}

// addHandler adds the API and the metrics.
func (n *node) addHandler(ctx context.Context) error {
	cfg, err := n.edge(ctx)
	if err != nil {
		return err
	}
	api, err := httpapi.New(cfg)
	if err != nil {
		return err
	}
	n.handler, err = n.front(api)
	return err
}

// edge assembles the API.
func (n *node) edge(ctx context.Context) (httpapi.Config, error) {
	cursorKey, err := n.secret(ctx, "cursor")
	if err != nil {
		return httpapi.Config{}, err
	}
	server, engine := n.cfg.Server, n.cfg.Engine
	edge := httpapi.Config{
		Sagas: sagaapi.Sagas{
			CheckParticipant: checkEndpoint(n.policy, true), Participant: n.participants.Get,
			Store: n.sagas, Workflows: n.workflows, Archive: n.archive, Notes: n.sagas, Reports: n.sagas,
			Eraser: n.eraser,
			Bulks:  n.sagaBulks(), Certifications: n.certifications(), Certified: n.examiner.Wake,
			Create: n.writes.Create, Commit: n.act, Engine: n.engine, Node: n.sagas.Node,
			Load:      func(ctx context.Context, ref saga.Ref) (*saga.Loaded, error) { return n.loads.Do(ctx, &ref) },
			Callbacks: n.reports(),
			Written:   n.calls.Written(), StepTimeout: engine.DefaultStepTimeout,
			Timeout: engine.DefaultSagaTimeout, CompensationTimeout: engine.DefaultCompensationTimeout,
			Budget:    budget(n.cfg.Limits),
			Retention: n.retention(), RetentionBatch: n.cfg.Retention.BatchSize,
		},
		Trail: httpapi.Trail{
			Events: n.trail, Follow: n.tail.Follow, Streams: n.metrics.Streams, Timeline: n.timeline,
			Verify: func(ctx context.Context, tenant uuid.UUID, from int64, limit int) (trail.Verification, error) {
				return audit.Verify(ctx, n.trail, tenant, from, limit)
			},
		},
		Webhooks: httpapi.Webhooks{
			Store: n.hooks, Deliveries: n.hooks, CheckEndpoint: checkEndpoint(n.policy, n.cfg.Webhooks.AllowHTTP),
		},
		Participants: httpapi.Participants{
			Store: n.participants, Gates: n.participants, Held: n.gate.Held, Secrets: n.secrets,
			Changed: n.participantChangedHere,
		},
		Access: httpapi.Access{Keys: n.keys, Sessions: n.sessions, Development: n.checker == nil, Tenant: tenant.Tenant{
			ID:     n.cfg.Tenant.DefaultID,
			Region: n.cfg.Tenant.DefaultRegion,
			Major:  n.cfg.Tenant.DefaultMajor,
			Minor:  n.cfg.Tenant.DefaultMinor,
		}},
		DeadLetters: n.lettersEdge(), Jobs: n.jobs.edge(),
		Loops:    n.rounds,
		Overview: n.overview, Storage: n.storage, Answers: n.answers, CursorKey: cursorKey,
		Limits: httpkit.Limits{
			ReadTimeout: server.ReadTimeout, BodyGrace: server.HeaderTimeout, MinBodyRate: server.MinBodyRate,
			MaxBodyBytes: server.MaxBodyBytes, MaxWait: server.MaxWait, RequestTimeout: server.RequestTimeout,
			MaxStreams: server.MaxStreams, TenantStreams: n.cfg.Limits.TenantStreams,
			MaxWorkflowBytes: n.cfg.Limits.MaxWorkflowBytes,
			MaxSteps:         n.cfg.Limits.MaxSteps, MaxJSONDepth: n.cfg.Limits.MaxJSONDepth,
		},
		RequireIfMatch: server.RequireIfMatch, ProbesOnly: !n.cfg.Has(config.RoleAPI),
		Now: n.now, NewID: newID, Ready: n.ready, Stopping: n.stopping, Ends: n.ends,
		Limiter: ratelimit.New(ratelimit.Limits{
			Key: n.cfg.Limits.KeyRequests, Tenant: n.cfg.Limits.TenantRequests, Creates: n.cfg.Limits.TenantCreates,
		}, time.Now),
		Docs:    cmp.Or(n.cfg.Server.PublicURL, n.cfg.Server.BasePath),
		Base:    baseOf(n.cfg.Server),
		Limited: n.metrics.RateLimited, Version: n.opt.Version, Log: n.opt.Log,
	}
	if n.checker != nil {
		edge.Access.Identify, edge.Access.Forget = n.checker.Identify, n.checker.Forget
	}
	return edge, nil
}

// act commits a requested change, which may end the saga.
func (n *node) act(ctx context.Context, c saga.Change) error {
	err := n.writes.Act(ctx, c)
	if err == nil && c.After.State.Terminal() {
		n.sagaEnded(c.After.Ref(), nil)
	}
	return err
}

// nodeName returns a name for this node that is unique among the nodes of a database.
func nodeName(configured string, addr net.Addr) string {
	if configured != "" {
		return configured
	}
	host, err := os.Hostname()
	if err != nil {
		host = "skald"
	}
	_, port, _ := net.SplitHostPort(addr.String())
	return net.JoinHostPort(host, port)
}
