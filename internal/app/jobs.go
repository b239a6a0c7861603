package app

import (
	"context"

	"github.com/google/uuid"

	"github.com/skald-saga/skald/internal/groupcommit"
	"github.com/skald-saga/skald/internal/httpapi"
	"github.com/skald-saga/skald/internal/jobrun"
	"github.com/skald-saga/skald/internal/ops"
	"github.com/skald-saga/skald/internal/postgres"
)

// jobStores is what is kept of job runs.
type jobStores struct {
	runs        *postgres.Jobs
	definitions jobrun.Definitions
	workers     jobrun.Workers
	elections   jobrun.Elections
	settings    jobrun.SettingsStore
	// current returns the settings, at most seconds old.
	current func(context.Context) (jobrun.Settings, error)
	// admitted calls woke whenever a queue has got runs that may be claimed, until
	// ctx ends.
	admitted func(ctx context.Context, woke func(tenant uuid.UUID, queue string))
}

func postgresJobs(db *postgres.DB) *jobStores {
	settings := postgres.NewJobSettings(db)
	return &jobStores{
		definitions: postgres.NewJobDefinitions(db),
		runs:        postgres.NewJobs(db, settings.Current), workers: postgres.NewJobWorkers(db, settings.Current),
		elections: postgres.NewJobElections(db), settings: settings,
		current: settings.Current, admitted: db.RunsAdmitted,
	}
}

// jobs is the job runs of a node.
type jobs struct {
	*jobStores
	starts   *groupcommit.Committer[tenantFence, jobrun.Done]
	finishes *groupcommit.Committer[jobrun.Result, jobrun.Done]
	woken    []func(tenant uuid.UUID, queue string) // told of runs that may be claimed; complete before run
}

// tenantFence is a start of a tenant's run.
type tenantFence struct {
	tenant uuid.UUID
	jobrun.RunFence
}

// newJobs returns the job runs of a node, nil where nothing is kept of them.
func newJobs(kept *jobStores, batch int, m *ops.Metrics) *jobs {
	if kept == nil {
		return nil
	}
	j := &jobs{jobStores: kept}
	j.starts = groupcommit.New(groupcommit.Config[tenantFence, jobrun.Done]{
		Flush: j.flushStarts, Key: func(f tenantFence) any { return f.RunID }, MaxBatch: min(batch, jobrun.MaxClaim), Observe: m.Batch("job_start"),
	})
	j.finishes = groupcommit.New(groupcommit.Config[jobrun.Result, jobrun.Done]{
		Flush: j.runs.Finish, Key: func(r jobrun.Result) any { return r.RunID }, MaxBatch: min(batch, jobrun.MaxClaim), Observe: m.Batch("job_finish"),
	})
	return j
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
		done, err := j.runs.Start(ctx, tenant, fences)
		if err != nil {
			return nil, err
		}
		for n, i := range places {
			out[i] = done[n]
		}
	}
	return out, nil
}

// edge is what the API needs of job runs; nil: there are none.
func (j *jobs) edge() *httpapi.Jobs {
	if j == nil {
		return nil
	}
	return &httpapi.Jobs{
		Definitions: j.definitions, Runs: j.runs, Work: j.runs, Workers: j.workers, Elections: j.elections, Settings: j.settings, Current: j.current,
		Start: func(ctx context.Context, tenant uuid.UUID, f jobrun.RunFence) (jobrun.Done, error) {
			return j.starts.Do(ctx, tenantFence{tenant, f})
		},
		Finish:   j.finishes.Do,
		Admitted: func(woke func(uuid.UUID, string)) { j.woken = append(j.woken, woke) },
	}
}

// run tells claims that wait of runs, until ctx ends.
func (j *jobs) run(ctx context.Context) {
	j.admitted(ctx, func(tenant uuid.UUID, queue string) {
		for _, woke := range j.woken {
			woke(tenant, queue)
		}
	})
}

// close writes what was handed in.
func (j *jobs) close() {
	j.starts.Close()
	j.finishes.Close()
}
