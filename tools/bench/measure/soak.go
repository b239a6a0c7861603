package measure

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// SoakConfig describes a long run under a steady load.
type SoakConfig struct {
	Skald       string // path of the server binary
	DatabaseURL string // of a durable, empty database
	Dir         string // an existing directory for the server's log
	Self        string // the program that answers to "participant" and "broker"
	Duration    time.Duration
	Every       time.Duration // between two samples
	Rate        int           // sagas, letters and job runs a second, each
	ServerEnv   []string
	Out         io.Writer
}

// soakDrain is how long sagas, letters and runs may take to end after the last.
const soakDrain = 2 * time.Minute

// Soak keeps a server under a steady load of sagas, dead letters and job runs, and
// prints its goroutines, files, connections and memory to cfg.Out. An error means that
// one of these grew by more than maxGrowth over the last half, or that a saga, a letter
// or a run is missing.
func Soak(ctx context.Context, cfg SoakConfig) (err error) {
	if cfg.Duration <= 0 || cfg.Every <= 0 || cfg.Rate < 1 {
		return errors.New("duration and every must be positive, and rate must be at least 1")
	}
	if cfg.Skald, err = filepath.Abs(cfg.Skald); err != nil {
		return fmt.Errorf("resolve the path of the server: %w", err)
	}
	db, err := openDescribed(ctx, cfg.DatabaseURL, cfg.Skald, cfg.Out)
	if err != nil {
		return err
	}
	defer db.close()
	s := &soak{cfg: cfg, db: db}
	defer func() { err = errors.Join(err, s.letters.stop()) }()
	if err := s.prepare(ctx); err != nil {
		return err
	}
	samples, err := s.run(ctx)
	if err != nil {
		return err
	}
	fmt.Fprintln(cfg.Out)
	return errors.Join(append(judgeGrowth(cfg.Out, samples), s.settled(ctx))...)
}

// soak is one run.
type soak struct {
	cfg     SoakConfig
	db      *database
	letters *letterRun
	jobs    *jobsRun

	sagas, dead, runs, errors atomic.Int64
	firstError                atomic.Pointer[error]
}

func (s *soak) prepare(ctx context.Context) error {
	dlq := DLQConfig{DatabaseURL: s.cfg.DatabaseURL, Self: s.cfg.Self, Out: s.cfg.Out}
	s.letters = &letterRun{cfg: dlq, db: s.db}
	if err := s.letters.prepare(ctx); err != nil {
		return err
	}
	r := &run{db: s.db, cfg: Config{Skald: s.cfg.Skald, DatabaseURL: s.cfg.DatabaseURL, Dir: s.cfg.Dir, Self: s.cfg.Self,
		Out: s.cfg.Out, ServerEnv: append([]string{
			"SKALD_KAFKA_BROKERS=" + strings.Join(s.letters.brokers, ","), "SKALD_INGEST_TOPICS=^bench[.].*[.]dlq$",
			"SKALD_DLQ_AUTO_RETRY=true",
		}, s.cfg.ServerEnv...)}}
	s.letters.run = r
	if err := r.startParticipant(ctx); err != nil {
		return err
	}
	var ready Millis
	if err := r.measureStart(ctx, &ready); err != nil {
		return err
	}
	for _, flow := range workflows(r.participantAddr) {
		if err := registerWorkflow(ctx, r.serverURL, flow); err != nil {
			return err
		}
	}
	s.jobs = &jobsRun{cfg: JobsConfig{Out: s.cfg.Out}, db: s.db, first: r, url: r.serverURL, client: http.DefaultClient}
	if err := s.jobs.awaitLeader(ctx, 0); err != nil {
		return err
	}
	return s.jobs.define(ctx)
}

// run generates the load and samples the server until the duration is over.
func (s *soak) run(ctx context.Context) (samples []reading, err error) {
	load, stop := context.WithTimeout(ctx, s.cfg.Duration)
	defer stop()
	worker, err := s.jobs.register(ctx)
	if err != nil {
		return nil, err
	}
	go s.jobs.keepAlive(load, worker)
	server := s.letters.run
	flows := workflows(server.participantAddr)
	var clients [len(flows)]*loadClient
	for i, flow := range flows {
		clients[i], err = newLoadClient(ctx, LoadConfig{Target: server.serverURL, Workflow: flow.name, Mode: Wait,
			WantStatus: flow.wantStatus}, &http.Transport{DisableCompression: true, ResponseHeaderTimeout: answerTimeout})
		if err != nil {
			return nil, err
		}
	}
	var all sync.WaitGroup
	each := time.Second / time.Duration(s.cfg.Rate)
	s.paced(load, &all, each, &s.sagas, func(n int64) error {
		c := clients[0]
		if n%5 == 0 {
			c = clients[1]
		}
		c.accepted = c.accepted[:0]
		return c.create()
	})
	s.paced(load, &all, each, &s.runs, func(int64) error {
		if err := s.jobs.call(ctx, http.MethodPost, "/api/v1/job-definitions/bench/runs", map[string]any{}, nil); err != nil {
			return err
		}
		_, err := s.jobs.takeOne(ctx, worker)
		return err
	})
	s.paced(load, &all, time.Second, &s.dead, func(int64) error {
		return s.letters.topics.fill(ctx, deadTopic, liveTopic, s.cfg.Rate)
	})
	s.paced(load, &all, time.Second, new(atomic.Int64), func(int64) error {
		_, err := s.letters.call(ctx, http.MethodGet, "/api/v1/sagas?page_size=20", nil)
		if err == nil {
			_, err = s.letters.call(ctx, http.MethodGet, "/api/v1/dlq/messages?page_size=20", nil)
		}
		return err
	})
	defer all.Wait()
	return s.watch(load)
}

// paced calls f at a steady rate until ctx ends, one call at a time; a late call is left
// out. done counts those that succeeded.
func (s *soak) paced(
	ctx context.Context, all *sync.WaitGroup, each time.Duration, done *atomic.Int64, f func(n int64) error,
) {
	all.Go(func() {
		next := time.NewTicker(each)
		defer next.Stop()
		for n := int64(1); ; n++ {
			select {
			case <-ctx.Done():
				return
			case <-next.C:
			}
			if err := f(n); err != nil {
				s.errors.Add(1)
				s.firstError.CompareAndSwap(nil, &err)
				continue
			}
			done.Add(1)
		}
	})
}

// watch samples the server until ctx ends, and prints a line every so often.
func (s *soak) watch(ctx context.Context) (samples []reading, err error) {
	begun := time.Now()
	next := time.NewTicker(s.cfg.Every)
	defer next.Stop()
	line := max(1, int(s.cfg.Duration/s.cfg.Every)/60)
	for n := 0; ; n++ {
		select {
		case <-ctx.Done():
			return samples, nil
		case <-next.C:
		}
		if err := s.letters.run.server.ended(); err != nil {
			return samples, err
		}
		figures, err := s.figures(ctx)
		if ctx.Err() != nil {
			return samples, nil
		}
		if err != nil {
			return samples, err
		}
		samples = append(samples, reading{time.Since(begun), figures})
		if n%line == 0 {
			fmt.Fprintf(s.cfg.Out, "%8s ", time.Since(begun).Round(time.Second))
			for i, f := range levelFigures {
				fmt.Fprintf(s.cfg.Out, " %s %.1f,", f.name, figures[i]/f.unit)
			}
			fmt.Fprintf(s.cfg.Out, " sagas %d, letters %d, runs %d, errors %d\n", s.sagas.Load(),
				s.dead.Load()*int64(s.cfg.Rate), s.runs.Load(), s.errors.Load())
		}
	}
}

func (s *soak) figures(ctx context.Context) ([]float64, error) {
	body, err := s.letters.call(ctx, http.MethodGet, "/metrics", nil)
	if err != nil {
		return nil, err
	}
	var connections float64
	if err := s.db.pool.QueryRowContext(ctx, `SELECT count(*) FROM pg_stat_activity
 WHERE datname = current_database() AND application_name LIKE 'skald%'`).Scan(&connections); err != nil {
		return nil, fmt.Errorf("count the connections: %w", err)
	}
	var figures []float64
	for _, name := range []string{"go_goroutines", "process_open_fds", "", "process_resident_memory_bytes",
		"go_memstats_next_gc_bytes"} {
		value := connections
		if name != "" {
			if value, err = metric(body, name); err != nil {
				return nil, err
			}
		}
		figures = append(figures, value)
	}
	return figures, nil
}

// metric returns the value of a metric without labels.
func metric(body []byte, name string) (float64, error) {
	for line := range strings.Lines(string(body)) {
		if text, ok := strings.CutPrefix(line, name+" "); ok {
			return strconv.ParseFloat(strings.TrimSpace(text), 64)
		}
	}
	return 0, fmt.Errorf("the metric %s is missing", name)
}

// settled returns an error unless everything that was begun has ended, and nothing is
// missing.
func (s *soak) settled(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, soakDrain)
	defer cancel()
	var open, sagas, letters, runs int64
	for {
		err := s.db.pool.QueryRowContext(ctx, `
SELECT (SELECT count(*) FROM saga.saga_states WHERE completed_at IS NULL) + (SELECT count(*) FROM jobs.job_runs WHERE state <> 'SUCCEEDED'),
       (SELECT count(*) FROM saga.saga_states), (SELECT count(*) FROM dlq.dlq_messages WHERE dlq_topic = $1),
       (SELECT count(*) FROM jobs.job_runs)`, deadTopic).Scan(&open, &sagas, &letters, &runs)
		if err != nil {
			return fmt.Errorf("count what has ended (open: %d): %w", open, err)
		}
		if open == 0 && letters >= s.dead.Load()*int64(s.cfg.Rate) {
			break
		}
		pause(ctx, time.Second)
	}
	failed := s.errors.Load()
	fmt.Fprintf(s.cfg.Out, "ended: %d sagas, %d letters stored, %d runs; failed calls: %d", sagas, letters, runs, failed)
	if first := s.firstError.Load(); first != nil {
		fmt.Fprintf(s.cfg.Out, ", the first: %v", *first)
	}
	fmt.Fprintln(s.cfg.Out)
	if sagas < s.sagas.Load() || runs < s.runs.Load() || letters < s.dead.Load()*int64(s.cfg.Rate) {
		return fmt.Errorf("LOST: not all letters, or not all of the accepted %d sagas and %d runs, are stored",
			s.sagas.Load(), s.runs.Load())
	}
	if done := s.sagas.Load() + s.runs.Load(); failed*100 > done {
		return fmt.Errorf("too many calls failed: %d, while %d succeeded", failed, done)
	}
	return nil
}
