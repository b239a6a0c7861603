package main

import (
	"context"
	"errors"
	"flag"
	"io"
	"time"

	"github.com/skald-saga/skald/tools/bench/measure"
)

func fillLetters(ctx context.Context, args []string, out io.Writer) error {
	cfg := measure.LettersConfig{Out: out}
	flags := flag.NewFlagSet("skald-bench generate-letters", flag.ContinueOnError)
	flags.StringVar(
		&cfg.DatabaseURL,
		"database-url",
		"",
		"URL of the database to fill; it is migrated, and its existing data is kept (required)",
	)
	addLettersFlags(flags, &cfg)
	if err := parse(flags, args); err != nil {
		return err
	}
	if cfg.DatabaseURL == "" {
		return errors.New("-database-url is required")
	}
	return measure.GenerateLetters(ctx, cfg)
}

// addLettersFlags adds the flags of every command that generates letters.
func addLettersFlags(flags *flag.FlagSet, cfg *measure.LettersConfig) {
	flags.IntVar(&cfg.Letters, "letters", 1_000_000, "number of dead letters to generate")
	flags.DurationVar(&cfg.Over, "over", 90*24*time.Hour, "period, ending now, over which the arrival times of the letters are spread")
	addTenantFlag(flags, &cfg.Tenant, "nine out of ten letters")
}

func readLetters(ctx context.Context, args []string, out io.Writer) error {
	cfg := measure.LettersReadConfig{Out: out}
	flags := flag.NewFlagSet("skald-bench read-letters", flag.ContinueOnError)
	commonFlags(flags, &cfg.Skald, &cfg.Dir, &cfg.Data.DatabaseURL, keptDatabase)
	flags.IntVar(&cfg.Samples, "samples", 20, "how often each query is sent")
	flags.IntVar(&cfg.Depth, "depth", 20_000, "number of rows before a deep cursor")
	addLettersFlags(flags, &cfg.Data)
	if err := parse(flags, args); err != nil {
		return err
	}
	return prepared(ctx, &cfg.Dir, &cfg.Data.DatabaseURL, func() error { return measure.ReadLetters(ctx, cfg) })
}
