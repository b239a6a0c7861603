package dlq

import (
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/skald-saga/skald/internal/retry"
)

// A policy may hold every letter that is retried automatically, unless a person has requested the
// retry.
func TestWhichLettersAPolicyMayHold(t *testing.T) {
	t.Parallel()
	for _, source := range Sources {
		for _, status := range Statuses {
			for _, asked := range []bool{false, true} {
				for name, at := range map[string][2]*time.Time{
					"never": {}, "then": {&testNow, nil}, "once it is let go": {nil, &testNow},
				} {
					l := Letter{Source: source, Status: status, RetryAsked: asked, NextRetryAt: at[0], HeldRetryAt: at[1]}
					want := (source == FromKafka || source == FromREST) && status == Pending && !asked && name != "never"
					if got := l.Scheduled(); got != want {
						t.Errorf("%s %s, retried %s, asked for: %v: %v", source, status, name, asked, got)
					}
				}
			}
		}
	}
	held, next := testNow, testNow.Add(time.Hour)
	if l := (Letter{NextRetryAt: &next, HeldRetryAt: &held}); !l.NextRetry().Equal(next) {
		t.Errorf("its own time is %v, and %v is told", next, l.NextRetry())
	}
}

func TestWhenALetterIsRetriedByItself(t *testing.T) {
	t.Parallel()
	p := DefaultPolicy
	p.Backoff = retry.Policy{InitialIntervalMS: 1000, MaxIntervalMS: 8000, Multiplier: 2, Jitter: new(0.0)}
	now := testNow.Add(1999 * time.Nanosecond)
	for failures, wait := range []time.Duration{time.Second, 2 * time.Second, 4 * time.Second,
		8 * time.Second, 8 * time.Second} {
		want := testNow.Add(wait + time.Microsecond) // as it is stored
		if got := p.NextRetry(FromKafka, failures, now, 0.5); got == nil || !got.Equal(want) {
			t.Errorf("after %d failures: %v, want %v", failures, got, want)
		}
		for spread, part := range map[float64]time.Duration{0: 0, 0.5: wait / 2, 0.75: wait * 3 / 4} {
			p := p
			p.Backoff.Jitter = new(1.0) // all letters that were held continue within one backoff, whatever its jitter
			if got, want := p.Released(failures, now, spread), testNow.Add(part+time.Microsecond); !got.Equal(want) {
				t.Errorf("released after %d failures, at %v: %v, want %v", failures, spread, got, want)
			}
		}
	}
	for _, auto := range []bool{true, false} {
		for _, source := range Sources {
			p.AutoRetry = auto
			if got := p.NextRetry(source, 0, now, 0) != nil; got != (auto && slices.Contains(Automatic, source)) {
				t.Errorf("with auto_retry %v a letter of %s is retried by itself: %v", auto, source, got)
			}
		}
	}
}

func TestWhenATopicWakesSomebody(t *testing.T) {
	t.Parallel()
	minute := testNow.Add(-time.Minute)
	all := Alert{Count: 10, Rate: 5, AgeMS: 60_000, NewGroup: true}
	for name, tt := range map[string]struct {
		alert   Alert
		open    int64
		topic   TopicStats
		unknown bool
		want    []string
	}{
		"nothing to be woken for":  {Alert{}, 1 << 40, TopicStats{Last5m: 1 << 40, Oldest: new(time.Time{})}, true, nil},
		"all at their bounds":      {all, 10, TopicStats{Last5m: 5, Oldest: &minute}, false, nil},
		"too many":                 {all, 11, TopicStats{}, false, []string{"count"}},
		"too fast":                 {all, 0, TopicStats{Last5m: 6}, false, []string{"rate"}},
		"not fast in the long run": {all, 0, TopicStats{Last1h: 100, Last24h: 1000}, false, nil},
		"too old":                  {all, 0, TopicStats{Oldest: new(minute.Add(-time.Millisecond))}, false, []string{"age"}},
		"an error never seen":      {all, 0, TopicStats{}, true, []string{"new_group"}},
		"nobody asked for errors":  {Alert{Count: 10}, 0, TopicStats{}, true, nil},
		"everything":               {all, 11, TopicStats{Last5m: 6, Oldest: new(time.Time{})}, true, []string{"count", "rate", "age", "new_group"}},
	} {
		if d := cmp.Diff(tt.want, tt.alert.Exceeded(tt.open, &tt.topic, tt.unknown, testNow)); d != "" {
			t.Errorf("%s (-want +got):\n%s", name, d)
		}
	}
}

// Every kind of own target is combined with every kind of requested target, under policies that name
// nothing, everything, and something.
func TestWhereAPolicyLetsALetterBeDriven(t *testing.T) {
	t.Parallel()
	own := map[string]Target{
		"its topic": {Kind: ToKafka, Topic: ""}, "its URL": {Kind: ToHTTP, URL: "http://own/x"}, "its saga": {Kind: ToSaga},
		"its webhook": {Kind: ToWebhook}, "its job": {Kind: ToJobRun, Job: "j"},
	}
	for _, tt := range []struct {
		to      Target
		allowed []string        // patterns of the policy
		own     map[string]bool // whose own target it is
		other   bool            // may others be driven there
	}{
		{Target{Kind: ToKafka, Topic: "orders"}, nil, map[string]bool{"its topic": true}, true},
		{Target{Kind: ToKafka}, []string{"x"}, nil, true}, // without a topic, it means the original one
		{Target{Kind: ToKafka, Topic: "orders"}, []string{"x"}, map[string]bool{"its topic": true}, true},
		{Target{Kind: ToKafka, Topic: "retry"}, nil, nil, true},
		{Target{Kind: ToKafka, Topic: "retry"}, []string{"x"}, nil, false},
		{Target{Kind: ToKafka, Topic: "retry"}, []string{"x", "retry"}, nil, true},
		{Target{Kind: ToKafka, Topic: "retry.5m"}, []string{"retry.*"}, nil, true},
		{Target{Kind: ToKafka, Topic: "retry"}, []string{"["}, nil, false}, // no pattern allows nothing
		{Target{Kind: ToHTTP, URL: "http://own/x"}, nil, map[string]bool{"its URL": true}, false},
		{Target{Kind: ToHTTP, URL: "http://own/y"}, nil, nil, false},
		{Target{Kind: ToHTTP, URL: "http://own/y"}, []string{"http://own/*"}, nil, true},
		{Target{Kind: ToHTTP, URL: "http://own/y/z"}, []string{"http://own/*"}, nil, false}, // * ends at a slash
		{Target{Kind: ToSaga}, []string{"*"}, map[string]bool{"its saga": true}, false},
		{Target{Kind: ToWebhook}, []string{"*"}, map[string]bool{"its webhook": true}, false},
		{Target{Kind: ToJobRun}, []string{"*"}, map[string]bool{"its job": true}, false},
	} {
		p := Policy{AllowedTargets: tt.allowed}
		for whose, target := range own {
			l := Letter{OriginalTopic: "orders", Target: target}
			want := tt.own[whose] || tt.other
			if got := p.AllowsDrive(&l, &tt.to); got != want {
				t.Errorf("%v allow a letter with %s to be driven to %+v: %v", tt.allowed, whose, tt.to, got)
			}
		}
		if got := p.AllowsTarget("orders", &tt.to); got != tt.other {
			t.Errorf("%v allow letters to be driven to %+v: %v", tt.allowed, tt.to, got)
		}
	}
}

func TestPatternsOfTargets(t *testing.T) {
	t.Parallel()
	for pattern, want := range map[string]bool{
		"orders": true, "a b": false, "": false, "[": false, "*": true, "retry.*": true,
		"?rders": true, "[ab]*": true, `\*`: true,
		"a b*": false, "./*": false, ".*": true, "..*": true, "http://h/x": true, "https://h": true, "http://": false,
		"ftp://h": false, "http://u:p@h/": false, "http://h/*": true, "https://[a-z]": true, "http*": true, "h*": true,
		"ftp://*": false, "http:*": true, "http:/?": true, "https:/x*": false, "a/b": false, "a/*": false,
	} {
		if got := targetPattern(pattern); got != want {
			t.Errorf("%q can be a pattern of targets: %v", pattern, got)
		}
	}
}

func TestAnEditOfAGroup(t *testing.T) {
	t.Parallel()
	stored := Group{Version: 4, State: GroupRegressed, Assignee: "ann", Note: "old"}
	long := func(n int) *string { return new(string(slices.Repeat([]rune("ö"), n))) }
	for name, tt := range map[string]struct {
		edit GroupEdit
		want func(*Group)
		says string
	}{
		"nothing":             {GroupEdit{}, func(*Group) {}, ""},
		"new again":           {GroupEdit{State: new(GroupNew)}, func(g *Group) { g.State = GroupNew }, ""},
		"acknowledged":        {GroupEdit{State: new(GroupAcknowledged)}, func(g *Group) { g.State = GroupAcknowledged }, ""},
		"resolved":            {GroupEdit{State: new(GroupResolved)}, func(g *Group) { g.State = GroupResolved }, ""},
		"regressed by hand":   {GroupEdit{State: new(GroupRegressed)}, nil, "/state enum"},
		"no state":            {GroupEdit{State: new(GroupState("OTHER"))}, nil, "/state enum"},
		"an assignee":         {GroupEdit{Assignee: new("bob")}, func(g *Group) { g.Assignee = "bob" }, ""},
		"nobody, and no note": {GroupEdit{Assignee: new(""), Note: new("")}, func(g *Group) { g.Assignee, g.Note = "", "" }, ""},
		"the longest":         {GroupEdit{Assignee: long(MaxWord), Note: long(MaxNote)}, func(g *Group) { g.Assignee, g.Note = *long(MaxWord), *long(MaxNote) }, ""},
		"a longer assignee":   {GroupEdit{Assignee: long(MaxWord + 1)}, nil, "/assignee too_long"},
		"a longer note":       {GroupEdit{Note: long(MaxNote + 1)}, nil, "/note too_long"},
		"a note with NUL":     {GroupEdit{Note: new("\x00")}, nil, "/note too_long"},
	} {
		got, err := stored.Edited(tt.edit, testNow)
		wantMistake(t, name, err, tt.says)
		if tt.want == nil {
			continue
		}
		want := stored
		tt.want(&want)
		want.Version, want.UpdatedAt = 5, testNow
		if d := cmp.Diff(want, got); d != "" {
			t.Errorf("%s (-want +got):\n%s", name, d)
		}
	}
}
