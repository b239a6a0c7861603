package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"time"

	"github.com/google/uuid"

	"github.com/skald-saga/skald/internal/bench"
)

func fillLetters(ctx context.Context, args []string, out io.Writer) error {
	cfg := bench.LettersConfig{Out: out}
	flags := flag.NewFlagSet("skald-bench generate-letters", flag.ContinueOnError)
	flags.StringVar(&cfg.DatabaseURL, "database-url", "", "database to fill; it is migrated and keeps what it has (required)")
	addLettersFlags(flags, &cfg)
	if err := parse(flags, args); err != nil {
		return err
	}
	if cfg.DatabaseURL == "" {
		return errors.New("which database? Give -database-url")
	}
	return bench.GenerateLetters(ctx, cfg)
}

// addLettersFlags adds what is asked of generated letters wherever they are made.
func addLettersFlags(flags *flag.FlagSet, cfg *bench.LettersConfig) {
	flags.IntVar(&cfg.Letters, "letters", 1_000_000, "dead letters to make")
	flags.DurationVar(&cfg.Over, "over", 90*24*time.Hour, "time over which they came, up to now")
	flags.Func("tenant", "tenant of nine letters of ten (default: the server's default tenant)", func(text string) (err error) {
		if cfg.Tenant, err = uuid.Parse(text); err != nil {
			return fmt.Errorf("want a UUID: %w", err)
		}
		return nil
	})
}
