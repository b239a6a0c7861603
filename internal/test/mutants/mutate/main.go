// Command mutate breaks the code behind requirements and shows that their tests fail:
// `make mutants`.
package main

import (
	"flag"
	"fmt"
	"os"
	"time"

	"github.com/skald-saga/skald/internal/test/mutants"
)

func main() {
	seed := flag.Uint64("seed", uint64(time.Now().UnixNano())%1_000_000, "seed of the draw")
	n := flag.Int("n", 50, "how many rows are drawn")
	rows := flag.String("rows", "", "these rows instead of drawn ones, separated by commas")
	flag.Parse()
	if err := mutants.Run(*seed, *n, *rows); err != nil {
		fmt.Fprintln(os.Stderr, "mutate:", err)
		os.Exit(1)
	}
}
