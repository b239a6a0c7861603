package worker_test

import (
	"context"
	"fmt"
	"log"
	"os"
	"os/signal"
	"syscall"

	"github.com/skald-saga/skald/api/worker"
)

// A worker that executes runs of the command send-report until it is asked to stop, and then lets
// the runs in progress finish.
func Example() {
	w, err := worker.New(worker.Config{
		URL: "https://skald.example", Credential: os.Getenv("SKALD_KEY"), Queues: []string{"reports"}, Concurrency: 8,
	})
	if err != nil {
		log.Fatal(err)
	}
	w.Handle("send-report", func(ctx context.Context, r *worker.Run) (any, error) {
		var in struct{ To string }
		if err := r.Decode(&in); err != nil {
			return nil, &worker.Failure{Code: "BAD_ARGS", Message: err.Error(), Permanent: true}
		}
		fmt.Fprintln(r.Stdout(), "sending to", in.To)
		r.Progress(50, "half of it")
		if ctx.Err() != nil { // canceled, lost, timed out, or the process is stopping
			return nil, context.Cause(ctx)
		}
		return map[string]int{"pages": 3}, nil
	})
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := w.Run(ctx); err != nil {
		log.Fatal(err)
	}
}
