// Package statistics contains the rules for statistics about many sagas: counts by state, counts
// over time, and counts of the attempts of steps. It also defines the interface that the stores
// implement.
//
// Files, each on top of those before it: answering, attempts, errors, statistics.
package statistics

import (
	"context"
	"time"

	"github.com/google/uuid"

	"github.com/skald-saga/skald/internal/saga"
)

// StatisticsFilter selects the sagas that are counted. Zero fields do not restrict the selection.
type StatisticsFilter struct {
	WorkflowName string
	// CreatedFrom (inclusive) and CreatedTo (exclusive) are full hours in UTC, because ended sagas
	// are counted by the hour.
	CreatedFrom, CreatedTo time.Time
}

// Matches reports whether a saga of the tenant is counted.
func (f *StatisticsFilter) Matches(s *saga.Saga) bool {
	return (f.WorkflowName == "" || s.WorkflowName == f.WorkflowName) &&
		saga.Within(s.CreatedAt, f.CreatedFrom, f.CreatedTo)
}

// Statistics counts a tenant's sagas as of one point in time.
type Statistics struct {
	AsOf time.Time
	// Definitions contains the definitions that have sagas, ordered by name and version.
	Definitions []DefinitionStatistics
}

// DefinitionStatistics is a row of seed 2's saga_statistics. It counts the sagas of one version of
// a workflow, including archived ones.
type DefinitionStatistics struct {
	WorkflowName    string
	WorkflowVersion int
	ByState         [9]int64 // indexed by saga.State
	NeedsAttention  int64
	// Timed counts the sagas that have a start and an end. Duration is the sum of their durations.
	Timed         int64
	Duration      time.Duration
	LastExecution time.Time // when any of the sagas last changed
}

// Total returns the number of sagas in all states.
func (d *DefinitionStatistics) Total() int64 {
	var n int64
	for _, c := range d.ByState {
		n += c
	}
	return n
}

// Count returns the number of sagas in the given states.
func (d *DefinitionStatistics) Count(states ...saga.State) int64 {
	var n int64
	for _, s := range states {
		n += d.ByState[s]
	}
	return n
}

// Limits of a series.
const (
	MostBuckets = 500
	// MinutesKept is how far back sagas are counted by the minute.
	MinutesKept = 3 * 24 * time.Hour
	// MostTimed limits how many sagas are read for their durations, over all buckets together.
	MostTimed = 10_000
)

// SeriesFilter selects sagas by their time of creation, and divides the period into buckets. From
// and To are multiples of Bucket, which is a number of full minutes, hours or days (UTC).
type SeriesFilter struct {
	WorkflowName string // empty means all
	Bucket       time.Duration
	From, To     time.Time
}

// Matches reports whether a saga of the tenant is counted.
func (f *SeriesFilter) Matches(s *saga.Saga) bool {
	return (f.WorkflowName == "" || s.WorkflowName == f.WorkflowName) && saga.Within(s.CreatedAt, f.From, f.To)
}

// Buckets returns the number of buckets.
func (f *SeriesFilter) Buckets() int { return int(f.To.Sub(f.From) / f.Bucket) }

// TimedEach is how many sagas per bucket are read for their durations.
func (f *SeriesFilter) TimedEach() int { return max(MostTimed/max(f.Buckets(), 1), 1) }

// Series counts the sagas of each bucket by state, as of one point in time.
type Series struct {
	AsOf    time.Time
	Buckets []SeriesBucket
}

// SeriesBucket counts the sagas created in one bucket. Durations are those of the ended sagas among
// the newest TimedEach.
type SeriesBucket struct {
	ByState   [9]int64 // indexed by saga.State
	Durations Durations
}

// Total returns the number of sagas in all states.
func (b *SeriesBucket) Total() (n int64) {
	for _, c := range b.ByState {
		n += c
	}
	return n
}

// Count returns the number of sagas in the given states.
func (b *SeriesBucket) Count(states ...saga.State) (n int64) {
	for _, s := range states {
		n += b.ByState[s]
	}
	return n
}

// Reports answers questions about many sagas at once (seed 2, saga_statistics).
// Errors are outages. Implementations are safe for concurrent use.
type Reports interface {
	// Statistics counts a tenant's sagas, each exactly once. The time it takes does not
	// grow with the number of ended sagas.
	Statistics(ctx context.Context, tenant uuid.UUID, f StatisticsFilter) (Statistics, error)
	// Series counts a tenant's sagas over time, each exactly once. The time it takes grows
	// with the number of buckets and of unfinished sagas.
	Series(ctx context.Context, tenant uuid.UUID, f SeriesFilter) (Series, error)
	// Attempts reads the attempts of a limited number of a tenant's sagas.
	Attempts(ctx context.Context, tenant uuid.UUID, f AttemptFilter) (AttemptSample, error)
	// Errors groups a tenant's sagas that failed or need attention by their error. It reads at most
	// MostExamined of them.
	Errors(ctx context.Context, tenant uuid.UUID, f ErrorFilter) (Errors, error)
	// Calls returns, for each call to a host, the last attempt if it has ended. It considers the
	// newest MostCallers sagas of a workflow and the newest MostCallers of the tenant, without
	// archived ones. The order is undefined.
	Calls(ctx context.Context, tenant uuid.UUID, f CallsFilter) ([]OtherCall, error)
	// RollUp maintains the counts that keep Statistics fast, without changing its results. It is
	// called periodically. If several nodes call it at the same time, only one of them does the
	// work.
	RollUp(ctx context.Context) error
}
