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

func soak(ctx context.Context, args []string, out io.Writer) (err error) {
	cfg := measure.SoakConfig{Out: out}
	flags := flag.NewFlagSet("skald-bench soak", flag.ContinueOnError)
	commonFlags(flags, &cfg.Skald, &cfg.Dir, &cfg.DatabaseURL, emptyDatabase)
	flags.DurationVar(&cfg.Duration, "duration", 30*time.Minute, "how long the load lasts")
	flags.DurationVar(&cfg.Every, "every", 5*time.Second, "time between two samples")
	flags.IntVar(&cfg.Rate, "rate", 20, "sagas, dead letters and job runs per second, each")
	serverEnvFlag(flags, &cfg.ServerEnv)
	if err := parse(flags, args); err != nil {
		return err
	}
	if cfg.Self, err = os.Executable(); err != nil {
		return fmt.Errorf("find the path of this program: %w", err)
	}
	return prepared(ctx, &cfg.Dir, &cfg.DatabaseURL, func() error { return measure.Soak(ctx, cfg) })
}
