// Package timeline is the history of one correlation id, as a single list ordered by time. It
// contains sagas with their steps, job runs with their attempts, and dead letters with their
// retries (one-product.md, point 7).
package timeline

import (
	"context"
	"time"

	"github.com/google/uuid"

	"github.com/skald-saga/skald/internal/page"
)

// Kind is the type of an entry.
type Kind string

// These are the kinds of entries. The time of an entry is when its subject began.
const (
	Saga        Kind = "saga"
	SagaEnd     Kind = "saga_end"
	Step        Kind = "step"
	Run         Kind = "job_run"
	Attempt     Kind = "job_attempt"
	RunEnd      Kind = "job_run_end"
	Letter      Kind = "dead_letter"
	LetterRetry Kind = "dead_letter_retry"
)

// Kinds lists all kinds.
var Kinds = []Kind{Saga, SagaEnd, Step, Run, Attempt, RunEnd, Letter, LetterRetry}

// Entry is one item of a timeline. It contains codes and names, but no text from clients,
// participants or workers. Such text can be found by the ids.
type Entry struct {
	At      time.Time
	Key     string // unique among all entries; together with At it is the position in the list
	Kind    Kind
	SagaID  uuid.UUID // zero: none
	RunID   uuid.UUID
	Letter  uuid.UUID
	Name    string // workflow, step, job definition or topic
	Action  string // EXECUTE or COMPENSATE of a step; trigger of a run; source of a letter
	Number  int    // of an attempt or retry, from 1; 0: none
	State   string // the current or final state
	Code    string // outcome or error code, "" without one
	EndedAt *time.Time
}

// Place returns the entry's position in a timeline.
func (e *Entry) Place() page.TimeKey { return page.TimeKey{At: e.At, Key: e.Key} }

// Shown lists the parts of a timeline that the caller may read.
type Shown struct{ Sagas, Runs, Letters bool }

// Store reads timelines. A tenant sees only its own.
type Store interface {
	// Timeline returns a page of the entries of a correlation id, oldest first, without a total
	// count.
	Timeline(ctx context.Context, tenant uuid.UUID, correlation string, show Shown,
		p page.Request[page.TimeKey]) (page.Of[Entry], error)
}
