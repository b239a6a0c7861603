// Command put stores its standard input as the log of one run and prints the reference. It is built
// with failpoints, for the tests of logstore.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/google/uuid"

	"github.com/skald-saga/skald/internal/failpoint"
	"github.com/skald-saga/skald/internal/jobrun/logstore"
)

func main() {
	limit := flag.Uint64("limit", 0, "maximum size of a file in bytes")
	flag.Parse()
	if err := put(flag.Arg(0), flag.Arg(1), *limit); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func put(url, run string, limit uint64) error {
	if err := failpoint.Configure(os.Getenv("SKALD_FAILPOINTS")); err != nil {
		return err
	}
	ctx := context.Background()
	store, err := logstore.Open(ctx, url, logstore.Options{})
	if err != nil {
		return err
	}
	if limit > 0 { // simulates a full disk from here on
		signal.Ignore(syscall.SIGXFSZ)
		if err := syscall.Setrlimit(syscall.RLIMIT_FSIZE, &syscall.Rlimit{Cur: limit, Max: limit}); err != nil {
			return err
		}
	}
	id := uuid.MustParse(run)
	object, err := store.Put(ctx, logstore.Name{Tenant: id, Run: id, Attempt: 1, Created: time.Unix(0, 0)}, os.Stdin)
	fmt.Println(object.Ref)
	return err
}
