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
	flags.IntVar(&cfg.Samples, "samples", 50, "how often each page is asked for")
	flags.IntVar(&cfg.Letters, "letters", 1_000_000, "dead letters to make with the sagas")
	flags.IntVar(&cfg.Runs, "runs", 300_000, "job runs to make with the sagas")
	flags.IntVar(&cfg.Overviews, "overviews", 50, "overviews that are open in browsers while their cost is measured")
	flags.IntVar(&cfg.SagaPages, "saga-pages", 20, "saga pages that are open then; half of them show sagas that go on")
	flags.DurationVar(&cfg.Watch, "watch", time.Minute, "how long they are open; 0: never")
	flags.Func("only", "pages to ask for, as a regular expression of their names in the table (default: all)",
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
