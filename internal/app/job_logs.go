package app

import (
	"context"
	"fmt"
	"io"
	"time"

	"github.com/skald-saga/skald/internal/audit/operator"
	"github.com/skald-saga/skald/internal/jobrun"
	"github.com/skald-saga/skald/internal/jobrun/joblog"
	"github.com/skald-saga/skald/internal/jobrun/logstore"
	"github.com/skald-saga/skald/internal/jobrun/redislease"
	"github.com/skald-saga/skald/internal/secret/envelope"
)

// jobLogs is the store to which the logs of job runs are moved, and the mover.
type jobLogs struct {
	store *logstore.Store   // nil: logs stay in the database
	keys  *envelope.Keyring // nil: none are sealed
	mover *joblog.Mover
	every time.Duration
}

func (n *node) newJobLogs(ctx context.Context) (l jobLogs, err error) {
	j := n.cfg.Jobs
	l.every = j.UpkeepInterval
	if l.keys, err = keyring(n.cfg.Encryption); err != nil {
		return l, err
	}
	if j.LogOffloadURL != "" {
		l.store, err = logstore.Open(
			ctx,
			j.LogOffloadURL,
			logstore.Options{AccessKey: j.LogS3AccessKey, SecretKey: string(j.LogS3SecretKey)},
		)
		if err != nil {
			return l, fmt.Errorf("jobs.log_offload_url: %w", err)
		}
	}
	l.mover = joblog.NewMover(joblog.Config{
		Store:      l.store,
		Chunks:     n.jobStores.runs,
		Offloading: n.jobStores.offloading,
		Settings:   n.jobStores.current,
		Keys:       l.keys,
		Log:        n.opt.Log,
		Now:        n.now,
		Purging:    func(ctx context.Context, do func(context.Context)) { n.retained(ctx, operator.By{}, "job_runs", do) },
	})
	return l, nil
}

// open returns the function that the API uses to read moved logs; nil without a store.
func (l *jobLogs) open() func(context.Context, *jobrun.Run) (io.ReadCloser, error) {
	if l.store == nil {
		return nil
	}
	return func(ctx context.Context, r *jobrun.Run) (io.ReadCloser, error) {
		return joblog.Open(ctx, l.store, l.keys, r)
	}
}

func (l *jobLogs) close() {
	if l.store != nil {
		_ = l.store.Close()
	}
}

// newHints returns the lease hints in Redis (nil without Redis) and a jobrun.Work that updates
// them.
func (n *node) newHints() (*redislease.Hints, jobrun.Work, error) {
	work, settings := n.jobStores.runs, n.jobStores.current
	if n.cfg.Jobs.RedisURL == "" {
		return nil, work, nil
	}
	hints, err := redislease.New(redislease.Config{
		URL: string(n.cfg.Jobs.RedisURL), Prefix: n.cfg.Jobs.RedisPrefix, Log: n.opt.Log, Done: n.metrics.Hinted,
	})
	if err != nil {
		return nil, nil, fmt.Errorf("jobs.redis_url: %w", err)
	}
	n.jobStores.sweeps.UseHints(hints)
	return hints, redislease.Note(work, hints, func(ctx context.Context) time.Duration {
		s, err := settings(ctx)
		if err != nil {
			s = jobrun.NewSettings(0, nil)
		}
		return s.Seconds(jobrun.RunLease)
	}), nil
}
