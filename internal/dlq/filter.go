package dlq

import (
	"time"

	"github.com/google/uuid"

	"github.com/skald-saga/skald/internal/page"
)

// Filter selects letters. Zero fields impose no restriction. The values in a list are alternatives.
type Filter struct {
	Topic         string // exact, or a prefix followed by *
	Statuses      []Status
	Resolutions   []Resolution
	Sources       []Source
	Classes       []ErrorClass
	Fingerprint   string
	ErrorType     string
	ErrorContains string // whole words that must all occur in the message; case is ignored
	ConsumerGroup string
	Key           []byte            // nil: any
	Headers       map[string]string // name → value
	Payload       map[string]string // dotted path → a JSON scalar or, failing that, a text
	Labels        []string          // a letter must have all of them
	Assignee      string
	CorrelationID string
	TraceID       string
	SagaID        uuid.UUID
	JobRunID      uuid.UUID
	RootID        uuid.UUID // a lineage
	RedriveID     uuid.UUID
	CreatedFrom   time.Time // inclusive
	CreatedTo     time.Time // exclusive
	LastRetryFrom time.Time
	LastRetryTo   time.Time
	RetryCountMin *int
	RetryCountMax *int
	GenerationMin int
}

// Query is a request for a page of letters.
type Query struct {
	Filter
	page.ByTime
	Oldest bool // oldest first; otherwise newest first
	// Bare omits Content and Failure.Stack, which may take megabytes per letter.
	Bare bool
	// Largest omits the same fields from letters in which they take more than this many bytes
	// (Omitted); 0 never omits them. A page of 10 MB letters would take gigabytes.
	Largest int
}
