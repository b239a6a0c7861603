package app

import (
	"context"
	"encoding/json"

	"github.com/google/uuid"

	"github.com/skald-saga/skald/internal/audit/operator"
	"github.com/skald-saga/skald/internal/jobrun"
	"github.com/skald-saga/skald/internal/jobrun/joblog"
	"github.com/skald-saga/skald/internal/jobrun/jobworker"
)

// newJobWorker returns the worker inside the node; nil if there is nothing for it to execute.
func (n *node) newJobWorker(j *jobs) *jobworker.Worker {
	c := n.cfg.Jobs
	commands := n.commands(j)
	if c.WorkerShell {
		commands[jobrun.ShellCommand] = jobworker.Shell(jobworker.ShellConfig{
			Allow: c.WorkerShellAllow, EnvAllow: c.WorkerShellEnvAllow, ArgsAllow: c.WorkerShellArgsAllow, Spec: j.runs.Spec,
		})
	}
	if !n.works() || len(commands) == 0 {
		return nil
	}
	w := jobworker.New(jobworker.Config{
		Work: j.work, Settings: j.current, Tenant: n.cfg.Tenant.DefaultID, Node: n.name, Version: n.opt.Version.Version,
		Queues: c.WorkerQueues, Concurrency: c.WorkerConcurrency, Commands: commands, NewID: newID, Log: n.opt.Log,
		Leave: func(ctx context.Context, worker uuid.UUID) error {
			tenant, by := n.cfg.Tenant.DefaultID, operator.By{Actor: "skald", Reason: "the node stopped"}
			_, err := j.workers.Move(ctx, tenant, worker, jobrun.WorkerDetached,
				by.Did(newID(), tenant, n.now(), operator.JobWorker, worker.String(), "detach", nil))
			return err
		},
	})
	j.woken = append(j.woken, w.Wake)
	return w
}

// commands returns Skald's built-in commands by name.
func (n *node) commands(j *jobs) map[string]jobworker.Command {
	all := map[string]jobworker.Command{
		jobrun.SystemRedrive: n.redriveLetters,
		jobrun.SystemArchive: n.keepLetters(jobrun.SystemArchive, "archived", n.letters.redriver.Archive),
		jobrun.SystemPurge:   n.keepLetters(jobrun.SystemPurge, "purged", n.letters.redriver.Purge),
		jobrun.SystemRetention: func(ctx context.Context, r *jobworker.Run) (doc json.RawMessage, err error) {
			n.retained(
				ctx,
				asks(r, jobrun.SystemRetention),
				"jobs",
				func(ctx context.Context) { doc, err = answered(j.runs.Retain(ctx)) },
			)
			return doc, err
		},
		jobrun.SystemInvariants: func(ctx context.Context, r *jobworker.Run) (json.RawMessage,
			error) {
			return prove(ctx, j.runs, r, j.metrics.InvariantsBroken)
		},
		jobrun.SystemReseal: j.resealing.sealAgain,
		// Each runs one round of the periodic work that every node does, for users who do not want
		// to wait for the next round.
		jobrun.SystemOffload: func(ctx context.Context, _ *jobworker.Run) (json.RawMessage, error) {
			round, err := j.logs.mover.Once(ctx)
			if err != nil {
				return nil, err
			}
			return roundJSON(round)
		},
	}
	for name, do := range all {
		all[name] = n.within(name, do)
	}
	return all
}

func roundJSON(r joblog.Round) (json.RawMessage, error) {
	return json.Marshal(
		map[string]int64{"moved": int64(r.Moved), "bytes": r.Bytes, "failed": int64(r.Failed), "purged": int64(r.Purged),
			"logs_deleted": int64(r.Erased)},
	)
}
