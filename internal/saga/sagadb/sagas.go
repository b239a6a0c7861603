// Package sagadb stores sagas, their step logs and events, and workflows in PostgreSQL.
//
// Read sagas.go first, then create.go and commit.go: every change of a saga is part of one of their
// batches. claim.go and ownership.go contain the operations that nodes need to drive sagas.
// letters.go, jobs.go and steer.go contain the effects of a commit on dead letters and job runs,
// and decide.go contains the bulk operations. list.go and read.go contain the users' queries, and
// archive.go and retention.go the handling of ended sagas. trail.go reads the events in order, and
// trail_archive.go archives old ones.
//
// Files, each on top of those before it: trail_write, sealing, tables, requests, states,
// idempotency_keys, business_key, conditions, waits, list, archive, trail, claim, changes, onward,
// commit, steer, workflows, jobs, notes, read, series, attempts, callbacks, calls, create, decide,
// erase, errors, letters, neglected, ownership, parked, retention, sagas, sealed, statistics,
// storage, trail_archive, trail_chain.
package sagadb

import (
	"github.com/skald-saga/skald/internal/dlq/dlqdb"
	"github.com/skald-saga/skald/internal/jobrun"
	"github.com/skald-saga/skald/internal/jobrun/jobdb"
	"github.com/skald-saga/skald/internal/postgres"
)

// Sagas implements saga.Store and saga.Ownership on PostgreSQL.
type Sagas struct {
	db    *postgres.DB
	jobs  *jobdb.DB
	tell  *dlqdb.LetterUpdater // for dead letters
	steps stepJobs             // for steps that are job runs
	turns turns                // of the tenants, in claims

	// Version is Skald's version, which is stored for each node that registers. Set it before use.
	// It may be empty.
	Version string
}

// NewSagas returns the saga store of db for a process without job runs. It uses the default policy
// for dead letters.
func NewSagas(db *postgres.DB) *Sagas { return NewSagasWith(jobdb.NewDB(db, jobrun.Chance{}, nil)) }

// NewSagasWith returns a saga store that shares a database with jobs. Steps that are job runs start
// there, and jobs reports their ends only to this store (JobDB.OnEnded).
func NewSagasWith(jobs *jobdb.DB) *Sagas {
	st := &Sagas{db: jobs.DB, jobs: jobs, tell: jobs.Tell}
	jobs.OnEnded(st.runEnded)
	return st
}
