package jobrun_test

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"

	"github.com/skald-saga/skald/internal/dlq"
	"github.com/skald-saga/skald/internal/jobrun"
)

func TestWhichEventsATriggerTakes(t *testing.T) {
	t.Parallel()
	const payload = `{"country":"DE","amount":100,"paid":true,"note":null,"lines":[{"sku":"a"},{"sku":"b"}],"tags":["x"]}`
	for _, tt := range []struct {
		name, takes, event string
		match              map[string]string
		want               bool
	}{
		{"its type", "order.paid", "order.paid", nil, true},
		{"not another one", "order.paid", "order.sent", nil, false},
		{"not one that begins like it", "order.paid", "order.paid.twice", nil, false},
		{"all that begin so", "order.*", "order.paid", nil, true},
		{"not what begins otherwise", "order.*", "orders.paid", nil, false},
		{"everything", "*", "anything", nil, true},
		{"a value", "*", "e", map[string]string{"country": `"DE"`}, true},
		{"not another value", "*", "e", map[string]string{"country": `"FR"`}, false},
		{"every value", "*", "e", map[string]string{"country": `"DE"`, "amount": `1`}, false},
		{"a number however it is written", "*", "e", map[string]string{"amount": `1e2`}, true},
		{"a truth", "*", "e", map[string]string{"paid": `true`}, true},
		{"not a word for it", "*", "e", map[string]string{"paid": `"true"`}, false},
		{"null where it says so", "*", "e", map[string]string{"note": `null`}, true},
		{"not null where it says nothing", "*", "e", map[string]string{"missing": `null`}, false},
		{"through arrays", "*", "e", map[string]string{"lines.1.sku": `"b"`}, true},
		{"not beyond their end", "*", "e", map[string]string{"lines.2.sku": `"b"`}, false},
		{"not what is not a scalar", "*", "e", map[string]string{"tags": `"x"`}, false},
	} {
		trigger := jobrun.EventTrigger{EventType: tt.takes}
		for path, want := range tt.match {
			if trigger.Match == nil {
				trigger.Match = map[string]json.RawMessage{}
			}
			trigger.Match[path] = json.RawMessage(want)
		}
		if got := trigger.Matches(&jobrun.NewEvent{Type: tt.event, Payload: json.RawMessage(payload)}); got != tt.want {
			t.Errorf("%s: %v", tt.name, got)
		}
		empty := trigger.Matches(&jobrun.NewEvent{Type: tt.event})
		if len(tt.match) > 0 && empty {
			t.Errorf("%s: an event without payload has its values", tt.name)
		}
	}
}

func TestWhichDefinitionsGetAnEvent(t *testing.T) {
	t.Parallel()
	e := jobrun.PublishedEvent{NewEvent: jobrun.NewEvent{Type: "order.paid"}}
	for name, tt := range map[string]struct {
		change func(*jobrun.Definition)
		want   bool
	}{
		"one that listens":              {func(*jobrun.Definition) {}, true},
		"not one that is disabled":      {func(d *jobrun.Definition) { d.Enabled = false }, false},
		"nor deleted":                   {func(d *jobrun.Definition) { d.DeletedAt = &noon }, false},
		"nor paused":                    {func(d *jobrun.Definition) { d.PausedAt = &noon }, false},
		"but one whose pause is over":   {func(d *jobrun.Definition) { d.PausedAt, d.PausedUntil = new(noon.Add(-time.Hour)), &noon }, true},
		"not one without a trigger":     {func(d *jobrun.Definition) { d.Spec.Event = nil }, false},
		"nor one of other events":       {func(d *jobrun.Definition) { d.Spec.Event.EventType = "order.sent" }, false},
		"one that takes all of a kind":  {func(d *jobrun.Definition) { d.Spec.Event.EventType = "order.*" }, true},
		"not one that wants more of it": {func(d *jobrun.Definition) { d.Spec.Event.Match = map[string]json.RawMessage{"a": json.RawMessage(`1`)} }, false},
	} {
		d := jobrun.Definition{Enabled: true, Spec: jobrun.Spec{Event: &jobrun.EventTrigger{EventType: "order.paid"}}}
		tt.change(&d)
		if got := e.Matches(&d, noon); got != tt.want {
			t.Errorf("%s: %v", name, got)
		}
	}
}

func TestWhatARunGetsOfAnEvent(t *testing.T) {
	t.Parallel()
	e := jobrun.PublishedEvent{
		NewEvent: jobrun.NewEvent{ID: uuid.UUID{1}, Type: "order.paid", Payload: json.RawMessage(`{"n":1}`),
			By: "publisher"},
		CreatedAt: noon,
	}
	plain := jobrun.EventTrigger{Args: "payload"}
	if args, err := plain.ArgsOf(&e); err != nil || string(args) != `{"n":1}` {
		t.Errorf("the payload alone: %s, %v", args, err)
	}
	bare := e
	bare.Payload = nil
	if args, err := plain.ArgsOf(&bare); err != nil || string(args) != `null` {
		t.Errorf("of no payload: %s, %v", args, err)
	}
	args, err := new(jobrun.EventTrigger).ArgsOf(&e)
	for _, part := range []string{`"event_id":"01000000-`, `"event_type":"order.paid"`, `"payload":{"n":1}`, `"published_at":"2026-03-01T12:00:00Z"`} {
		if err != nil || !strings.Contains(string(args), part) {
			t.Errorf("%s (%v) has no %s", args, err, part)
		}
	}
	d := jobrun.Definition{ID: uuid.UUID{3}, Name: "nightly"}
	first, second := jobrun.EventRequest(&e, &d, args), jobrun.EventRequest(&e, &d, args)
	want := first
	want.Key, want.EventID, want.Trigger, want.By = second.Key, e.ID, jobrun.ByEvent, "publisher"
	want.CorrelationID = e.ID.String()
	if diff := cmp.Diff(want, first); diff != "" {
		t.Errorf("the request (-want +got):\n%s", diff)
	}
	e.CorrelationID = "c-1"
	if r := jobrun.EventRequest(&e, &d, args); r.CorrelationID != "c-1" {
		t.Errorf("its correlation is %q", r.CorrelationID)
	}
}

func TestTheLetterOfAnEventThatNobodyTook(t *testing.T) {
	t.Parallel()
	e := jobrun.PublishedEvent{NewEvent: jobrun.NewEvent{ID: uuid.UUID{1}, Type: "order.paid"}}
	d := jobrun.Definition{ID: uuid.UUID{3}, TenantID: uuid.UUID{2}, Name: "nightly"}
	l := jobrun.Undelivered(&e, &d, json.RawMessage(`{"n":1}`), "no", moment())
	want := l
	want.TenantID, want.Source, want.Failure.Class = d.TenantID, dlq.FromJob, dlq.Permanent
	want.Target.Kind, want.Target.Job = dlq.ToJobRun, d.ID.String()
	want.Content.Payload, want.Link.JobRunID = []byte(`{"n":1}`), uuid.Nil
	if diff := cmp.Diff(want, l); diff != "" {
		t.Errorf("the letter (-want +got):\n%s", diff)
	}
	if l.ID == uuid.Nil || !strings.HasSuffix(l.Failure.Message, "was rejected: no") {
		t.Errorf("%s: %s", l.ID, l.Failure.Message)
	}
	if l.Target.Kind != dlq.ToJobRun || l.Target.Job != d.ID.String() || string(l.Content.Payload) != `{"n":1}` ||
		l.Link.JobRunID != uuid.Nil {
		t.Errorf("its retry goes to %+v with %s", l.Target, l.Content.Payload)
	}
}
