package main

import (
	"context"
	"flag"
	"io"

	"github.com/skald-saga/skald/tools/bench/measure"
)

func jobs(ctx context.Context, args []string, out io.Writer) error {
	cfg := measure.JobsConfig{Out: out}
	flags := flag.NewFlagSet("skald-bench jobs", flag.ContinueOnError)
	commonFlags(flags, &cfg.Skald, &cfg.Dir, &cfg.DatabaseURL, emptyDatabase)
	flags.IntVar(&cfg.Runs, "runs", 100_000, "runs to process in batches of 100")
	flags.IntVar(&cfg.Singles, "singles", 15_000, "runs to process one by one")
	flags.IntVar(&cfg.Probes, "probes", 500, "runs to request, one after the other, while a worker is waiting for them")
	flags.IntVar(&cfg.Due, "due", 100_000, "definitions that are due in the same minute")
	flags.BoolVar(&cfg.Takeover, "takeover", true, "kill the leader and measure how soon another node takes over")
	serverEnvFlag(flags, &cfg.ServerEnv)
	if err := parse(flags, args); err != nil {
		return err
	}
	return prepared(ctx, &cfg.Dir, &cfg.DatabaseURL, func() error { return measure.Jobs(ctx, cfg) })
}
