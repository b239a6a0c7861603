// Package jobapi is the HTTP API of job definitions and runs, backfills and bulk operations, events
// that start runs, and the scheduler with its settings.
//
// Files, each on top of those before it: convert, canceled, backfills, definitions_show,
// definitions_dry, definitions, definitions_change, bulks, handlers, calendar, events, explain,
// logs, runs, runs_list, scheduler, schedules, queues.
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
	Queues      jobrun.Queues
	// StoreNow returns the time that decides which runs are due. It is the database's time, because
	// the clocks of nodes differ. StoreNow is optional; by default, the node's clock is used.
	StoreNow func(context.Context) (time.Time, error)
	// Offloaded opens a run's log in the log store, as NDJSON of jobrun.LogLine. It is nil if there
	// is no log store. Fault: NotFound.
	Offloaded func(ctx context.Context, run *jobrun.Run) (io.ReadCloser, error)
	// Sagas reads the state of a run's saga.
	Sagas saga.Store
	// RefuseTopic returns the reason why events of job runs may not be published to a Kafka topic,
	// or "" if they may.
	RefuseTopic func(topic string) string
	// ArgsAllow lists the programs that treat a definition's arguments as data.
	ArgsAllow []string
	// MaxLetters is the maximum number of dead letters that a run may affect if it was requested
	// without dlq:admin.
	MaxLetters int64
}
