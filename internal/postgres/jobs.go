package postgres

import (
	"context"

	"github.com/jmoiron/sqlx"
	"github.com/skald-saga/skald/internal/jobrun"
	"github.com/skald-saga/skald/internal/secret/envelope"
)

// Jobs is job runs (jobrun.Runs) and the worker's side of them (jobrun.Work) on
// PostgreSQL.
//
// What workers say goes through the writers' connections, as transitions of sagas
// do: fixed statements, prepared once, with batches as binary columns; each of
// them names its tenant. What people ask goes through inTenant, unless runs or
// dead letters come of it.
//
// Rows are locked in this order: the worker's, runs by id, dead letters, sagas.
//
// With encryption (Config.Encryption) arguments, results, errors, checkpoints and
// logs of runs are sealed. Then lists show of an error its code alone.
type Jobs struct {
	db       *JobDB
	settings func(context.Context) (jobrun.Settings, error)
}

// JobDB is the database with what the stores of job runs share.
type JobDB struct {
	*DB
	Hub   *Hub    // wakes those who wait for runs
	tell  *Teller // of dead letters
	specs specCache
	ended func(ctx context.Context, tx *sqlx.Tx, r *jobrun.Run) error
}

// NewJobDB returns db for stores of job runs, which tell dead letters by tell; nil:
// by the common policy.
func NewJobDB(db *DB, tell *Teller) *JobDB {
	return &JobDB{DB: db, Hub: NewHub(db), tell: tell.or(db)}
}

// OnEnded has f called in the transaction in which the last run of a chain of
// retries ends that a step of a saga waits for. r and its chain are locked. To be
// called before the stores of db are used.
func (db *JobDB) OnEnded(f func(ctx context.Context, tx *sqlx.Tx, r *jobrun.Run) error) { db.ended = f }

// NewJobs returns the job runs of db. settings returns the settings as they
// stand; it is asked at every call of a worker.
func NewJobs(db *JobDB, settings func(context.Context) (jobrun.Settings, error)) *Jobs {
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
