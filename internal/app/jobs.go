package app

import (
	"context"
	"sync"

	"github.com/google/uuid"

	"github.com/skald-saga/skald/internal/bulk/bulkdb"
	"github.com/skald-saga/skald/internal/dlq/dlqdb"
	"github.com/skald-saga/skald/internal/failpoint"
	"github.com/skald-saga/skald/internal/groupcommit"
	"github.com/skald-saga/skald/internal/httpapi"
	"github.com/skald-saga/skald/internal/jobrun"
	"github.com/skald-saga/skald/internal/jobrun/fencedb"
	"github.com/skald-saga/skald/internal/jobrun/jobdb"
	"github.com/skald-saga/skald/internal/jobrun/joblog"
	"github.com/skald-saga/skald/internal/jobrun/jobworker"
	"github.com/skald-saga/skald/internal/jobrun/leaderdb"
	"github.com/skald-saga/skald/internal/jobrun/queuedb"
	"github.com/skald-saga/skald/internal/jobrun/redislease"
	"github.com/skald-saga/skald/internal/jobrun/scheduler"
	"github.com/skald-saga/skald/internal/ops/metrics"
	"github.com/skald-saga/skald/internal/postgres/notify"
	"github.com/skald-saga/skald/internal/saga"
	"github.com/skald-saga/skald/internal/saga/certificationdb"
	"github.com/skald-saga/skald/internal/saga/sagadb"
)

// jobStores are the stores of job runs.
type jobStores struct {
	leading
	runs        *jobdb.Jobs
	definitions jobrun.Definitions
	bulks       jobrun.BulkOperations
	sagaBulks   *bulkdb.SagaBulks
	certified   *certificationdb.Certifications
	workers     jobrun.Workers
	queues      jobrun.Queues
	fences      jobrun.Fences
	elections   jobrun.Elections
	settings    jobrun.SettingsStore
	offloading  jobrun.Offloading
	// current returns the settings, which are at most a few seconds old while the database responds.
	current func(context.Context) (jobrun.Settings, error)
	line    *notify.Line // passes messages between nodes
	// admitted registers a function that is called when runs of a queue become claimable, and
	// onOver registers one that is called when a run has ended.
	admitted  func(woke func(tenant uuid.UUID, queue string))
	onOver    func(func(tenant, run uuid.UUID))
	events    jobrun.Events
	records   jobrun.RecordEvents
	outbox    jobrun.Outbox
	resealing resealing
	// joinSteps and lookAfter support saga steps that are job runs.
	joinSteps   func(sagadb.JobSteps)
	ensure      func(ctx context.Context, tenant uuid.UUID, all []jobrun.Definition) error // built-in definitions
	checkJobRun func(ctx context.Context, c saga.JobCall,
		cancel func(ctx context.Context, tenant, run uuid.UUID, reason string) error) (*saga.Outcome, error)
}

func postgresJobs(db *jobdb.DB, sagas *sagadb.Sagas, letters *dlqdb.Queue) *jobStores {
	settings := jobdb.NewSettings(db.DB)
	runs := jobdb.NewJobs(db, settings.Current)
	events := jobdb.NewEvents(db, settings.Current)
	kept := &jobStores{
		definitions: jobdb.NewDefinitions(db, settings.Current), runs: runs, bulks: bulkdb.NewRunBulks(db, runs),
		sagaBulks: bulkdb.NewSagaBulks(db, sagas), certified: certificationdb.New(db.DB),
		workers: jobdb.NewWorkers(db.DB, settings.Current), queues: queuedb.New(db), fences: fencedb.New(db.DB),
		elections: leaderdb.NewElections(db.DB), settings: settings, offloading: jobdb.NewLogs(db),
		current: settings.Current, line: db.Line, admitted: db.Hub.OnAdmitted, onOver: db.OnOver,
		events: events, records: events, outbox: events,
		ensure:    jobdb.NewDefinitions(db, settings.Current).EnsureBuiltIns,
		joinSteps: sagas.ConfigureJobSteps, checkJobRun: sagas.CheckJobRun,
		resealing: resealing{db.DB, letters, runs},
	}
	kept.leading = leading{
		sweeps: leaderdb.NewSweeps(db), wanted: db.Hub.OnLeaderWanted,
		more: []scheduler.Sweep{
			{Name: "events", Run: kept.events.Deliver, Prompt: true},
			{Name: "backfills", Run: kept.bulks.Backfill},
			{Name: "bulks", Run: kept.bulks.Bulk},
			{Name: "saga_bulks", Run: kept.sagaBulks.Bulk},
		},
	}
	return kept
}

// jobs is the part of a node that serves and executes job runs.
type jobs struct {
	*jobStores
	work     jobrun.Work       // behind the worker API
	hints    *redislease.Hints // nil: there is no Redis
	logs     jobLogs
	own      *jobworker.Worker // nil: this node executes no runs
	metrics  *metrics.Metrics
	claims   *groupcommit.Committer[jobrun.ClaimRequest, []jobrun.Offer]
	starts   *groupcommit.Committer[tenantFence, jobrun.Done]
	finishes *groupcommit.Committer[jobrun.Result, jobrun.Done]
	// exchanges end runs, claim others and start them
	exchanges *groupcommit.Committer[jobrun.Exchange, jobrun.Exchanged]
	// refuseTopic returns why events of job runs are not published to a topic; nil: no Kafka
	refuseTopic func(topic string) string
	argsAllow   []string                               // programs that only treat their arguments as data
	woken       []func(tenant uuid.UUID, queue string) // called when runs become claimable; immutable once run has begun
}

// tenantFence is the start of a run together with its tenant.
type tenantFence struct {
	tenant uuid.UUID
	jobrun.RunFence
}

// newJobs returns the job runs part of a node, nil if the stores have none.
func (n *node) newJobs(ctx context.Context) (*jobs, error) {
	if n.jobStores == nil {
		return nil, nil //nolint:nilnil // there are none
	}
	j, batch, m := &jobs{jobStores: n.jobStores, metrics: n.metrics}, n.cfg.Engine.CommitBatch, n.metrics
	var err error
	j.argsAllow = n.cfg.Jobs.WorkerShellArgsAllow
	if j.refuseTopic, err = refusedTopics(n.cfg); err != nil {
		return nil, err
	}
	if j.hints, j.work, err = n.newHints(); err != nil {
		return nil, err
	}
	if j.logs, err = n.newJobLogs(ctx); err != nil {
		return nil, err
	}
	j.claims = groupcommit.New(groupcommit.Config[jobrun.ClaimRequest, []jobrun.Offer]{
		Flush:    j.work.ClaimEach,
		Key:      func(a jobrun.ClaimRequest) any { return a.WorkerID },
		MaxBatch: maxClaims,
		Observe:  m.Batch("job_claim"),
	})
	j.starts = groupcommit.New(groupcommit.Config[tenantFence, jobrun.Done]{
		Flush:    j.flushStarts,
		Key:      func(f tenantFence) any { return f.RunID },
		MaxBatch: min(batch, jobrun.MaxClaim),
		Observe:  m.Batch("job_start"),
	})
	j.finishes = groupcommit.New(groupcommit.Config[jobrun.Result, jobrun.Done]{
		Flush:    j.flushFinishes,
		Key:      func(r jobrun.Result) any { return r.RunID },
		MaxBatch: min(batch, jobrun.MaxClaim),
		Observe:  m.Batch("job_finish"),
	})
	j.exchanges = groupcommit.New(groupcommit.Config[jobrun.Exchange, jobrun.Exchanged]{
		Flush:    j.flushExchanges,
		Key:      func(x jobrun.Exchange) any { return x.Claim.WorkerID },
		MaxBatch: maxClaims,
		Observe:  m.Batch("job_exchange"),
	})
	return j, nil
}

const (
	fewRuns   = 10  // a claim for more runs gets its own statement
	maxClaims = 100 // in one statement
)

// claim combines claims for a few runs from one queue into one statement. A claim that has other
// conditions, or that got nothing from a combined statement, executes its own statement.
func (j *jobs) claim(ctx context.Context, a jobrun.ClaimRequest) ([]jobrun.Offer, error) {
	if len(a.Queues) == 1 && a.Slots <= fewRuns {
		if offers, err := j.claims.Do(ctx, a); err != nil || len(offers) > 0 {
			return offers, err
		}
	}
	return j.work.Claim(ctx, a)
}

// flushStarts starts runs of several tenants.
func (j *jobs) flushStarts(ctx context.Context, batch []tenantFence) ([]jobrun.Done, error) {
	of := map[uuid.UUID][]int{}
	for i, f := range batch {
		of[f.tenant] = append(of[f.tenant], i)
	}
	out := make([]jobrun.Done, len(batch))
	for tenant, places := range of {
		fences := make([]jobrun.RunFence, len(places))
		for n, i := range places {
			fences[n] = batch[i].RunFence
		}
		done, err := j.work.Start(ctx, tenant, fences)
		if err != nil {
			return nil, err
		}
		for n, i := range places {
			out[i] = done[n]
		}
	}
	return out, failpoint.Hit(failpoint.WorkerStart)
}

// flushFinishes writes the results reported by workers.
func (j *jobs) flushFinishes(ctx context.Context, batch []jobrun.Result) ([]jobrun.Done, error) {
	out, err := j.work.Finish(ctx, batch)
	if err != nil {
		return nil, err
	}
	return out, failpoint.Hit(failpoint.WorkerComplete)
}

// exchange combines small exchanges that concern one queue into one transaction. Any other exchange
// gets its own transaction.
func (j *jobs) exchange(ctx context.Context, x jobrun.Exchange) (jobrun.Exchanged, error) {
	if len(x.Claim.Queues) == 1 && x.Claim.Slots <= fewRuns && len(x.Results) <= fewRuns {
		return j.exchanges.Do(ctx, x)
	}
	got, err := j.flushExchanges(ctx, []jobrun.Exchange{x})
	if err != nil {
		return jobrun.Exchanged{}, err
	}
	return got[0], nil
}

// flushExchanges writes the results that workers report, and claims and starts runs for them.
func (j *jobs) flushExchanges(ctx context.Context, batch []jobrun.Exchange) ([]jobrun.Exchanged, error) {
	out, err := j.work.Exchange(ctx, batch)
	if err != nil {
		return nil, err
	}
	return out, failpoint.Hit(failpoint.WorkerExchange)
}

// edge returns the API's dependencies for job runs, nil if there are none.
func (j *jobs) edge() *httpapi.Jobs {
	if j == nil {
		return nil
	}
	return &httpapi.Jobs{
		Definitions: j.definitions,
		Runs:        j.runs,
		Events:      j.events,
		Bulks:       j.bulks,
		Work:        j.work,
		Workers:     j.workers,
		Queues:      j.queues,
		Fences:      j.fences,
		Elections:   j.elections,
		Settings:    j.settings,
		Current:     j.current,
		Now:         j.sweeps.Now,
		Start: func(ctx context.Context, tenant uuid.UUID, f jobrun.RunFence) (jobrun.Done, error) {
			return j.starts.Do(ctx, tenantFence{tenant, f})
		},
		Claim:     j.claim,
		Finish:    j.finishes.Do,
		Exchange:  j.exchange,
		Offloaded: j.logs.open(), RefuseTopic: j.refuseTopic, ArgsAllow: j.argsAllow,
		Admitted: func(woke func(uuid.UUID, string)) { j.woken = append(j.woken, woke) },
	}
}

// run wakes waiting claims when runs become claimable, moves logs and writes lease hints, until ctx
// ends.
func (j *jobs) run(ctx context.Context) {
	var parts sync.WaitGroup
	defer parts.Wait()
	if j.hints != nil {
		parts.Go(func() { j.hints.Run(ctx) })
	}
	if j.own != nil {
		parts.Go(func() { j.own.Run(ctx) })
	}
	parts.Go(func() {
		j.logs.mover.Run(ctx, j.logs.every, func(r joblog.Round, err error) {
			j.metrics.LogsMoved(r.Moved, r.Failed, r.Purged, r.Bytes)
			if err == nil {
				j.metrics.Loop("job_logs")
			}
		})
	})
	j.admitted(func(tenant uuid.UUID, queue string) {
		for _, woke := range j.woken {
			woke(tenant, queue)
		}
	})
	j.line.Run(ctx)
}

// close writes what is still queued.
func (j *jobs) close() {
	j.claims.Close()
	j.starts.Close()
	j.finishes.Close()
	j.exchanges.Close()
	j.logs.close()
}
