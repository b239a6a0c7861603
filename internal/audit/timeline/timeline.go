// Package timeline is the history of one correlation id, as one list ordered by time: sagas
// with their steps, job runs with their attempts, dead letters with their retries
// (one-product.md, point 7).
package timeline

import (
	"context"
	"time"

	"github.com/google/uuid"

	"github.com/skald-saga/skald/internal/page"
)

// Kind is the type of an entry.
type Kind string

// Kinds of entries. The time of an entry is when its subject began.
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

// Kinds lists every kind.
var Kinds = []Kind{Saga, SagaEnd, Step, Run, Attempt, RunEnd, Letter, LetterRetry}

// Entry is one item of a timeline. It has codes and names, but no text from clients,
// participants or workers; its ids refer to that.
type Entry struct {
	At      time.Time
	Key     string // unique among all entries; with At its position in the list
	Kind    Kind
	SagaID  uuid.UUID // zero: none
	RunID   uuid.UUID
	Letter  uuid.UUID
	Name    string // workflow, step, job definition or topic
	Action  string // EXECUTE or COMPENSATE of a step; trigger of a run; source of a letter
	Number  int    // of an attempt or retry, from 1; 0: none
	State   string // the current or final one
	Code    string // outcome or error code, "" without one
	EndedAt *time.Time
}

// Place is its position in a timeline.
func (e *Entry) Place() page.TimeKey { return page.TimeKey{At: e.At, Key: e.Key} }

// Shown is which parts of a timeline the caller may read.
type Shown struct{ Sagas, Runs, Letters bool }

// Store reads timelines. A tenant sees only its own.
type Store interface {
	// Timeline returns a page of the entries of a correlation id, oldest first, without a total
	// count.
	Timeline(ctx context.Context, tenant uuid.UUID, correlation string, show Shown,
		p page.Request[page.TimeKey]) (page.Of[Entry], error)
}
