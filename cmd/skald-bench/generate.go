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

func fill(ctx context.Context, args []string, out io.Writer) error {
	cfg := bench.GenerateConfig{Out: out}
	flags := flag.NewFlagSet("skald-bench generate", flag.ContinueOnError)
	flags.StringVar(
		&cfg.DatabaseURL,
		"database-url",
		"",
		"database to fill; it is migrated and keeps what it has (required)",
	)
	addGenerateFlags(flags, &cfg)
	if err := parse(flags, args); err != nil {
		return err
	}
	if cfg.DatabaseURL == "" {
		return errors.New("which database? Give -database-url")
	}
	return bench.Generate(ctx, cfg)
}

// addGenerateFlags adds what is asked of generated data wherever it is made.
func addGenerateFlags(flags *flag.FlagSet, cfg *bench.GenerateConfig) {
	flags.IntVar(&cfg.Sagas, "sagas", 2_000_000, "sagas to make")
	flags.IntVar(
		&cfg.LogsPerSaga,
		"logs-per-saga",
		3,
		"step logs of a saga that simply completes: how many steps the workflows have",
	)
	flags.DurationVar(&cfg.Over, "over", 90*24*time.Hour, "time over which they were created, up to now")
	addTenantFlag(flags, &cfg.Tenant, "four sagas of five")
}

// addTenantFlag adds whose most of the generated data is.
func addTenantFlag(flags *flag.FlagSet, tenant *uuid.UUID, of string) {
	flags.Func("tenant", "tenant of "+of+" (default: the server's default tenant)", func(text string) (err error) {
		if *tenant, err = uuid.Parse(text); err != nil {
			return fmt.Errorf("want a UUID: %w", err)
		}
		return nil
	})
}
