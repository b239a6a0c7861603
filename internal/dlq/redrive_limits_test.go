package dlq

import (
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"

	"github.com/skald-saga/skald/internal/fault"
)

// A redrive may have every value up to each limit, and no value just beyond it.
func TestBoundsOfARedrive(t *testing.T) {
	t.Parallel()
	limits := RedriveLimits{DefaultRate: 50, MaxRate: 1000, Bulk: 100}
	url := func(n int) string { return "http://h/" + strings.Repeat("x", n-len("http://h/")) }
	for name, tt := range map[string]struct {
		change func(*Redrive)
		want   string
	}{
		"the slowest":                {func(r *Redrive) { r.Rate = MinRate }, ""},
		"the fastest":                {func(r *Redrive) { r.Rate = 1000 }, ""},
		"faster":                     {func(r *Redrive) { r.Rate = 1000.01 }, "/rate_per_second out_of_range"},
		"the least at once":          {func(r *Redrive) { r.Concurrency = 1 }, ""},
		"less than that":             {func(r *Redrive) { r.Concurrency = -1 }, "/concurrency out_of_range"},
		"the most at once":           {func(r *Redrive) { r.Concurrency = MaxConcurrency }, ""},
		"more at once":               {func(r *Redrive) { r.Concurrency = MaxConcurrency + 1 }, "/concurrency out_of_range"},
		"the latest":                 {func(r *Redrive) { r.ScheduledFor = new(testNow.Add(maxAhead)) }, ""},
		"later":                      {func(r *Redrive) { r.ScheduledFor = new(testNow.Add(maxAhead + 1)) }, "/scheduled_for invalid"},
		"in the past":                {func(r *Redrive) { r.ScheduledFor = new(time.Unix(0, 0).UTC()) }, ""},
		"before all time":            {func(r *Redrive) { r.ScheduledFor = new(time.Unix(-1, 0).UTC()) }, "/scheduled_for invalid"},
		"one failure":                {func(r *Redrive) { r.StopOn.Failures = 1 }, ""},
		"every ratio of failures":    {func(r *Redrive) { r.StopOn.FailureRatio = 1 }, ""},
		"a canary of one":            {func(r *Redrive) { r.Canary = &Canary{Count: 1, WatchSeconds: maxWatchSeconds, MaxBounceRatio: 1} }, ""},
		"a canary of none":           {func(r *Redrive) { r.Canary = &Canary{Count: 0} }, "/canary/count too_small"},
		"a canary watched longer":    {func(r *Redrive) { r.Canary = &Canary{Count: 1, WatchSeconds: maxWatchSeconds + 1} }, "/canary/watch_seconds out_of_range"},
		"a canary of a higher ratio": {func(r *Redrive) { r.Canary = &Canary{Count: 1, MaxBounceRatio: 1.01} }, "/canary/max_bounce_ratio out_of_range"},
		"a canary of a lower ratio":  {func(r *Redrive) { r.Canary = &Canary{Count: 1, MaxBounceRatio: -0.01} }, "/canary/max_bounce_ratio out_of_range"},
		"a reason with NUL":          {func(r *Redrive) { r.Reason = "a\x00" }, "/reason too_long"},
		"key by key":                 {func(r *Redrive) { r.Order = PerKey }, ""},
		"to partition 0":             {func(r *Redrive) { r.Target = &Target{Kind: ToKafka, Partition: new(int32(0))} }, ""},
		"to partition -1":            {func(r *Redrive) { r.Target = &Target{Kind: ToKafka, Partition: new(int32(-1))} }, "/target/partition too_small"},
		"to what is not a topic":     {func(r *Redrive) { r.Target = &Target{Kind: ToKafka, Topic: "a b"} }, "/target/topic not_a_topic"},
		"to a topic with a method":   {func(r *Redrive) { r.Target = &Target{Kind: ToKafka, Method: "PUT"} }, "/target/url excluded"},
		"to the longest URL":         {func(r *Redrive) { r.Target = &Target{Kind: ToHTTP, URL: url(maxURL)} }, ""},
		"to a longer URL":            {func(r *Redrive) { r.Target = &Target{Kind: ToHTTP, URL: url(maxURL + 1)} }, "/target/url invalid"},
		"to a URL without a host":    {func(r *Redrive) { r.Target = &Target{Kind: ToHTTP, URL: "https:///x"} }, "/target/url invalid"},
		"to what is no URL":          {func(r *Redrive) { r.Target = &Target{Kind: ToHTTP, URL: "http://["} }, "/target/url invalid"},
		"over TLS, with DELETE":      {func(r *Redrive) { r.Target = &Target{Kind: ToHTTP, URL: "https://h", Method: "DELETE"} }, ""},
		"to a URL with a topic":      {func(r *Redrive) { r.Target = &Target{Kind: ToHTTP, URL: "https://h", Topic: "t"} }, "/target/topic excluded"},
		"to a URL with a partition":  {func(r *Redrive) { r.Target = &Target{Kind: ToHTTP, URL: "https://h", Partition: new(int32(0))} }, "/target/topic excluded"},
	} {
		r := Redrive{Action: BulkRetry, Reason: "r", Filter: &Filter{Topic: "orders"}}
		tt.change(&r)
		_, err := NewRedrive(r, RedriveRequest{}, uuid.New(), limits, testNow)
		got := ""
		if f := fault.As(err); f != nil {
			for _, m := range f.Fields {
				got += m.Pointer + " " + m.Code
			}
		}
		if got != tt.want {
			t.Errorf("%s: %q, want %q", name, got, tt.want)
		}
	}
	for force, says := range map[bool]string{false: "allows retry without force", true: "allows retry"} {
		r := Redrive{Action: BulkRetry, Reason: "r", Force: force, Filter: &Filter{Statuses: []Status{Retrying}}}
		_, err := NewRedrive(r, RedriveRequest{}, uuid.New(), limits, testNow)
		if f := fault.As(err); f == nil || !strings.HasSuffix(f.Detail, says) {
			t.Errorf("force %v: %v, want %q", force, err, says)
		}
	}
}

// A redrive whose filter contains any single restriction does not mean every letter. A member that
// is added to the filter but forgotten in Empty fails here (trap X31).
func TestAFilterThatAsksForAnythingIsNotEmpty(t *testing.T) {
	t.Parallel()
	if !(&Filter{}).Empty() {
		t.Fatal("a filter that asks for nothing is not empty")
	}
	for i := range reflect.TypeFor[Filter]().NumField() {
		var f Filter
		at, name := reflect.ValueOf(&f).Elem().Field(i), reflect.TypeFor[Filter]().Field(i).Name
		switch at.Interface().(type) {
		case string:
			at.SetString("x")
		case int:
			at.SetInt(1)
		case *int:
			at.Set(reflect.ValueOf(new(1)))
		case []byte:
			at.Set(reflect.ValueOf([]byte{}))
		case uuid.UUID:
			at.Set(reflect.ValueOf(uuid.New()))
		case time.Time:
			at.Set(reflect.ValueOf(testNow))
		case map[string]string:
			at.Set(reflect.ValueOf(map[string]string{"a": ""}))
		default:
			at.Set(reflect.MakeSlice(at.Type(), 1, 1))
		}
		before := reflect.ValueOf(f).Interface()
		if f.Empty() {
			t.Errorf("a filter by %s alone is empty", name)
		}
		if !reflect.DeepEqual(before, f) {
			t.Errorf("looking at a filter by %s changes it", name)
		}
	}
	for name, tt := range map[string]struct {
		filter Filter
		empty  bool
	}{
		"every topic":                 {Filter{Topic: "*"}, true},
		"topics that begin so":        {Filter{Topic: "o*"}, false},
		"a message of no words":       {Filter{ErrorContains: "-- ?"}, true},
		"a message of a letter":       {Filter{ErrorContains: "- é"}, false},
		"a message of a digit":        {Filter{ErrorContains: "7"}, false},
		"no retries or more":          {Filter{RetryCountMin: new(0)}, true},
		"no retries":                  {Filter{RetryCountMax: new(0)}, false},
		"one retry or more":           {Filter{RetryCountMin: new(1)}, false},
		"lists and maps, empty":       {Filter{Statuses: []Status{}, Labels: []string{}, Headers: map[string]string{}}, true},
		"an empty key":                {Filter{Key: []byte{}}, false},
		"no generation in particular": {Filter{GenerationMin: 0}, true},
	} {
		if got := tt.filter.Empty(); got != tt.empty {
			t.Errorf("%s: empty: %v", name, got)
		}
	}
	for topic, exact := range map[string]bool{"": false, "orders": true, "orders*": false, "*": false, "a*b": true} {
		if got := (&Filter{Topic: topic}).Exact(); got != exact {
			t.Errorf("%q names one topic: %v", topic, got)
		}
	}
}

func TestHowFarARedriveIs(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name            string
		r               Redrive
		left, neverSent int64
		eta             time.Duration // below 0: unknown
	}{
		{"it begins", Redrive{Action: BulkRetry, Matched: 10}, 10, 10, 5 * time.Second},
		{"half of it is through", Redrive{Action: BulkRetry, Matched: 10, Done: 3, Failed: 1, Skipped: 1, Sent: 3, MaybeSent: 1}, 5, 6, 2500 * time.Millisecond},
		{"it is through", Redrive{Action: BulkRetry, Matched: 10, Done: 10, Sent: 10}, 0, 0, 0},
		{"some were counted twice", Redrive{Action: BulkRetry, Matched: 1, Done: 1, Failed: 1, Sent: 2}, 0, 0, 0},
		{"before its canary", Redrive{Action: BulkRetry, Matched: 10, Canary: &Canary{Count: 2, WatchSeconds: 23}}, 10, 10, 28 * time.Second},
		{"its canary is observed", Redrive{Action: BulkRetry, Matched: 4, Done: 2, Sent: 2, Canary: &Canary{Count: 2, WatchSeconds: 23},
			WatchedAt: new(testNow.Add(-3 * time.Second))}, 2, 2, 21 * time.Second},
		{"its canary has been observed long enough", Redrive{Action: BulkRetry, Matched: 4, Done: 2, Sent: 2, Canary: &Canary{Count: 2, WatchSeconds: 23},
			WatchedAt: new(testNow.Add(-time.Minute))}, 2, 2, time.Second},
		{"its canary has passed", Redrive{Action: BulkRetry, Matched: 4, Done: 2, Sent: 2, Canary: &Canary{Count: 2, WatchSeconds: 23},
			WatchedAt: new(testNow.Add(-time.Second)), CanaryOK: true}, 2, 2, time.Second},
		{"it sends nothing", Redrive{Action: BulkDiscard, Matched: 10}, 10, 0, 5 * time.Second},
	} {
		r := tt.r
		r.State, r.Gathered, r.Rate = RedriveRunning, true, 2
		if r.Left() != tt.left || r.NeverSent() != tt.neverSent {
			t.Errorf("%s: %d left, %d never sent; want %d, %d", tt.name, r.Left(), r.NeverSent(), tt.left, tt.neverSent)
		}
		if eta := r.ETA(testNow); eta == nil || !eta.Equal(testNow.Add(tt.eta)) {
			t.Errorf("%s: through at %v, want in %v", tt.name, eta, tt.eta)
		}
		for name, change := range map[string]func(*Redrive){
			"still gathering": func(r *Redrive) { r.Gathered = false }, "without a rate": func(r *Redrive) { r.Rate = 0 },
			"paused": func(r *Redrive) { r.State = RedrivePaused }, "over": func(r *Redrive) { r.State = RedriveCompleted },
			"standing still": func(r *Redrive) {
				r.ProgressAt, r.WatchedAt, r.Done, r.Matched = new(testNow.Add(-time.Hour)), nil, 0, 10
			},
		} {
			r := r
			if change(&r); r.ETA(testNow) != nil {
				t.Errorf("%s, %s: through at %v", tt.name, name, r.ETA(testNow))
			}
		}
	}
}

func TestAHaltedRedriveGoesOnWithOtherLimits(t *testing.T) {
	t.Parallel()
	halted := Redrive{State: RedriveHalted, HaltReason: "failures", Done: 7, Failed: 3, DoneBefore: 1, FailedBefore: 1,
		StopOn: StopOn{Failures: 2}, Version: 4, WatchedAt: &testNow, Canary: &Canary{Count: 5}}
	later := testNow.Add(time.Minute)
	want := halted
	want.State, want.HaltReason, want.DoneBefore, want.FailedBefore = RedrivePending, "", 7, 3
	want.Version, want.UpdatedAt, want.WatchedAt, want.CanaryOK = 5, later, nil, true
	for name, tt := range map[string]struct {
		stop *StopOn
		want StopOn
	}{
		"the same": {nil, halted.StopOn}, "none": {&StopOn{}, StopOn{}}, "higher ones": {&StopOn{Failures: 9}, StopOn{Failures: 9}},
	} {
		got, err := halted.Resumed(tt.stop, "ann", later)
		want.StopOn = tt.want
		if d := cmp.Diff(want, got); d != "" || err != nil {
			t.Errorf("%s: %v (-want +got):\n%s", name, err, d)
		}
		if tried, failed := got.Counted(); tried != 0 || failed != 0 {
			t.Errorf("%s: it counts from %d tried, %d failed", name, tried, failed)
		}
	}
	if _, err := halted.Resumed(&StopOn{Failures: -1, FailureRatio: 2}, "ann", later); len(fault.As(err).Fields) != 2 {
		t.Errorf("limits that cannot be: %v", err)
	}
	paused := halted
	paused.State, paused.WatchedAt = RedrivePaused, nil
	got, err := paused.Resumed(nil, "ann", later)
	want = got
	want.DoneBefore, want.FailedBefore, want.CanaryOK, want.HaltReason = 1, 1, false, "failures"
	if diff := cmp.Diff(want, got); err != nil || diff != "" {
		t.Errorf("a paused one goes on otherwise: %v (-want +got):\n%s", err, diff)
	}
	for _, s := range RedriveStates {
		r := Redrive{State: s}
		if _, err := r.Resumed(nil, "ann", later); (err == nil) != slices.Contains(r.Actions(), string(ResumeRedrive)) {
			t.Errorf("%s is resumed: %v", s, err)
		}
	}
	if edge := (RedriveEdge{RedriveHalted, RedrivePending, ResumeRedrive}); Recounting != edge ||
		!slices.Contains(RedriveEdges, Recounting) {
		t.Errorf("it counts anew after %+v, which is not in the table", Recounting)
	}
}

func TestAnEditOfARedriveKeepsWhatItDoesNotName(t *testing.T) {
	t.Parallel()
	limits := RedriveLimits{DefaultRate: 50, MaxRate: 1000, Bulk: 100}
	stored := Redrive{State: RedrivePaused, Rate: 50, Concurrency: 8, StopOn: StopOn{Failures: 3}, Version: 1}
	for name, tt := range map[string]struct {
		edit RedriveEdit
		want func(*Redrive)
	}{
		"nothing":     {RedriveEdit{}, func(*Redrive) {}},
		"a rate":      {RedriveEdit{Rate: new(1.0)}, func(r *Redrive) { r.Rate = 1 }},
		"concurrency": {RedriveEdit{Concurrency: new(1)}, func(r *Redrive) { r.Concurrency = 1 }},
		"no limits":   {RedriveEdit{StopOn: &StopOn{}}, func(r *Redrive) { r.StopOn = StopOn{} }},
	} {
		want := stored
		tt.want(&want)
		want.Version, want.UpdatedAt = 2, testNow
		got, err := stored.Edited(tt.edit, limits, testNow)
		if d := cmp.Diff(want, got); d != "" || err != nil {
			t.Errorf("%s: %v (-want +got):\n%s", name, err, d)
		}
	}
}

// The lists from which stores build conditions agree with the rules for a single letter.
func TestListsForStoresSayWhatTheRulesSay(t *testing.T) { //nolint:paralleltest // another test changes the table
	for _, s := range Sources {
		if got := slices.Contains(Automatic, s); got != s.automatic() {
			t.Errorf("letters of %s are retried unasked: %v", s, got)
		}
	}
	for _, s := range Statuses {
		if got := slices.Contains(Blocking, s); got == s.Terminal() {
			t.Errorf("a %s letter keeps its key waiting: %v", s, got)
		}
	}
	for _, r := range Returnable {
		if l := (Letter{Status: Resolved, Resolution: r}); !CanMove(l.Status, CameBack) || r.Status() != Resolved {
			t.Errorf("a letter that ended %s cannot come back", r)
		}
	}
	r := Redrive{Order: PerKey}
	one, _ := KeyOf("t", []byte("k"))
	for _, s := range ItemStates {
		keys := Keys{}
		if slices.Contains(Noted, s) {
			keys.Note(one, s)
		}
		c := Candidate{Topic: "t", Key: []byte("k"), Status: Pending, To: Target{Kind: ToHTTP}}
		choice := r.Choose([]Candidate{c}, keys, Routes{Kinds: TargetKinds}, 1)
		if free := len(choice.Taken) == 1; free == (s == ItemTaken || s == ItemFailed) {
			t.Errorf("behind an item that is %s a letter of its key is taken: %v", s, free)
		}
	}
}
