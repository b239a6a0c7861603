// Command worker uses the worker library to execute runs of the command shout: it converts the
// argument "line" to capitals, one letter at a time.
//
//	go run ./examples/worker -url http://127.0.0.1:8080
//
// SKALD_KEY is an API key with the role worker, if the server requires one.
//
// It stops on SIGTERM or Ctrl-C: runs in progress get ten seconds to finish, and are then released.
package main

import (
	"context"
	"flag"
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"github.com/skald-saga/skald/api/worker"
)

func main() {
	url := flag.String("url", "http://127.0.0.1:8080", "where Skald answers")
	pause := flag.Duration("pause", 10*time.Millisecond, "how long each letter takes")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	w, err := worker.New(worker.Config{
		URL: *url, Credential: os.Getenv("SKALD_KEY"), Concurrency: 4, Drain: 10 * time.Second,
		Log: slog.New(slog.NewTextHandler(os.Stderr, nil)),
	})
	if err == nil {
		w.Handle("shout", shout(*pause))
		err = w.Run(ctx)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// state is the checkpoint that an attempt leaves for the next one.
type state struct{ Done string }

func shout(pause time.Duration) worker.Handler {
	return func(ctx context.Context, r *worker.Run) (any, error) {
		var in struct{ Line string }
		var st state
		if err := r.Decode(&in); err != nil {
			return nil, &worker.Failure{Code: "BAD_ARGS", Message: err.Error(), Permanent: true}
		}
		if err := r.DecodeCheckpoint(&st); err != nil {
			return nil, err
		}
		rest := []rune(in.Line)
		for i := len([]rune(st.Done)); i < len(rest); i++ {
			select {
			case <-ctx.Done(): // canceled, lost, too late, or the process stops
				return nil, context.Cause(ctx)
			case <-time.After(pause):
			}
			st.Done += strings.ToUpper(string(rest[i]))
			r.Progress(100*float64(i+1)/float64(len(rest)), "")
			if err := r.Checkpoint(st); err != nil {
				return nil, err
			}
		}
		fmt.Fprintln(r.Stdout(), st.Done)
		return map[string]string{"shouted": st.Done}, nil
	}
}
