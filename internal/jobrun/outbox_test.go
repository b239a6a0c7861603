package jobrun_test

import (
	"slices"
	"testing"

	"github.com/google/uuid"

	"github.com/skald-saga/skald/internal/dlq"
	"github.com/skald-saga/skald/internal/fault"
	"github.com/skald-saga/skald/internal/jobrun"
)

func TestAnEventGoesToTheTopicOfTheFirstEntryThatFits(t *testing.T) {
	t.Parallel()
	s := jobrun.Spec{Emit: []jobrun.EmitTopic{{"order.paid", "paid"}, {"order.*", "orders"}, {"*", "rest"}}}
	for eventType, want := range map[string]string{"order.paid": "paid", "order.sent": "orders", "bill": "rest"} {
		if got := s.TopicOf(eventType); got != want {
			t.Errorf("%s goes to %q, want %q", eventType, got, want)
		}
	}
	if got := new(jobrun.Spec).TopicOf("order.paid"); got != "" {
		t.Errorf("without an entry it goes to %q", got)
	}
}

func TestTopicsThatAreRefusedHaveTheirPointers(t *testing.T) {
	t.Parallel()
	pointers := func(err error) (all []string) {
		if f := fault.As(err); f != nil {
			for _, field := range f.Fields {
				all = append(all, field.Pointer)
			}
		}
		return all
	}
	s := jobrun.Spec{Type: jobrun.OnDemand, CommandName: "c", Emit: []jobrun.EmitTopic{
		{"a", "good"}, {"a*b", "x"}, {"", "x"}, {"c", "not a topic"}, {"d", ".."},
	}}.Complete()
	want := []string{"/emit/1/event_type", "/emit/2/event_type", "/emit/3/topic", "/emit/4/topic"}
	if got := pointers(jobrun.CheckNew("job", &s)); !slices.Equal(got, want) {
		t.Errorf("the mistakes are at %v, want %v", got, want)
	}
	s.Emit = make([]jobrun.EmitTopic, jobrun.MaxEmitTopics+1)
	for i := range s.Emit {
		s.Emit[i] = jobrun.EmitTopic{EventType: "a", Topic: "t"}
	}
	if got := pointers(jobrun.CheckNew("job", &s)); !slices.Equal(got, []string{"/emit"}) {
		t.Errorf("too many are refused at %v", got)
	}
	s.Emit = []jobrun.EmitTopic{{"a", "good"}, {"b", "read"}}
	refuse := func(topic string) string {
		if topic == "read" {
			return "is read"
		}
		return ""
	}
	if got := pointers(s.CheckEmit(refuse)); !slices.Equal(got, []string{"/emit/1/topic"}) {
		t.Errorf("a topic that is read is refused at %v", got)
	}
}

func TestAnEventThatItsTopicRefusesIsALetterWithTheSameRecord(t *testing.T) {
	t.Parallel()
	o := jobrun.Outgoing{Topic: "orders", Event: jobrun.PublishedEvent{TenantID: uuid.New()}}
	o.Event.ID, o.Event.Type = uuid.New(), "order.paid"
	f := jobrun.Unpublished(&o, dlq.Content{Key: []byte("k")}, "too large", uuid.New(), dlq.Moment{Now: written})
	l := f.Letter
	if f.ID != o.Event.ID || l.TenantID != o.Event.TenantID ||
		l.Target != (dlq.Target{Kind: dlq.ToKafka, Topic: "orders"}) ||
		string(l.Content.Key) != "k" || l.Status != dlq.Pending || l.NextRetryAt != nil ||
		l.Failure.Message != "event "+f.ID.String()+" (order.paid) was not published: too large" {
		t.Errorf("%+v", l)
	}
}
