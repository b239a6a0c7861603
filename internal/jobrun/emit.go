package jobrun

import (
	"cmp"
	"strconv"
	"strings"

	"github.com/google/uuid"

	"github.com/skald-saga/skald/internal/fault"
)

// Emits returns an event that r publishes when it succeeds. The publisher is the initiator of r.
// Unless the event sets them, its time is now and its correlation id is the one of r.
func (r *Run) Emits(e NewEvent, m Moment) NewEvent {
	if e.ID == uuid.Nil {
		e.ID = m.NewID()
	}
	if e.OccurredAt == nil {
		e.OccurredAt = &m.Now
	}
	e.CorrelationID, e.By = cmp.Or(e.CorrelationID, r.CorrelationID), r.InitiatedBy
	return e
}

// Follow returns the follow-up run of d that r requested as its i-th emission. As with events, a
// policy that forbids the run makes it SKIPPED. Faults: Conflict (CodeConflict) if d is disabled,
// or if d is built in, because a worker's rights are limited to those of its runs; Invalid if d
// does not accept the arguments.
func (r *Run) Follow(n *NextRun, i int, d *Definition, s Settings, m Moment) (Run, error) {
	if !d.Enabled {
		return Run{}, fault.New(fault.Conflict, CodeConflict, "the job definition %s is disabled", d.Name)
	}
	if strings.HasPrefix(d.Spec.CommandName, SystemPrefix) {
		return Run{}, fault.New(fault.Conflict, CodeConflict, "a run cannot create runs of the built-in job %s", d.Name)
	}
	schema, err := ParseSchema(d.Spec.ArgsSchema)
	if err != nil {
		return Run{}, err
	}
	place := strconv.Itoa(i)
	if err := schema.Check("/emit/"+place+"/run/args", d.Spec.Data(n.Args)); err != nil {
		return Run{}, err
	}
	ask := Request{
		Trigger: ByEvent, Key: FollowKey(r.ID, cmp.Or(n.Key, place)), Args: n.Args,
		CorrelationID: r.CorrelationID, TraceID: r.TraceID, TraceState: r.TraceState, Baggage: r.Baggage,
		By: r.InitiatedBy,
	}
	if n.ScheduledFor != nil {
		ask.ScheduledFor = *n.ScheduledFor
	}
	return New(d, ask, s, m), nil
}
