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
		"database to fill; it is migrated and keeps what it has (required)",
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
	flags.IntVar(&cfg.Letters, "letters", 1_000_000, "dead letters to make")
	flags.DurationVar(&cfg.Over, "over", 90*24*time.Hour, "time over which they came, up to now")
	addTenantFlag(flags, &cfg.Tenant, "nine letters of ten")
}

func readLetters(ctx context.Context, args []string, out io.Writer) error {
	cfg := measure.LettersReadConfig{Out: out}
	flags := flag.NewFlagSet("skald-bench read-letters", flag.ContinueOnError)
	commonFlags(flags, &cfg.Skald, &cfg.Dir, &cfg.Data.DatabaseURL, keptDatabase)
	flags.IntVar(&cfg.Samples, "samples", 20, "how often each question is asked")
	flags.IntVar(&cfg.Depth, "depth", 20_000, "rows before a deep cursor")
	addLettersFlags(flags, &cfg.Data)
	if err := parse(flags, args); err != nil {
		return err
	}
	return prepared(ctx, &cfg.Dir, &cfg.Data.DatabaseURL, func() error { return measure.ReadLetters(ctx, cfg) })
}
