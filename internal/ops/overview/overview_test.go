package overview_test

import (
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"

	"github.com/skald-saga/skald/internal/ops/overview"
	"github.com/skald-saga/skald/internal/saga"
)

var now = time.Date(2026, 11, 23, 12, 0, 0, 0, time.UTC)

func TestCausesAreOrderedByUrgencyThenAgeTimesCount(t *testing.T) {
	ago := func(kind overview.Kind, d time.Duration, n int) overview.Cause {
		return overview.Cause{Kind: kind, Name: string(kind), Count: overview.CountOf(n), Since: now.Add(-d)}
	}
	o := overview.Overview{At: now, Causes: []overview.Cause{
		ago(overview.WorkerLost, time.Minute, 1), ago(overview.RunsFailed, time.Hour, 2),
		ago(overview.SagasAttention, time.Minute, 1), ago(overview.QueueUntaken, -time.Minute, 3),
		ago(overview.GroupNew, time.Hour, 1000),
	}}
	o.Sort()
	var got []overview.Kind
	for _, c := range o.Causes {
		got = append(got, c.Kind)
	}
	want := []overview.Kind{overview.SagasAttention, overview.RunsFailed, overview.WorkerLost, overview.QueueUntaken,
		overview.GroupNew}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// TestEveryCauseSaysWhatHelps compares the next steps with the contract.
func TestEveryCauseSaysWhatHelps(t *testing.T) {
	contract, err := os.ReadFile("../../../openapi.yaml")
	if err != nil {
		t.Fatal(err)
	}
	operations := regexp.MustCompile(`(?m)^      operationId: `).Split(string(contract), -1)
	permission := map[string]string{}
	for _, o := range operations[1:] {
		name, _, _ := strings.Cut(o, "\n")
		if p := regexp.MustCompile(`(?m)^      x-permission: '?([a-z:]+)`).FindStringSubmatch(o); p != nil {
			permission[name] = p[1]
		}
	}
	list, _, _ := strings.Cut(string(contract)[strings.Index(string(contract), "    OverviewCause:"):], "        part:")
	kinds := regexp.MustCompile(`(?m)^            - ([a-z_]+)$`).FindAllStringSubmatch(list, -1)
	if len(kinds) != 14 {
		t.Fatalf("the contract has %d kinds of causes", len(kinds))
	}
	said := map[string]bool{}
	for _, k := range kinds {
		for _, why := range append(slices.Concat(saga.EndReasons, saga.StuckReasons), "raised") {
			c := overview.Cause{Kind: overview.Kind(k[1]), Name: "order", Step: "reserve", Code: "http_503", Why: why,
				Text: "timeout after # ms", ID: "4f", Count: overview.CountOf(1), Since: now}
			next := c.Next()
			if p := permission[next.Operation]; p == "" || p != string(next.Permission) {
				t.Errorf("%s: %s requires %q in the contract, not %q", k[1], next.Operation, p, next.Permission)
			}
			if c.Summary() == "" || c.Means() == "" || !strings.HasPrefix(c.Link(), "/api/v1/") {
				t.Errorf("%s: %q %q %q", k[1], c.Summary(), c.Means(), c.Link())
			}
			said[c.Summary()] = true
		}
	}
	if len(said) < 14+4 {
		t.Errorf("%d sentences", len(said))
	}
}

func TestManySagasAreOneSentence(t *testing.T) {
	c := overview.Cause{Kind: overview.SagasAttention, Name: "order", Step: "reserve-stock", Code: "http_503",
		Why: "compensation_failed", ID: "4f", Since: now}
	for n, want := range map[int]string{
		1:    "1 saga of order: the compensation of reserve-stock gave up (http_503)",
		1000: "1,000 sagas of order: the compensation of reserve-stock gave up (http_503)",
		1001: "more than 1,000 sagas of order: the compensation of reserve-stock gave up (http_503)",
	} {
		c.Count = overview.CountOf(n)
		if got := c.Summary(); got != want {
			t.Errorf("%d: %q", n, got)
		}
		if only := c.Only(); (only == "4f") != (n == 1) {
			t.Errorf("%d: the only one is %q", n, only)
		}
	}
	key := c.Key()
	if c.ID = "another example"; c.Key() != key {
		t.Error("the key changes with the example")
	}
}

func TestALeaderIsMissedOnlyWhereThereAreJobs(t *testing.T) {
	late := now.Add(-2 * time.Minute)
	for _, tt := range []struct {
		leader *overview.Leader
		jobs   bool
		want   overview.Kind
	}{
		{nil, true, ""},
		{&overview.Leader{Holds: false, ExpiresAt: late}, false, ""},
		{&overview.Leader{Holds: false, ExpiresAt: late}, true, overview.NoLeader},
		{&overview.Leader{Holds: true, SweptAt: &late}, true, overview.SweepLate},
		{&overview.Leader{Holds: true, SweptAt: &now}, true, ""},
	} {
		o := overview.Overview{At: now, Leader: tt.leader}
		o.Judge(tt.jobs)
		got := overview.Kind("")
		if len(o.Causes) > 0 {
			got = o.Causes[0].Kind
		}
		if got != tt.want {
			t.Errorf("%+v with jobs %t: %q, want %q", tt.leader, tt.jobs, got, tt.want)
		}
	}
}

func TestWhatIsLookedForIsReadAsItIsPasted(t *testing.T) {
	id := uuid.MustParse("0197b1f2-6d2a-7c3e-9a56-1c2f0a9b8d7e")
	for text, want := range map[string]overview.Query{
		" order-7 ": {Text: "order-7", Prefix: "order-7"},
		"order-*":   {Text: "order-*", Prefix: "order-"}, "*": {Text: "*", Prefix: "*"},
		"{0197B1F2-6D2A-7C3E-9A56-1C2F0A9B8D7E}": {Text: "{0197B1F2-6D2A-7C3E-9A56-1C2F0A9B8D7E}", ID: id,
			Prefix: "{0197B1F2-6D2A-7C3E-9A56-1C2F0A9B8D7E}"},
		"F7AEC124D1A5BA38E80DB5BDA80F44B0": {Text: "F7AEC124D1A5BA38E80DB5BDA80F44B0", Prefix: "F7AEC124D1A5BA38E80DB5BDA80F44B0",
			ID: uuid.MustParse("f7aec124-d1a5-ba38-e80d-b5bda80f44b0"), Fingerprint: "f7aec124d1a5ba38e80db5bda80f44b0"},
	} {
		if diff := cmp.Diff(want, overview.AskedFor(text, overview.Shown{})); diff != "" {
			t.Errorf("%q (-want +got):\n%s", text, diff)
		}
	}
}

func TestAStreamTellsFirstEverythingAndThenWhatChanges(t *testing.T) {
	one, two := uuid.UUID{1}, uuid.UUID{2}
	w := &overview.Watched{Sagas: []uuid.UUID{one, two}, Groups: []string{"ab"}}
	saga := func(id uuid.UUID, version int64, at time.Time) overview.State {
		return overview.State{Kind: overview.WatchSaga, ID: id.String(), Version: version, State: "running", Updated: at}
	}
	gone := overview.State{Kind: overview.WatchGroup, ID: "ab"}
	s := overview.Watch(w)
	for i, round := range []struct{ found, want []overview.State }{
		{[]overview.State{saga(two, 4, now), saga(one, 3, now)}, []overview.State{saga(one, 3, now), saga(two, 4, now), gone}},
		{[]overview.State{saga(two, 4, now), saga(one, 3, now)}, nil},
		{[]overview.State{saga(one, 3, now.Add(1)), saga(two, 5, now)},
			[]overview.State{saga(one, 3, now.Add(1)), saga(two, 5, now)}},
		{[]overview.State{saga(two, 5, now)}, []overview.State{{Kind: overview.WatchSaga, ID: one.String()}}},
	} {
		if diff := cmp.Diff(round.want, s.Changed(round.found)); diff != "" {
			t.Errorf("round %d (-want +got):\n%s", i, diff)
		}
	}
}
