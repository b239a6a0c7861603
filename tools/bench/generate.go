package main

import (
	"context"
	"errors"
	"flag"
	"io"

	"github.com/skald-saga/skald/tools/bench/measure"
)

func fill(ctx context.Context, args []string, out io.Writer) error {
	cfg := measure.GenerateConfig{Out: out}
	flags := flag.NewFlagSet("skald-bench generate", flag.ContinueOnError)
	flags.StringVar(
		&cfg.DatabaseURL,
		"database-url",
		"",
		"URL of the database to fill; it is migrated, and its existing data is kept (required)",
	)
	addGenerateFlags(flags, &cfg)
	if err := parse(flags, args); err != nil {
		return err
	}
	if cfg.DatabaseURL == "" {
		return errors.New("-database-url is required")
	}
	return measure.Generate(ctx, cfg)
}
