package measure

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"time"
)

// JobsConfig describes a measurement of job runs through the worker protocol.
type JobsConfig struct {
	Skald       string // path of the server binary
	DatabaseURL string // of a durable, empty database
	Dir         string // an existing directory for the server's log
	Runs        int    // to be executed in batches of 100
	Singles     int    // to be executed one by one
	Probes      int    // runs that a waiting worker gets, one after the other
	Due         int    // definitions that are due in the same minute; 0: none
	Takeover    bool   // kill the leader, and measure how long it takes until another node leads
	ServerEnv   []string
	Out         io.Writer
}

// The targets, on two cores.
const (
	batchedTarget = 6_000 // runs a second, claimed, started and completed 100 at a time
	singleTarget  = 1_200 // runs a second, one at a time
	// The same with one call that reports runs and gets the next ones.
	exchangedTarget       = 6_000
	exchangedSingleTarget = 2_000
	latencyTarget         = 50                    // ms, p99, from the request for a run to the response of a waiting claim
	dueTarget             = 20 * time.Second      // 100,000 definitions that are due at the same time
	takeoverExtra         = 2 * time.Second       // in addition to the leader's lease
	leaderWait            = 60 * time.Second      // how long a server may take to lead
	beatEvery             = 5 * time.Second       // of the workers of a measurement
	jobsPoll              = 50 * time.Millisecond // how often the database is polled for progress
	runsOfClaim           = 100
)

// Jobs measures claims, starts and completions in batches and one by one, how soon a waiting
// worker gets a run, how soon the runs of many definitions that are due at the same time exist,
// and how soon another node leads; and prints them to cfg.Out. Every run is counted in the
// database. An error means that a target was missed, or a run is missing.
func Jobs(ctx context.Context, cfg JobsConfig) (err error) {
	if cfg.Runs < 1 || cfg.Singles < 0 || cfg.Probes < 0 || cfg.Due < 0 {
		return errors.New("runs must be at least 1, and singles, probes and due must not be negative")
	}
	if cfg.Skald, err = filepath.Abs(cfg.Skald); err != nil {
		return fmt.Errorf("resolve the path of the server: %w", err)
	}
	db, err := openDescribed(ctx, cfg.DatabaseURL, cfg.Skald, cfg.Out)
	if err != nil {
		return err
	}
	defer db.close()
	r := &jobsRun{cfg: cfg, db: db, client: &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 256}}}
	defer func() { err = errors.Join(err, r.stop()) }()
	if err := r.open(ctx, 0); err != nil {
		return err
	}
	if err := r.define(ctx); err != nil {
		return err
	}
	for _, phase := range []func(context.Context) error{r.batches, r.exchangedBatches, r.singles, r.exchangedSingles,
		r.latency, r.due, r.takeover} {
		if err := phase(ctx); err != nil {
			return err
		}
	}
	return errors.Join(r.missed...)
}

// jobsRun is one run of the measurement.
type jobsRun struct {
	cfg        JobsConfig
	db         *database
	client     *http.Client
	first      *run // the server that is measured
	second     *run // the node that takes over; nil until then
	url        string
	definition string
	tenant     string
	missed     []error
}

// open starts the server that is measured, and waits until it leads under a later epoch than
// epoch.
func (r *jobsRun) open(ctx context.Context, epoch int64) (err error) {
	if r.first, err = r.serve(ctx, "first"); err != nil {
		return err
	}
	r.url = r.first.serverURL
	return r.awaitLeader(ctx, epoch)
}

func (r *jobsRun) serve(ctx context.Context, name string) (*run, error) {
	dir := filepath.Join(r.cfg.Dir, name)
	if err := os.MkdirAll(dir, 0o711); err != nil {
		return nil, fmt.Errorf("create the directory of a server: %w", err)
	}
	s := &run{
		cfg: Config{Skald: r.cfg.Skald, DatabaseURL: r.cfg.DatabaseURL, Dir: dir, Out: r.cfg.Out, ServerEnv: r.cfg.ServerEnv},
	}
	var ready Millis
	return s, s.measureStart(ctx, &ready)
}

func (r *jobsRun) stop() error {
	var errs []error
	for _, s := range []*run{r.first, r.second} {
		if s != nil && s.server != nil {
			errs = append(errs, s.stopChildren())
		}
	}
	return errors.Join(errs...)
}

// call makes a request to the server, and reads its response into out unless that is nil.
func (r *jobsRun) call(ctx context.Context, method, path string, body, out any) error {
	raw, err := request(ctx, r.client, method, r.url+path, body)
	if err != nil || out == nil {
		return err
	}
	if err := json.Unmarshal(raw, out); err != nil {
		return fmt.Errorf("decode the response to %s %s: %w", method, path, err)
	}
	return nil
}

// define creates the definition of all runs, and reads its tenant.
func (r *jobsRun) define(ctx context.Context) error {
	var d struct {
		ID string `json:"id"`
	}
	if err := r.call(ctx, http.MethodPost, "/api/v1/job-definitions", map[string]any{"name": "bench", "type": "manual",
		"command_name": "nothing"}, &d); err != nil {
		return err
	}
	r.definition = d.ID
	if err := r.db.pool.QueryRowContext(ctx, `SELECT tenant_id FROM jobs.job_definitions WHERE id = $1`, d.ID).Scan(&r.tenant); err != nil {
		return fmt.Errorf("read the definition: %w", err)
	}
	return nil
}

// fill stores n claimable runs, with rows like those of the API.
func (r *jobsRun) fill(ctx context.Context, n int) error {
	_, err := r.db.pool.ExecContext(ctx, `
INSERT INTO jobs.job_runs (id, tenant_id, definition_id, definition_name, spec_version, command_name, trigger, scheduled_for, available_at, admitted_at,
       idempotency_key, root_run_id, created_at, updated_at, args)
SELECT i.id, $1, $2, 'bench', 1, 'nothing', 'MANUAL', i.at, i.at, i.at, 'manual:' || i.id, i.id, i.at, i.at, jsonb_build_object('order', i.n, 'customer', 'c-' || i.n % 1000)
  FROM (SELECT gen_random_uuid() AS id, n, now() - ($3::integer - n) * interval '1 millisecond' AS at FROM generate_series(1, $3::integer) AS n) AS i`, r.tenant, r.definition, n)
	if err != nil {
		return fmt.Errorf("store %d runs: %w", n, err)
	}
	if _, err := r.db.pool.ExecContext(ctx, `ANALYZE jobs.job_runs`); err != nil {
		return fmt.Errorf("analyze: %w", err)
	}
	return nil
}

// ended returns an error unless exactly n more runs have succeeded than before,
// each at its first attempt.
func (r *jobsRun) ended(ctx context.Context, before, n int) error {
	succeeded, others, err := r.outcomes(ctx)
	if err != nil {
		return err
	}
	if succeeded-before != n || others != 0 {
		return fmt.Errorf(
			"LOST OR DUPLICATED: %d of %d runs succeeded on their first attempt; %d did not",
			succeeded-before,
			n,
			others,
		)
	}
	return nil
}

func (r *jobsRun) outcomes(ctx context.Context) (succeeded, others int, err error) {
	err = r.db.pool.QueryRowContext(ctx, `
SELECT count(*) FILTER (WHERE state = 'SUCCEEDED' AND attempt = 1), count(*) FILTER (WHERE state <> 'SUCCEEDED' OR attempt <> 1)
  FROM jobs.job_runs WHERE definition_id = $1`, r.definition).Scan(&succeeded, &others)
	if err != nil {
		err = fmt.Errorf("count the runs: %w", err)
	}
	return succeeded, others, err
}

// awaitLeader waits until a node leads under a later epoch than epoch.
func (r *jobsRun) awaitLeader(ctx context.Context, epoch int64) error {
	ctx, cancel := context.WithTimeout(ctx, leaderWait)
	defer cancel()
	for {
		present, err := r.epoch(ctx)
		if err == nil && present > epoch {
			return nil
		}
		for _, s := range []*run{r.first, r.second} {
			if err == nil && s != nil && s.server != nil {
				err = s.server.ended()
			}
		}
		if ctx.Err() != nil {
			return fmt.Errorf("no leader was elected: %w", ctx.Err())
		}
		if err != nil {
			return err
		}
		pause(ctx, jobsPoll)
	}
}

// epoch returns the epoch of the leader; 0: there is none.
func (r *jobsRun) epoch(ctx context.Context) (epoch int64, err error) {
	err = r.db.pool.QueryRowContext(ctx, `SELECT epoch FROM jobs.leader WHERE expires_at > clock_timestamp()`).Scan(&epoch)
	if errors.Is(err, sql.ErrNoRows) {
		return 0, nil
	}
	if err != nil {
		err = fmt.Errorf("read the epoch of the leader: %w", err)
	}
	return epoch, err
}
