package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/skald-saga/skald/tools/bench/measure"
)

// scaling measures how the cost of a saga grows. Each size of the table has a database of its own, in a
// PostgreSQL of its own, so that the sizes can be measured in turns.
func scaling(ctx context.Context, args []string, out io.Writer) (err error) {
	cfg := measure.ScalingConfig{Out: out}
	var dir string
	flags := flag.NewFlagSet("skald-bench scaling", flag.ContinueOnError)
	flags.StringVar(&cfg.Skald, "skald", "./bin/skald", "server binary to measure")
	flags.StringVar(&dir, "dir", "",
		"directory for the databases and the servers' logs, which is kept (default: a temporary one, which is removed)")
	flags.IntVar(&cfg.Rounds, "rounds", 3, "how often each point is measured; the median is reported")
	flags.DurationVar(&cfg.Duration, "duration", 4*time.Second, "how long sagas are created at each point")
	for _, s := range []struct {
		to                  *[]int
		name, values, usage string
	}{
		{&cfg.Steps, "steps", "1,3,10,30,100", "numbers of steps of a saga"},
		{&cfg.Payloads, "payloads", "100,1000,10000,100000,1000000", "sizes of the payload in bytes, at least 100"},
		{&cfg.InFlight, "in-flight", "1,16,100,1000,5000", "numbers of sagas in flight at the same time"},
		{&cfg.Stored, "stored", "0,1000000", "numbers of sagas that are already in the tables, with three step logs each"},
	} {
		if *s.to, err = numbers(s.values); err != nil {
			return err
		}
		flags.Func(s.name, s.usage+", separated by commas (default "+s.values+")", func(text string) (err error) {
			*s.to, err = numbers(text)
			return err
		})
	}
	serverEnvFlag(flags, &cfg.ServerEnv)
	if err := errors.Join(parse(flags, args), cfg.Validate()); err != nil {
		return err
	}
	if cfg.Self, err = os.Executable(); err != nil {
		return fmt.Errorf("find the path of this program: %w", err)
	}
	dir, remove, err := runDir(dir)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, remove()) }()
	for _, stored := range cfg.Stored {
		at := filepath.Join(dir, strconv.Itoa(stored))
		if err := os.MkdirAll(at, 0o711); err != nil {
			return fmt.Errorf("create the directory of a database: %w", err)
		}
		url, stop, startErr := privateDatabase(ctx, at)
		if startErr != nil {
			return startErr
		}
		defer func() { err = errors.Join(err, stop()) }()
		cfg.Places = append(cfg.Places, measure.Place{DatabaseURL: url, Dir: at})
	}
	return measure.Scaling(ctx, cfg)
}

// numbers reads whole numbers separated by commas; an empty text has none.
func numbers(text string) (all []int, err error) {
	for part := range strings.FieldsFuncSeq(text, isComma) {
		n, err := strconv.Atoi(strings.TrimSpace(part))
		if err != nil {
			return nil, fmt.Errorf("must be numbers separated by commas, not %q", text)
		}
		all = append(all, n)
	}
	return all, nil
}
