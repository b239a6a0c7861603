package dlq

import (
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"

	"github.com/skald-saga/skald/internal/fault"
)

var someWays = Routes{Kinds: []TargetKind{ToKafka, ToHTTP},
	Forbidden: func(topic string) bool { return topic == "orders.dlq" }}

func TestWhereALetterMayBeAimed(t *testing.T) {
	t.Parallel()
	kafka := func(own string) Letter {
		return Letter{OriginalTopic: "orders", Target: Target{Kind: ToKafka, Topic: own}}
	}
	http := Letter{OriginalTopic: "orders", Target: Target{Kind: ToHTTP, URL: "https://a.example/x"}}
	saga := Letter{OriginalTopic: "orders.dlq", Target: Target{Kind: ToSaga}}
	strict := &Policy{AllowedTargets: []string{"payments", "https://a.example/*"}}
	for _, tt := range []struct {
		name    string
		l       Letter
		to      *Target
		p       *Policy
		want    RefusalReason
		pointer string
	}{
		{"its own topic", kafka(""), nil, strict, "", ""},
		{"its own topic by name", kafka(""), &Target{Kind: ToKafka, Topic: "orders"}, strict, "", ""},
		{"a partition of its own topic", kafka(""), &Target{Kind: ToKafka, Partition: new(int32(3))}, strict, "", ""},
		{"an allowed topic", kafka(""), &Target{Kind: ToKafka, Topic: "payments"}, strict, "", ""},
		{"another topic", kafka(""), &Target{Kind: ToKafka, Topic: "refunds"}, strict, DisallowedTarget, "/target/topic"},
		{"another topic, and no policy is asked", kafka(""), &Target{Kind: ToKafka, Topic: "refunds"}, nil, "", ""},
		{"another topic, and the policy names none", kafka(""), &Target{Kind: ToKafka, Topic: "refunds"}, &Policy{}, "", ""},
		{"a dead-letter topic", kafka(""), &Target{Kind: ToKafka, Topic: "orders.dlq"}, nil, ForbiddenTopic, "/target/topic"},
		{"a dead-letter topic of its own", kafka("orders.dlq"), nil, nil, ForbiddenTopic, "/target/topic"},
		{"a dead-letter topic says more than the policy", kafka(""), &Target{Kind: ToKafka, Topic: "orders.dlq"}, strict, ForbiddenTopic, "/target/topic"},
		{"an allowed URL", http, &Target{Kind: ToHTTP, URL: "https://a.example/y"}, strict, "", ""},
		{"another URL", http, &Target{Kind: ToHTTP, URL: "https://b.example/x"}, strict, DisallowedTarget, "/target/url"},
		{"another URL, and the policy names none", http, &Target{Kind: ToHTTP, URL: "https://b.example/x"}, &Policy{}, DisallowedTarget, "/target/url"},
		{"what is not a topic", saga, nil, strict, "", ""},
	} {
		no := someWays.Aim(&tt.l, tt.to, tt.p)
		if (no == nil) != (tt.want == "") {
			t.Errorf("%s: refused because of %v, want %q", tt.name, no, tt.want)
			continue
		}
		if no == nil {
			continue
		}
		f := no.Fault()
		if no.Why != tt.want || no.Own != (tt.to == nil) || no.String() == "" {
			t.Errorf("%s: %+v, %s", tt.name, no, no)
		}
		if f.Kind != fault.Invalid || f.Code != CodeTarget || f.Fields[0].Pointer != tt.pointer {
			t.Errorf("%s: %+v", tt.name, f)
		}
	}
	if someWays.Forbids("") || (Routes{}).Forbids("orders.dlq") {
		t.Error("where there is no topic, nothing is forbidden")
	}
	if (Routes{}).Reaches(ToKafka) || !someWays.Reaches(ToHTTP) || someWays.Reaches(ToSaga) {
		t.Error("where there is no driver, nothing is reached")
	}
}

func TestWhatIsNotSentThoughItIsClaimed(t *testing.T) {
	t.Parallel()
	strict := &Policy{AllowedTargets: []string{"payments"}}
	drive := func(topic string, change func(*Drive)) Drive {
		d := Drive{Letter: Letter{OriginalTopic: "orders", Target: Target{Kind: ToKafka}, RedriveID: uuid.UUID{1}},
			To: Target{Kind: ToKafka, Topic: topic}}
		change(&d)
		return d
	}
	as := func(*Drive) {}
	for _, tt := range []struct {
		name string
		d    Drive
		want string
	}{
		{"its own topic", drive("orders", as), ""},
		{"a redrive's target", drive("payments", as), ""},
		{"a redrive's target that the policy does not name", drive("refunds", as), "the policy of the letter's topic does not allow the target"},
		{"one that somebody named who was held to it", drive("refunds", func(d *Drive) { d.RedriveID = uuid.Nil }), ""},
		{"a dead-letter topic", drive("orders.dlq", as), `topic "orders.dlq" is a dead-letter topic: choose another target`},
		{"a part of a payload", drive("orders", func(d *Drive) { d.Labels = []string{"x", LabelTruncated} }), "the payload was truncated: retry the letter with the whole payload"},
		{"a payload that was made whole", drive("orders", func(d *Drive) { d.Labels, d.Revision = []string{LabelTruncated}, 1 }), ""},
	} {
		got := ""
		if no := someWays.Refuses(&tt.d, strict); no != nil {
			got = no.String()
		}
		if diff := cmp.Diff(tt.want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", tt.name, diff)
		}
	}
}

func TestWhatCanBeClaimed(t *testing.T) { //nolint:paralleltest // another test changes the table
	for _, status := range Statuses {
		for _, force := range []bool{false, true} {
			l := Letter{Status: status, Version: 4, OriginalTopic: "orders", Target: Target{Kind: ToKafka}}
			if status == Resolved {
				l.Resolution = Redriven
			}
			want := slices.Contains(From(Claimed), status) || force && slices.Contains(From(ForcedClaim), status)
			err := l.Claimable(&Claim{Version: 4, Force: force, Routes: someWays})
			if (err == nil) != want || err != nil && !fault.IsCode(err, CodeConflict) {
				t.Errorf("%s, by force: %t: %v; it can be claimed: %t", status, force, err, want)
			}
		}
	}
	l := Letter{Status: Pending, Version: 4, OriginalTopic: "orders", Target: Target{Kind: ToKafka}}
	for _, tt := range []struct {
		name, code string
		c          Claim
	}{
		{"any version", "", Claim{Routes: someWays}},
		{"another version", CodeStale, Claim{Version: 3, Routes: someWays}},
		{"no driver", CodeNoKafka, Claim{Routes: Routes{Kinds: []TargetKind{ToHTTP}}}},
		{"no driver of another target", CodeNoKafka, Claim{Target: &Target{Kind: ToHTTP, URL: "https://a.example"}, Routes: Routes{Kinds: []TargetKind{ToKafka}}}},
		{"a dead-letter topic", CodeTarget, Claim{Target: &Target{Kind: ToKafka, Topic: "orders.dlq"}, Routes: someWays}},
		{"a dead-letter topic, and no driver", CodeTarget, Claim{Target: &Target{Kind: ToKafka, Topic: "orders.dlq"}, Routes: Routes{Forbidden: someWays.Forbidden}}},
	} {
		if err := l.Claimable(&tt.c); tt.code == "" && err != nil || tt.code != "" && !fault.IsCode(err, tt.code) {
			t.Errorf("%s: %v, want %q", tt.name, err, tt.code)
		}
	}
	if err := KeyBlocked([]string{"a", "b"}); !fault.IsCode(err, CodeKeyBlocked) || err.Detail != "older dead letters with the same key are open: a, b" {
		t.Errorf("a blocked key: %v", err)
	}
}

func TestAnImportedLetter(t *testing.T) {
	t.Parallel()
	long := testNow.Add(-time.Hour)
	for _, tt := range []struct {
		name       string
		count, max int
		status     Status
		why        Resolution
		ended      *time.Time
		want       Letter
	}{
		{"waits", 1, 3, Pending, "", nil, Letter{Status: Pending, MaxRetries: 3}},
		{"was on its way", 3, 3, Retrying, "", nil, Letter{Status: Pending, MaxRetries: 4}},
		{"says nothing", 0, 3, "", "", nil, Letter{Status: Pending, MaxRetries: 3}},
		{"was confirmed", 5, 3, Resolved, Confirmed, &long, Letter{Status: Resolved, Resolution: Confirmed, TerminalAt: &long, MaxRetries: 5}},
		{"was resolved somehow", 0, 3, Resolved, "", nil, Letter{Status: Resolved, Resolution: Manual, TerminalAt: &testNow, MaxRetries: 3}},
		{"is dead", 3, 3, Dead, Poison, &long, Letter{Status: Dead, Resolution: Poison, TerminalAt: &long, MaxRetries: 3}},
		{"is dead somehow", 4, 3, Dead, "", nil, Letter{Status: Dead, Resolution: Exhausted, TerminalAt: &testNow, MaxRetries: 4}},
	} {
		l := start(FromKafka, tt.max)
		l.RetryCount = tt.count
		got := l.Imported(tt.status, tt.why, tt.ended, testMoment())
		tt.want.RetryCount = tt.count
		short := Letter{Status: got.Status, Resolution: got.Resolution, TerminalAt: got.TerminalAt,
			MaxRetries: got.MaxRetries, RetryCount: got.RetryCount, NextRetryAt: got.NextRetryAt}
		if diff := cmp.Diff(tt.want, short); diff != "" {
			t.Errorf("one that %s (-want +got):\n%s", tt.name, diff)
		}
		if why := broken(&got); why != "" && tt.count <= tt.max {
			t.Errorf("one that %s: %s", tt.name, why)
		}
	}
	for _, status := range append(slices.Clone(Statuses), "") {
		for _, r := range append(slices.Clone(Resolutions), "", "NONSENSE") {
			if got, want := r.Ends(status), slices.Contains(Resolutions, r) && r.Status() == status; got != want {
				t.Errorf("a letter that is %q ended %q: %t", status, r, got)
			}
		}
	}
}
