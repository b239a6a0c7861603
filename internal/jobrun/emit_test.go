package jobrun_test

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"

	"github.com/skald-saga/skald/internal/fault"
	"github.com/skald-saga/skald/internal/jobrun"
)

func TestTheEventThatARunLeavesBehind(t *testing.T) {
	t.Parallel()
	before := noon.Add(-time.Minute)
	r := underWay()
	r.InitiatedBy, r.CorrelationID = "ann", "order-1"
	m := moment()
	m.NewID = func() uuid.UUID { return uuid.UUID{9} }
	for name, tt := range map[string]struct{ says, want jobrun.NewEvent }{
		"of what it does not say": {
			jobrun.NewEvent{Type: "order.paid", DedupeKey: "k"},
			jobrun.NewEvent{ID: uuid.UUID{9}, Type: "order.paid", DedupeKey: "k", CorrelationID: "order-1",
				OccurredAt: &noon, By: "ann"},
		},
		"of what it says": {
			jobrun.NewEvent{ID: uuid.UUID{8}, CorrelationID: "order-2", OccurredAt: &before, Payload: json.RawMessage(`{}`)},
			jobrun.NewEvent{ID: uuid.UUID{8}, CorrelationID: "order-2", OccurredAt: &before,
				Payload: json.RawMessage(`{}`), By: "ann"},
		},
		"in nobody else's name": {
			jobrun.NewEvent{ID: uuid.UUID{8}, CorrelationID: "c", OccurredAt: &before, By: "eve"},
			jobrun.NewEvent{ID: uuid.UUID{8}, CorrelationID: "c", OccurredAt: &before, By: "ann"},
		},
	} {
		if diff := cmp.Diff(tt.want, r.Emits(tt.says, m)); diff != "" {
			t.Errorf("%s:\n%s", name, diff)
		}
	}
}

func TestTheRunThatFollowsARun(t *testing.T) {
	t.Parallel()
	later := noon.Add(time.Hour)
	r := underWay()
	r.InitiatedBy, r.CorrelationID, r.TraceID = "ann", "order-1", "trace"
	d := nightly(func(s *jobrun.Spec) { s.Concurrency = jobrun.Forbid })
	d.Enabled = true
	for name, tt := range map[string]struct {
		wants jobrun.NextRun
		key   string
		at    time.Time
	}{
		"at once":       {jobrun.NextRun{}, jobrun.FollowKey(r.ID, "2"), noon},
		"by its key":    {jobrun.NextRun{Key: "mail"}, jobrun.FollowKey(r.ID, "mail"), noon},
		"later":         {jobrun.NextRun{ScheduledFor: &later}, jobrun.FollowKey(r.ID, "2"), later},
		"its own words": {jobrun.NextRun{Args: json.RawMessage(`{"n":2}`)}, jobrun.FollowKey(r.ID, "2"), noon},
	} {
		n, err := r.Follow(&tt.wants, 2, d, settings, moment())
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		args := tt.wants.Args
		if args == nil {
			args = d.Spec.DefaultArgs
		}
		if n.IdempotencyKey != tt.key || !n.ScheduledFor.Equal(tt.at) || string(n.Args) != string(args) {
			t.Errorf("%s: %+v", name, n)
		}
		want := n
		want.Trigger, want.InitiatedBy, want.CorrelationID, want.TraceID = jobrun.ByEvent, "ann", "order-1", "trace"
		want.DefinitionID = d.ID
		if diff := cmp.Diff(want, n); diff != "" {
			t.Errorf("%s: it is not made for the run that wanted it (-want +got):\n%s", name, diff)
		}
		if n.Concurrency != jobrun.Forbid {
			t.Errorf("%s: its policy is %s: it would wait instead of being skipped", name, n.Concurrency)
		}
	}
}

func TestWhatNoRunMayFollow(t *testing.T) {
	t.Parallel()
	r := underWay()
	for name, tt := range map[string]struct {
		change func(*jobrun.Definition)
		code   string
		at     string // the pointer of the mistake
	}{
		"a disabled job": {func(d *jobrun.Definition) { d.Enabled = false }, jobrun.CodeConflict, ""},
		"a built-in job": {func(d *jobrun.Definition) { d.Spec.CommandName = jobrun.SystemPrefix + "purge" }, jobrun.CodeConflict, ""},
		"other arguments": {func(d *jobrun.Definition) {
			d.Spec.ArgsSchema = json.RawMessage(`{"type":"object","properties":{"n":{"type":"string"}}}`)
		}, "", "/emit/3/run/args/n"},
	} {
		d := nightly(nil)
		d.Enabled = true
		tt.change(d)
		_, err := r.Follow(&jobrun.NextRun{Args: json.RawMessage(`{"n":1}`)}, 3, d, settings, moment())
		f := fault.As(err)
		switch {
		case f == nil:
			t.Errorf("%s: %v", name, err)
		case tt.code != "" && f.Code != tt.code:
			t.Errorf("%s: %s, want %s", name, f.Code, tt.code)
		case tt.at != "" && (len(f.Fields) != 1 || f.Fields[0].Pointer != tt.at):
			t.Errorf("%s: %+v, want a mistake at %s", name, f.Fields, tt.at)
		}
	}
}
