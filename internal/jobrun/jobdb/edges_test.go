package jobdb

import (
	"slices"
	"testing"

	"github.com/skald-saga/skald/internal/jobrun"
)

// TestATransitionThatIsNotInTheTableIsInNoStatement removes each transition from the table and
// generates the conditions of the statements again.
func TestATransitionThatIsNotInTheTableIsInNoStatement(t *testing.T) {
	whole := jobrun.Edges
	defer func() { jobrun.Edges = whole }()
	for _, tt := range []struct {
		name     string
		from, to jobrun.State
		by       jobrun.Mover
		render   func() string
		with     string
		without  string
	}{
		{"claims of what waits", jobrun.Pending, jobrun.Assigned, jobrun.Worker, func() string { return phaseMovableTo(jobrun.Assigned, jobrun.Worker) },
			" IN ('PENDING', 'ORPHANED')", " = 'ORPHANED'"},
		{"claims of what was lost", jobrun.Orphaned, jobrun.Assigned, jobrun.Worker, func() string { return phaseMovableTo(jobrun.Assigned, jobrun.Worker) },
			" IN ('PENDING', 'ORPHANED')", " = 'PENDING'"},
		{"starts", jobrun.Assigned, jobrun.Running, jobrun.Worker, func() string { return movableTo(jobrun.Running, jobrun.Worker) }, " = 'ASSIGNED'", " IN (NULL)"},
		{"successes", jobrun.Running, jobrun.Succeeded, jobrun.Worker, func() string { return movableTo(jobrun.Succeeded, jobrun.Worker) }, " = 'RUNNING'", " IN (NULL)"},
		{"what was not started", jobrun.Assigned, jobrun.Orphaned, jobrun.Leader,
			func() string { return Movable(jobrun.Assigned, jobrun.Orphaned, jobrun.Leader) }, " = 'ASSIGNED'", " IN (NULL)"},
		{"what nobody confirms", jobrun.Running, jobrun.Orphaned, jobrun.Leader,
			func() string { return Movable(jobrun.Running, jobrun.Orphaned, jobrun.Leader) }, " = 'RUNNING'", " IN (NULL)"},
		{"what is with a worker", jobrun.Assigned, jobrun.Orphaned, jobrun.Leader,
			// A phase is moved either as a whole or not at all.
			func() string { return phaseMovableTo(jobrun.Orphaned, jobrun.Leader) }, " = 'HELD'", " IN (NULL)"},
	} {
		jobrun.Edges = whole
		if got := tt.render(); got != tt.with {
			t.Errorf("%s: %q, want %q", tt.name, got, tt.with)
		}
		jobrun.Edges = slices.Clone(whole)
		i := slices.IndexFunc(whole, func(e jobrun.Edge) bool { return e.From == tt.from && e.To == tt.to })
		jobrun.Edges[i].By = slices.DeleteFunc(slices.Clone(whole[i].By), func(m jobrun.Mover) bool { return m == tt.by })
		if got := tt.render(); got != tt.without {
			t.Errorf("%s, without %s → %s: %q, want %q", tt.name, tt.from, tt.to, got, tt.without)
		}
	}
}
