package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/skald-saga/skald/tools/bench/measure"
)

func letters(ctx context.Context, args []string, out io.Writer) (err error) {
	cfg := measure.DLQConfig{Out: out}
	flags := flag.NewFlagSet("skald-bench dlq", flag.ContinueOnError)
	commonFlags(flags, &cfg.Skald, &cfg.Dir, &cfg.DatabaseURL, emptyDatabase)
	flags.IntVar(&cfg.Records, "records", 400_000, "small records to ingest")
	flags.IntVar(&cfg.Redriven, "redriven", 100_000, "letters to redrive")
	flags.IntVar(&cfg.Large, "large", 200, "records of 10 MB to ingest and redrive")
	flags.Func(
		"brokers",
		"host:port of a Kafka cluster without topics named bench.* (default: a fake broker)",
		func(text string) error {
			cfg.Brokers = strings.Split(text, ",")
			return nil
		},
	)
	serverEnvFlag(flags, &cfg.ServerEnv)
	if err := parse(flags, args); err != nil {
		return err
	}
	if cfg.Self, err = os.Executable(); err != nil {
		return fmt.Errorf("find the path of this program: %w", err)
	}
	return prepared(ctx, &cfg.Dir, &cfg.DatabaseURL, func() error { return measure.DLQ(ctx, cfg) })
}
