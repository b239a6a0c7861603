// Package app puts the parts together, starts them, and stops them in order:
// no new requests, no new claims, calls in flight, commits, database.
//
// Files, each on top of those before it: ids, logins, database, job_logs,
// jobs_scheduler, jobs, access, notices, letters_kafka, pinned, letters, archive,
// builtin, reply, stores, writes, readiness, app, jobs_sagas, jobworker, retained, serve, verify.
package app

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"time"

	"github.com/google/uuid"

	"github.com/skald-saga/skald/internal/access/identity"
	"github.com/skald-saga/skald/internal/audit"
	"github.com/skald-saga/skald/internal/config"
	"github.com/skald-saga/skald/internal/egress"
	"github.com/skald-saga/skald/internal/failpoint"
	"github.com/skald-saga/skald/internal/httpapi"
	"github.com/skald-saga/skald/internal/jobrun/scheduler"
	"github.com/skald-saga/skald/internal/ops"
	"github.com/skald-saga/skald/internal/rest"
	"github.com/skald-saga/skald/internal/saga"
	"github.com/skald-saga/skald/internal/saga/cache"
	"github.com/skald-saga/skald/internal/saga/engine"
	"github.com/skald-saga/skald/internal/saga/participant"
)

// Options of a run beyond the configuration.
type Options struct {
	Version httpapi.Version
	Log     *slog.Logger
	// EUID is the effective user id of the process: root may not run programs of jobs.
	EUID int
	// Ready is called once the API answers, with its base URL. Optional.
	Ready func(url string)
}

// Run serves until ctx ends and then stops gracefully. It returns nil after a
// clean stop, after which nothing is left running.
func Run(ctx context.Context, cfg config.Config, opt Options) error {
	if err := cfg.CheckUser(opt.EUID); err != nil {
		return err
	}
	if err := failpoint.Configure(cfg.Failpoints); err != nil {
		return err
	}
	listener, err := net.Listen("tcp", cfg.Server.ListenAddr)
	if err != nil {
		return fmt.Errorf("listen: %w", err)
	}
	defer listener.Close()
	from, err := openLogins(ctx, cfg, opt.Log)
	if err != nil {
		return err
	}
	defer from.close()
	now := func() time.Time { return time.Now().Add(cfg.Test.ClockOffset).UTC().Truncate(time.Microsecond) }
	kept, lost, closeStores, err := openStores(ctx, &cfg, from, now, opt.Log)
	if err != nil {
		return err
	}
	defer closeStores()
	n, err := build(ctx, cfg, opt, kept, now, listener.Addr())
	if err != nil {
		return err
	}
	from.report(n.metrics)
	return n.serve(ctx, listener, lost)
}

// node is the assembled program.
type node struct {
	cfg config.Config
	opt Options
	stores
	archive  archive
	database *condition
	tail     *audit.Tail
	notices  *notices
	writes   *writes
	calls    *participant.Client
	letters  *letters             // nil: there is no dead-letter queue
	jobs     *jobs                // nil: there are no job runs
	leader   *scheduler.Scheduler // nil: this node leads no job runs
	engine   *engine.Engine
	checker  *identity.Checker // nil in development mode
	metrics  *ops.Metrics
	handler  http.Handler
	now      func() time.Time
	draining chan struct{} // closed at the signal to stop: not ready, but still serving
	stopping chan struct{} // closed just before the listening socket is
}

func build(
	ctx context.Context,
	cfg config.Config,
	opt Options,
	kept stores,
	now func() time.Time,
	addr net.Addr,
) (*node, error) {
	policy, err := egress.NewPolicy(cfg.Egress.Allow, cfg.Egress.Deny, cfg.Egress.AllowLoopback)
	if err != nil {
		return nil, err
	}
	cursorKey, err := kept.secret(ctx, "cursor")
	if err != nil {
		return nil, err
	}
	n := &node{cfg: cfg, opt: opt, stores: kept, now: now, draining: make(chan struct{}), stopping: make(chan struct{})}
	n.tail = audit.NewTail(n.trail, opt.Log)
	n.metrics = ops.NewMetrics(func() (int, int) {
		if n.engine == nil {
			return 0, 0
		}
		return n.engine.Load()
	})
	n.archive = archive{n.sagas, n.metrics}
	n.database = &condition{ask: n.condition, metrics: n.metrics, now: time.Now}
	cache.SetCache(cache.Over(cache.Config{
		Sagas: n.sagas, Workflows: n.workflows, Now: now, NewID: newID, Timeout: cfg.Engine.DefaultSagaTimeout, Log: opt.Log,
	}))
	n.writes = newWrites(n.sagas, cfg.Engine.CommitBatch, n.metrics, n.tail.Wake)
	n.calls = participant.New(participant.Config{
		Policy: policy, Version: opt.Version.Version, MaxResponseBytes: cfg.Engine.MaxResponseBytes,
		MaxJSONDepth: cfg.Limits.MaxJSONDepth, MaxIdlePerHost: 2 * cfg.Engine.MaxRunning, Now: now, Log: opt.Log,
	})
	name := nodeName(cfg.Engine.NodeID, addr)
	if n.notices, err = n.newNotices(policy, name, now, newID); err != nil {
		return nil, err
	}
	definitions := newPinned(n.workflows)
	n.engine = engine.New(engine.Config{
		Store: n.sagas, Ownership: n.sagas, Commit: n.writes.Commit,
		Definition: definitions.definition, Call: n.calls.Call, CheckJobRun: n.checkJobRuns(),
		Node: name, Process: thisProcess(), Gone: isGone, Now: now, NewID: newID, Log: opt.Log,
		LeaseTTL: cfg.Engine.LeaseTTL, ReaperInterval: cfg.Engine.ReaperInterval, SlowAfter: cfg.Engine.SlowStepAfter,
		DrainTimeout: max(cfg.Engine.DrainTimeout, 1), StepTimeout: cfg.Engine.DefaultStepTimeout,
		CompensationTimeout: cfg.Engine.DefaultCompensationTimeout, MaxRunning: cfg.Engine.MaxRunning,
		Observer: engine.Observer{
			CallDone: n.metrics.Call,
			Ended:    n.metrics.Ended,
			Claimed:  n.metrics.Claimed,
			Loop:     n.metrics.Loop,
		},
	})
	n.joinSteps()
	if n.letters, err = n.newLetters(policy, name, definitions); err != nil {
		return nil, err
	}
	if n.jobs, err = n.newJobs(ctx); err != nil {
		return nil, err
	}
	if err := n.ensureBuiltIns(ctx); err != nil {
		return nil, err
	}
	if n.jobs != nil {
		n.jobs.own = n.newJobWorker(n.jobs, name)
	}
	n.leader = n.newScheduler(name)
	if n.checker, err = checker(ctx, cfg, n.keys, addr, now, opt.Log); err != nil {
		return nil, err
	}
	edgeConfig := httpapi.Config{
		Sagas:     n.sagas,
		Workflows: n.workflows,
		Reports:   n.sagas,
		Create:    n.writes.Create,
		Commit:    n.writes.Act,
		Engine:    n.engine,
		Answers:   n.answers,
		Node:      n.sagas.Node,
		Trail:     n.trail, Follow: n.tail.Follow, Streams: n.metrics.Streams,
		Verify: func(ctx context.Context, tenant uuid.UUID, from int64, limit int) (saga.Verification, error) {
			return audit.Verify(ctx, n.trail, tenant, from, limit)
		},
		Webhooks: n.hooks, Deliveries: n.hooks, CheckEndpoint: checkEndpoint(policy, cfg.Webhooks.AllowHTTP),
		CheckParticipant: checkEndpoint(policy, true), DeadLetters: n.lettersEdge(), Jobs: n.jobs.edge(),
		Timeline: n.timeline, Keys: n.keys, Development: n.checker == nil,
		Tenant: saga.Tenant{
			ID:     cfg.Tenant.DefaultID,
			Region: cfg.Tenant.DefaultRegion,
			Major:  cfg.Tenant.DefaultMajor,
			Minor:  cfg.Tenant.DefaultMinor,
		},
		CursorKey: cursorKey,
		Limits: rest.Limits{
			ReadTimeout: cfg.Server.ReadTimeout, BodyGrace: cfg.Server.HeaderTimeout, MinBodyRate: cfg.Server.MinBodyRate,
			MaxBodyBytes: cfg.Server.MaxBodyBytes, MaxWorkflowBytes: cfg.Limits.MaxWorkflowBytes, MaxSteps: cfg.Limits.MaxSteps,
			MaxJSONDepth: cfg.Limits.MaxJSONDepth, MaxWait: cfg.Server.MaxWait, RequestTimeout: cfg.Server.RequestTimeout,
			MaxStreams: cfg.Server.MaxStreams,
		},
		SagaTimeout: cfg.Engine.DefaultSagaTimeout, CompensationTimeout: cfg.Engine.DefaultCompensationTimeout,
		Archive: n.archive, Retention: n.retention(), RetentionBatch: cfg.Retention.BatchSize, Storage: n.storage,
		Now: now, NewID: newID, Ready: n.ready, Stopping: n.stopping, Version: opt.Version, Log: opt.Log,
	}
	if n.checker != nil {
		edgeConfig.Identify = n.checker.Identify
	}
	api, err := httpapi.New(edgeConfig)
	if err != nil {
		return nil, err
	}
	edge, metrics := n.metrics.Instrument(pointBeforeReply(api)), n.metrics.Handler()
	// Not a ServeMux: that redirects unclean paths itself, without a problem document.
	n.handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/metrics" && r.Method == http.MethodGet {
			metrics.ServeHTTP(w, r)
			return
		}
		edge.ServeHTTP(w, r)
	})
	return n, nil
}

// nodeName names this node uniquely among those of a database.
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
