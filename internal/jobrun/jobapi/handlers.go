// Package jobapi is the HTTP edge of job definitions and runs, backfills and bulk
// operations, events that start runs, and the scheduler with its settings.
//
// Files, each on top of those before it: convert, canceled, backfills, definitions_show,
// definitions_dry, definitions, definitions_change, bulks, handlers, calendar, events, explain, logs, runs,
// runs_list, scheduler, schedules, queues.
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
	// StoreNow returns the time that decides which runs are due. It is the database's, because the
	// clocks of nodes differ. Optional; default: the node's clock.
	StoreNow func(context.Context) (time.Time, error)
	// Offloaded opens a run's log in the log store: NDJSON of jobrun.LogLine. Nil without a log
	// store. Fault: NotFound.
	Offloaded func(ctx context.Context, run *jobrun.Run) (io.ReadCloser, error)
	// Sagas reads the state of a run's saga.
	Sagas saga.Store
	// RefuseTopic returns why events of job runs are not published to a Kafka topic, or "" if they
	// may be.
	RefuseTopic func(topic string) string
	// ArgsAllow lists the programs that treat a definition's arguments as data.
	ArgsAllow []string
	// MaxLetters is the maximum number of dead letters that a run requested without dlq:admin may
	// affect.
	MaxLetters int64
}
