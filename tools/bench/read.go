package main

import (
	"context"
	"flag"
	"io"

	"github.com/skald-saga/skald/tools/bench/measure"
)

func read(ctx context.Context, args []string, out io.Writer) error {
	cfg := measure.ReadConfig{Out: out}
	flags := flag.NewFlagSet("skald-bench read", flag.ContinueOnError)
	commonFlags(flags, &cfg.Skald, &cfg.Dir, &cfg.Data.DatabaseURL, keptDatabase)
	flags.IntVar(&cfg.Samples, "samples", 20, "how often each query is sent")
	flags.IntVar(&cfg.Depth, "depth", 20_000, "number of rows before a deep cursor")
	addGenerateFlags(flags, &cfg.Data)
	if err := parse(flags, args); err != nil {
		return err
	}
	return prepared(ctx, &cfg.Dir, &cfg.Data.DatabaseURL, func() error { return measure.Read(ctx, cfg) })
}
