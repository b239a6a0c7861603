package targets

import (
	"context"
	"time"

	"github.com/skald-saga/skald/internal/dlq"
)

// Job repeats exhausted job runs. When the new run ends, the retry ends. All fields are required.
type Job struct {
	Runs Runs
	Now  func() time.Time
}

// Runs repeats the run of a letter.
type Runs interface {
	Rerun(ctx context.Context, l *dlq.Drive, now func() time.Time) dlq.Result
}

// Drive implements redrive.Driver.
func (d *Job) Drive(ctx context.Context, batch []dlq.Drive) []dlq.Result {
	results := make([]dlq.Result, len(batch))
	for i := range batch {
		results[i] = d.Runs.Rerun(ctx, &batch[i], d.Now)
	}
	return results
}
