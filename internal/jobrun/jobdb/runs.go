// Package jobdb keeps job definitions, runs and workers on PostgreSQL.
//
// Read runs.go first: DB is what all its stores share. A run is made in insert.go,
// read.go and emit.go, given to a worker in claim.go, and changed by its worker in
// start.go, heartbeat.go, worker_calls.go and finish.go, by people in operate.go;
// changes.go writes what was decided and what follows. definitions.go, published.go (events), leader.go,
// settings.go, workers.go and offload.go (logs) are stores of their own.
//
// Files, each on top of those before it: tables, specs, runs, columns, edges,
// worker_calls, decisions, claim_statement, definitions, published, emit, finish, claim,
// log, read, builtin, changes, claim_queue, definitions_delete, definitions_list,
// deliver, fences, heartbeat, history, insert, leader, letters, list, log_read, offload,
// operate, settings, start, workers.
package jobdb

import (
	"context"

	"github.com/jmoiron/sqlx"

	"github.com/skald-saga/skald/internal/dlq/dlqdb"
	"github.com/skald-saga/skald/internal/jobrun"
	"github.com/skald-saga/skald/internal/jobrun/jobnotify"
	"github.com/skald-saga/skald/internal/postgres"
	"github.com/skald-saga/skald/internal/secret/envelope"
)

// Jobs is job runs (jobrun.Runs) and the worker's side of them (jobrun.Work) on
// PostgreSQL.
//
// What workers say goes through the writers' connections, as transitions of sagas
// do: fixed statements, prepared once, with batches as binary columns; each of
// them names its tenant. What people ask goes through InTenant, unless runs or
// dead letters come of it.
//
// Rows are locked in this order: the worker's, runs by id, dead letters, sagas.
//
// With encryption (Config.Encryption) arguments, results, errors, checkpoints and
// logs of runs are sealed. Then lists show of an error its code alone.
type Jobs struct {
	db       *DB
	settings func(context.Context) (jobrun.Settings, error)
}

// DB is the database with what the stores of job runs share.
type DB struct {
	*postgres.DB
	Hub           *jobnotify.Hub       // wakes those who wait for runs
	Tell          *dlqdb.LetterUpdater // of dead letters
	jobrun.Chance                      // what decisions about runs take their ids and jitter from
	specs         specCache
	ended         func(ctx context.Context, tx *sqlx.Tx, r *jobrun.Run) error
}

// NewDB returns db for stores of job runs, whose decisions take ids and jitter from
// chance, and which tell dead letters by tell; nil: by the common policy.
func NewDB(db *postgres.DB, chance jobrun.Chance, tell *dlqdb.LetterUpdater) *DB {
	return &DB{DB: db, Hub: jobnotify.NewHub(db), Tell: tell.Or(db), Chance: chance}
}

// OnEnded has f called in the transaction in which the last run of a chain of
// retries ends that a step of a saga waits for. r and its chain are locked. To be
// called before the stores of db are used.
func (db *DB) OnEnded(f func(ctx context.Context, tx *sqlx.Tx, r *jobrun.Run) error) { db.ended = f }

// NewJobs returns the job runs of db. settings returns the settings as they
// stand; it is asked at every call of a worker.
func NewJobs(db *DB, settings func(context.Context) (jobrun.Settings, error)) *Jobs {
	return &Jobs{db, settings}
}

// The fields of a run that are sealed.
var (
	fieldRunArgs       = envelope.Field{Name: "jobs.args"}
	fieldRunCheckpoint = envelope.Field{Name: "jobs.checkpoint"}
	fieldRunResult     = envelope.Field{Name: "jobs.result"}
	fieldRunError      = envelope.Field{Name: "jobs.error"}
)

// fieldRunLog names a chunk of a run's log.
func fieldRunLog(at jobrun.LogPosition) envelope.Field {
	return envelope.Field{Name: "jobs.log", Attempt: at.Attempt, Step: at.Seq}
}
