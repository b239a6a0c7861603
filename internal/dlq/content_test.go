package dlq

import (
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/google/uuid"
	"pgregory.net/rapid"
)

// contents are the smallest possible differences in content: nil and an empty value differ, and the
// order and repetition of headers are significant.
func contents() map[string]Content {
	b := func(s string) []byte { return []byte(s) }
	return map[string]Content{
		"nothing":            {},
		"an empty key":       {Key: b("")},
		"an empty payload":   {Payload: b("")},
		"a key":              {Key: b("a")},
		"a payload":          {Payload: b("a")},
		"both":               {Key: b("a"), Payload: b("b")},
		"the other way":      {Key: b("b"), Payload: b("a")},
		"a byte moved":       {Key: b("ab"), Payload: b("")},
		"a header":           {Headers: []Header{{"h", b("v")}}},
		"without a value":    {Headers: []Header{{"h", nil}}},
		"with an empty one":  {Headers: []Header{{"h", b("")}}},
		"in another case":    {Headers: []Header{{"H", b("v")}}},
		"a letter moved":     {Headers: []Header{{"hv", b("")}}},
		"twice":              {Headers: []Header{{"h", b("v")}, {"h", b("v")}}},
		"two":                {Headers: []Header{{"h", b("v")}, {"i", b("w")}}},
		"two, reversed":      {Headers: []Header{{"i", b("w")}, {"h", b("v")}}},
		"values exchanged":   {Headers: []Header{{"h", b("w")}, {"i", b("v")}}},
		"a header as a key":  {Key: b("h"), Headers: []Header{}, Payload: b("v")},
		"an empty name, too": {Headers: []Header{{"", b("v")}}},
	}
}

// Each pair of different contents has different digests, is not the same record, and counts as
// different messages for a target that stores responses by key. Each content equals its copy.
func TestNoTwoContentsAreTakenForOne(t *testing.T) {
	t.Parallel()
	root := uuid.New()
	for nameA, a := range contents() {
		for nameB, b := range contents() {
			same := nameA == nameB
			if got := a.same(b); got != same {
				t.Errorf("%s and %s are the same: %v", nameA, nameB, got)
			}
			la, lb := Letter{Content: a, Arrived: &Position{}}, Letter{Content: b, Arrived: &Position{}}
			if got := la.Digest(testNow) == lb.Digest(testNow); got != same {
				t.Errorf("%s and %s have one digest: %v", nameA, nameB, got)
			}
			lb.CreatedAt = testNow
			if got := la.SameRecord(&lb, testNow); got != same {
				t.Errorf("%s and %s are one record: %v", nameA, nameB, got)
			}
			da := Drive{Letter: Letter{RootID: root}, Send: a}
			db := Drive{Letter: Letter{RootID: root}, Send: b}
			if nameA == "nothing" || nameB == "nothing" {
				continue // content sent unchanged has no tag
			}
			if got := da.EditTag() == db.EditTag(); got != same {
				t.Errorf("%s and %s have one tag: %v", nameA, nameB, got)
			}
		}
	}
}

func TestADigestTellsWhenTheRecordWasWritten(t *testing.T) {
	t.Parallel()
	l := Letter{Content: Content{Key: []byte("k"), Payload: []byte("p")}}
	at := testNow.Truncate(time.Millisecond)
	for name, tt := range map[string]struct {
		a, b time.Time
		same bool
	}{
		"the same time":             {at, at, true},
		"in another zone":           {at, at.In(time.FixedZone("", 7200)), true},
		"within one millisecond":    {at, at.Add(999 * time.Microsecond), true},
		"a millisecond later":       {at, at.Add(time.Millisecond), false},
		"a time and none":           {at, time.Time{}, false},
		"no time":                   {time.Time{}, time.Time{}, true},
		"the beginning of the time": {time.UnixMilli(0), time.Time{}, false},
	} {
		if got := l.Digest(tt.a) == l.Digest(tt.b); got != tt.same {
			t.Errorf("%s: one digest: %v", name, got)
		}
	}
	if v := l.Digest(at).Version(); v != digestVersion {
		t.Errorf("the digest has version %d: Kafka's ids have 4", v)
	}
}

func TestWhichRecordALetterStandsFor(t *testing.T) {
	t.Parallel()
	one, other := uuid.New(), uuid.New()
	digest := (&Letter{}).Digest(testNow)
	failed, later := testNow.Add(-time.Hour), testNow
	for _, tt := range []struct {
		name            string
		read, stored    uuid.UUID // ids of the topic
		readAt, failed  *time.Time
		written         time.Time // after the letter was stored at testNow
		other, expected bool      // the contents differ
	}{
		{"one life of the topic, whatever else differs", one, one, &failed, &later, testNow.Add(time.Hour), true, true},
		{"two lives, whatever else is alike", one, other, &failed, &failed, testNow, false, false},
		{"an id and none, alike", one, uuid.Nil, &failed, &failed, testNow, false, true},
		{"none and an id, alike", uuid.Nil, one, &failed, &failed, testNow, false, true},
		{"a digest is not an id", digest, one, &failed, &failed, testNow, false, true},
		{"no ids, another content", uuid.Nil, uuid.Nil, &failed, &failed, testNow, true, false},
		{"no ids, failed at another time", uuid.Nil, uuid.Nil, &failed, &later, testNow, false, false},
		{"no ids, failed at the same time in another zone", uuid.Nil, uuid.Nil, &failed,
			new(failed.In(time.FixedZone("", 3600))), testNow, false, true},
		{"nobody knows when the read one failed", uuid.Nil, uuid.Nil, nil, &later, testNow, false, true},
		{"nobody knows when the stored one failed", uuid.Nil, uuid.Nil, &failed, nil, testNow, false, true},
		{"written before it was stored", uuid.Nil, uuid.Nil, nil, nil, testNow.Add(-time.Hour), false, true},
		{"written after, as far as clocks differ", uuid.Nil, uuid.Nil, nil, nil, testNow.Add(clockSkew), false, true},
		{"written after it was stored", uuid.Nil, uuid.Nil, nil, nil, testNow.Add(clockSkew + 1), false, false},
		{"nobody knows when it was written", uuid.Nil, uuid.Nil, nil, nil, time.Time{}, false, true},
	} {
		read := Letter{Arrived: &Position{TopicID: tt.read}, Content: Content{Payload: []byte("p")}}
		stored := Letter{Arrived: &Position{TopicID: tt.stored}, Content: read.Content, CreatedAt: testNow}
		read.Origin.Timestamp, stored.Origin.Timestamp = tt.readAt, tt.failed
		if tt.other {
			stored.Content = Content{Payload: []byte("q")}
		}
		if got := read.SameRecord(&stored, tt.written); got != tt.expected {
			t.Errorf("%s: %v", tt.name, got)
		}
	}
}

func TestAnEditKeepsWhatItDoesNotName(t *testing.T) {
	t.Parallel()
	original := Content{Key: []byte("k"), Headers: []Header{{"h", []byte("v")}}, Payload: []byte("p")}
	rapid.Check(t, func(t *rapid.T) {
		var edit Content
		want := original
		if rapid.Bool().Draw(t, "key") {
			edit.Key = rapid.SliceOfN(rapid.Byte(), 0, 3).Draw(t, "of")
			want.Key = edit.Key
		}
		if rapid.Bool().Draw(t, "headers") {
			edit.Headers = []Header{{"i", nil}}[:rapid.IntRange(0, 1).Draw(t, "of")]
			want.Headers = edit.Headers
		}
		if rapid.Bool().Draw(t, "payload") {
			edit.Payload = rapid.SliceOfN(rapid.Byte(), 0, 3).Draw(t, "of")
			want.Payload = edit.Payload
		}
		if got := original.With(edit); !reflect.DeepEqual(got, want) {
			t.Fatalf("%v with %v is %v", original, edit, got)
		}
	})
}

// A target that stores responses by key must get the same key for the same message, and different
// keys for different messages.
func TestTheKeyOfADriveIsThatOfItsMessage(t *testing.T) {
	t.Parallel()
	root := uuid.New()
	drive := func(change func(*Drive)) string {
		d := Drive{Letter: Letter{ID: uuid.New(), RootID: root, Generation: 1, Content: Content{Payload: []byte("p")}},
			Send: Content{Payload: []byte("p")}, Number: 1}
		change(&d)
		return d.IdempotencyKey()
	}
	edited := func(payload string) func(*Drive) {
		return func(d *Drive) { d.Send.Payload, d.Revision = []byte(payload), 1 }
	}
	first := drive(func(*Drive) {})
	if first != root.String()+"/1" {
		t.Errorf("the first key is %q", first)
	}
	for name, tt := range map[string]struct {
		change func(*Drive)
		same   bool
	}{
		"another attempt":                 {func(d *Drive) { d.Number, d.Actor, d.Forced = 9, "ann", true }, true},
		"of another redrive":              {func(d *Drive) { d.RedriveID = uuid.New() }, true},
		"edited to what it was":           {func(d *Drive) { d.Revision = 3 }, true},
		"another generation":              {func(d *Drive) { d.Generation = 2 }, false},
		"another lineage":                 {func(d *Drive) { d.RootID = uuid.New() }, false},
		"an edited payload":               {edited("q"), false},
		"no payload any more":             {func(d *Drive) { d.Send.Payload = nil }, false},
		"an edited key":                   {func(d *Drive) { d.Send.Key = []byte{} }, false},
		"an edited header":                {func(d *Drive) { d.Send.Headers = []Header{{"h", nil}} }, false},
		"another generation, and revised": {func(d *Drive) { d.Generation, d.Revision = 2, 1 }, false},
	} {
		if got := drive(tt.change) == first; got != tt.same {
			t.Errorf("%s has the key of the first drive: %v", name, got)
		}
	}
	if once, twice := drive(edited("q")), drive(edited("q")); once != twice || once == drive(edited("r")) {
		t.Error("an edited message does not have a key of its own")
	}
	elsewhere := Drive{Letter: Letter{RootID: uuid.New()}, Send: Content{Payload: []byte("q")}}
	here := Drive{Letter: Letter{RootID: root}, Send: Content{Payload: []byte("q")}}
	if tag := here.EditTag(); len(tag) != 16 || tag == elsewhere.EditTag() {
		t.Errorf("the tags are %q and %q: an edit of one letter shows in another", tag, elsewhere.EditTag())
	}
}

func TestWhichErrorsAreOfOneKind(t *testing.T) {
	t.Parallel()
	stack := "java.lang.Error: 17\n\tat a.B(C.java:1)\n  at d.E(F.java:22)\nnoise\nmain.go:3 x\n File \"x.py\", line 9\nat four\nat six"
	base := Failure{Type: "Timeout", Message: "order 17 timed out", Stack: stack}
	of := func(topic, group string, change func(*Failure)) string {
		f := base
		change(&f)
		return Fingerprint(topic, group, f)
	}
	same := func(*Failure) {}
	stacked := func(s string) func(*Failure) { return func(f *Failure) { f.Stack = s } }
	first := of("orders", "billing", same)
	if len(first) != 32 {
		t.Fatalf("a fingerprint is %q", first)
	}
	replaced := func(n int, by string) func(*Failure) {
		lines := []string{"java.lang.Error: 17", "\tat a.B(C.java:1)", "  at d.E(F.java:22)", "noise", "main.go:3 x",
			" File \"x.py\", line 9", "at four", "at six"}
		lines[n] = by
		var s string
		for _, l := range lines {
			s += l + "\n"
		}
		return stacked(s)
	}
	for name, tt := range map[string]struct {
		other string
		same  bool
	}{
		"another topic of one group":       {of("payments", "billing", same), true},
		"another group":                    {of("orders", "shipping", same), false},
		"no group":                         {of("orders", "", same), false},
		"another class":                    {of("orders", "billing", func(f *Failure) { f.Class = Transient }), true},
		"another number":                   {of("orders", "billing", func(f *Failure) { f.Message = "order 18 timed out" }), true},
		"another message":                  {of("orders", "billing", func(f *Failure) { f.Message = "order 17 is lost" }), false},
		"another type":                     {of("orders", "billing", func(f *Failure) { f.Type = "Lost" }), false},
		"type and message run together":    {of("orders", "billing", func(f *Failure) { f.Type, f.Message = "", "Timeout"+f.Message }), false},
		"no stack":                         {of("orders", "billing", stacked("")), false},
		"another first line":               {of("orders", "billing", replaced(0, "java.lang.Error: other")), true},
		"another line number":              {of("orders", "billing", replaced(1, "\tat a.B(C.java:99)")), true},
		"another frame of Java":            {of("orders", "billing", replaced(1, "\tat a.Z(C.java:1)")), false},
		"less indented":                    {of("orders", "billing", replaced(2, "at d.E(F.java:22)")), true},
		"another line that is not a frame": {of("orders", "billing", replaced(3, "other noise")), true},
		"another frame of Go":              {of("orders", "billing", replaced(4, "main.go:3 y")), false},
		"another frame of Python":          {of("orders", "billing", replaced(5, "File ./y, line 9")), false},
		"another fifth frame":              {of("orders", "billing", replaced(6, "at five")), false},
		"another sixth frame":              {of("orders", "billing", replaced(7, "at seven")), true},
		"a frame that is only in the text": {of("orders", "billing", replaced(3, "it was at home")), true},
	} {
		if got := tt.other == first; got != tt.same {
			t.Errorf("%s has the same fingerprint: %v", name, got)
		}
	}
	if Fingerprint("a", "", base) == Fingerprint("b", "", base) {
		t.Error("without a group the topic does not tell errors apart")
	}
}

func TestANameOfATargetTellsPeopleWhereItIs(t *testing.T) {
	t.Parallel()
	for want, target := range map[string]Target{
		"kafka: topic orders":  {Kind: ToKafka, Topic: "orders"},
		"http: h.example:8080": {Kind: ToHTTP, URL: "https://h.example:8080/secret?token=x"},
		"http":                 {Kind: ToHTTP, URL: "http://[bad"},
		"saga_step":            {Kind: ToSaga},
		"job_run":              {Kind: ToJobRun, Job: "nightly"},
		"webhook":              {Kind: ToWebhook},
	} {
		if got := target.Name(); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}

func TestALetterIsDrivenToItsOwnTargetUnlessAnotherIsNamed(t *testing.T) {
	t.Parallel()
	url := Target{Kind: ToHTTP, URL: "http://h/x", Topic: ""}
	for name, tt := range map[string]struct {
		own  Target
		to   *Target
		want Target
	}{
		"its topic":         {Target{Kind: ToKafka}, nil, Target{Kind: ToKafka, Topic: "orders"}},
		"a topic of its":    {Target{Kind: ToKafka, Topic: "retry"}, nil, Target{Kind: ToKafka, Topic: "retry"}},
		"its URL":           {url, nil, url},
		"Kafka, nowhere":    {url, &Target{Kind: ToKafka}, Target{Kind: ToKafka, Topic: "orders"}},
		"Kafka, a topic":    {url, &Target{Kind: ToKafka, Topic: "x"}, Target{Kind: ToKafka, Topic: "x"}},
		"a partition":       {url, &Target{Kind: ToKafka, Partition: new(int32(3))}, Target{Kind: ToKafka, Topic: "orders", Partition: new(int32(3))}},
		"a URL for a topic": {Target{Kind: ToKafka}, &url, url},
	} {
		l := Letter{OriginalTopic: "orders", Target: tt.own}
		if got := l.Destination(tt.to); !reflect.DeepEqual(got, tt.want) || !reflect.DeepEqual(l.Target, tt.own) {
			t.Errorf("%s: %+v, want %+v", name, got, tt.want)
		}
	}
}

func TestResolutionsEndTheirOwnStatusOnly(t *testing.T) {
	t.Parallel()
	for _, s := range Statuses {
		for _, r := range append(slices.Clone(Resolutions), "", "OTHER") {
			want := s == Resolved && slices.Contains([]Resolution{Redriven, Confirmed, Bounced, Manual}, r) ||
				s == Dead && slices.Contains([]Resolution{Discarded, Exhausted, Poison}, r)
			if got := r.Ends(s); got != want {
				t.Errorf("%q ends %s: %v", r, s, got)
			}
		}
	}
}
