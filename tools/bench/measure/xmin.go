package measure

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io"
	"net/http"
	"path/filepath"
	"sync"
	"time"

	"github.com/skald-saga/skald/internal/postgres"
	"github.com/skald-saga/skald/internal/saga/sagadb"
)

// XminConfig describes a measurement with a snapshot that is held.
type XminConfig struct {
	Skald       string // path of the server binary
	DatabaseURL string // of a durable, empty database
	Dir         string // an existing directory for the server's log
	Self        string // the program that answers to "participant" and "load"
	Held        time.Duration
	Window      time.Duration // that is measured: before the snapshot, and at the end of Held
	Clients     int           // that wait for sagas, and as many workers with job runs
	ServerEnv   []string
	Out         io.Writer
}

// The promises (invariant F60).
const (
	heldRate  = 0.6 // of the throughput without the snapshot
	heldClaim = 3   // times the p99 of claims without it
)

// claimPace is the pause between two claims of sagas.
const claimPace = 50 * time.Millisecond

// Xmin measures sagas and job runs while another session holds a snapshot for a long time, so that
// PostgreSQL may remove no row that was changed since, and prints them to cfg.Out beside what they
// were before. An error means that a promise is broken.
func Xmin(ctx context.Context, cfg XminConfig) (err error) {
	if cfg.Window <= 0 || cfg.Held < cfg.Window || cfg.Clients < 1 {
		return errors.New("window must be positive, held must be at least as long, and clients must be at least 1")
	}
	if cfg.Skald, err = filepath.Abs(cfg.Skald); err != nil {
		return fmt.Errorf("resolve the path of the server: %w", err)
	}
	db, err := openDescribed(ctx, cfg.DatabaseURL, cfg.Skald, cfg.Out)
	if err != nil {
		return err
	}
	defer db.close()
	x := &xmin{cfg: cfg, run: &run{db: db, cfg: Config{Skald: cfg.Skald, DatabaseURL: cfg.DatabaseURL, Dir: cfg.Dir,
		Self: cfg.Self, Out: cfg.Out, ServerEnv: cfg.ServerEnv}}}
	defer func() { err = errors.Join(err, x.run.stopChildren()) }()
	return x.measure(ctx)
}

// xmin is one run of the measurement.
type xmin struct {
	cfg    XminConfig
	run    *run
	jobs   *jobsRun
	claims *sagadb.Sagas
	owner  int64
}

func (x *xmin) measure(ctx context.Context) error {
	var ready Millis
	if err := x.run.startParticipant(ctx); err != nil {
		return err
	}
	if err := x.run.measureStart(ctx, &ready); err != nil {
		return err
	}
	if err := registerWorkflow(ctx, x.run.serverURL, workflows(x.run.participantAddr)[0]); err != nil {
		return err
	}
	x.jobs = &jobsRun{cfg: JobsConfig{Out: x.cfg.Out}, db: x.run.db, first: x.run, url: x.run.serverURL,
		client: &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 2 * x.cfg.Clients}}}
	if err := x.jobs.awaitLeader(ctx, 0); err != nil {
		return err
	}
	if err := x.jobs.define(ctx); err != nil {
		return err
	}
	store, err := postgres.Open(ctx, postgres.Config{DSN: x.cfg.DatabaseURL, Application: "skald-bench"})
	if err != nil {
		return err
	}
	defer store.Close()
	x.claims = sagadb.NewSagas(store)
	if x.owner, err = x.claims.Register(ctx, "bench", "", 24*time.Hour); err != nil {
		return err
	}
	if _, err := x.load(ctx, x.cfg.Window/3); err != nil { // warm up
		return err
	}
	before, err := x.load(ctx, x.cfg.Window)
	if err != nil {
		return err
	}
	x.print("no snapshot", before)
	release, err := x.hold(ctx)
	if err != nil {
		return err
	}
	defer release()
	if rest := x.cfg.Held - x.cfg.Window; rest > 0 {
		if _, err := x.load(ctx, rest); err != nil {
			return err
		}
	}
	held, err := x.load(ctx, x.cfg.Window)
	if err != nil {
		return err
	}
	x.print(fmt.Sprintf("held for %s", x.cfg.Held), held)
	if err := x.printDead(ctx); err != nil {
		return err
	}
	return x.judge(before, held)
}

// hold takes a snapshot and keeps it until release.
func (x *xmin) hold(ctx context.Context) (release func(), err error) {
	pool, err := sql.Open("postgres", x.cfg.DatabaseURL)
	if err != nil {
		return nil, fmt.Errorf("open the database: %w", err)
	}
	tx, err := pool.BeginTx(ctx, &sql.TxOptions{Isolation: sql.LevelRepeatableRead, ReadOnly: true})
	if err == nil {
		err = tx.QueryRowContext(ctx, `SELECT 1 FROM pg_class LIMIT 1`).Scan(new(int))
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("take a snapshot: %w", err), pool.Close())
	}
	return func() { _ = tx.Rollback(); _ = pool.Close() }, nil
}

// underway describes what was done in one window.
type underway struct {
	sagas, runs            float64 // a second
	whole                  Latency // of sagas, from the request to the end
	runClaims, sagasClaims Latency
}

// load lets clients and workers work for d.
func (x *xmin) load(ctx context.Context, d time.Duration) (u underway, err error) {
	working, stop := context.WithTimeout(ctx, d)
	defer stop()
	var all sync.WaitGroup
	errs := make([]error, x.cfg.Clients+1)
	claims, done := make([][]time.Duration, x.cfg.Clients+1), make([]int, x.cfg.Clients+1)
	for i := range x.cfg.Clients {
		worker, err := x.jobs.register(ctx)
		if err != nil {
			return u, err
		}
		go x.jobs.keepAlive(working, worker)
		all.Go(func() {
			for working.Err() == nil && errs[i] == nil {
				var took time.Duration
				if took, errs[i] = x.oneRun(ctx, worker); took > 0 {
					claims[i] = append(claims[i], took)
					done[i]++
				}
			}
		})
	}
	last := x.cfg.Clients
	all.Go(func() {
		for working.Err() == nil && errs[last] == nil {
			begun := time.Now()
			_, errs[last] = x.claims.Claim(ctx, x.owner, 1)
			claims[last] = append(claims[last], time.Since(begun))
			pause(working, claimPace)
		}
	})
	flow := workflows(x.run.participantAddr)[0]
	result, err := x.run.runLoad(ctx, levelSpec{flow: flow, mode: Wait, clients: x.cfg.Clients}, d)
	all.Wait()
	if err = errors.Join(append(errs, err)...); err != nil {
		return u, err
	}
	var runClaims []time.Duration
	runs := 0
	for i := range x.cfg.Clients {
		runClaims, runs = append(runClaims, claims[i]...), runs+done[i]
	}
	return underway{
		sagas: float64(len(result.Accepted)) / d.Seconds(), runs: float64(runs) / d.Seconds(), whole: result.Answers,
		runClaims: summarize(runClaims), sagasClaims: summarize(claims[last]),
	}, nil
}

// oneRun requests a run, and has a worker claim and complete one; it returns how long
// the claim took, 0 if it got none.
func (x *xmin) oneRun(ctx context.Context, worker string) (took time.Duration, err error) {
	err = x.jobs.call(ctx, http.MethodPost, "/api/v1/job-definitions/bench/runs", map[string]any{}, nil)
	if err != nil {
		return 0, err
	}
	begun := time.Now()
	runs, err := x.jobs.claim(ctx, worker, 1, 0)
	if err != nil || len(runs) == 0 {
		return 0, err
	}
	return time.Since(begun), x.jobs.finishOne(ctx, worker, &runs[0])
}

func (x *xmin) print(what string, u underway) {
	fmt.Fprintf(x.cfg.Out, "%-14s %.0f sagas/s, p99 %.1f ms; %.0f runs/s; claims of runs p50 %.1f, p99 %.1f ms; "+
		"claims of sagas p50 %.1f, p99 %.1f ms\n", what, u.sagas, u.whole.P99, u.runs, u.runClaims.P50, u.runClaims.P99,
		u.sagasClaims.P50, u.sagasClaims.P99)
}

func (x *xmin) printDead(ctx context.Context) error {
	rows, err := x.run.db.pool.QueryContext(ctx, `SELECT schemaname || '.' || relname, n_live_tup, n_dead_tup FROM pg_stat_user_tables
 ORDER BY n_dead_tup DESC LIMIT 5`)
	if err != nil {
		return fmt.Errorf("count dead rows: %w", err)
	}
	defer rows.Close()
	for rows.Next() {
		var table string
		var live, dead int64
		if err := rows.Scan(&table, &live, &dead); err != nil {
			return fmt.Errorf("count dead rows: %w", err)
		}
		fmt.Fprintf(x.cfg.Out, "               %s: %d rows, %d dead\n", table, live, dead)
	}
	return rows.Err()
}

func (x *xmin) judge(before, held underway) error {
	var missed []error
	ratio := func(what string, before, held float64, met func(ratio float64) bool) {
		r := held / max(before, 0.001)
		verdict := "met"
		if !met(r) {
			verdict = "MISSED"
			missed = append(missed, fmt.Errorf("%s: %.2f of the value without the snapshot", what, r))
		}
		fmt.Fprintf(x.cfg.Out, "%-7s %-20s %.2f\n", verdict, what, r)
	}
	enough := func(r float64) bool { return r >= heldRate }
	soon := func(r float64) bool { return r <= heldClaim }
	ratio("sagas a second", before.sagas, held.sagas, enough)
	ratio("runs a second", before.runs, held.runs, enough)
	ratio("claims of runs, p99", float64(before.runClaims.P99), float64(held.runClaims.P99), soon)
	ratio("claims of sagas, p99", float64(before.sagasClaims.P99), float64(held.sagasClaims.P99), soon)
	return errors.Join(missed...)
}
