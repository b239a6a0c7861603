package overview_test

import (
	"os"
	"regexp"
	"slices"
	"strconv"
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

func TestAHeldParticipantSaysHowManyWait(t *testing.T) {
	for n, want := range map[int]string{
		0: "", 1: "; one saga waits", 18: "; 18 sagas wait", overview.Most + 1: "; more than 1,000 sagas wait",
	} {
		c := overview.Cause{Kind: overview.ParticipantHeld, Name: "card", Text: "62 % of 210 calls failed in 30 s"}
		c.Counted(n)
		if got := c.Summary(); got != "Participant card is held: 62 % of 210 calls failed in 30 s"+want || c.Count.N != 1 {
			t.Errorf("%d: %q, counted %d", n, got, c.Count.N)
		}
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
	if len(kinds) != 16 {
		t.Fatalf("the contract has %d kinds of causes", len(kinds))
	}
	said := map[string]bool{}
	for _, k := range kinds {
		for _, why := range append(slices.Concat(saga.EndReasons, saga.StuckReasons, saga.StopReasons), "raised") {
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

// TestErrorsOfOneKindAreOneLine checks that groups of letters with one type of error, in one topic
// and one state, are merged.
func TestErrorsOfOneKindAreOneLine(t *testing.T) {
	group := func(kind overview.Kind, topic, errorType, text string, n int, ago time.Duration) overview.Cause {
		c := overview.Cause{Kind: kind, Name: topic, Code: errorType, Text: text, ID: text, Since: now.Add(-ago)}
		c.Counted(n)
		return c
	}
	o := overview.Overview{At: now, Causes: []overview.Cause{
		group(overview.GroupNew, "orders", "Timeout", "no answer of a", 3, time.Hour),
		{Kind: overview.WorkerLost, Name: "orders", Code: "Timeout", Count: overview.CountOf(1), Since: now},
		group(overview.GroupNew, "orders", "Timeout", "no answer of b", 40, time.Minute),
		group(overview.GroupNew, "orders", "Refused", "sold out", 1, time.Minute),
		group(overview.GroupRegressed, "orders", "Timeout", "no answer of c", 1, time.Minute),
		group(overview.GroupNew, "orders", "Timeout", "no answer of d", 7, 2*time.Hour),
		group(overview.GroupNew, "mail", "Timeout", "no answer of e", 1, time.Minute),
		group(overview.GroupNew, "mail*", "Timeout", "no answer of f", 1, time.Minute),
		group(overview.GroupNew, "mail*", "Timeout", "no answer of g", 1, time.Minute),
		group(overview.GroupNew, "mail", "", "something", 1, time.Minute),
		group(overview.GroupNew, "mail", "", "something else", 1, time.Minute),
	}}
	o.Merge()
	if len(o.Causes) != 9 {
		t.Fatalf("%d causes, want 9: %+v", len(o.Causes), o.Causes)
	}
	c := o.Causes[0]
	if c.Groups != 3 || c.Count.N != 50 || c.Count.Capped || !c.Since.Equal(now.Add(-2*time.Hour)) || c.Only() != "" ||
		c.Summary() != "3 new errors of type Timeout in orders, most often “no answer of b”" ||
		c.Next().Operation != "createRedrive" ||
		c.Link() != "/api/v1/dlq/groups?error_type=Timeout&state=NEW&topic=orders" {
		t.Errorf("%+v: %s %s %s", c, c.Summary(), c.Next().Operation, c.Link())
	}
	key := c.Key()
	o.Causes = append(o.Causes, group(overview.GroupNew, "orders", "Timeout", "no answer of z", 101, time.Minute))
	o.Merge()
	if c = o.Causes[0]; c.Groups != 4 || c.Count.N != 150 || !c.Count.Capped || c.Key() != key {
		t.Errorf("with another group of more letters than are counted: %+v", c)
	}
	for _, c := range o.Causes[1:] {
		if c.Groups != 0 {
			t.Errorf("merged: %+v", c)
		}
	}
}

func TestManyFailingSagasAreRetried(t *testing.T) {
	c := overview.Cause{Kind: overview.SagasStuck, Name: "order", Step: "charge", Why: saga.ReasonFailing, ID: "4f",
		Count: overview.CountOf(1)}
	if c.Next().Operation != "explainSaga" || c.Link() != "/api/v1/sagas/4f" {
		t.Errorf("one: %s %s", c.Next().Operation, c.Link())
	}
	c.Count = overview.CountOf(2)
	if c.Next().Operation != "retrySaga" ||
		c.Link() != "/api/v1/sagas?active=true&needs_attention=true&step=charge&workflow_name=order" {
		t.Errorf("two: %s %s", c.Next().Operation, c.Link())
	}
	if c.Why = saga.ReasonUnowned; c.Next().Operation != "explainSaga" {
		t.Errorf("nothing helps the unowned but a node: %s", c.Next().Operation)
	}
}

// TestMinutes: sagas and letters get to their minutes; where there are more than are counted, what is not known is left
// out.
func TestMinutes(t *testing.T) {
	from, to := overview.LastMinutes(now.Add(90 * time.Second))
	if !to.Equal(now.Add(2*time.Minute)) || to.Sub(from) != time.Hour {
		t.Fatalf("from %s to %s", from, to)
	}
	const most = overview.MostByMinute
	// shown are minutes 54 to 59: sagas started, sagas failed and letters, or "-" where the numbers
	// are unknown.
	shown := func(c overview.MinuteCounts) (text string) {
		for _, m := range c.Minutes(from)[54:] {
			for _, n := range []*int64{m.Started, m.Failed, m.Letters} {
				if n == nil {
					text += "-"
				} else {
					text += strconv.FormatInt(*n, 10)
				}
			}
			text += " "
		}
		return strings.TrimSpace(text)
	}
	for _, tt := range []struct {
		name   string
		counts overview.MinuteCounts
		want   string
	}{
		{"nothing", overview.MinuteCounts{}, "000 000 000 000 000 000"},
		{"all parts", overview.MinuteCounts{Horizon: 57, Letters: map[int]int64{59: 3}, Sagas: []overview.SagaCount{
			{overview.RolledUp, 56, 4, 1}, {overview.RolledUp, 57, 1, 0}, {overview.Fresh, 57, 2, 1},
			{overview.Unfinished, 56, 2, 0}, {overview.GaveUp, 56, 1, 1}, {overview.Fresh, 59, 1, 0},
		}}, "000 000 720 310 000 103"},
		{"many rolled up", overview.MinuteCounts{Horizon: 57, Sagas: []overview.SagaCount{
			{overview.RolledUp, 55, 9 * most, 1},
		}}, "000 9000010 000 000 000 000"},
		{"many letters", overview.MinuteCounts{Letters: map[int]int64{57: 1, 58: most - 1, 59: 1}},
			"00- 00- 00- 00- 009999 001"},
		{"many fresh sagas", overview.MinuteCounts{Horizon: 56, Sagas: []overview.SagaCount{
			{overview.RolledUp, 55, 5, 0}, {overview.RolledUp, 56, 5, 0}, {overview.Fresh, 57, 1, 0},
			{overview.Fresh, 58, most, 0},
		}}, "000 500 --0 --0 1000000 000"},
		{"many that gave up", overview.MinuteCounts{Horizon: 57, Sagas: []overview.SagaCount{
			{overview.GaveUp, 55, most + 1, most + 1}, {overview.Fresh, 58, 1, 0},
		}}, "--0 --0 000 000 100 000"},
	} {
		if got := shown(tt.counts); got != tt.want {
			t.Errorf("%s: %s, want %s", tt.name, got, tt.want)
		}
		o := overview.Overview{Minutes: tt.counts.Minutes(from)}
		if o.Quiet() != (tt.name == "nothing") {
			t.Errorf("%s is quiet: %t", tt.name, o.Quiet())
		}
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
