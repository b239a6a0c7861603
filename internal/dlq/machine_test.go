package dlq

import (
	"errors"
	"testing"

	"github.com/skald-saga/skald/internal/fault"
)

// applied returns l after Apply.
func applied(l Letter, e Event, m Moment) (Letter, error) {
	c, err := Apply(l, e, m)
	legal(err)
	return c.After, err
}

// legal panics if the rules make a transition that the table does not contain.
func legal(err error) {
	if illegal, is := errors.AsType[*IllegalEdgeError](err); is && illegal.To != "" {
		panic(illegal)
	}
}

// finish is Finished where the table has the move.
func finish(d *Drive, r Result, p *Policy, m Moment) Finish {
	f, err := d.Finished(r, p, m)
	legal(err)
	return f
}

func asked(e Event) func(Letter) *Letter {
	return func(l Letter) *Letter { return orNil(applied(l, e, testMoment())) }
}

func acked(processed bool) func(Letter) *Letter {
	p := DefaultPolicy
	return func(l Letter) *Letter {
		return asked(ConsumerReported{Generation: l.Generation, Processed: processed, Policy: &p})(l)
	}
}

func refusal(l Letter, e Event) error {
	_, err := applied(l, e, testMoment())
	return err
}

// A transition that the table does not contain is rejected, is named as the cause, and changes
// nothing.
func TestARefusedMoveIsNamed(t *testing.T) {
	t.Parallel()
	p := DefaultPolicy
	ended := func(o AttemptOutcome) Event { return DriveEnded{&Drive{}, Result{Outcome: o}, &p} }
	for name, tt := range map[string]struct {
		from Status
		e    Event
		want IllegalEdgeError
	}{
		"requeue":       {Pending, RequeueRequested{Policy: &p}, IllegalEdgeError{From: Pending, On: Requeue}},
		"discard":       {Dead, DiscardRequested{}, IllegalEdgeError{From: Dead, On: Discard}},
		"resolve":       {Retrying, ResolveRequested{}, IllegalEdgeError{From: Retrying, On: Resolve}},
		"restore":       {Pending, RestoreRequested{}, IllegalEdgeError{From: Pending, On: Restore}},
		"end no retry":  {Pending, ended(Acknowledged), IllegalEdgeError{Pending, Resolved, Acked}},
		"fail no retry": {Dead, ended(FailedDrive), IllegalEdgeError{Dead, Pending, RetryFailed}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := Letter{Status: tt.from, MaxRetries: 3, Version: 7}
			c, err := Apply(l, tt.e, testMoment())
			illegal, is := errors.AsType[*IllegalEdgeError](err)
			if !is || *illegal != tt.want || fault.KindOf(err) != fault.Conflict {
				t.Errorf("%v (%+v), want a conflict because of %+v", err, illegal, tt.want)
			}
			if c.Changes() || c.After.Status != tt.from || c.Attempt != nil {
				t.Errorf("what is refused changes something: %+v", c)
			}
		})
	}
}
