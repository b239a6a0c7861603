package webhook_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"

	"github.com/skald-saga/skald/internal/audit/eventtype"
	"github.com/skald-saga/skald/internal/event/webhook"
	"github.com/skald-saga/skald/internal/fault"
)

func TestWhichEventsAreWanted(t *testing.T) {
	for _, tt := range []struct {
		name            string
		types, names    []string
		event, workflow string
		want            bool
		label           string // of inline steps
	}{
		{"no lists want everything", nil, nil, "saga.failed", "order", true, ""},
		{"... of a saga that is gone too", nil, nil, "saga.failed", "", true, ""},
		{"an exact type", []string{"saga.failed"}, nil, "saga.failed", "order", true, ""},
		{"another type", []string{"saga.failed"}, nil, "saga.completed", "order", false, ""},
		{"a type is not a prefix", []string{"saga"}, nil, "saga.failed", "order", false, ""},
		{"a prefix covers all below it", []string{"saga.*"}, nil, "saga.step.failed", "order", true, ""},
		{"a prefix covers types that are not known yet", []string{"saga.*"}, nil, "saga.dreamt", "order", true, ""},
		{"a prefix covers nothing beside it", []string{"saga.*"}, nil, "compensation.failed", "order", false, ""},
		{"a star covers all", []string{"*"}, nil, "state.changed", "order", true, ""},
		{"any of several", []string{"retry.*", "saga.failed"}, nil, "retry.exhausted", "order", true, ""},
		{"a workflow", nil, []string{"order", "refund"}, "saga.failed", "refund", true, ""},
		{"another workflow", nil, []string{"order"}, "saga.failed", "orders", false, ""},
		{"the workflow of a saga that is gone is not known", nil, []string{"order"}, "saga.failed", "", false, ""},
		{"both must fit", []string{"saga.failed"}, []string{"order"}, "saga.completed", "order", false, ""},
		{"what the client called inline steps", nil, []string{"order"}, "saga.failed", "inline:0123", true, "order"},
		{"a label is cut as the type of a saga is", nil, []string{strings.Repeat("o", 70)}, "saga.failed", "inline:0123", true, strings.Repeat("o", 64)},
		{"the name of a workflow of inline steps", nil, []string{"inline:0123"}, "saga.failed", "inline:0123", true, "order"},
		{"another label", nil, []string{"refund"}, "saga.failed", "inline:0123", false, "order"},
	} {
		s := webhook.Subscription{EventTypes: tt.types, WorkflowNames: tt.names}
		if got := s.Wants(eventtype.Type(tt.event), tt.workflow, tt.label); got != tt.want {
			t.Errorf("%s: wants %v", tt.name, got)
		}
	}
}

func TestValidAndInvalidSubscriptions(t *testing.T) {
	for _, tt := range []struct {
		name string
		c    webhook.Settings
		want []string // pointers
	}{
		{"plain http on a port", webhook.Settings{URL: new("http://h:8080/a?b=c")}, nil},
		{"an address", webhook.Settings{URL: new("https://192.0.2.1/")}, nil},
		{"an IPv6 address", webhook.Settings{URL: new("https://[2001:db8::1]:443/")}, nil},
		{"a name that ends in a digit", webhook.Settings{URL: new("https://h1.example.c0/")}, nil},
		{"every known type", webhook.Settings{URL: new("https://h/"), EventTypes: ptr(texts(eventtype.All))}, nil},
		{"a star", webhook.Settings{URL: new("https://h/"), EventTypes: &[]string{"*", "saga.*", "compensation.step.*"}}, nil},
		{"no URL", webhook.Settings{}, []string{"/url"}},
		{"no host", webhook.Settings{URL: new("https:///x")}, []string{"/url"}},
		{"a fragment", webhook.Settings{URL: new("https://h/#x")}, []string{"/url"}},
		{"a great port", webhook.Settings{URL: new("https://h:65536/")}, []string{"/url"}},
		{"a decimal address", webhook.Settings{URL: new("https://2130706433/")}, []string{"/url"}},
		{"an octal one", webhook.Settings{URL: new("https://0177.0.0.1/")}, []string{"/url"}},
		{"one with a dot behind", webhook.Settings{URL: new("https://127.1./")}, []string{"/url"}},
		{"too long", webhook.Settings{URL: new("https://h/" + strings.Repeat("a", webhook.MaxURL))}, []string{"/url"}},
		{"stars and strangers", webhook.Settings{
			URL:           new("https://h/"),
			EventTypes:    &[]string{"saga.completed", "sag*", "saga.done", "dream.*", ""},
			WorkflowNames: &[]string{"order", "-"},
			Description:   new(strings.Repeat("ü", webhook.MaxDescription+1)),
		}, []string{"/description", "/event_types/1", "/event_types/2", "/event_types/3", "/event_types/4",
			"/workflow_names/1"}},
	} {
		_, err := webhook.New(uuid.New(), uuid.New(), tt.c, []byte("k"), "", now)
		var got []string
		if f := fault.As(err); f != nil {
			for _, field := range f.Fields {
				got = append(got, field.Pointer)
			}
		}
		if !slices.Equal(got, tt.want) {
			t.Errorf("%s: mistakes at %v, want %v", tt.name, got, tt.want)
		}
	}
}

func ptr(list []string) *[]string { return &list }

func texts(types []eventtype.Type) (out []string) {
	for _, t := range types {
		out = append(out, string(t))
	}
	return out
}

func TestEnablingClearsTheReasonOfDisabling(t *testing.T) {
	s := subscription(t)
	s.Health = webhook.Health{FailingSince: &now, GivenUp: 3}
	off, err := s.With(webhook.Settings{Enabled: new(false)}, now)
	if err != nil {
		t.Fatal(err)
	}
	want := s
	want.Enabled, want.DisabledReason, want.DisabledAt = false, off.DisabledReason, &now
	want.Version, want.UpdatedAt = s.Version+1, off.UpdatedAt
	if diff := cmp.Diff(want, off); diff != "" || off.DisabledReason == "" {
		t.Errorf("off, because of %q (-want +got):\n%s", off.DisabledReason, diff)
	}
	on, err := off.With(webhook.Settings{Enabled: new(true)}, now.Add(time.Minute))
	if err != nil {
		t.Fatal(err)
	}
	want = s
	want.Health, want.Version, want.UpdatedAt = webhook.Health{}, s.Version+2, on.UpdatedAt
	if diff := cmp.Diff(want, on); diff != "" {
		t.Errorf("on (-want +got):\n%s", diff)
	}
	if !s.Enabled || s.Version != 1 {
		t.Error("the subscription was changed in place")
	}
}

func TestARotationSignsWithBothSecretsForADay(t *testing.T) {
	s := subscription(t).Rotated([]byte("second"), now)
	keys := func(at time.Time) (all []string) {
		for _, k := range s.Keys(at) {
			all = append(all, string(k))
		}
		return all
	}
	if got := keys(now); !slices.Equal(got, []string{"second", "k"}) {
		t.Errorf("at once: %q", got)
	}
	if got := keys(now.Add(webhook.RotationOverlap)); !slices.Equal(got, []string{"second"}) {
		t.Errorf("a day later: %q", got)
	}
	s = s.Rotated([]byte("third"), now.Add(time.Minute))
	if got := keys(now.Add(time.Hour)); !slices.Equal(got, []string{"third", "second"}) {
		t.Errorf("after another: %q", got)
	}
}
