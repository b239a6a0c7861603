// Command mutate breaks the code behind requirements and shows that their tests fail:
// `make mutants`.
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
	seed := uint64(now.UnixNano()) % 1_000_000
	flag.Func("seed", "seed of the draw; day: the date, so that a day's draws are the same rows", func(text string) (err error) {
		if text == "day" {
			text = now.Format("20060102")
		}
		seed, err = strconv.ParseUint(text, 10, 64)
		return err
	})
	n := flag.Int("n", 50, "how many rows are drawn")
	rows := flag.String("rows", "", "these rows instead of drawn ones, separated by commas")
	flag.Parse()
	if err := mutants.Run(seed, *n, *rows); err != nil {
		fmt.Fprintln(os.Stderr, "mutate:", err)
		os.Exit(1)
	}
}
