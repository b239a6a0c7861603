// Package app assembles the parts of a node, starts them, and stops them in order: no new requests,
// no new claims, calls in flight, commits, database.
//
// Files, each on top of those before it: ids, certificates, logins, database, access, letters_kafka,
// event_topics, job_logs, jobs_scheduler, builtin, reseal, jobs, service_manager, archive, callbacks, jobs_sagas,
// letters, readiness, failpoint_reply, root_handler, stores, webhooks_and_kafka, workflow_cache, writes,
// build, socket, clock, outage_log, app, certifications, jobworker, participants, reload, retention_record, secrets,
// serve, verify, watchdog.
package app

import (
	"context"
	"log/slog"
	"net"
	"time"

	"github.com/skald-saga/skald/internal/config"
	"github.com/skald-saga/skald/internal/failpoint"
	"github.com/skald-saga/skald/internal/postgres"
	"github.com/skald-saga/skald/internal/secret/credentials"
)

// Run serves until ctx ends and then stops gracefully. It returns nil after a
// clean stop, after which nothing is left running.
func Run(ctx context.Context, cfg config.Config, opt Options) error {
	if err := cfg.CheckUser(opt.EUID); err != nil {
		return err
	}
	if err := failpoint.Configure(cfg.Failpoints); err != nil {
		return err
	}
	log := newOutageLog(opt.Log.Handler())
	opt.Log = slog.New(log)
	listener, err := net.Listen("tcp", cfg.Server.ListenAddr)
	if err != nil {
		return unusableAddress("server.listen_addr", "SKALD_LISTEN_ADDR", cfg.Server.ListenAddr, err)
	}
	defer listener.Close()
	sock, err := openSocket(ctx, &cfg, &opt, listener)
	if err != nil {
		return err
	}
	defer sock.server.Close()
	notifyListening(ctx, sock.server.Handler)
	from, err := openLogins(ctx, cfg, opt.Log)
	if err != nil {
		return err
	}
	defer from.close()
	loaded := cfg // openStores completes cfg
	clock := postgres.NewClock(func() time.Time { return time.Now().Add(loaded.Test.ClockOffset) })
	watchClock(clock, opt.Log)
	var kept stores
	var lost <-chan struct{}
	var closeStores func()
	err = sock.openWaiting(ctx, opt.Log, func() (err error) {
		cfg = loaded
		kept, lost, closeStores, err = openStores(ctx, &cfg, from, clock, opt.Version.Version, opt.Log)
		return err
	})
	if err != nil {
		if ctx.Err() != nil {
			return nil // the node was stopped before its database became available
		}
		return err
	}
	defer closeStores()
	defer log.watch(kept.usable)()
	n, err := build(ctx, cfg, opt, kept, clock, listener.Addr())
	if err != nil {
		return err
	}
	n.loaded = loaded
	n.read = append(n.read, sock.read...)
	sock.refused.Store(new(n.metrics.ConnRefused))
	if f, ok := from.Source.(*credentials.File); ok {
		n.read = append(n.read, reread{"database.password_file", f.Reread})
	}
	from.report(n.metrics)
	return n.serve(ctx, sock, lost)
}
