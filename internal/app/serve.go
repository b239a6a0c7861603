package app

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"net/http/pprof"
	"sync"
	"time"

	"github.com/skald-saga/skald/internal/audit"
	"github.com/skald-saga/skald/internal/audit/operator"
	"github.com/skald-saga/skald/internal/audit/trail"
	"github.com/skald-saga/skald/internal/config"
	"github.com/skald-saga/skald/internal/loop"
	"github.com/skald-saga/skald/internal/ops/janitor"
)

// serve runs everything until ctx ends, a part fails or the database is lost.
func (n *node) serve(ctx context.Context, sock *socket, lost <-chan struct{}) error {
	work, stopWork := context.WithCancel(context.WithoutCancel(ctx))
	defer stopWork()
	var parts sync.WaitGroup
	failed := make(chan error, 4)
	if n.cfg.Has(config.RoleEngine) {
		parts.Go(func() {
			if err := n.engine.Run(work); err != nil {
				failed <- err
			}
		})
	} else {
		parts.Go(func() { n.database.watch(work) })
	}
	parts.Go(func() {
		janitor.Run(work, janitor.Config{
			Store: n.sagas, Log: n.opt.Log, Counted: n.metrics.Counted, Storage: n.storage, Measured: n.metrics.Measured,
			Commit: n.writes.Commit, Now: n.now,
			StalledAfter: n.cfg.Engine.StalledAfter, StalledFailures: n.cfg.Engine.StalledFailures, Raised: n.metrics.Stalled,
		})
	})
	parts.Go(func() {
		janitor.Retain(work, janitor.RetentionConfig{
			Archive: n.archive, Log: n.opt.Log, Default: n.retention(), Events: n.events(),
			EventRetention: n.eventRetention(),
			Interval:       n.cfg.Retention.Interval, Batch: n.cfg.Retention.BatchSize,
			Done:  func() { n.metrics.Loop("retention") },
			Round: func(ctx context.Context, do func(context.Context)) { n.retained(ctx, operator.By{}, "sagas", do) },
		})
	})
	parts.Go(func() { n.watchHangup(work) })
	parts.Go(func() { n.gate.Run(work) })
	parts.Go(func() { n.keepSecrets(work) })
	seal := func(chain trail.Sealed, sealed func(events int, lag time.Duration)) {
		parts.Go(func() {
			audit.Seal(work, audit.SealConfig{
				Chain: chain, Log: n.opt.Log, Interval: n.cfg.Audit.SealInterval, Sealed: sealed,
			})
		})
	}
	seal(n.trail, n.metrics.Sealed)
	if n.deadLetters != nil {
		seal(n.deadLetters.actions, n.metrics.ActionsSealed)
	}
	parts.Go(func() { n.notices.run(work) })
	if n.letters != nil {
		parts.Go(func() { n.letters.run(work, func(err error) { failed <- err }) })
	}
	if n.jobs != nil {
		parts.Go(func() { n.jobs.run(work) })
	}
	if n.jobStores != nil && n.cfg.Has(config.RoleEngine) {
		parts.Go(func() { n.examiner.Run(work) })
	}
	if n.leader != nil {
		parts.Go(func() { n.leader.Run(work) })
	}
	if n.checker != nil {
		parts.Go(func() { n.checker.Run(work) })
	}
	sock.use(n.handler)
	s := n.cfg.Server
	closeDebug, err := n.serveProfiling(s.DebugAddr)
	if err != nil {
		failed <- err
	}
	defer closeDebug()
	parts.Go(func() { n.announce(work, sock) }) // a part may fail before the node is ready

	ended := func(signal <-chan struct{}, later <-chan time.Time) error {
		select {
		case <-signal:
		case <-later:
		case err := <-failed:
			return err
		case err := <-sock.failed:
			return err
		case <-lost:
			return errors.New("the private PostgreSQL exited")
		}
		return nil
	}
	err = ended(ctx.Done(), nil)
	close(n.draining)
	if err == nil && s.DrainDelay > 0 {
		// Load balancers learn from /readyz that the node is stopping, but with some delay; until
		// then the node serves requests as before.
		n.opt.Log.Info(
			"no longer ready; the socket closes after server.drain_delay",
			slog.Duration("drain_delay", s.DrainDelay),
		)
		after := n.opt.After
		if after == nil {
			after = time.After
		}
		err = ended(nil, after(s.DrainDelay))
	}
	close(n.stopping)
	n.opt.Log.Info("stopping")
	notifyStopping()
	stop, cancel := context.WithTimeout(context.Background(), s.ShutdownTimeout)
	defer cancel()
	sock.close(stop, s.ShutdownTimeout)
	stopWork()
	parts.Wait()
	n.writes.Close()
	n.loads.Close()
	n.takes.Close()
	n.tail.Close()
	n.calls.Close()
	if n.letters != nil {
		n.letters.close()
	}
	if n.jobs != nil {
		n.jobs.close()
	}
	return err
}

// announce waits until the node is ready, then logs it and calls Options.Ready.
func (n *node) announce(ctx context.Context, sock *socket) {
	for ctx.Err() == nil {
		if _, err := n.ready(ctx); err == nil {
			break
		}
		loop.Sleep(ctx, 5*time.Millisecond)
	}
	if ctx.Err() != nil {
		return
	}
	url := "http://" + sock.addr.String()
	if sock.tls != nil {
		url = "https://" + sock.addr.String()
	}
	n.opt.Log.Info("ready", slog.String("url", url), slog.String("version", n.opt.Version.Version),
		slog.Any("roles", n.cfg.Roles))
	notifyReady(url)
	if n.opt.Ready != nil {
		n.opt.Ready(url)
	}
}

func (n *node) serveProfiling(addr string) (closeIt func(), err error) {
	if addr == "" {
		return func() {}, nil
	}
	l, err := net.Listen("tcp", addr)
	if err != nil {
		return func() {}, unusableAddress("server.debug_addr", "SKALD_SERVER_DEBUG_ADDR", addr, err)
	}
	s := &http.Server{Handler: profiling(), ReadHeaderTimeout: 5 * time.Second}
	go s.Serve(l) //nolint:errcheck // returns after Close
	return func() { s.Close() }, nil
}

// profiling serves net/http/pprof. Serve it on loopback only.
func profiling() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("/debug/pprof/", pprof.Index)
	mux.HandleFunc("/debug/pprof/cmdline", pprof.Cmdline)
	mux.HandleFunc("/debug/pprof/profile", pprof.Profile)
	mux.HandleFunc("/debug/pprof/symbol", pprof.Symbol)
	mux.HandleFunc("/debug/pprof/trace", pprof.Trace)
	return mux
}
