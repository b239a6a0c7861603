// Command mutate breaks the code behind requirements and checks that their tests fail: `make
// mutants`.
package main

import (
	"flag"
	"fmt"
	"os"
	"strconv"
	"time"

	"github.com/skald-saga/skald/internal/test/mutants"
)

func main() {
	now := time.Now().UTC()
	d := mutants.Draw{Seed: uint64(now.UnixNano()) % 1_000_000}
	flag.Func("seed", "seed of the draw, or \"day\" for the date, so that all draws of a day select the same rows", func(text string) (err error) {
		if text == "day" {
			text = now.Format("20060102")
		}
		d.Seed, err = strconv.ParseUint(text, 10, 64)
		return err
	})
	flag.IntVar(&d.N, "n", 0, "how many rows are drawn; 0: all, or as many as the budget allows")
	flag.DurationVar(&d.Budget, "budget", 0, "draw only rows of cheap packages, and start none after this time")
	flag.StringVar(&d.Rows, "rows", "", "run these rows instead of drawing some, separated by commas")
	flag.IntVar(&d.Beside, "beside", 2, "how many rows are tried concurrently")
	flag.Parse()
	if err := mutants.Run(d); err != nil {
		fmt.Fprintln(os.Stderr, "mutate:", err)
		os.Exit(1)
	}
}
