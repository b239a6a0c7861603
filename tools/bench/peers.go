package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"strings"
	"time"

	"github.com/skald-saga/skald/tools/bench/measure"
)

// peers compares Skald with its peers, in a network of its own unless a flag says otherwise: DTM
// listens on every address of the machine.
func peers(ctx context.Context, args []string, out io.Writer) error {
	cfg := measure.PeersConfig{Out: out}
	flags := flag.NewFlagSet("skald-bench peers", flag.ContinueOnError)
	commonFlags(flags, &cfg.Skald, &cfg.Dir, &cfg.DatabaseURL, emptyDatabase)
	flags.StringVar(&cfg.Programs, "programs", "./bin/peers", "directory with the peers' programs (scripts/peers.sh)")
	listFlag(flags, &cfg.Peers, "peers", "dtm,restate,river", "peers to measure, whose programs must exist")
	listFlag(flags, &cfg.Levels, "levels", "", "levels to measure (default: all)")
	flags.IntVar(&cfg.Rounds, "rounds", 3, "number of rounds; each round measures everything once")
	flags.IntVar(&cfg.MaxRounds, "max-rounds", 0,
		"maximum number of rounds for a row whose ratios differ by more than 15 % between rounds (default: twice the rounds)")
	flags.DurationVar(&cfg.Duration, "duration", 5*time.Second, "how long orders are placed in each turn")
	flags.DurationVar(&cfg.Warmup, "warmup", time.Second, "how long orders are placed before the measurement begins")
	flags.DurationVar(&cfg.Drain, "drain", 2*time.Minute, "how long to wait for submitted orders to end")
	flags.IntVar(&cfg.JobsDivisor, "jobs-divisor", 1, "number by which the numbers of job runs are divided")
	shared := flags.Bool("shared-network", false, "do not create a separate network with only the loopback interface; DTM then listens on all addresses")
	serverEnvFlag(flags, &cfg.ServerEnv)
	if err := parse(flags, args); err != nil {
		return err
	}
	if cfg.MaxRounds == 0 {
		cfg.MaxRounds = 2 * cfg.Rounds
	}
	if err := cfg.Validate(); err != nil {
		return err
	}
	if !*shared {
		return inOwnNetwork(ctx, append([]string{"peers", "-shared-network"}, args...), cfg.DatabaseURL, out)
	}
	var err error
	if cfg.Self, err = os.Executable(); err != nil {
		return fmt.Errorf("find the path of this program: %w", err)
	}
	return prepared(ctx, &cfg.Dir, &cfg.DatabaseURL, func() error { return measure.Peers(ctx, cfg) })
}

// listFlag adds a flag for texts separated by commas.
func listFlag(flags *flag.FlagSet, list *[]string, name, value, usage string) {
	split := func(text string) []string { return slices.Collect(strings.FieldsFuncSeq(text, isComma)) }
	*list = split(value)
	flags.Func(name, fmt.Sprintf("%s, separated by commas (default %q)", usage, value), func(text string) error {
		*list = split(text)
		return nil
	})
}

// inOwnNetwork runs this program with args where it has a loopback interface and nothing else.
func inOwnNetwork(ctx context.Context, args []string, database string, out io.Writer) error {
	if database != "" {
		return errors.New("-database-url cannot be reached from the separate network: use -shared-network")
	}
	self, err := os.Executable()
	if err != nil {
		return fmt.Errorf("find the path of this program: %w", err)
	}
	cmd := exec.CommandContext(ctx, self, append([]string{"with-loopback"}, args...)...)
	cmd.Stdout, cmd.Stderr = out, os.Stderr
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
	cmd.SysProcAttr = ownNetwork()
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("create a separate network (or use -shared-network): %w", err)
	}
	if err := cmd.Wait(); err != nil {
		return fmt.Errorf("compare: %w", err)
	}
	return nil
}
