package jobrun_test

import (
	"errors"
	"testing"

	"github.com/skald-saga/skald/internal/fault"
	"github.com/skald-saga/skald/internal/jobrun"
)

// decide is Apply at the moment of these tests.
func decide(r jobrun.Run, s *jobrun.Spec, e jobrun.Event) (jobrun.Change, error) {
	return jobrun.Apply(jobrun.Instance{Run: r, Spec: s}, e, moment())
}

// A transition that is not in the table is refused with that transition as the cause, and changes
// nothing.
func TestARefusedMoveIsNamed(t *testing.T) {
	edge := func(from, to jobrun.State, by jobrun.Mover) jobrun.IllegalEdgeError {
		return jobrun.IllegalEdgeError{From: from, To: to, By: by}
	}
	for name, tt := range map[string]struct {
		from jobrun.State
		e    jobrun.Event
		want jobrun.IllegalEdgeError
	}{
		"a result of what was not started": {
			jobrun.Assigned, jobrun.Reported{}, edge(jobrun.Assigned, jobrun.Succeeded, jobrun.Worker),
		},
		"a cancel of what has ended": {
			jobrun.Failed, jobrun.CancelRequested{}, edge(jobrun.Failed, jobrun.Canceled, jobrun.Operator),
		},
		"what no worker has given back": {
			jobrun.Pending, jobrun.Released{}, edge(jobrun.Pending, jobrun.Orphaned, jobrun.Worker),
		},
		"what no worker has reassigned": {
			jobrun.Pending, jobrun.ReassignRequested{},
			edge(jobrun.Pending, jobrun.Orphaned, jobrun.Operator),
		},
		"a slot withdrawn from a worker": {
			jobrun.Running, jobrun.Withdrawn{}, edge(jobrun.Running, jobrun.Skipped, jobrun.Operator),
		},
		"the leader skips what runs": {
			jobrun.Running, jobrun.Decided{Step: jobrun.StepSkip},
			edge(jobrun.Running, jobrun.Skipped, jobrun.Leader),
		},
	} {
		t.Run(name, func(t *testing.T) {
			r := jobrun.Run{State: tt.from, Version: 7}
			c, err := decide(r, spec(1), tt.e)
			illegal, is := errors.AsType[*jobrun.IllegalEdgeError](err)
			if !is || *illegal != tt.want || fault.KindOf(err) != fault.Conflict {
				t.Errorf("%v (%+v), want a conflict because of %+v", err, illegal, tt.want)
			}
			if c.Changes() || c.After.State != tt.from {
				t.Errorf("what is refused changes something: %+v", c)
			}
		})
	}
}
