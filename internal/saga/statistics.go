package saga

import (
	"context"
	"time"

	"github.com/google/uuid"
)

// StatisticsFilter selects what is counted; zero fields do not restrict.
type StatisticsFilter struct {
	WorkflowName string
	// CreatedFrom (inclusive) and CreatedTo (exclusive) are full hours in UTC:
	// that is how finely ended sagas are kept.
	CreatedFrom, CreatedTo time.Time
}

// Matches tells whether a saga of the tenant is counted.
func (f *StatisticsFilter) Matches(s *Saga) bool {
	return (f.WorkflowName == "" || s.WorkflowName == f.WorkflowName) && within(s.CreatedAt, f.CreatedFrom, f.CreatedTo)
}

// Statistics counts a tenant's sagas as they were at one moment.
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
	// Timed sagas have a start and an end; Duration is the time between, summed up.
	Timed         int64
	Duration      time.Duration
	LastExecution time.Time // of the latest change of any
}

// Total is the number of all.
func (d *DefinitionStatistics) Total() int64 {
	var n int64
	for _, c := range d.ByState {
		n += c
	}
	return n
}

// Count is the number of those in one of states.
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
	// Statistics counts a tenant's sagas, every one exactly once, in a time that
	// does not grow with those that have ended.
	Statistics(ctx context.Context, tenant uuid.UUID, f StatisticsFilter) (Statistics, error)
	// RollUp does now and then what keeps Statistics fast, and changes none of
	// its results. Several nodes may do it at once: one of them works.
	RollUp(ctx context.Context) error
}
