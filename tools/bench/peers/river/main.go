// Command river lets River work off jobs for `make bench-peers`, in its own process, and prints how long it took.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"os"
	"strings"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/riverqueue/river"
	"github.com/riverqueue/river/riverdriver/riverpgxv5"
	"github.com/riverqueue/river/rivermigrate"
)

func main() {
	var cfg config
	flag.StringVar(&cfg.database, "database-url", "", "database URL for River; its tables are created")
	flag.StringVar(&cfg.call, "call", "", "URL that each job calls; if empty, jobs do nothing")
	flag.IntVar(&cfg.jobs, "jobs", 10_000, "number of jobs to process")
	flag.IntVar(&cfg.workers, "workers", 100, "number of jobs that run at the same time")
	flag.DurationVar(&cfg.cooldown, "fetch-cooldown", river.FetchCooldownDefault, "minimum time between two fetches")
	flag.Parse()
	took, err := run(context.Background(), cfg)
	if err != nil {
		fmt.Fprintln(os.Stderr, "river:", err)
		os.Exit(1)
	}
	_ = json.NewEncoder(os.Stdout).Encode(map[string]any{"jobs": cfg.jobs, "seconds": took.Seconds()})
}

type config struct {
	database, call string
	jobs, workers  int
	cooldown       time.Duration
}

// args are like those of the runs that Skald is measured with.
type args struct {
	Order    int    `json:"order"`
	Customer string `json:"customer"`
}

func (args) Kind() string { return "bench" }

type worker struct {
	river.WorkerDefaults[args]
	call   string
	client *http.Client
	done   atomic.Int64
	last   chan struct{}
	jobs   int64
}

func (w *worker) Work(ctx context.Context, job *river.Job[args]) error {
	if w.call != "" {
		if err := w.post(ctx, job.Args); err != nil {
			return err
		}
	}
	if w.done.Add(1) == w.jobs {
		close(w.last)
	}
	return nil
}

func (w *worker) post(ctx context.Context, order args) error {
	body := fmt.Sprintf(`{"order_id":"%036d"}`, order.Order)
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, w.call, strings.NewReader(body))
	if err != nil {
		return err
	}
	response, err := w.client.Do(request)
	if err != nil {
		return err
	}
	_, err = io.Copy(io.Discard, response.Body)
	if err = errors.Join(err, response.Body.Close()); err != nil {
		return err
	}
	if response.StatusCode != http.StatusOK {
		return fmt.Errorf("status %d", response.StatusCode)
	}
	return nil
}

// run stores the jobs, and returns the time from River's start until all of them are stored as completed.
func run(ctx context.Context, cfg config) (time.Duration, error) {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Minute)
	defer cancel()
	pool, err := pgxpool.New(ctx, cfg.database)
	if err != nil {
		return 0, err
	}
	defer pool.Close()
	driver := riverpgxv5.New(pool)
	migrator, err := rivermigrate.New(driver, nil)
	if err != nil {
		return 0, err
	}
	if _, err := migrator.Migrate(ctx, rivermigrate.DirectionUp, nil); err != nil {
		return 0, err
	}
	if _, err := pool.Exec(ctx, `TRUNCATE river_job`); err != nil {
		return 0, err
	}
	w := &worker{
		call: cfg.call, jobs: int64(cfg.jobs), last: make(chan struct{}),
		client: &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: cfg.workers}},
	}
	workers := river.NewWorkers()
	river.AddWorker(workers, w)
	client, err := river.NewClient(driver, &river.Config{
		Logger:        slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelError})),
		Queues:        map[string]river.QueueConfig{river.QueueDefault: {MaxWorkers: cfg.workers}},
		FetchCooldown: cfg.cooldown,
		Workers:       workers,
	})
	if err != nil {
		return 0, err
	}
	if err := insert(ctx, client, cfg.jobs); err != nil {
		return 0, err
	}
	if _, err := pool.Exec(ctx, `ANALYZE river_job`); err != nil {
		return 0, err
	}
	begun := time.Now()
	if err := client.Start(ctx); err != nil {
		return 0, err
	}
	select {
	case <-w.last:
	case <-ctx.Done():
		return 0, fmt.Errorf("only %d of %d jobs were processed: %w", w.done.Load(), cfg.jobs, ctx.Err())
	}
	// Stop returns when the completer has stored the last results.
	if err := client.Stop(ctx); err != nil {
		return 0, err
	}
	took := time.Since(begun)
	var completed int
	err = pool.QueryRow(ctx, `SELECT count(*) FROM river_job WHERE state = 'completed' AND attempt = 1`).Scan(&completed)
	if err == nil && completed != cfg.jobs {
		err = fmt.Errorf("%d of %d jobs were completed on their first attempt", completed, cfg.jobs)
	}
	return took, err
}

func insert(ctx context.Context, client *river.Client[pgx.Tx], jobs int) error {
	const chunk = 1000
	for from := 0; from < jobs; from += chunk {
		var many []river.InsertManyParams
		for i := from; i < min(from+chunk, jobs); i++ {
			many = append(many, river.InsertManyParams{Args: args{Order: i, Customer: fmt.Sprint("c-", i%1000)}})
		}
		if _, err := client.InsertManyFast(ctx, many); err != nil {
			return err
		}
	}
	return nil
}
