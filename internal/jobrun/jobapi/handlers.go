// Package jobapi is the HTTP edge of job definitions and runs, backfills and bulk
// operations, events that start runs, and the scheduler with its settings.
//
// Files, each on top of those before it: convert, backfills, definitions_show,
// definitions, definitions_change, bulks, handlers, calendar, events, explain, logs, runs,
// runs_list, scheduler, schedules.
package jobapi

import (
	"context"
	"io"
	"time"

	"github.com/skald-saga/skald/internal/httpkit"
	"github.com/skald-saga/skald/internal/jobrun"
	"github.com/skald-saga/skald/internal/saga"
)

// Handlers are the operations on job definitions, runs, bulk operations, events and the
// scheduler. Fields are required unless a comment says otherwise.
type Handlers struct {
	*httpkit.Kit
	Definitions jobrun.Definitions
	Runs        jobrun.Runs
	Bulks       jobrun.BulkOperations
	Events      jobrun.Events
	Elections   jobrun.Elections
	Settings    jobrun.SettingsStore
	Workers     jobrun.Workers
	// StoreNow returns the time that decides which runs are due, the database's: clocks
	// of nodes differ. Optional: the edge's clock.
	StoreNow func(context.Context) (time.Time, error)
	// Offloaded opens a run's log in the log store: NDJSON of jobrun.LogLine. Optional:
	// there is no log store. Fault: NotFound.
	Offloaded func(ctx context.Context, run *jobrun.Run) (io.ReadCloser, error)
	// Sagas is used to read the state of a run's saga.
	Sagas saga.Store
	// RefuseTopic says why events of job runs are not published to a Kafka topic, "" if
	// they may be.
	RefuseTopic func(topic string) string
	// ArgsAllow lists the programs of definitions that take their arguments for data.
	ArgsAllow []string
	// MaxLetters is how many dead letters a run may touch that was requested without
	// dlq:admin.
	MaxLetters int64
}
