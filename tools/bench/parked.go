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

func parked(ctx context.Context, args []string, out io.Writer) (err error) {
	cfg := measure.ParkedConfig{Out: out}
	flags := flag.NewFlagSet("skald-bench parked", flag.ContinueOnError)
	commonFlags(flags, &cfg.Skald, &cfg.Dir, &cfg.DatabaseURL, emptyDatabase)
	flags.IntVar(&cfg.Sagas, "sagas", 1_000_000, "number of sagas that wait at the gate of a participant")
	flags.DurationVar(&cfg.Window, "window", 15*time.Second, "how long the server is observed, before and during the release")
	flags.IntVar(&cfg.Rate, "rate", 100, "number of calls per second that are released")
	serverEnvFlag(flags, &cfg.ServerEnv)
	if err := parse(flags, args); err != nil {
		return err
	}
	if cfg.Self, err = os.Executable(); err != nil {
		return fmt.Errorf("find the path of this program: %w", err)
	}
	return prepared(ctx, &cfg.Dir, &cfg.DatabaseURL, func() error { return measure.Parked(ctx, cfg) })
}
