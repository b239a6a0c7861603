package measure

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
)

// How many workers claim concurrently.
const (
	batchWorkers  = 4
	singleWorkers = 32
)

// take makes workers execute n runs, and returns how long it took.
func (r *jobsRun) take(
	ctx context.Context,
	n, workers int,
	one func(ctx context.Context, worker string) (int, error),
) (took time.Duration, err error) {
	ctx, cancel := context.WithTimeout(ctx, phaseTimeout)
	defer cancel()
	ids := make([]string, workers)
	for i := range ids {
		if ids[i], err = r.register(ctx); err != nil {
			return 0, err
		}
		go r.keepAlive(ctx, ids[i])
	}
	var done atomic.Int64
	var all sync.WaitGroup
	errs := make([]error, workers)
	begun := time.Now()
	for i := range ids {
		all.Go(func() {
			for done.Load() < int64(n) && errs[i] == nil && ctx.Err() == nil {
				var took int
				took, errs[i] = one(ctx, ids[i])
				if done.Add(int64(took)); errs[i] != nil {
					cancel()
				}
			}
		})
	}
	all.Wait()
	took = time.Since(begun)
	if err := errors.Join(errs...); err != nil {
		return took, err
	}
	return took, ctx.Err()
}

// rate measures how many runs a second are claimed, started and completed.
func (r *jobsRun) rate(
	ctx context.Context,
	name string,
	n, workers, target int,
	one func(ctx context.Context, worker string) (int, error),
) error {
	if n == 0 {
		return nil
	}
	before, err := r.filled(ctx, n)
	if err != nil {
		return err
	}
	server, postgres := cpuOf(r.first.server, r.db)
	took, err := r.take(ctx, n, workers, one)
	if err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	s, p := cpuOf(r.first.server, r.db)
	if err := r.ended(ctx, before, n); err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	rate := float64(n) / took.Seconds()
	fmt.Fprintf(
		r.cfg.Out,
		"%s: %d runs claimed, started and completed by %d workers in %.1f s: %.0f/s (target %d); %s; each run executed once\n",
		name,
		n,
		workers,
		took.Seconds(),
		rate,
		target,
		used(s-server, p-postgres, took, int64(n)),
	)
	if rate < float64(target) {
		r.missed = append(r.missed, fmt.Errorf("%s: %.0f runs per second, want at least %d", name, rate, target))
	}
	return nil
}

// filled stores n claimable runs, and returns how many had succeeded before.
func (r *jobsRun) filled(ctx context.Context, n int) (succeeded int, err error) {
	if succeeded, _, err = r.outcomes(ctx); err != nil {
		return 0, err
	}
	return succeeded, r.fill(ctx, n)
}

func (r *jobsRun) batches(ctx context.Context) error {
	return r.rate(ctx, "batches of 100", r.cfg.Runs, batchWorkers, batchedTarget, r.takeBatch)
}

func (r *jobsRun) singles(ctx context.Context) error {
	return r.rate(ctx, "one by one", r.cfg.Singles, singleWorkers, singleTarget, r.takeSingle)
}

func (r *jobsRun) exchangedBatches(ctx context.Context) error {
	return r.rate(ctx, "batches of 100, one call each", r.cfg.Runs, batchWorkers, exchangedTarget, r.exchanging(runsOfClaim))
}

func (r *jobsRun) exchangedSingles(ctx context.Context) error {
	return r.rate(ctx, "one by one, one call each", r.cfg.Singles, singleWorkers, exchangedSingleTarget, r.exchanging(1))
}

func (r *jobsRun) takeSingle(ctx context.Context, worker string) (int, error) {
	took, err := r.takeOne(ctx, worker)
	if took {
		return 1, err
	}
	return 0, err
}

// latency measures from the request for a run to the response of a claim that waits for it: one
// after another, with a pause in between.
func (r *jobsRun) latency(ctx context.Context) error {
	if r.cfg.Probes == 0 {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, phaseTimeout)
	defer cancel()
	worker, err := r.register(ctx)
	if err != nil {
		return err
	}
	go r.keepAlive(ctx, worker)
	samples := make([]time.Duration, 0, r.cfg.Probes)
	for i := range r.cfg.Probes {
		type answer struct {
			runs []claimedRun
			err  error
			at   time.Time
		}
		answers := make(chan answer, 1)
		go func() {
			runs, err := r.claim(ctx, worker, 1, 20*time.Second)
			answers <- answer{runs, err, time.Now()}
		}()
		pause(ctx, time.Duration(20+i%17)*time.Millisecond) // until it waits
		asked := time.Now()
		if err := r.call(ctx, http.MethodPost, "/api/v1/job-definitions/bench/runs", map[string]any{}, nil); err != nil {
			return err
		}
		got := <-answers
		if got.err != nil || len(got.runs) != 1 {
			return fmt.Errorf("probe %d: the claim got %d runs: %w", i, len(got.runs), got.err)
		}
		samples = append(samples, got.at.Sub(asked))
		if err := r.finishOne(ctx, worker, &got.runs[0]); err != nil {
			return err
		}
	}
	l := summarize(samples)
	fmt.Fprintf(
		r.cfg.Out,
		"latency: from the request for a run until a waiting worker gets it: p50 %.1f ms, p95 %.1f ms, p99 %.1f ms, max %.1f ms (target p99 %d); %d probes\n",
		l.P50,
		l.P95,
		l.P99,
		l.Max,
		latencyTarget,
		l.Count,
	)
	if l.P99 > latencyTarget {
		r.missed = append(r.missed, fmt.Errorf("latency: p99 is %.1f ms, want at most %d", l.P99, latencyTarget))
	}
	return nil
}

// due measures how long it takes to create the runs of definitions that are all due in the same
// minute, from the first to the last.
func (r *jobsRun) due(ctx context.Context) error {
	if r.cfg.Due == 0 {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, phaseTimeout)
	defer cancel()
	var at time.Time // of the slots: late enough that the leader does not begin before all definitions exist
	if err := r.db.pool.QueryRowContext(ctx, `SELECT date_trunc('minute', now()) + interval '3 minutes'`).Scan(&at); err != nil {
		return fmt.Errorf("read the clock: %w", err)
	}
	// The ids are random, so that the definitions are stored in random order, like those of the
	// API.
	if _, err := r.db.pool.ExecContext(ctx, `
WITH new AS (
	SELECT gen_random_uuid() AS id, n, jsonb_build_object('type', 'time', 'command_name', 'nothing', 'retry', '{}'::jsonb,
	       'schedule', jsonb_build_object('type', 'daily_at', 'value', $2::text)) AS spec
	  FROM generate_series(1, $3::integer) AS n
), stored AS (
	INSERT INTO jobs.job_definitions (id, tenant_id, name, type, command_name, spec, last_materialized_at, next_due_at, created_at, updated_at)
	SELECT id, $1::uuid, 'due-' || n, 'time', 'nothing', spec, now(), $4::timestamptz, now(), now() FROM new
)
INSERT INTO jobs.job_definition_versions (definition_id, tenant_id, spec_version, spec, created_at)
SELECT id, $1::uuid, 1, spec, now() FROM new`, r.tenant, at.UTC().Format("15:04"), r.cfg.Due, at); err != nil {
		return fmt.Errorf("store definitions: %w", err)
	}
	if _, err := r.db.pool.ExecContext(ctx, `ANALYZE jobs.job_definitions`); err != nil {
		return fmt.Errorf("analyze: %w", err)
	}
	var made int
	var took float64
	for made < r.cfg.Due {
		if err := r.db.pool.QueryRowContext(ctx, `
SELECT count(*), coalesce(extract(epoch FROM max(created_at) - min(created_at)), 0) FROM jobs.job_runs
 WHERE tenant_id = $1 AND trigger = 'TIME' AND scheduled_for = $2`, r.tenant, at).Scan(&made, &took); err != nil {
			return fmt.Errorf("due: %d of %d runs were created: %w", made, r.cfg.Due, err)
		}
		if err := r.first.server.ended(); err != nil {
			return err
		}
		pause(ctx, time.Second)
	}
	fmt.Fprintf(
		r.cfg.Out,
		"due: the runs of %d definitions that are due in the same minute were created within %.1f s (target %.0f)\n",
		made,
		took,
		dueTarget.Seconds(),
	)
	if made > r.cfg.Due || took > dueTarget.Seconds() {
		r.missed = append(
			r.missed,
			fmt.Errorf("due: %d runs of %d definitions in %.1f s, want at most %.0f s", made, r.cfg.Due, took, dueTarget.Seconds()),
		)
	}
	return nil
}

// takeover measures from the death of the leader to the next epoch.
func (r *jobsRun) takeover(ctx context.Context) (err error) {
	if !r.cfg.Takeover {
		return nil
	}
	if r.second, err = r.serve(ctx, "second"); err != nil {
		return err
	}
	var lease float64
	epoch, err := r.epoch(ctx)
	if err != nil {
		return err
	}
	if err := r.db.pool.QueryRowContext(ctx, `SELECT coalesce((SELECT (value #>> '{}')::float8 FROM jobs.settings WHERE name = 'leader_ttl_seconds'), 10)`).Scan(&lease); err != nil {
		return fmt.Errorf("read the leader's lease: %w", err)
	}
	victim := r.first.server
	if err := victim.cmd.Process.Signal(syscall.SIGKILL); err != nil {
		return fmt.Errorf("kill the leader: %w", err)
	}
	begun := time.Now()
	<-victim.done
	r.first.server = nil
	if err := r.awaitLeader(ctx, epoch); err != nil {
		return err
	}
	took := time.Since(begun)
	limit := time.Duration(lease*float64(time.Second)) + takeoverExtra
	fmt.Fprintf(
		r.cfg.Out,
		"takeover: another node became leader %.1f s after the leader was killed (target %.0f: its lease of %.0f s plus %.0f s)\n",
		took.Seconds(),
		limit.Seconds(),
		lease,
		takeoverExtra.Seconds(),
	)
	if took > limit {
		r.missed = append(r.missed, fmt.Errorf("takeover: %.1f s, want at most %.0f", took.Seconds(), limit.Seconds()))
	}
	return nil
}
