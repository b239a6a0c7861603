package measure

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"path/filepath"
	"time"
)

// ParkedConfig describes a measurement of many sagas that wait at the gate of a participant.
type ParkedConfig struct {
	Skald       string // path of the server binary
	DatabaseURL string // of a durable, empty database
	Dir         string // an existing directory for the server's log
	Self        string // the program that answers to "participant"
	Sagas       int
	Window      time.Duration // how long the server is watched
	Rate        int           // calls a second during the release
	ServerEnv   []string
	Out         io.Writer
}

// What is promised of sagas at a gate.
const (
	parkedBytes = 200 // of the node's memory, each
	parkedStart = 5 * time.Second
	parkedRate  = 0.8 // of the rate at which they are let through
)

// parkedName is the name of the participant.
const parkedName = "bench"

// Parked fills a database with sagas that wait for a participant which a person holds, starts the server
// on it, watches it, and releases them. It prints to cfg.Out what that costs, beside the same server with
// one saga. An error means that a promise is broken.
func Parked(ctx context.Context, cfg ParkedConfig) (err error) {
	if cfg.Sagas < 2 || cfg.Window <= 0 || cfg.Rate < 1 {
		return errors.New("sagas must be at least 2, window must be positive, and rate must be at least 1")
	}
	if cfg.Skald, err = filepath.Abs(cfg.Skald); err != nil {
		return fmt.Errorf("resolve the path of the server: %w", err)
	}
	db, err := openDescribed(ctx, cfg.DatabaseURL, cfg.Skald, cfg.Out)
	if err != nil {
		return err
	}
	defer db.close()
	p := &parked{cfg: cfg, run: &run{db: db, cfg: Config{Skald: cfg.Skald, DatabaseURL: cfg.DatabaseURL, Dir: cfg.Dir,
		Self: cfg.Self, Out: cfg.Out, ServerEnv: cfg.ServerEnv}}}
	defer func() { err = errors.Join(err, p.run.stopChildren()) }()
	return p.measure(ctx)
}

// parked is one run of the measurement.
type parked struct {
	cfg ParkedConfig
	run *run
}

func (p *parked) measure(ctx context.Context) error {
	if err := p.prepare(ctx); err != nil {
		return err
	}
	one, err := p.watch(ctx, 1)
	if err != nil {
		return err
	}
	if err := p.fill(ctx); err != nil {
		return err
	}
	all, err := p.watch(ctx, p.cfg.Sagas)
	if err != nil {
		return err
	}
	let, err := p.release(ctx)
	if err != nil {
		return err
	}
	return p.judge(one, all, let)
}

// call makes one request of the server's API.
func (p *parked) call(ctx context.Context, method, path string, body any) error {
	client := &jobsRun{cfg: JobsConfig{Out: p.cfg.Out}, url: p.run.serverURL, client: http.DefaultClient}
	return client.call(ctx, method, path, body, nil)
}

// prepare makes one saga wait for a participant that is held.
func (p *parked) prepare(ctx context.Context) error {
	var ready Millis
	if err := p.run.startParticipant(ctx); err != nil {
		return err
	}
	if err := p.run.measureStart(ctx, &ready); err != nil {
		return err
	}
	flow := workflows(p.run.participantAddr)[0]
	if err := registerWorkflow(ctx, p.run.serverURL, flow); err != nil {
		return err
	}
	at := "/api/v1/participants/" + parkedName
	outage := map[string]any{"release": map[string]any{"factor": 1}}
	settings := map[string]any{"base_url": "http://" + p.run.participantAddr, "outage": outage}
	if err := p.call(ctx, http.MethodPut, at, settings); err != nil {
		return err
	}
	if err := p.call(ctx, http.MethodPost, at+"/hold", map[string]any{"reason": "bench"}); err != nil {
		return err
	}
	saga := map[string]any{"workflow_name": flow.name, "payload": map[string]any{"order": "o-1", "amount": 12}}
	if err := p.call(ctx, http.MethodPost, "/api/v1/sagas", saga); err != nil {
		return err
	}
	for {
		n, err := p.waiting(ctx)
		if err != nil || n == 1 {
			return errors.Join(err, p.stop())
		}
		if pause(ctx, readyPoll); ctx.Err() != nil {
			return ctx.Err()
		}
	}
}

// waiting counts the sagas that wait and were not let through.
func (p *parked) waiting(ctx context.Context) (n int, err error) {
	err = p.run.db.pool.QueryRowContext(ctx, `SELECT count(*) FROM saga.parked WHERE granted_at IS NULL`).Scan(&n)
	if err != nil {
		err = fmt.Errorf("count parked sagas: %w", err)
	}
	return n, err
}

func (p *parked) stop() error {
	server := p.run.server
	p.run.server = nil
	return server.stop()
}

// fill makes copies of the saga that waits.
func (p *parked) fill(ctx context.Context) error {
	begun := time.Now()
	for _, text := range []string{
		`CREATE TEMP TABLE copies AS SELECT gen_random_uuid() AS id FROM generate_series(2, $1)`,
		`DO $$ DECLARE columns text; BEGIN
		   SELECT string_agg(quote_ident(column_name), ', ') INTO columns FROM information_schema.columns
		    WHERE table_schema = 'saga' AND table_name = 'saga_states' AND column_name NOT IN ('id', 'next_run_at')
		      AND is_generated = 'NEVER' AND is_identity = 'NO';
		   EXECUTE format('INSERT INTO saga.saga_states (id, next_run_at, %1$s)
		      SELECT copies.id, now() + interval ''30 minutes'' * (1 + random()), %1$s
		        FROM copies, (SELECT * FROM saga.saga_states LIMIT 1) s', columns);
		 END $$`,
		`INSERT INTO saga.parked (tenant_id, saga_id, participant, state, step, attempt, parked_at)
		 SELECT p.tenant_id, c.id, p.participant, p.state, p.step, p.attempt, p.parked_at
		   FROM copies c, (SELECT * FROM saga.parked LIMIT 1) p`,
		`DROP TABLE copies`, `VACUUM ANALYZE saga.saga_states`, `VACUUM ANALYZE saga.parked`,
	} {
		var args []any
		if text[:6] == "CREATE" {
			args = []any{p.cfg.Sagas}
		}
		if _, err := p.run.db.pool.ExecContext(ctx, text, args...); err != nil {
			return fmt.Errorf("create waiting sagas: %w", err)
		}
	}
	fmt.Fprintf(p.cfg.Out, "created %d waiting sagas in %s\n", p.cfg.Sagas, time.Since(begun).Round(time.Second))
	return nil
}

// watched describes what a server uses while sagas wait.
type watched struct {
	ready            Millis
	bytes            int64
	server, database time.Duration // CPU, a second
}

// watch starts the server and watches it. It leaves it running when sagas are to be released.
func (p *parked) watch(ctx context.Context, sagas int) (w watched, err error) {
	if err := p.run.measureStart(ctx, &w.ready); err != nil {
		return w, err
	}
	if w.server, w.database, err = p.cpu(ctx, p.cfg.Window); err != nil {
		return w, err
	}
	m, err := hostProc.memory(p.run.server.pid())
	if err != nil {
		return w, err
	}
	w.bytes = m.now
	fmt.Fprintf(p.cfg.Out, "%d waiting: ready after %.2f s, %.1f MB, CPU of the server %.1f %%, of PostgreSQL %.1f %%\n", sagas,
		float64(w.ready)/1000, float64(w.bytes)/1e6, 100*w.server.Seconds(), 100*w.database.Seconds())
	if sagas == 1 {
		err = p.stop()
	}
	return w, err
}

// cpu returns the CPU time of the server and of PostgreSQL in a second, over d.
func (p *parked) cpu(ctx context.Context, d time.Duration) (server, database time.Duration, err error) {
	read := func() (server, database time.Duration, err error) {
		of, err := hostProc.process(p.run.server.pid())
		if err != nil || p.run.db.postmaster == 0 {
			return of.cpu, 0, err
		}
		database, err = hostProc.familyCPU(p.run.db.postmaster)
		return of.cpu, database, err
	}
	s, db, err := read()
	if err != nil {
		return 0, 0, err
	}
	begun := time.Now()
	pause(ctx, d)
	s2, db2, err := read()
	passed := time.Since(begun).Seconds()
	return time.Duration(float64(s2-s) / passed), time.Duration(float64(db2-db) / passed), err
}

// release lets sagas through and returns how many, compared with the rate that was asked for.
func (p *parked) release(ctx context.Context) (share float64, err error) {
	before, err := p.waiting(ctx)
	if err != nil {
		return 0, err
	}
	begun := time.Now()
	err = p.call(ctx, http.MethodPost, "/api/v1/participants/"+parkedName+"/release", map[string]any{"rate": p.cfg.Rate})
	if err != nil {
		return 0, err
	}
	server, database, err := p.cpu(ctx, p.cfg.Window)
	if err != nil {
		return 0, err
	}
	after, err := p.waiting(ctx)
	if err != nil {
		return 0, err
	}
	// A saga of three steps waits for each of its calls: those that ended are what was let through, too.
	var again int
	err = p.run.db.pool.QueryRowContext(ctx,
		`SELECT count(*) FROM saga.parked WHERE granted_at IS NULL AND step > 0`).Scan(&again)
	if err != nil {
		return 0, fmt.Errorf("count parked sagas: %w", err)
	}
	let := float64(before - after + again)
	share = let / (float64(p.cfg.Rate) * time.Since(begun).Seconds())
	fmt.Fprintf(p.cfg.Out, "released at %d per second: %.0f in %s, CPU of the server %.1f %%, of PostgreSQL %.1f %%\n", p.cfg.Rate, let,
		time.Since(begun).Round(100*time.Millisecond), 100*server.Seconds(), 100*database.Seconds())
	return share, nil
}

func (p *parked) judge(one, all watched, let float64) error {
	var missed []error
	promise := func(what string, got, limit float64, unit string, met bool) {
		verdict := "met"
		if !met {
			verdict = "MISSED"
			missed = append(missed, fmt.Errorf("%s: %.2f%s, the limit is %.2f%s", what, got, unit, limit, unit))
		}
		fmt.Fprintf(p.cfg.Out, "%-7s %-24s %.2f%s\n", verdict, what, got, unit)
	}
	each := float64(all.bytes-one.bytes) / float64(p.cfg.Sagas)
	promise("memory per saga", each, parkedBytes, " bytes", each <= parkedBytes)
	start := float64(all.ready) / 1000
	promise("start", start, parkedStart.Seconds(), " s", start <= parkedStart.Seconds())
	promise("share of the set rate", let, parkedRate, "", let >= parkedRate)
	return errors.Join(missed...)
}
