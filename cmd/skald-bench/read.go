package main

import (
	"context"
	"errors"
	"flag"
	"io"

	"github.com/skald-saga/skald/internal/bench"
)

func read(ctx context.Context, args []string, out io.Writer) error {
	cfg := bench.ReadConfig{Out: out}
	flags := flag.NewFlagSet("skald-bench read", flag.ContinueOnError)
	commonFlags(flags, &cfg.Skald, &cfg.Dir, &cfg.Data.DatabaseURL, keptDatabase)
	flags.IntVar(&cfg.Samples, "samples", 20, "how often each question is asked")
	flags.IntVar(&cfg.Depth, "depth", 20_000, "rows before a deep cursor")
	addGenerateFlags(flags, &cfg.Data)
	if err := parse(flags, args); err != nil {
		return err
	}
	return prepared(ctx, &cfg.Dir, &cfg.Data.DatabaseURL, func() error { return bench.Read(ctx, cfg) })
}

// prepared runs a measurement in a directory and on a database, which are made
// for it, and filled in, where none is named.
func prepared(ctx context.Context, dir, url *string, measure func() error) (err error) {
	made, remove, err := runDir(*dir)
	if err != nil {
		return err
	}
	*dir = made
	defer func() { err = errors.Join(err, remove()) }()
	if *url == "" {
		private, stop, err := privateDatabase(ctx, made)
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, stop()) }()
		*url = private
	}
	return measure()
}
