// Command move executes one round on a database and a log store. It is built with failpoints, for
// the tests of joblog.
package main

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"time"

	"github.com/skald-saga/skald/internal/failpoint"
	"github.com/skald-saga/skald/internal/jobrun"
	"github.com/skald-saga/skald/internal/jobrun/jobdb"
	"github.com/skald-saga/skald/internal/jobrun/joblog"
	"github.com/skald-saga/skald/internal/jobrun/logstore"
	"github.com/skald-saga/skald/internal/postgres"
)

func main() {
	if err := move(os.Args[1], os.Args[2]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func move(dsn, url string) error {
	if err := failpoint.Configure(os.Getenv("SKALD_FAILPOINTS")); err != nil {
		return err
	}
	ctx := context.Background()
	db, err := postgres.Open(ctx, postgres.Config{DSN: dsn})
	if err != nil {
		return err
	}
	defer db.Close()
	store, err := logstore.Open(ctx, url, logstore.Options{})
	if err != nil {
		return err
	}
	settings := func(context.Context) (jobrun.Settings, error) { return jobrun.NewSettings(1, nil), nil }
	round, err := joblog.NewMover(joblog.Config{
		Store: store, Chunks: jobdb.NewJobs(jobdb.NewDB(db, jobrun.Chance{}, nil), settings), Offloading: jobdb.NewLogs(jobdb.NewDB(db, jobrun.Chance{}, nil)), Settings: settings,
		Log: slog.New(slog.NewTextHandler(os.Stderr, nil)), Now: time.Now,
	}).Once(ctx)
	fmt.Printf("%+v\n", round)
	return err
}
