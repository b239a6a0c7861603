package main

import (
	"context"
	"errors"
	"flag"
	"io"

	"github.com/skald-saga/skald/internal/bench"
)

func read(ctx context.Context, args []string, out io.Writer) (err error) {
	cfg := bench.ReadConfig{Out: out}
	flags := flag.NewFlagSet("skald-bench read", flag.ContinueOnError)
	flags.StringVar(&cfg.Skald, "skald", "./bin/skald", "server binary to measure")
	flags.StringVar(&cfg.Data.DatabaseURL, "database-url", "", "database to use; it keeps what is written to it (default: a private PostgreSQL for this run)")
	flags.StringVar(&cfg.Dir, "dir", "", "directory for the private PostgreSQL and the server's log, kept (default: a temporary one, removed)")
	flags.IntVar(&cfg.Samples, "samples", 20, "how often each question is asked")
	flags.IntVar(&cfg.Depth, "depth", 20_000, "rows before a deep cursor")
	addGenerateFlags(flags, &cfg.Data)
	if err := parse(flags, args); err != nil {
		return err
	}
	dir, remove, err := runDir(cfg.Dir)
	if err != nil {
		return err
	}
	cfg.Dir = dir
	defer func() { err = errors.Join(err, remove()) }()
	if cfg.Data.DatabaseURL == "" {
		url, stop, err := privateDatabase(ctx, dir)
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, stop()) }()
		cfg.Data.DatabaseURL = url
	}
	return bench.Read(ctx, cfg)
}
