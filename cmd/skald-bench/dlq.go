package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/skald-saga/skald/internal/bench"
)

func letters(ctx context.Context, args []string, out io.Writer) (err error) {
	cfg := bench.DLQConfig{Out: out}
	flags := flag.NewFlagSet("skald-bench dlq", flag.ContinueOnError)
	flags.StringVar(&cfg.Skald, "skald", "./bin/skald", "server binary to measure")
	flags.StringVar(
		&cfg.Dir,
		"dir",
		"",
		"directory for the private PostgreSQL and the server's log, kept (default: a temporary one, removed)",
	)
	flags.StringVar(&cfg.DatabaseURL, "database-url", "", "an empty, durable database (default: a private one)")
	flags.IntVar(&cfg.Records, "records", 400_000, "small records to ingest")
	flags.IntVar(&cfg.Redriven, "redriven", 100_000, "letters to drive back")
	flags.IntVar(&cfg.Large, "large", 200, "records of 10 MB")
	flags.Func(
		"brokers",
		"host:port of a Kafka in which the topics bench.* do not exist (default: a fake one)",
		func(text string) error {
			cfg.Brokers = strings.Split(text, ",")
			return nil
		},
	)
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
	if cfg.Self, err = os.Executable(); err != nil {
		return fmt.Errorf("find the running program: %w", err)
	}
	return prepared(ctx, &cfg.Dir, &cfg.DatabaseURL, func() error { return bench.DLQ(ctx, cfg) })
}
