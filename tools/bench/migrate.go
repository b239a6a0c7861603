package main

import (
	"context"
	"flag"
	"io"

	"github.com/skald-saga/skald/tools/bench/measure"
)

func migrate(ctx context.Context, args []string, out io.Writer) error {
	cfg := measure.MigrateConfig{Out: out}
	var skald string
	flags := flag.NewFlagSet("skald-bench migrate", flag.ContinueOnError)
	commonFlags(flags, &skald, &cfg.Dir, &cfg.DatabaseURL, emptyDatabase)
	flags.IntVar(&cfg.Sagas, "sagas", 10_000_000, "number of sagas to generate")
	flags.IntVar(&cfg.Letters, "letters", 100_000, "number of dead letters to generate")
	flags.IntVar(&cfg.Rounds, "rounds", 50, "how often the migrations are reverted and applied")
	flags.IntVar(&cfg.Instances, "instances", 8, "number of processes that migrate at the same time")
	flags.StringVar(&cfg.From, "from", "0180", "number of the first migration that is measured")
	if err := parse(flags, args); err != nil {
		return err
	}
	return prepared(ctx, &cfg.Dir, &cfg.DatabaseURL, func() error { return measure.Migrate(ctx, cfg) })
}
