package main

import (
	"context"
	"flag"
	"io"
	"regexp"
	"time"

	"github.com/skald-saga/skald/tools/bench/measure"
)

func pages(ctx context.Context, args []string, out io.Writer) error {
	cfg := measure.UIConfig{Out: out}
	flags := flag.NewFlagSet("skald-bench ui", flag.ContinueOnError)
	commonFlags(flags, &cfg.Skald, &cfg.Dir, &cfg.Data.DatabaseURL, keptDatabase)
	flags.IntVar(&cfg.Samples, "samples", 50, "how often each page is requested")
	flags.IntVar(&cfg.Letters, "letters", 1_000_000, "number of dead letters to generate with the sagas")
	flags.IntVar(&cfg.Runs, "runs", 300_000, "number of job runs to generate with the sagas")
	flags.IntVar(&cfg.Overviews, "overviews", 50, "number of overviews that are open in browsers while the cost of open pages is measured")
	flags.IntVar(&cfg.SagaPages, "saga-pages", 20, "number of saga pages that are open at the same time, half of which show sagas that are still running")
	flags.DurationVar(&cfg.Watch, "watch", time.Minute, "how long the pages are open; 0 to skip this measurement")
	flags.Func("only", "regular expression for the names, in the table, of the pages to request (default: all)",
		func(text string) (err error) {
			cfg.Only, err = regexp.Compile(text)
			return err
		})
	addGenerateFlags(flags, &cfg.Data)
	if err := parse(flags, args); err != nil {
		return err
	}
	return prepared(ctx, &cfg.Dir, &cfg.Data.DatabaseURL, func() error { return measure.UI(ctx, cfg) })
}
