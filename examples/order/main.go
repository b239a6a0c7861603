// Command order runs the participants of the order example: inventory, payments and
// orders in one process, with one durable ledger. See README.md.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/skald-saga/skald/examples/order/shop"
)

// drainTimeout is how long calls in flight may take after the signal to stop. The caller
// repeats calls that have not been answered by then.
const drainTimeout = 5 * time.Second

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	err := run(ctx, os.Args[1:], os.Stderr)
	switch {
	case errors.Is(err, flag.ErrHelp):
	case err != nil:
		fmt.Fprintln(os.Stderr, "order:", err)
		os.Exit(1)
	}
}

// run serves until ctx ends and logs to logs. It returns nil after a clean stop.
func run(ctx context.Context, args []string, logs io.Writer) (err error) {
	flags := flag.NewFlagSet("order", flag.ContinueOnError)
	flags.SetOutput(logs)
	listen := flags.String("listen", "127.0.0.1:9001", "address to serve on; port 0 picks a free one")
	path := flags.String("ledger", "./orders-ledger.jsonl", "ledger file; created if absent, otherwise appended to")
	verbose := flags.Bool("v", false, "log every call")
	if err := flags.Parse(args); err != nil {
		return err
	}
	if flags.NArg() > 0 {
		return fmt.Errorf("unexpected argument %q", flags.Arg(0))
	}
	level := slog.LevelInfo
	if *verbose {
		level = slog.LevelDebug
	}
	log := slog.New(slog.NewTextHandler(logs, &slog.HandlerOptions{Level: level}))

	s, err := shop.Open(shop.Config{Ledger: *path, Log: log})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	listener, err := net.Listen("tcp", *listen)
	if err != nil {
		return err
	}
	log.InfoContext(ctx, "participants ready",
		slog.String("url", "http://"+listener.Addr().String()), slog.String("ledger", *path))
	return serve(ctx, listener, s)
}

// serve answers calls on listener until ctx ends, and then waits for calls in flight.
func serve(ctx context.Context, listener net.Listener, handler http.Handler) error {
	server := &http.Server{
		Handler:           handler,
		ReadHeaderTimeout: 10 * time.Second,
		IdleTimeout:       3 * time.Minute, // longer than a client keeps idle connections
	}
	failed := make(chan error, 1)
	go func() { failed <- server.Serve(listener) }()
	select {
	case err := <-failed:
		return err
	case <-ctx.Done():
	}
	drain, cancel := context.WithTimeout(context.WithoutCancel(ctx), drainTimeout)
	defer cancel()
	err := server.Shutdown(drain)
	if errors.Is(err, context.DeadlineExceeded) {
		err = server.Close() // no longer wait for a slow call
	}
	if served := <-failed; !errors.Is(served, http.ErrServerClosed) {
		err = errors.Join(err, served)
	}
	return err
}
