package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/skald-saga/skald/tools/bench/measure"
)

func xmin(ctx context.Context, args []string, out io.Writer) (err error) {
	cfg := measure.XminConfig{Out: out}
	flags := flag.NewFlagSet("skald-bench xmin", flag.ContinueOnError)
	commonFlags(flags, &cfg.Skald, &cfg.Dir, &cfg.DatabaseURL, emptyDatabase)
	flags.DurationVar(&cfg.Held, "held", 2*time.Minute, "how long the snapshot is held")
	flags.DurationVar(&cfg.Window, "window", 30*time.Second, "how long to measure before the snapshot is taken, and again at the end")
	flags.IntVar(&cfg.Clients, "clients", 8, "number of clients that wait for sagas, and number of workers")
	serverEnvFlag(flags, &cfg.ServerEnv)
	if err := parse(flags, args); err != nil {
		return err
	}
	if cfg.Self, err = os.Executable(); err != nil {
		return fmt.Errorf("find the path of this program: %w", err)
	}
	return prepared(ctx, &cfg.Dir, &cfg.DatabaseURL, func() error { return measure.Xmin(ctx, cfg) })
}
