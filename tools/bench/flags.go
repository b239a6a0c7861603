package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/skald-saga/skald/tools/bench/measure"
)

// addGenerateFlags adds the flags of every command that generates data.
func addGenerateFlags(flags *flag.FlagSet, cfg *measure.GenerateConfig) {
	flags.IntVar(&cfg.Sagas, "sagas", 2_000_000, "number of sagas to generate")
	flags.IntVar(
		&cfg.LogsPerSaga,
		"logs-per-saga",
		3,
		"number of steps of the workflows, and so of step logs of a saga that completes",
	)
	flags.DurationVar(&cfg.Over, "over", 90*24*time.Hour, "period, ending now, over which the creation times of the sagas are spread")
	flags.BoolVar(&cfg.WithoutLogs, "without-logs", false, "generate no step logs")
	addTenantFlag(flags, &cfg.Tenant, "four out of five sagas")
}

// addTenantFlag adds the flag for the tenant that most of the generated data belongs
// to.
func addTenantFlag(flags *flag.FlagSet, tenant *uuid.UUID, of string) {
	flags.Func("tenant", "tenant of "+of+" (default: the server's default tenant)", func(text string) (err error) {
		if *tenant, err = uuid.Parse(text); err != nil {
			return fmt.Errorf("must be a UUID: %w", err)
		}
		return nil
	})
}

// parse is flags.Parse and refuses positional arguments, which flag would ignore.
func parse(flags *flag.FlagSet, args []string) error {
	if err := flags.Parse(args); err != nil {
		return err
	}
	if flags.NArg() > 0 {
		return fmt.Errorf("unexpected argument %q", flags.Arg(0))
	}
	return nil
}

// commonFlags adds the flags of every measurement: the binary, the directory of its
// servers' files, and the database.
func commonFlags(flags *flag.FlagSet, skald, dir, url *string, database string) {
	flags.StringVar(skald, "skald", "./bin/skald", "server binary to measure")
	flags.StringVar(url, "database-url", "", database)
	flags.StringVar(dir, "dir", "",
		"directory for the private PostgreSQL and the servers' logs, which is kept (default: a temporary one, which is removed)")
}

// Descriptions of the flag for a measurement's database.
const (
	emptyDatabase = "URL of an empty, durable database (default: a private one)"
	keptDatabase  = "URL of the database to use, which keeps the generated data (default: a private PostgreSQL for this run)"
)

// serverEnvFlag adds settings of the measured servers.
func serverEnvFlag(flags *flag.FlagSet, env *[]string) {
	flags.Func("server-env", "environment variable KEY=VALUE for the server; may be repeated", func(pair string) error {
		if !strings.Contains(pair, "=") {
			return errors.New("must be KEY=VALUE")
		}
		*env = append(*env, pair)
		return nil
	})
}

// prepared runs measure in a directory and on a database; it creates and fills in those
// that are not named.
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

func isComma(r rune) bool { return r == ',' }
