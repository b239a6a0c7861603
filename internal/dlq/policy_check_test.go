package dlq_test

import (
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/skald-saga/skald/internal/dlq"
)

func TestAPolicyIsRefusedWithEveryMistake(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		change func(*dlq.Policy)
		wrong  []string
	}{
		"the default":            {func(*dlq.Policy) {}, nil},
		"a tenant's":             {func(p *dlq.Policy) { p.Topic = "" }, nil},
		"a topic that is long":   {func(p *dlq.Policy) { p.Topic = strings.Repeat("ö", 256) }, []string{"/topic"}},
		"no retries":             {func(p *dlq.Policy) { p.MaxRetries = 0 }, nil},
		"too many retries":       {func(p *dlq.Policy) { p.MaxRetries = 1001 }, []string{"/max_retries"}},
		"fewer than none":        {func(p *dlq.Policy) { p.MaxRetries, p.MaxGenerations = -1, -1 }, []string{"/max_generations", "/max_retries"}},
		"no wait":                {func(p *dlq.Policy) { p.Backoff.InitialIntervalMS = 0 }, []string{"/backoff/initial_interval_ms"}},
		"the most at once":       {func(p *dlq.Policy) { p.Backoff.InitialIntervalMS, p.Backoff.MaxIntervalMS = 5000, 5000 }, nil},
		"a maximum below":        {func(p *dlq.Policy) { p.Backoff.InitialIntervalMS, p.Backoff.MaxIntervalMS = 5000, 4999 }, []string{"/backoff/max_interval_ms"}},
		"more than a week":       {func(p *dlq.Policy) { p.Backoff.InitialIntervalMS, p.Backoff.MaxIntervalMS = 604_800_001, 604_800_001 }, []string{"/backoff/initial_interval_ms", "/backoff/max_interval_ms"}},
		"shrinking":              {func(p *dlq.Policy) { p.Backoff.Multiplier = 0.9 }, []string{"/backoff/multiplier"}},
		"no number":              {func(p *dlq.Policy) { p.Backoff.Multiplier, p.Backoff.Jitter = math.NaN(), new(math.NaN()) }, []string{"/backoff/jitter", "/backoff/multiplier"}},
		"no jitter":              {func(p *dlq.Policy) { p.Backoff.Jitter = nil }, []string{"/backoff/jitter"}},
		"more than all jitter":   {func(p *dlq.Policy) { p.Backoff.Jitter = new(1.1) }, []string{"/backoff/jitter"}},
		"no retention":           {func(p *dlq.Policy) { p.RetentionDays, p.ArchiveDays = 0, 0 }, []string{"/archive_days", "/retention_days"}},
		"a day of retention":     {func(p *dlq.Policy) { p.RetentionDays, p.ArchiveDays = 1, 1 }, nil},
		"retention for ever":     {func(p *dlq.Policy) { p.RetentionDays, p.ArchiveDays = 3651, 36501 }, []string{"/archive_days", "/retention_days"}},
		"negative alerts":        {func(p *dlq.Policy) { p.Alert = dlq.Alert{Count: -1, Rate: -1, AgeMS: -1} }, []string{"/alert/age_ms", "/alert/count", "/alert/rate"}},
		"paths":                  {func(p *dlq.Policy) { p.Redact = []string{"card", "card.number", "items.0.name"} }, nil},
		"paths that are none":    {func(p *dlq.Policy) { p.Redact = []string{"", "a..b", ".a", "ok", "a."} }, []string{"/redact/0", "/redact/1", "/redact/2", "/redact/4"}},
		"too many paths":         {func(p *dlq.Policy) { p.Redact = slices.Repeat([]string{"a"}, 101) }, []string{"/redact"}},
		"targets":                {func(p *dlq.Policy) { p.AllowedTargets = []string{"retry.*", "https://h/[a-z]"} }, nil},
		"patterns that are none": {func(p *dlq.Policy) { p.AllowedTargets = []string{"[", "", "a\x00"} }, []string{"/allowed_targets/0", "/allowed_targets/1", "/allowed_targets/2"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := dlq.DefaultPolicy
			p.Topic = "orders"
			tt.change(&p)
			if diff := cmp.Diff(append([]string{}, tt.wrong...), pointers(t, dlq.CheckPolicy(&p))); diff != "" {
				t.Errorf("mistakes (-want +got):\n%s", diff)
			}
		})
	}
}

func TestAGroupIsEditedByPeople(t *testing.T) {
	t.Parallel()
	g := dlq.Group{Version: 4, State: dlq.GroupNew, Assignee: "ann"}
	got, err := g.Edited(dlq.GroupEdit{State: new(dlq.GroupResolved), Note: new("fixed in 1.2")}, newAt)
	want := dlq.Group{Version: 5, State: dlq.GroupResolved, Assignee: "ann", Note: "fixed in 1.2", UpdatedAt: newAt}
	if diff := cmp.Diff(want, got); diff != "" || err != nil {
		t.Errorf("%v (-want +got):\n%s", err, diff)
	}
	_, err = g.Edited(dlq.GroupEdit{State: new(dlq.GroupRegressed), Assignee: new(strings.Repeat("a", 256)),
		Note: new("\x00")}, newAt)
	if diff := cmp.Diff([]string{"/assignee", "/note", "/state"}, pointers(t, err)); diff != "" {
		t.Errorf("mistakes (-want +got):\n%s", diff)
	}
}

func TestAnAlertNamesWhatIsExceeded(t *testing.T) {
	t.Parallel()
	old := newAt.Add(-time.Minute)
	all := dlq.Alert{Count: 10, Rate: 5, AgeMS: 59_999, NewGroup: true}
	for name, tt := range map[string]struct {
		alert   dlq.Alert
		open    int64
		topic   dlq.TopicStats
		unknown bool
		want    []string
	}{
		"everything":      {all, 11, dlq.TopicStats{Last5m: 6, Oldest: &old}, true, []string{"count", "rate", "age", "new_group"}},
		"just not":        {dlq.Alert{Count: 10, Rate: 5, AgeMS: 60_000}, 10, dlq.TopicStats{Last5m: 5, Oldest: &old}, true, nil},
		"nothing is open": {all, 0, dlq.TopicStats{}, false, nil},
		"nobody cares":    {dlq.Alert{}, 1 << 40, dlq.TopicStats{Last5m: 1 << 40, Oldest: &old}, true, nil},
	} {
		if diff := cmp.Diff(tt.want, tt.alert.Exceeded(tt.open, &tt.topic, tt.unknown, newAt)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

func TestWhereLettersOfATopicMayBeDriven(t *testing.T) {
	t.Parallel()
	open, strict := dlq.Policy{}, dlq.Policy{AllowedTargets: []string{"retry.*", "https://h/in/*"}}
	for _, tt := range []struct {
		policy *dlq.Policy
		to     dlq.Target
		want   bool
	}{
		{&open, dlq.Target{Kind: dlq.ToKafka}, true}, {&open, dlq.Target{Kind: dlq.ToKafka, Topic: "any"}, true},
		{&open, dlq.Target{Kind: dlq.ToHTTP, URL: "https://h/in/1"}, false}, {&open, dlq.Target{Kind: dlq.ToSaga}, false},
		{&strict, dlq.Target{Kind: dlq.ToKafka, Topic: "orders"}, true}, {&strict, dlq.Target{Kind: dlq.ToKafka, Topic: "any"}, false},
		{&strict, dlq.Target{Kind: dlq.ToKafka, Topic: "retry.orders"}, true}, {&strict, dlq.Target{Kind: dlq.ToHTTP, URL: "https://h/in/1"}, true},
		{&strict, dlq.Target{Kind: dlq.ToHTTP, URL: "https://h/out"}, false},
	} {
		if got := tt.policy.AllowsTarget("orders", &tt.to); got != tt.want {
			t.Errorf("%v to %+v: %t", tt.policy.AllowedTargets, tt.to, got)
		}
	}
}

func TestALetterMayAlwaysGoToItsOwnTarget(t *testing.T) {
	t.Parallel()
	strict := dlq.Policy{AllowedTargets: []string{"retry.*"}}
	for name, own := range map[string]dlq.Target{
		"a topic": {Kind: dlq.ToKafka, Topic: "elsewhere"}, "its original topic": {Kind: dlq.ToKafka}, "a URL": {Kind: dlq.ToHTTP, URL: "https://h/in"},
		"a saga": {Kind: dlq.ToSaga}, "a webhook": {Kind: dlq.ToWebhook},
	} {
		l := dlq.Letter{OriginalTopic: "orders", Target: own}
		to := l.Destination(nil)
		if !strict.AllowsDrive(&l, &to) {
			t.Errorf("%s: a letter may not go to its own target", name)
		}
		if other := (dlq.Target{Kind: dlq.ToHTTP, URL: "https://h/other"}); strict.AllowsDrive(&l, &other) {
			t.Errorf("%s: a letter may go anywhere", name)
		}
	}
}
