package dlq

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"

	"github.com/skald-saga/skald/internal/fault"
)

func TestANewLetterIsComplete(t *testing.T) {
	t.Parallel()
	id, root := uuid.New(), uuid.New()
	policy := DefaultPolicy
	policy.MaxRetries, policy.MaxGenerations, policy.Ordered = 5, 2, true
	in := Letter{Source: FromREST, OriginalTopic: "orders", ConsumerGroup: "g", Failure: Failure{Message: "m 1"},
		Content: Content{Key: []byte("k"), Payload: []byte("{}")}, MaxRetries: -1, Labels: []string{"b", "a", "b"}}
	complete := in
	complete.ID, complete.RootID, complete.Version, complete.CreatedAt, complete.UpdatedAt = id, id, 1, testNow, testNow
	complete.MaxRetries, complete.Failure.Class, complete.Encoding = 5, Unknown, JSON
	complete.Fingerprint = Fingerprint("orders", "g", complete.Failure)
	complete.Target.Kind, complete.Ordered, complete.Labels = ToKafka, true, []string{"a", "b"}
	complete.Status, complete.NextRetryAt = Pending, policy.NextRetry(FromREST, 0, testNow, 0.5)
	dead := func(why Resolution) func(l *Letter) {
		return func(l *Letter) { l.Status, l.Resolution, l.TerminalAt, l.NextRetryAt = Dead, why, &testNow, nil }
	}
	for name, tt := range map[string]struct {
		change, want func(*Letter)
	}{
		"with every default":   {func(*Letter) {}, func(*Letter) {}},
		"a class of its own":   {func(l *Letter) { l.Failure.Class = Transient }, func(l *Letter) { l.Failure.Class = Transient }},
		"nothing to be gained": {func(l *Letter) { l.Failure.Class = Permanent }, func(l *Letter) { l.Failure.Class, l.NextRetryAt = Permanent, nil }},
		"retries of its own":   {func(l *Letter) { l.MaxRetries = 1 }, func(l *Letter) { l.MaxRetries = 1 }},
		"a target of its own":  {func(l *Letter) { l.Target.Kind = ToHTTP }, func(l *Letter) { l.Target.Kind = ToHTTP }},
		"without a key":        {func(l *Letter) { l.Content.Key = nil }, func(l *Letter) { l.Content.Key, l.Ordered = nil, false }},
		"with an empty key":    {func(l *Letter) { l.Content.Key = []byte{} }, func(l *Letter) { l.Content.Key = []byte{} }},
		"of a lineage": {func(l *Letter) { l.RootID, l.Generation = root, 2 },
			func(l *Letter) {
				l.RootID, l.Generation, l.NextRetryAt = root, 2, policy.NextRetry(FromREST, 2, testNow, 0.5)
			}},
		"came back too often":  {func(l *Letter) { l.RootID, l.Generation = root, 3 }, func(l *Letter) { l.RootID, l.Generation = root, 3; dead(Poison)(l) }},
		"not to be retried":    {func(l *Letter) { l.MaxRetries = 0 }, func(l *Letter) { l.MaxRetries = 0; dead(Exhausted)(l) }},
		"retried already":      {func(l *Letter) { l.RetryCount = 5 }, func(l *Letter) { l.RetryCount = 5; dead(Exhausted)(l) }},
		"with a retry left":    {func(l *Letter) { l.RetryCount = 4 }, func(l *Letter) { l.RetryCount, l.NextRetryAt = 4, policy.NextRetry(FromREST, 4, testNow, 0.5) }},
		"poison and exhausted": {func(l *Letter) { l.Generation, l.MaxRetries = 3, 0 }, func(l *Letter) { l.Generation, l.MaxRetries = 3, 0; dead(Poison)(l) }},
		"of a saga":            {func(l *Letter) { l.Source = FromSaga }, func(l *Letter) { l.Source, l.NextRetryAt = FromSaga, nil }},
		"marked as held before": {func(l *Letter) { l.HeldRetryAt, l.RetryAsked = &testNow, true },
			func(*Letter) {}},
	} {
		l, want := in, complete
		l.Labels = slices.Clone(in.Labels)
		tt.change(&l)
		tt.want(&want)
		want.Fingerprint = Fingerprint(want.OriginalTopic, want.ConsumerGroup, want.Failure)
		if d := cmp.Diff(want, New(l, id, &policy, testMoment())); d != "" {
			t.Errorf("%s (-want +got):\n%s", name, d)
		}
	}
	policy.Ordered = false
	if New(in, id, &policy, testMoment()).Ordered {
		t.Error("a letter is ordered, and its policy orders none")
	}
}

func TestANewLetterIsAllowedOtherRetries(t *testing.T) {
	t.Parallel()
	next := testNow.Add(time.Minute)
	for _, tt := range []struct {
		status         Status
		count, retries int
		dies           bool
	}{
		{Pending, 0, 5, false}, {Pending, 0, 1, false}, {Pending, 0, 0, true}, {Pending, 2, 3, false}, {Pending, 2, 2, true},
		{Dead, 0, 0, false}, {Dead, 0, 5, false}, {Retrying, 0, 0, false},
	} {
		l := Letter{Status: tt.status, RetryCount: tt.count, MaxRetries: 4, NextRetryAt: &next}
		want := l
		want.MaxRetries = tt.retries
		if tt.dies {
			want.Status, want.Resolution, want.TerminalAt, want.NextRetryAt = Dead, Exhausted, &testNow, nil
		}
		if d := cmp.Diff(want, l.Allowed(tt.retries, testMoment())); d != "" {
			t.Errorf("%s after %d, allowed %d (-want +got):\n%s", tt.status, tt.count, tt.retries, d)
		}
	}
}

func TestWhatAPayloadIs(t *testing.T) {
	t.Parallel()
	for payload, want := range map[string]Encoding{
		`{"a":[1,null]}`: JSON, `"text"`: JSON, `0`: JSON, ` true `: JSON, ``: Text, `{`: Text, `{"a":1,"a":2}`: Text,
		"blå": Text, "{\"a\":\"\\u0000\"}": Text, "a\x00b": Binary, "\xff": Binary, "\x00": Binary,
	} {
		if got := EncodingOf([]byte(payload)); got != want {
			t.Errorf("%q is %q, want %q", payload, got, want)
		}
	}
	if got := EncodingOf(nil); got != NoPayload {
		t.Errorf("none is %q", got)
	}
	for size, want := range map[int]Encoding{maxJSON: JSON, maxJSON + 1: Text} {
		if got := EncodingOf([]byte(`"` + strings.Repeat("x", size-2) + `"`)); got != want {
			t.Errorf("JSON of %d bytes is %q, want %q", size, got, want)
		}
	}
}

// Each mistake is found separately, at the limit, and is reported with a pointer into the body.
func TestALetterOverRESTIsRefusedWithEveryMistake(t *testing.T) {
	t.Parallel()
	long := func(n int) string { return strings.Repeat("x", n) }
	valid := Letter{OriginalTopic: "orders", Failure: Failure{Message: "m"}}
	type change = func(*Letter)
	for name, tt := range map[string]struct {
		change change
		want   string // pointer and code
	}{
		"nothing wrong":         {func(*Letter) {}, ""},
		"no topic":              {func(l *Letter) { l.OriginalTopic = "" }, "/original_topic required"},
		"the longest topic":     {func(l *Letter) { l.OriginalTopic = strings.Repeat("ö", MaxTopic) }, ""},
		"a longer topic":        {func(l *Letter) { l.OriginalTopic = long(MaxTopic + 1) }, "/original_topic too_long"},
		"a topic with NUL":      {func(l *Letter) { l.OriginalTopic = "a\x00" }, "/original_topic too_long"},
		"no message":            {func(l *Letter) { l.Failure.Message = "" }, "/error_message required"},
		"the most payload":      {func(l *Letter) { l.Content.Payload = make([]byte, MaxPayload) }, ""},
		"more payload":          {func(l *Letter) { l.Content.Payload = make([]byte, MaxPayload+1) }, "/payload too_long"},
		"the longest key":       {func(l *Letter) { l.Content.Key = make([]byte, MaxKey) }, ""},
		"a longer key":          {func(l *Letter) { l.Content.Key = make([]byte, MaxKey+1) }, "/key_base64 too_long"},
		"the most headers":      {func(l *Letter) { l.Content.Headers = make([]Header, MaxHeaders) }, ""},
		"more headers":          {func(l *Letter) { l.Content.Headers = make([]Header, MaxHeaders+1) }, "/headers too_many"},
		"the most retries":      {func(l *Letter) { l.MaxRetries = MaxRetries }, ""},
		"more retries":          {func(l *Letter) { l.MaxRetries = MaxRetries + 1 }, "/max_retries too_large"},
		"the most labels":       {func(l *Letter) { l.Labels = slices.Repeat([]string{"a"}, MaxLabels) }, ""},
		"more labels":           {func(l *Letter) { l.Labels = slices.Repeat([]string{"a"}, MaxLabels+1) }, "/labels too_many"},
		"the longest label":     {func(l *Letter) { l.Labels = []string{"a", long(MaxLabel)} }, ""},
		"a longer label":        {func(l *Letter) { l.Labels = []string{"a", long(MaxLabel + 1)} }, "/labels/1 invalid"},
		"an empty label":        {func(l *Letter) { l.Labels = []string{"a", "b", ""} }, "/labels/2 invalid"},
		"a label with NUL":      {func(l *Letter) { l.Labels = []string{"\x00"} }, "/labels/0 invalid"},
		"the first time":        {func(l *Letter) { l.Origin.Timestamp = new(time.Date(1970, 1, 1, 0, 0, 0, 0, time.UTC)) }, ""},
		"a time before":         {func(l *Letter) { l.Origin.Timestamp = new(time.Date(1969, 12, 31, 0, 0, 0, 0, time.UTC)) }, "/original_timestamp invalid"},
		"the last time":         {func(l *Letter) { l.Origin.Timestamp = new(time.Date(9999, 12, 31, 0, 0, 0, 0, time.UTC)) }, ""},
		"a time after":          {func(l *Letter) { l.Origin.Timestamp = new(time.Date(10000, 1, 1, 0, 0, 0, 0, time.UTC)) }, "/original_timestamp invalid"},
		"content of any bytes":  {func(l *Letter) { l.Content = Content{Key: []byte("\xff\x00"), Payload: []byte("\xff\x00")} }, ""},
		"a header of any bytes": {func(l *Letter) { l.Content.Headers = []Header{{"h", []byte("\xff\x00")}} }, ""},
	} {
		l := valid
		tt.change(&l)
		wantMistake(t, name, Check(&l), tt.want)
	}
	for pointer, word := range map[string]struct {
		limit int
		set   func(*Letter, string)
	}{
		"/error_message":  {MaxError, func(l *Letter, s string) { l.Failure.Message = s }},
		"/error_type":     {MaxWord, func(l *Letter, s string) { l.Failure.Type = s }},
		"/error_stack":    {MaxStack, func(l *Letter, s string) { l.Failure.Stack = s }},
		"/consumer_group": {MaxWord, func(l *Letter, s string) { l.ConsumerGroup = s }},
		"/dedupe_key":     {MaxWord, func(l *Letter, s string) { l.DedupeKey = s }},
		"/correlation_id": {MaxWord, func(l *Letter, s string) { l.CorrelationID = s }},
		"/trace_id":       {MaxWord, func(l *Letter, s string) { l.TraceID = s }},
		"/headers/1/name": {MaxWord, func(l *Letter, s string) { l.Content.Headers = []Header{{Name: "h"}, {Name: s}} }},
	} {
		for text, want := range map[string]string{
			long(word.limit): "", long(word.limit + 1): pointer + " too_long", "a\x00": pointer + " invalid_character",
			"\xff": pointer + " invalid_character", "ö": "",
		} {
			l := valid
			word.set(&l, text)
			wantMistake(t, fmt.Sprintf("%s of %d bytes", pointer, len(text)), Check(&l), want)
		}
	}
	f := fault.As(Check(&Letter{MaxRetries: MaxRetries + 1}))
	if len(f.Fields) != 3 || !strings.HasPrefix(f.Detail, "/original_topic: is required") {
		t.Errorf("of three mistakes these are told: %+v", f)
	}
}

// wantMistake checks that err reports exactly one mistake, given as pointer and code; "" means
// none.
func wantMistake(t *testing.T, name string, err error, want string) {
	t.Helper()
	got := ""
	if f := fault.As(err); f != nil {
		if f.Kind != fault.Invalid || f.Code != CodeInvalid || !strings.HasPrefix(f.Detail, f.Fields[0].Pointer) {
			t.Errorf("%s: %+v", name, f)
		}
		for _, m := range f.Fields {
			got += " " + m.Pointer + " " + m.Code
			if m.Message == "" {
				t.Errorf("%s: %s says nothing", name, m.Pointer)
			}
		}
	}
	if got = strings.TrimSpace(got); got != want || (err == nil) != (want == "") {
		t.Errorf("%s: %q, want %q", name, got, want)
	}
}

func TestWhatOthersHaveWrittenIsMadeStorable(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		in    string
		limit int
		want  string
	}{
		{"plain", 9, "plain"}, {"plain", 5, "plain"}, {"plain", 4, "plai"}, {"", 0, ""}, {"blå", 3, "bl"}, {"blå", 4, "blå"},
		{"a\x00b", 9, "a\uFFFDb"}, {"a\xff\xfeb", 9, "a\uFFFDb"}, {"a\x00b", 3, "a"}, {"日本", 5, "日"},
	} {
		if got := Storable(tt.in, tt.limit); got != tt.want {
			t.Errorf("%q of %d bytes is %q, want %q", tt.in, tt.limit, got, tt.want)
		}
	}
}

// A letter from an export is stored as it was, but is not being retried, and is not retried
// automatically (invariant D3 also holds for it).
func TestALetterOfAnExport(t *testing.T) {
	t.Parallel()
	earlier := testNow.Add(-time.Hour)
	for name, tt := range map[string]struct {
		status     Status
		why        Resolution
		at         *time.Time
		count, max int
		want       func(*Letter)
	}{
		"open":                  {Pending, "", nil, 1, 3, func(*Letter) {}},
		"open, without a retry": {Pending, "", nil, 3, 3, func(l *Letter) { l.MaxRetries = 4 }},
		"on its way":            {Retrying, "", nil, 1, 3, func(*Letter) {}},
		"on its last way":       {Retrying, "", nil, 3, 3, func(l *Letter) { l.MaxRetries = 4 }},
		"resolved, nobody says how": {Resolved, "", nil, 1, 3, func(l *Letter) {
			l.Status, l.Resolution, l.TerminalAt = Resolved, Manual, &testNow
		}},
		"dead, nobody says how": {Dead, "", &earlier, 1, 3, func(l *Letter) {
			l.Status, l.Resolution, l.TerminalAt = Dead, Exhausted, &earlier
		}},
		"confirmed": {Resolved, Confirmed, &earlier, 1, 3, func(l *Letter) {
			l.Status, l.Resolution, l.TerminalAt = Resolved, Confirmed, &earlier
		}},
		"discarded after more retries than it has": {Dead, Discarded, nil, 5, 3, func(l *Letter) {
			l.Status, l.Resolution, l.TerminalAt, l.MaxRetries = Dead, Discarded, &testNow, 5
		}},
		"nobody says anything": {"", "", nil, 1, 3, func(*Letter) {}},
	} {
		l := Letter{Status: Pending, RetryCount: tt.count, MaxRetries: tt.max, NextRetryAt: &testNow, TerminalAt: &earlier}
		want := l
		want.NextRetryAt, want.TerminalAt = nil, nil
		tt.want(&want)
		if d := cmp.Diff(want, l.Imported(tt.status, tt.why, tt.at, testMoment())); d != "" {
			t.Errorf("%s (-want +got):\n%s", name, d)
		}
	}
	dead := Letter{Status: Dead, Resolution: Poison}
	if got := dead.Imported("", "", nil, testMoment()); got.Status != Dead || got.Resolution != Poison ||
		got.TerminalAt == nil {
		t.Errorf("a letter that is DEAD from the beginning is taken up as %+v", got)
	}
}

func TestWhatIsLeftOfADeletedLetter(t *testing.T) {
	t.Parallel()
	l := Letter{OriginalTopic: "orders", Status: Dead, Source: FromKafka, Fingerprint: "f", RetryCount: 2,
		CreatedAt: testNow, Failure: Failure{Type: "T", Message: "secret"}, RootID: uuid.MustParse("01234567-89ab-7def-8123-456789abcdef"),
		Content: Content{Payload: []byte("secret")}}
	want := `{"created_at":"2026-11-21T12:00:00Z","error_type":"T","fingerprint":"f","original_topic":"orders","retry_count":2,` +
		`"root_id":"01234567-89ab-7def-8123-456789abcdef","source":"KAFKA","status":"DEAD"}`
	if got := string(l.Tombstone()); got != want {
		t.Errorf("%s\nwant %s", got, want)
	}
}

func TestWhoseActionsAreOnRecord(t *testing.T) {
	t.Parallel()
	verbs := map[RedriveAction]string{BulkRetry: "retry", BulkDiscard: "discard", BulkResolve: "resolve",
		BulkRequeue: "requeue", BulkDelete: "delete"}
	got := map[RedriveAction]string{}
	for _, a := range RedriveActions {
		got[a] = a.Verb()
	}
	if !reflect.DeepEqual(got, verbs) {
		t.Errorf("%v, want %v", got, verbs)
	}
}
