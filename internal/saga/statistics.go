package saga

import (
	"context"
	"time"

	"github.com/google/uuid"
)

// StatisticsFilter selects what is counted; zero fields do not restrict.
type StatisticsFilter struct {
	WorkflowName string
	// CreatedFrom (inclusive) and CreatedTo (exclusive) are full hours in UTC, the
	// resolution at which ended sagas are counted.
	CreatedFrom, CreatedTo time.Time
}

// Matches tells whether a saga of the tenant is counted.
func (f *StatisticsFilter) Matches(s *Saga) bool {
	return (f.WorkflowName == "" || s.WorkflowName == f.WorkflowName) && within(s.CreatedAt, f.CreatedFrom, f.CreatedTo)
}

// Statistics counts a tenant's sagas as of one point in time.
type Statistics struct {
	AsOf time.Time
	// Definitions are those that have sagas, by name and version.
	Definitions []DefinitionStatistics
}

// DefinitionStatistics is seed 2's row of saga_statistics: the sagas of one
// version of a workflow, archived ones included.
type DefinitionStatistics struct {
	WorkflowName    string
	WorkflowVersion int
	ByState         [9]int64 // indexed by State
	NeedsAttention  int64
	// Timed counts sagas with a start and an end; Duration is the sum of the times
	// between.
	Timed         int64
	Duration      time.Duration
	LastExecution time.Time // of the latest change of any
}

// Total returns the number of all of them.
func (d *DefinitionStatistics) Total() int64 {
	var n int64
	for _, c := range d.ByState {
		n += c
	}
	return n
}

// Count returns the number of those in one of states.
func (d *DefinitionStatistics) Count(states ...State) int64 {
	var n int64
	for _, s := range states {
		n += d.ByState[s]
	}
	return n
}

// Reports answers questions about many sagas at once (seed 2, saga_statistics).
// Errors are outages. Implementations are safe for concurrent use.
type Reports interface {
	// Statistics counts a tenant's sagas, each exactly once. The time it takes does not
	// grow with the number of ended sagas.
	Statistics(ctx context.Context, tenant uuid.UUID, f StatisticsFilter) (Statistics, error)
	// RollUp maintains what keeps Statistics fast and changes none of its results. It
	// is called periodically; if several nodes call it at once, only one does the work.
	RollUp(ctx context.Context) error
}
