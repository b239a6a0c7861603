package worker

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/skald-saga/skald/internal/strictjson/plaintext"
)

// Config configures a Worker. URL is required.
type Config struct {
	// URL is Skald's base URL, such as https://skald.example.
	URL string
	// Credential is an API key or JWT with the permission jobs:work, preferably of the role worker.
	// It may be "" in development mode. Emitting events and runs also requires jobs:write.
	Credential string
	// Client makes the requests. nil means a client with suitable limits. Its timeout, if it has
	// one, must be longer than Poll.
	Client *http.Client
	Name   string            // for people; "" means the name of the executable
	Labels map[string]string // labels that runs may require
	Queues []string          // nil means the queue "default"
	// Concurrency is how many runs are executed at once, 1 to 1000; 0 means 10. The server may
	// allow fewer.
	Concurrency int
	// Poll is how long a claim waits for runs, at most 30 s; 0 means 20 s.
	Poll time.Duration
	// Drain is how long handlers may continue after Run's context has ended or the worker was
	// detached. After that, their contexts end and their runs are released. 0 means 20 s; a
	// negative value ends them immediately.
	Drain time.Duration
	// ReportFor is how long the report of a result is repeated after the run's lease has ended,
	// while the server does not answer; 0 means 2 min.
	ReportFor time.Duration
	Log       *slog.Logger // nil disables logging
}

// Handler executes one run. Its result is encoded as JSON and becomes the run's result; an error
// makes the run FAILED (see Failure). It must return soon after ctx has ended.
type Handler func(ctx context.Context, r *Run) (result any, err error)

// Reasons why a handler's context ended (context.Cause).
var (
	ErrCanceled  = errors.New("worker: cancellation of the run was requested")
	ErrLost      = errors.New("worker: the run no longer belongs to this worker")
	ErrLeaseOver = errors.New("worker: the lease of the run has ended, and the server could not be reached")
	ErrTimedOut  = errors.New("worker: the run has taken longer than its definition allows")
	ErrStopping  = errors.New("worker: the process is stopping, or the worker was detached")
)

// Worker runs jobs. Create one with New, add handlers, and call Run.
type Worker struct {
	cfg      Config
	api      *client
	handlers map[string]Handler
	reports  chan *report

	mu    sync.Mutex
	epoch int64     // guarded by mu: the newest leader epoch under which runs were assigned
	older time.Time // guarded by mu: when the server last turned out not to support the exchange; zero means never
}

// New returns a worker, or an error if cfg is invalid. It sends nothing; Run does.
func New(cfg Config) (*Worker, error) {
	if !strings.HasPrefix(cfg.URL, "http://") && !strings.HasPrefix(cfg.URL, "https://") {
		return nil, fmt.Errorf("worker: URL %q is not http:// or https://", cfg.URL)
	}
	if cfg.Concurrency == 0 {
		cfg.Concurrency = 10
	}
	if cfg.Concurrency < 1 || cfg.Concurrency > 1000 {
		return nil, fmt.Errorf("worker: Concurrency must be from 1 to 1000, not %d", cfg.Concurrency)
	}
	if cfg.Name == "" {
		cfg.Name = "worker"
		if exe, err := os.Executable(); err == nil {
			cfg.Name = exe[strings.LastIndexByte(exe, '/')+1:]
		}
	}
	orDuration(&cfg.Poll, 20*time.Second)
	cfg.Poll = min(cfg.Poll, 30*time.Second)
	orDuration(&cfg.Drain, 20*time.Second)
	orDuration(&cfg.ReportFor, 2*time.Minute)
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	if cfg.Client == nil {
		t := http.DefaultTransport.(*http.Transport).Clone()
		t.MaxIdleConnsPerHost = 100
		cfg.Client = &http.Client{Transport: t}
	}
	return &Worker{
		cfg: cfg, api: &client{strings.TrimSuffix(cfg.URL, "/"), cfg.Credential, cfg.Client}, handlers: map[string]Handler{},
		reports: make(chan *report),
	}, nil
}

func orDuration(d *time.Duration, def time.Duration) {
	if *d == 0 {
		*d = def
	}
}

// Handle sets the handler of a command. Call it before Run.
func (w *Worker) Handle(command string, h Handler) { w.handlers[command] = h }

// Run claims and executes runs until ctx ends. Then it drains: it claims nothing more, handlers may
// finish within Config.Drain, and unfinished runs are released. After that it returns nil. It
// returns an error only if it cannot work at all, because there are no handlers, or because the
// server refuses its credential or its registration. A detached worker drains as well, and then
// registers under a new id.
func (w *Worker) Run(ctx context.Context) error {
	if len(w.handlers) == 0 {
		return errors.New("worker: there are no handlers")
	}
	background, stop := context.WithCancel(context.WithoutCancel(ctx))
	var reporting sync.WaitGroup
	reporting.Go(func() { w.report(background) })
	defer reporting.Wait()
	defer stop()
	for ctx.Err() == nil {
		s, err := w.register(ctx)
		if err != nil {
			if ctx.Err() != nil {
				return nil
			}
			return err
		}
		w.cfg.Log.Info("worker registered", slog.String("worker_id", s.id))
		s.work(ctx)
	}
	return nil
}

// register registers the process under a new id. It retries until it succeeds, is refused, or ctx
// ends.
func (w *Worker) register(ctx context.Context) (*session, error) {
	commands := make([]string, 0, len(w.handlers))
	for c := range w.handlers {
		commands = append(commands, c)
	}
	slices.Sort(commands)
	host, _ := os.Hostname()
	body := map[string]any{
		"name":     plaintext.Text(w.cfg.Name, plaintext.Characters(maxName)),
		"node":     plaintext.Text(host, plaintext.Characters(maxName)),
		"pid":      os.Getpid(),
		"sdk":      "skald-go",
		"version":  "1",
		"labels":   w.cfg.Labels,
		"commands": commands, "max_runs": w.cfg.Concurrency,
	}
	if w.cfg.Labels == nil {
		delete(body, "labels")
	}
	if w.cfg.Queues != nil {
		body["queues"] = w.cfg.Queues
	}
	var answer registration
	for pause := newPause(); ; {
		err := w.api.post(ctx, 15*time.Second, "/api/v1/workers", body, &answer)
		if err == nil {
			return newSession(w, answer), nil
		}
		if !unknown(err) {
			return nil, fmt.Errorf("register the worker: %w", err)
		}
		w.cfg.Log.Warn("registering failed", slog.Any("error", err))
		if err := pause.wait(ctx); err != nil {
			return nil, err
		}
	}
}

// pause is the delay between attempts. It doubles up to five seconds, with jitter.
type pause struct{ next time.Duration }

func newPause() *pause { return &pause{100 * time.Millisecond} }

func (p *pause) wait(ctx context.Context) error {
	d := p.next/2 + time.Duration(chance()*float64(p.next/2))
	p.next = min(2*p.next, 5*time.Second)
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-timer.C:
		return nil
	}
}

// chance returns a random number in [0,1).
func chance() float64 {
	var b [2]byte
	_, _ = rand.Read(b[:])
	return float64(int(b[0])<<8|int(b[1])) / 65536
}
