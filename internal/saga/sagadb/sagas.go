// Package sagadb stores sagas, their step logs and events, and workflows in PostgreSQL.
//
// Read sagas.go first, then create.go and commit.go: every change of a saga is part of
// one of their batches. claim.go and ownership.go contain what nodes need to drive
// sagas; letters.go, jobs.go and steer.go the effects of a commit on dead letters and
// job runs; decide.go what bulk operations do; list.go and read.go the queries of users;
// archive.go and retention.go what happens to ended sagas; trail.go the events in order,
// trail_archive.go where old ones go.
//
// Files, each on top of those before it: trail_write, sealing, tables, requests, states,
// idempotency_keys, business_key, conditions, waits, list, archive, trail, claim, changes, onward, commit,
// steer, workflows, jobs, notes, read, series, attempts, callbacks, calls, create, decide, erase, errors,
// letters, neglected, ownership, parked, retention, sagas, sealed, statistics, storage,
// trail_archive, trail_chain.
package sagadb

import (
	"github.com/skald-saga/skald/internal/dlq/dlqdb"
	"github.com/skald-saga/skald/internal/jobrun"
	"github.com/skald-saga/skald/internal/jobrun/jobdb"
	"github.com/skald-saga/skald/internal/postgres"
)

// Sagas is saga.Store and saga.Ownership on PostgreSQL.
type Sagas struct {
	db    *postgres.DB
	jobs  *jobdb.DB
	tell  *dlqdb.LetterUpdater // of dead letters
	steps stepJobs             // that are job runs
	turns turns                // of tenants, in claims

	// Version of Skald, stored for each node that registers; set before use. May be empty.
	Version string
}

// NewSagas returns the saga store of db for a process without job runs, with the default
// policy for dead letters.
func NewSagas(db *postgres.DB) *Sagas { return NewSagasWith(jobdb.NewDB(db, jobrun.Chance{}, nil)) }

// NewSagasWith returns the saga store that shares a database with jobs: steps that are
// job runs begin there, and jobs reports their ends to this store only (JobDB.OnEnded).
func NewSagasWith(jobs *jobdb.DB) *Sagas {
	st := &Sagas{db: jobs.DB, jobs: jobs, tell: jobs.Tell}
	jobs.OnEnded(st.runEnded)
	return st
}
