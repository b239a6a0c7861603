// Command skald-bench measures a Skald binary on this machine: it starts a
// durable PostgreSQL, a participant that does nothing, the server and load
// generators, and prints rates, latencies and what each process used.
//
//	skald-bench [flags]              a whole run; see -help
//	skald-bench participant [flags]  the participant alone
//	skald-bench load [flags]         one load generator alone; prints JSON
//	skald-bench dlq [flags]          measure ingestion from Kafka and a redrive to it
//	skald-bench jobs [flags]         measure job runs through the worker protocol
//	skald-bench peers [flags]        measure Skald beside DTM, Restate and River
//	skald-bench soak [flags]         keep a server under load for long, and see whether anything grows
//	skald-bench migrate [flags]      migrate large tables under load, by eight processes at once
//	skald-bench xmin [flags]         measure while a snapshot is held for a long time
//	skald-bench parked [flags]       measure a server with a million sagas that wait for a participant
//	skald-bench broker               a fake Kafka broker alone
//	skald-bench generate [flags]     fill a database with sagas of ninety days
//	skald-bench read [flags]         measure every list, filter and lookup on such data
//	skald-bench ui [flags]           measure every page for people on such data, and what open pages cost
//	skald-bench generate-letters [flags]  fill a database with dead letters
//	skald-bench read-letters [flags]      measure every list and filter of dead letters on such data
//
// Files, each on top of those before it: database, flags, dlq, generate, jobs, letters,
// migrate, parked, peers, read, ui, soak, xmin, main.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"github.com/skald-saga/skald/tools/bench/measure"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := dispatch(ctx, os.Args[1:]); err != nil && !errors.Is(err, flag.ErrHelp) {
		stop()
		fmt.Fprintln(os.Stderr, "skald-bench:", err)
		os.Exit(1)
	}
}

func dispatch(ctx context.Context, args []string) error {
	if len(args) > 0 {
		switch args[0] {
		case "broker":
			return measure.ServeBroker(ctx, os.Stdout)
		case "dlq":
			return letters(ctx, args[1:], os.Stdout)
		case "jobs":
			return jobs(ctx, args[1:], os.Stdout)
		case "peers":
			return peers(ctx, args[1:], os.Stdout)
		case "with-loopback":
			if err := startLoopback(); err != nil {
				return err
			}
			return dispatch(ctx, args[1:])
		case "soak":
			return soak(ctx, args[1:], os.Stdout)
		case "migrate":
			return migrate(ctx, args[1:], os.Stdout)
		case "parked":
			return parked(ctx, args[1:], os.Stdout)
		case "scaling":
			return scaling(ctx, args[1:], os.Stdout)
		case "xmin":
			return xmin(ctx, args[1:], os.Stdout)
		case "participant":
			return serveParticipant(ctx, args[1:])
		case "load":
			return generateLoad(ctx, args[1:], os.Stdout)
		case "generate":
			return fill(ctx, args[1:], os.Stdout)
		case "read":
			return read(ctx, args[1:], os.Stdout)
		case "ui":
			return pages(ctx, args[1:], os.Stdout)
		case "generate-letters":
			return fillLetters(ctx, args[1:], os.Stdout)
		case "read-letters":
			return readLetters(ctx, args[1:], os.Stdout)
		}
	}
	return run(ctx, args, os.Stdout)
}

func serveParticipant(ctx context.Context, args []string) error {
	flags := flag.NewFlagSet("skald-bench participant", flag.ContinueOnError)
	listen := flags.String("listen", "127.0.0.1:0", "address to listen on; the actual address is printed")
	record := flags.Bool("record", false, "record which calls were made for which order; GET /recorded returns them")
	if err := parse(flags, args); err != nil {
		return err
	}
	return measure.ServeParticipant(ctx, *listen, *record, os.Stdout)
}

func generateLoad(ctx context.Context, args []string, out io.Writer) error {
	var cfg measure.LoadConfig
	flags := flag.NewFlagSet("skald-bench load", flag.ContinueOnError)
	flags.StringVar(&cfg.Target, "target", "http://127.0.0.1:8080", "base URL of the server")
	flags.StringVar(&cfg.Workflow, "workflow", "bench-ok", "workflow of the sagas")
	flags.StringVar(
		(*string)(&cfg.Mode),
		"mode",
		string(measure.Submit),
		"submit: wait until the saga is accepted; wait: wait until it has ended",
	)
	flags.IntVar(&cfg.Clients, "clients", 1, "number of concurrent clients")
	flags.IntVar(&cfg.Payload, "payload", 0, "size of a saga's payload in bytes; 0 for about 100")
	flags.DurationVar(&cfg.Duration, "duration", 5*time.Second, "how long new sagas are created")
	flags.StringVar(&cfg.WantStatus, "want-status", "COMPLETED", "expected status of the ended saga in mode wait")
	orders := flags.Bool("orders", false, "read a description of the request, to any server, as JSON from standard input")
	if err := parse(flags, args); err != nil {
		return err
	}
	if *orders {
		if err := json.NewDecoder(os.Stdin).Decode(&cfg.Orders); err != nil {
			return fmt.Errorf("read the request from standard input: %w", err)
		}
	}
	result, err := measure.Load(ctx, cfg)
	if err != nil {
		return err
	}
	return json.NewEncoder(out).Encode(result)
}

// options are the flags of a whole run that measure.Config has no field for.
type options struct {
	measure.Config
	jsonFile string
}

func run(ctx context.Context, args []string, out io.Writer) (err error) {
	o, err := parseOptions(args)
	if err != nil {
		return err
	}
	o.Out = out
	if o.Self, err = os.Executable(); err != nil {
		return fmt.Errorf("find the path of this program: %w", err)
	}
	dir, remove, err := runDir(o.Dir)
	if err != nil {
		return err
	}
	o.Dir = dir
	defer func() { err = errors.Join(err, remove()) }()
	if o.DatabaseURL == "" {
		url, stop, startErr := privateDatabase(ctx, o.Dir)
		if startErr != nil {
			return startErr
		}
		defer func() { err = errors.Join(err, stop()) }()
		o.DatabaseURL = url
	}
	report, err := measure.Run(ctx, o.Config)
	if o.jsonFile != "" && report != nil {
		err = errors.Join(err, writeJSON(o.jsonFile, report))
	}
	return err
}

func parseOptions(args []string) (options, error) {
	var o options
	flags := flag.NewFlagSet("skald-bench", flag.ContinueOnError)
	commonFlags(flags, &o.Skald, &o.Dir, &o.DatabaseURL, keptDatabase)
	flags.DurationVar(&o.Duration, "duration", 5*time.Second, "how long sagas are created at each level")
	flags.DurationVar(&o.Warmup, "warmup", time.Second, "how long sagas are created before the measurement begins")
	flags.DurationVar(&o.Drain, "drain", 2*time.Minute, "how long to wait for the accepted sagas of a level to end")
	flags.IntVar(&o.Compensated, "compensated", 64, "number of clients for compensated sagas; 0 for none")
	flags.IntVar(&o.Mixed, "mixed", 64, "number of clients for sagas of which every third one is compensated; 0 for none")
	flags.IntVar(&o.Payload, "payload", 0, "size of a saga's payload in bytes; 0 for about 100")
	flags.StringVar(&o.jsonFile, "json", "", "file to write the report to")
	clients := flags.String("clients", "1,16,64,256", "numbers of clients, each of which is one level")
	modes := flags.String("modes", "submit,wait", "what clients wait for: submit, wait or both")
	checkpoint := flags.Bool("checkpoint", true, "whether each step waits until the outcome of the previous step is on disk")
	serverEnvFlag(flags, &o.ServerEnv)
	if err := parse(flags, args); err != nil {
		return options{}, err
	}
	o.Ahead = !*checkpoint
	var err error
	if o.Clients, err = numbers(*clients); err != nil {
		return options{}, fmt.Errorf("-clients: %w", err)
	}
	for text := range strings.FieldsFuncSeq(*modes, isComma) {
		o.Modes = append(o.Modes, measure.Mode(strings.TrimSpace(text)))
	}
	return o, o.Validate()
}

func writeJSON(path string, report *measure.Report) error {
	raw, err := json.MarshalIndent(report, "", "  ")
	if err != nil {
		return fmt.Errorf("encode the report: %w", err)
	}
	if err := os.WriteFile(path, append(raw, '\n'), 0o644); err != nil {
		return fmt.Errorf("write the report: %w", err)
	}
	return nil
}
