package app

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/skald-saga/skald/internal/audit/operator"
	"github.com/skald-saga/skald/internal/config"
	"github.com/skald-saga/skald/internal/dlq"
	"github.com/skald-saga/skald/internal/fault"
	"github.com/skald-saga/skald/internal/jobrun"
	"github.com/skald-saga/skald/internal/jobrun/jobdb"
	"github.com/skald-saga/skald/internal/jobrun/jobworker"
	"github.com/skald-saga/skald/internal/principal"
)

// Runs of built-in definitions do the periodic work of the deployment. The worker inside a node
// executes them (one-product.md, point 5), so the work happens once per deployment, has a history,
// and stops while the definition is paused.

// ensureBuiltIns stores the built-in definitions in the default tenant.
func (n *node) ensureBuiltIns(ctx context.Context) error {
	if n.jobStores == nil {
		return nil
	}
	all := make([]jobrun.Definition, len(jobrun.BuiltIns))
	for i, b := range jobrun.BuiltIns {
		var err error
		if all[i], err = b.Definition(n.cfg.Tenant.DefaultID, newID(), n.now()); err != nil {
			return err
		}
	}
	return n.jobStores.ensure(ctx, n.cfg.Tenant.DefaultID, all)
}

// works reports whether this node executes job runs.
func (n *node) works() bool { return n.cfg.Jobs.Worker && n.cfg.Has(config.RoleWorker) }

// runsBuiltIns reports whether this node runs built-in definitions.
func (n *node) runsBuiltIns() bool {
	return n.jobStores != nil && n.works() && slices.Contains(n.cfg.Jobs.WorkerQueues, jobrun.SystemQueue)
}

// letterUpkeep returns redrive.Config.Upkeep: the redrive loop archives dead letters and purges the
// archive only if job runs do not.
func (n *node) letterUpkeep() time.Duration {
	if n.runsBuiltIns() {
		return -1
	}
	return 0
}

// within restricts a command to the permissions of the principal behind its run, no matter how the
// run was created. The API has already refused requests from principals without these permissions.
func (n *node) within(name string, do jobworker.Command) jobworker.Command {
	return func(ctx context.Context, r *jobworker.Run) (json.RawMessage, error) {
		need, asked := principal.ForJob(name, jobrun.Beyond(name, r.Args, int64(n.cfg.DLQ.BulkLimit)))
		if role := principal.Role(r.Rights()); asked && !role.Allows(need) {
			return nil, &jobworker.Failure{Code: "NOT_ALLOWED", Permanent: true, Message: fmt.Sprintf(
				"this requires the permission %s, which %s, who requested the run, does not have: the role is %s",
				need,
				cmp.Or(r.InitiatedBy, "Skald"),
				role,
			)}
		}
		return do(ctx, r)
	}
}

// answered encodes the output of a command as the result of its run.
func answered(v any, err error) (json.RawMessage, error) {
	if err != nil {
		return nil, err
	}
	return json.Marshal(v)
}

var errUnfinished = errors.New("the job was not completed: see the node's log")

// asks returns the principal behind a run, for the audit record of what the run archived or deleted.
func asks(r *jobworker.Run, command string) operator.By {
	return operator.By{Actor: r.InitiatedBy, Operation: command}
}

// keepLetters returns the command of a built-in job that archives or purges dead letters. result is
// the member of the run's result that contains the count returned by do; ok is false if do did not
// finish.
func (n *node) keepLetters(job, result string, do func(context.Context) (count int, ok bool)) jobworker.Command {
	return func(ctx context.Context, r *jobworker.Run) (json.RawMessage, error) {
		var count int
		var ok bool
		n.retained(ctx, asks(r, job), "dead_letters", func(ctx context.Context) { count, ok = do(ctx) })
		if !ok {
			return nil, errUnfinished
		}
		return answered(map[string]int{result: count}, nil)
	}
}

// prove checks the invariants of job runs. If any are violated, it reports them and fails the run.
func prove(ctx context.Context, runs *jobdb.Jobs, r *jobworker.Run, violated func(n int)) (json.RawMessage, error) {
	proofs, err := runs.Prove(ctx)
	if err != nil {
		return nil, err
	}
	broken := 0
	for _, p := range proofs {
		word := "holds"
		if p.Broken > 0 {
			broken++
			word = fmt.Sprintf("DOES NOT HOLD; violations: %d, such as %v", p.Broken, p.Samples)
		}
		fmt.Fprintf(r.Stdout, "%s: %s\n", p.Name, word)
	}
	if broken > 0 {
		violated(broken)
		doc, err := json.Marshal(slices.DeleteFunc(proofs, func(p jobdb.Proof) bool { return p.Broken == 0 }))
		if err != nil {
			return nil, err
		}
		return nil, &jobworker.Failure{Code: "INVARIANT_BROKEN", Message: string(doc), Permanent: true}
	}
	return answered(map[string]any{"proofs": len(proofs), "violations": []string{}}, nil)
}

// redriveArgs are the arguments of a run of system.dlq.redrive.
type redriveArgs struct {
	Topic  string  `json:"topic"`
	Max    int64   `json:"max_messages"`
	Rate   float64 `json:"rate_per_second"`
	Reason string  `json:"reason"`
}

// watchEvery is how often a run reads the state of the redrive that it waits for.
const watchEvery = time.Second

// redriveLetters starts a redrive of the tenant's letters and waits until it ends. A second attempt
// of the run waits for the redrive that the first attempt started.
func (n *node) redriveLetters(ctx context.Context, r *jobworker.Run) (json.RawMessage, error) {
	var args redriveArgs
	if r.Args != nil {
		if err := json.Unmarshal(r.Args, &args); err != nil {
			return nil, &jobworker.Failure{Code: "ARGS", Message: err.Error(), Permanent: true}
		}
	}
	var of *dlq.Filter // nil means all letters
	if args.Topic != "" {
		of = &dlq.Filter{Topic: args.Topic}
	}
	d := n.cfg.DLQ
	limits := dlq.RedriveLimits{
		DefaultRate: float64(d.RedriveRate),
		MaxRate:     float64(d.MaxRedriveRate),
		Bulk:        int64(d.BulkLimit),
	}
	asked, err := dlq.NewRedrive(dlq.Redrive{
		TenantID: r.TenantID, Action: dlq.BulkRetry, Filter: of, Max: args.Max, Rate: args.Rate,
		Reason: cmp.Or(strings.TrimSpace(args.Reason), "job run "+r.ID.String()),
		Actor:  cmp.Or(r.InitiatedBy, "job run "+r.ID.String()),
	}, dlq.RedriveRequest{All: of == nil}, r.RootRunID, limits, n.now())
	if err != nil {
		return nil, &jobworker.Failure{Code: "ARGS", Message: err.Error(), Permanent: true}
	}
	way, err := json.Marshal(map[string]any{"job_run": r.ID, "trigger": r.Trigger})
	if err != nil {
		return nil, err
	}
	by := operator.By{Actor: asked.Actor, Reason: asked.Reason}
	_, err = n.deadLetters.redrives.Create(
		ctx,
		asked,
		by.Did(newID(), r.TenantID, n.now(), operator.Redrive, asked.ID.String(), "create", way),
	)
	if err != nil && !fault.IsCode(err, dlq.CodeRedriveExists) {
		return nil, err
	}
	n.letters.redriver.Wake()
	look := time.NewTicker(watchEvery)
	defer look.Stop()
	for {
		now, err := n.deadLetters.redrives.Get(ctx, r.TenantID, asked.ID)
		switch {
		case err != nil:
			return nil, err
		case now.State == dlq.RedriveCompleted, now.State == dlq.RedriveCanceled:
			return answered(redriven(&now), nil)
		case now.State == dlq.RedriveHalted:
			return nil, &jobworker.Failure{Code: "REDRIVE_HALTED", Message: now.HaltReason, Permanent: true}
		}
		select {
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		case <-look.C:
		}
	}
}

func redriven(r *dlq.Redrive) map[string]any {
	return map[string]any{
		"redrive_id": r.ID, "state": r.State, "matched": r.Matched, "done": r.Done, "failed": r.Failed, "skipped": r.Skipped,
	}
}
