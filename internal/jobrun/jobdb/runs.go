// Package jobdb stores job definitions, runs and workers in PostgreSQL.
//
// Read runs.go first: all stores here share DB. A run is created in insert.go, read.go and emit.go,
// assigned to a worker in claim.go, and changed by its worker in start.go, heartbeat.go,
// worker_calls.go and finish.go, and changed by operators in operate.go. changes.go writes a
// decision and its consequences. definitions.go, published.go (events), records.go and outbox.go
// (events from and to Kafka), settings.go, workers.go and offload.go (logs) are separate stores.
//
// Files, each on top of those before it: tables, edges, specs, runs, columns, outbox, published,
// worker_calls, decisions, definitions, emit, finish, claim_statement, claim, log, read, slots,
// builtin, changes, claim_queue, definitions_delete, definitions_list, deliver, exchange, follow,
// heartbeat, history, insert, leader, letters, list, log_read, offload, operate, records, sealed,
// settings, start, workers.
package jobdb

import (
	"context"

	"github.com/google/uuid"
	"github.com/jmoiron/sqlx"

	"github.com/skald-saga/skald/internal/dlq/dlqdb"
	"github.com/skald-saga/skald/internal/jobrun"
	"github.com/skald-saga/skald/internal/jobrun/jobqueue"
	"github.com/skald-saga/skald/internal/postgres"
	"github.com/skald-saga/skald/internal/postgres/notify"
	"github.com/skald-saga/skald/internal/secret/envelope"
)

// Jobs implements jobrun.Runs and jobrun.Work on PostgreSQL.
//
// Worker calls use the writers' connections, as saga transitions do: fixed statements that are
// prepared once, take batches as binary columns, and name their tenant. User requests use InTenant,
// unless they create runs or dead letters.
//
// Rows are locked in this order: the worker, runs by id, dead letters, sagas.
//
// With encryption (Config.Encryption), arguments, results, errors, checkpoints and logs of runs are
// sealed. In that case, lists show only the code of an error.
type Jobs struct {
	db       *DB
	settings func(context.Context) (jobrun.Settings, error)
}

// DB is the database with the dependencies that the stores of job runs share.
type DB struct {
	*postgres.DB
	Line          *notify.Line         // notifies other nodes
	Hub           *jobqueue.Hub        // wakes requests that wait for runs
	Tell          *dlqdb.LetterUpdater // updates dead letters
	jobrun.Chance                      // source of ids and jitter for decisions about runs
	specs         specCache
	ended         func(ctx context.Context, tx *sqlx.Tx, r *jobrun.Run) error
	over          func(tenant, run uuid.UUID)
}

// NewDB returns db for stores of job runs. Their decisions take ids and jitter from chance. They
// update dead letters through tell; if it is nil, through an updater with the default policy.
func NewDB(db *postgres.DB, chance jobrun.Chance, tell *dlqdb.LetterUpdater) *DB {
	line := notify.NewLine(db)
	return &DB{
		DB: db, Line: line, Hub: jobqueue.NewHub(line), Tell: tell.Or(db), Chance: chance,
		over: func(tenant, run uuid.UUID) {},
	}
}

// OnEnded registers f, which is called in the transaction that ends the last run of a chain of
// retries for which a saga step waits. The chain, including r, is locked. Call OnEnded before using
// the stores of db.
func (db *DB) OnEnded(f func(ctx context.Context, tx *sqlx.Tx, r *jobrun.Run) error) { db.ended = f }

// OnOver registers f, which is called after the commit that ended a run. f must not block. Call
// OnOver before using the stores of db.
func (db *DB) OnOver(f func(tenant, run uuid.UUID)) { db.over = f }

// NewJobs returns the job runs in db. It calls settings, which returns the current settings, for
// every worker call.
func NewJobs(db *DB, settings func(context.Context) (jobrun.Settings, error)) *Jobs {
	return &Jobs{db, settings}
}

// Names of a run's sealed fields.
var (
	fieldRunArgs       = envelope.Field{Name: "jobs.args"}
	fieldRunCheckpoint = envelope.Field{Name: "jobs.checkpoint"}
	fieldRunResult     = envelope.Field{Name: "jobs.result"}
	fieldRunError      = envelope.Field{Name: "jobs.error"}
)

// fieldRunLog names the sealed content of a log chunk.
func fieldRunLog(at jobrun.LogPosition) envelope.Field {
	return envelope.Field{Name: "jobs.log", Attempt: at.Attempt, Step: at.Seq}
}
