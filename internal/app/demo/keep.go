package demo

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"time"

	"github.com/skald-saga/skald/internal/config"
	"github.com/skald-saga/skald/internal/httpapi"
	"github.com/skald-saga/skald/internal/loop"
)

// KeepConfig configures a demo that is kept running.
type KeepConfig struct {
	Skald   config.Config // as `serve` would use it; without a configured database it gets one of its own
	Scale   float64       // amount of data: 1 is 3,000 letters
	Dir     string        // directory of the private database, which is deleted at the end
	Version httpapi.Version
	Out     io.Writer
	Log     *slog.Logger
	// Ready is called with the URLs of the server and of the participants once everything is there. Optional.
	Ready func(url, participants string)
}

// filler fills a server.
type filler struct {
	server
	services *services
	scale    float64
}

// scaled returns n at the demo's scale, large enough for each group to have one.
func (f *filler) scaled(n int) int { return max(48, int(float64(n)*f.scale)) }

// Keep runs a server with something in every state, for people to explore and operate, until ctx
// ends. Some of it is active: orders arrive, a job runs every ten seconds, a redrive continues.
func Keep(ctx context.Context, cfg KeepConfig) (err error) {
	services, closeServices, err := openServices(cfg.Log)
	if err != nil {
		return fmt.Errorf("participants: %w", err)
	}
	defer closeServices()
	if cfg.Skald.Database.Embedded() {
		if err := os.MkdirAll(cfg.Dir, 0o755); err != nil {
			return err
		}
		dir, err := os.MkdirTemp(cfg.Dir, "kept-")
		if err != nil {
			return err
		}
		defer func() { _ = os.RemoveAll(dir) }() // the rest is in the temporary directory
		cfg.Skald.Database.EmbeddedDir = filepath.Join(dir, "postgres")
	}
	cfg.Skald.Engine.DrainTimeout = time.Second // its participants end with it
	// The server outlives ctx, so that its worker can report when it stops.
	url, stop, err := startSkald(context.WithoutCancel(ctx), Config{Skald: cfg.Skald, Version: cfg.Version, Log: cfg.Log},
		cfg.Skald.Server.ListenAddr)
	if err != nil {
		return err
	}
	defer func() {
		closeServices() // before the server, which would wait for slow answers
		err = errors.Join(err, stop())
	}()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	worked := make(chan error, 1)
	go func() { worked <- work(ctx, url, cfg.Log) }()
	defer func() { cancel(); err = errors.Join(err, <-worked) }()

	f := &filler{server{url}, services, cfg.Scale}
	for _, fill := range []func(context.Context) error{f.fillSagas, f.fillLetters, f.fillJobs} {
		if err := fill(ctx); err != nil {
			if ctx.Err() != nil {
				return nil
			}
			return fmt.Errorf("fill the server: %w", err)
		}
	}
	fmt.Fprintf(cfg.Out, `Skald         %s/ui/
manual        %s/docs/
participants  %s; make one misbehave with
              curl -X PUT -d down %s/manners/stock/reserve
              (ok, refuse, down, flaky or slow)
Ctrl-C ends the demo and deletes its data.
`, url, url, services.url, services.url)
	if cfg.Ready != nil {
		cfg.Ready(url, services.url)
	}
	return f.move(ctx)
}

// move starts an order every three seconds; every tenth cannot be closed and is compensated.
func (f *filler) move(ctx context.Context) error {
	for n := 1000; loop.Sleep(ctx, 3*time.Second); n++ {
		err := f.order(ctx, n)
		if n%10 == 0 {
			err = f.post(ctx, "/sagas", object{"workflow_name": "refund", "business_key": fmt.Sprintf("refund-%d", n),
				"payload": object{"charge": n}})
		}
		if err != nil && ctx.Err() == nil {
			return err
		}
	}
	return nil
}
