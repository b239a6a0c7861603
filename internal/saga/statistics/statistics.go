// Package statistics is the rules of figures about many sagas: counts by state, over time, and of the
// attempts of steps, with the contract that the stores implement.
//
// Files, each on top of those before it: answering, attempts, errors, statistics.
package statistics

import (
	"context"
	"time"

	"github.com/google/uuid"

	"github.com/skald-saga/skald/internal/saga"
)

// StatisticsFilter selects the sagas that are counted; zero fields do not restrict.
type StatisticsFilter struct {
	WorkflowName string
	// CreatedFrom (inclusive) and CreatedTo (exclusive) are full hours in UTC, the
	// resolution at which ended sagas are counted.
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
	// Definitions contains the definitions that have sagas, by name and version.
	Definitions []DefinitionStatistics
}

// DefinitionStatistics is seed 2's row of saga_statistics: the sagas of one
// version of a workflow, archived ones included.
type DefinitionStatistics struct {
	WorkflowName    string
	WorkflowVersion int
	ByState         [9]int64 // indexed by saga.State
	NeedsAttention  int64
	// Timed counts sagas with a start and an end; Duration is the sum of their durations.
	Timed         int64
	Duration      time.Duration
	LastExecution time.Time // of the latest change of any
}

// Total returns the number of sagas in all states.
func (d *DefinitionStatistics) Total() int64 {
	var n int64
	for _, c := range d.ByState {
		n += c
	}
	return n
}

// Count returns the number of those in one of states.
func (d *DefinitionStatistics) Count(states ...saga.State) int64 {
	var n int64
	for _, s := range states {
		n += d.ByState[s]
	}
	return n
}

// Bounds of a series.
const (
	MostBuckets = 500
	// MinutesKept is how far back sagas are counted by the minute.
	MinutesKept = 3 * 24 * time.Hour
	// MostTimed limits the sagas that are read for their durations, over all buckets together.
	MostTimed = 10_000
)

// SeriesFilter selects sagas by their creation, and divides the period into buckets. From and
// To are multiples of Bucket, which is a number of full minutes, hours or days (UTC).
type SeriesFilter struct {
	WorkflowName string // empty: all
	Bucket       time.Duration
	From, To     time.Time
}

// Matches reports whether a saga of the tenant is counted.
func (f *SeriesFilter) Matches(s *saga.Saga) bool {
	return (f.WorkflowName == "" || s.WorkflowName == f.WorkflowName) && saga.Within(s.CreatedAt, f.From, f.To)
}

// Buckets returns how many there are.
func (f *SeriesFilter) Buckets() int { return int(f.To.Sub(f.From) / f.Bucket) }

// TimedEach is how many sagas of one bucket are read for their durations.
func (f *SeriesFilter) TimedEach() int { return max(MostTimed/max(f.Buckets(), 1), 1) }

// Series counts the sagas of each bucket by their states as of one point in time.
type Series struct {
	AsOf    time.Time
	Buckets []SeriesBucket
}

// SeriesBucket counts the sagas created in one bucket. Durations are those of ended ones
// among the newest TimedEach.
type SeriesBucket struct {
	ByState   [9]int64 // indexed by saga.State
	Durations Durations
}

// Total returns the number of all of them.
func (b *SeriesBucket) Total() (n int64) {
	for _, c := range b.ByState {
		n += c
	}
	return n
}

// Count returns the number of those in one of states.
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
	// Attempts reads the attempts of a bounded number of a tenant's sagas.
	Attempts(ctx context.Context, tenant uuid.UUID, f AttemptFilter) (AttemptSample, error)
	// Errors groups a tenant's sagas that failed or need attention by their error, at most
	// MostExamined of them.
	Errors(ctx context.Context, tenant uuid.UUID, f ErrorFilter) (Errors, error)
	// Calls returns the last attempt, if it has ended, of each call to a host that the newest MostCallers sagas of a
	// workflow and the newest MostCallers of the tenant have made, archived sagas excepted; in any order.
	Calls(ctx context.Context, tenant uuid.UUID, f CallsFilter) ([]OtherCall, error)
	// RollUp maintains the counts that keep Statistics fast, without changing its results. It
	// is called periodically; if several nodes call it at once, only one does the work.
	RollUp(ctx context.Context) error
}
