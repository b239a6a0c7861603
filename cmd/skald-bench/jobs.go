package main

import (
	"context"
	"errors"
	"flag"
	"io"
	"strings"

	"github.com/skald-saga/skald/internal/bench"
)

func jobs(ctx context.Context, args []string, out io.Writer) error {
	cfg := bench.JobsConfig{Out: out}
	flags := flag.NewFlagSet("skald-bench jobs", flag.ContinueOnError)
	flags.StringVar(&cfg.Skald, "skald", "./bin/skald", "server binary to measure")
	flags.StringVar(
		&cfg.Dir,
		"dir",
		"",
		"directory for the private PostgreSQL and the servers' logs, kept (default: a temporary one, removed)",
	)
	flags.StringVar(&cfg.DatabaseURL, "database-url", "", "an empty, durable database (default: a private one)")
	flags.IntVar(&cfg.Runs, "runs", 100_000, "runs to take in batches of 100")
	flags.IntVar(&cfg.Singles, "singles", 15_000, "runs to take one by one")
	flags.IntVar(&cfg.Probes, "probes", 500, "runs that a waiting worker gets, one after the other")
	flags.IntVar(&cfg.Due, "due", 100_000, "definitions that are due in the same minute")
	flags.BoolVar(&cfg.Takeover, "takeover", true, "kill the leader and see how soon another node leads")
	flags.Func("server-env", "KEY=VALUE for the server's environment; may be repeated", func(pair string) error {
		if !strings.Contains(pair, "=") {
			return errors.New("want KEY=VALUE")
		}
		cfg.ServerEnv = append(cfg.ServerEnv, pair)
		return nil
	})
	if err := parse(flags, args); err != nil {
		return err
	}
	return prepared(ctx, &cfg.Dir, &cfg.DatabaseURL, func() error { return bench.Jobs(ctx, cfg) })
}
