package dlq

import (
	"time"

	"github.com/google/uuid"

	"github.com/skald-saga/skald/internal/page"
)

// Filter selects letters; zero fields do not restrict. Lists of words are
// alternatives.
type Filter struct {
	Topic         string // exact, or with one * at its end
	Statuses      []Status
	Resolutions   []Resolution
	Sources       []Source
	Classes       []ErrorClass
	Fingerprint   string
	ErrorType     string
	ErrorContains string // words that all occur in the message, whole, in any case
	ConsumerGroup string
	Key           []byte            // nil: any
	Headers       map[string]string // name → value
	Payload       map[string]string // dotted path → a JSON scalar or, when it is none, a text
	Labels        []string          // all of them
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

// Query is the request for a page of letters.
type Query struct {
	Filter
	page.ByTime
	Oldest bool // oldest first; otherwise newest first
	// Bare omits Content and Failure.Stack, which may be megabytes per letter.
	Bare bool
	// Largest omits them from letters with more bytes of them (Omitted); 0: never. A page of
	// letters of 10 MB would be gigabytes.
	Largest int
}
