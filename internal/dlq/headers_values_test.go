package dlq

import (
	"encoding/binary"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"
)

func TestNumbersOfHeaders(t *testing.T) {
	t.Parallel()
	be32 := func(n int32) string { return string(binary.BigEndian.AppendUint32(nil, uint32(n))) } //nolint:gosec // bits
	be64 := func(n int64) string { return string(binary.BigEndian.AppendUint64(nil, uint64(n))) } //nolint:gosec // bits
	for value, want := range map[string]int64{                                                    // -1: none
		"0": 0, "41": 41, "+41": 41, " 41 ": 41, `"41"`: 41, "-1": -1, "1234": 1234, "12345678": 12345678, "4 1": -1,
		"": -1, "x": -1, "1.5": -1, "9223372036854775807": math.MaxInt64,
		"9223372036854775808": -1, "\x00": -1, "\x00\x00\x01": -1,
		be32(0): 0, be32(7): 7, be32(math.MaxInt32): math.MaxInt32, be32(-1): -1, be32(-2): -1,
		be64(0): 0, be64(7): 7, be64(math.MaxInt64): math.MaxInt64, be64(-1): -1, be64(math.MinInt64): -1,
		"-123": -1, "+123": 123,
	} {
		if got, ok := number([]byte(value)); ok != (want >= 0) || ok && got != want {
			t.Errorf("%q is %d, %v; want %d", value, got, ok, want)
		}
	}
}

func TestTimesOfHeaders(t *testing.T) {
	t.Parallel()
	for value, want := range map[string]string{ // "": none
		"0": "1970-01-01T00:00:00Z", "1700000000123": "2023-11-14T22:13:20.123Z", "-1": "",
		"2026-11-21T12:00:00.1234567+02:00": "2026-11-21T10:00:00.123456Z", `"2026-11-21T12:00:00Z"`: "2026-11-21T12:00:00Z",
		"1970-01-01T00:00:00Z": "1970-01-01T00:00:00Z", "1969-12-31T23:59:59Z": "", "1970-01-01T00:00:00+01:00": "",
		"253402300799999": "9999-12-31T23:59:59.999Z", "253402300800000": "", "9999-12-31T23:59:59-01:00": "",
		"yesterday": "", "": "", "2026-11-21": "",
	} {
		got := ""
		if at := instant([]byte(value)); at != nil {
			got = at.Format(time.RFC3339Nano)
		}
		if got != want {
			t.Errorf("%q is %q, want %q", value, got, want)
		}
	}
}

func TestTextsOfHeaders(t *testing.T) {
	t.Parallel()
	for value, want := range map[string]string{
		"a": "a", " a\n": "a", `"a"`: "a", ` "a" `: "a", `"`: `"`, `""`: "", `"a`: `"a`,
		`a"`: `a"`, `"a"b"`: `a"b`, `""a""`: `"a"`,
		"\"\xff\"": "\"\xff\"", "": "",
	} {
		if got := plain([]byte(value)); got != want {
			t.Errorf("%q is the text %q, want %q", value, got, want)
		}
	}
	for value, want := range map[string]string{
		"c-1": "c-1", `"c-1"`: "c-1", "\x01\x02": "0102", "a\x00": "6100", "\xff\xfe": "fffe", "a\tb": "610962", "日本": "日本",
		strings.Repeat("x", MaxWord+9):    strings.Repeat("x", MaxWord),
		strings.Repeat("\xff", MaxWord):   strings.Repeat("ff", MaxWord/2),
		strings.Repeat("\x01", MaxWord*9): strings.Repeat("01", MaxWord/2),
	} {
		if got := printable([]byte(value)); got != want {
			t.Errorf("%q is printed as %q, want %q", value, got, want)
		}
	}
}

func TestNamesOfTopics(t *testing.T) {
	t.Parallel()
	for c := range 256 { // every byte on its own
		want := c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || c == '_' || c == '-'
		if got := CanBeTopic(string([]byte{byte(c)})); got != want { //nolint:gosec // below 256
			t.Errorf("a topic can be called %#x: %v", c, got)
		}
		want = want || c == '.'
		if got := CanBeTopic("a" + string([]byte{byte(c)}) + "b"); got != want { //nolint:gosec // below 256
			t.Errorf("a topic can have %#x in its name: %v", c, got)
		}
	}
	longest := strings.Repeat("x", maxTopicName)
	for name, want := range map[string]bool{
		"": false, ".": false, "..": false, "...": true, ".a": true, "a.": true, "ö": false,
		longest: true, longest + "x": false,
	} {
		if got := CanBeTopic(name); got != want {
			t.Errorf("a topic can be called %.9q of %d bytes: %v", name, len(name), got)
		}
	}
	for value, want := range map[string]string{
		" orders ": "orders", `"orders"`: "orders", `"` + longest + `"`: longest, longest + "xx": "", "or ders": "",
	} {
		if got := topicName([]byte(value)); got != want {
			t.Errorf("%.9q names the topic %.9q, want %.9q", value, got, want)
		}
	}
}

func TestIDsOfTraces(t *testing.T) {
	t.Parallel()
	const id, zero = "4bf92f3577b34da6a3ce929d0e0e4736", "00000000000000000000000000000000"
	for value, want := range map[string]string{
		"00-" + id + "-00f067aa0ba902b7-01": id, `"00-` + id + `-0-0"`: id, "00-" + strings.ToUpper(id) + "-0-0": id,
		"00-" + zero + "-00f067aa0ba902b7-01": "", "00-" + id[:31] + "-0-0": "",
		"00-" + id + "0-0-0": "", "00-" + id + "-0": "",
		"00-" + id[:16] + "-0-0": "", "00-" + id[:31] + "x-0-0": "", "": "", id: "",
		"00-" + id + "-0-0-" + strings.Repeat("x", 500): id,
	} {
		if got := traceOf([]byte(value)); got != want {
			t.Errorf("%.60q is of the trace %q, want %q", value, got, want)
		}
	}
	for value, want := range map[string]string{
		id: id, id[:16]: id[:16], "A" + id[1:16]: "a" + id[1:16], zero: "",
		zero[:16]: "", id[:15]: "", id[:17]: "", id[:18]: "",
		id + id[:16]: "", "x" + id[1:]: "", "": "", zero[:15] + "1": zero[:15] + "1", "1" + zero[:15]: "1" + zero[:15],
	} {
		if got := hexID(value); got != want {
			t.Errorf("%q is the id %q, want %q", value, got, want)
		}
	}
}

func TestWhetherTryingAgainMayHelp(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name                   string
		given                  ErrorClass
		kind, wrapper, message string
		want                   ErrorClass
	}{
		{"it is given", Permanent, "java.net.ConnectException", "", "", Permanent},
		{"nothing is known, as given", Unknown, "java.net.ConnectException", "", "", Unknown},
		{"what is given is not a class", "OTHER", "java.net.ConnectException", "", "", Transient},
		{"nothing is known", "", "", "", "", Unknown},
		{"the name tells", "", "com.acme.OrderTimeoutException", "", "", Transient},
		{"in any case", "", "TIMEOUT", "", "", Transient},
		{"the cause before its wrapper", "", "java.lang.NullPointerException", "java.net.ConnectException", "", Permanent},
		{"the wrapper, when the cause says nothing", "", "com.acme.Oops", "java.net.ConnectException", "", Transient},
		{"what may be in time before what cannot", "", "InvalidTimeout", "", "", Transient},
		{"a package may be called anything", "", "com.timeout.parse.Oops", "", "", Unknown},
		{"nor does a path", "", "connect/Oops", "", "", Unknown},
		{"nor a class around it", "", "Timeout$Oops", "", "", Unknown},
		{"nor a namespace", "", "timeout::Oops", "", "", Unknown},
		{"anything may have failed in a connector", "", "org.apache.kafka.connect.errors.ConnectException", "", "", Unknown},
		{"and then the wrapper counts", "", "org.apache.kafka.connect.errors.ConnectException", "a.DataException", "", Permanent},
		{"a message that begins with an exception", "", "", "", "java.net.ConnectException: refused", Transient},
		{"a message that begins with an error", "", "", "", "ValueError: not a number", Permanent},
		{"a message that begins with something else", "", "", "", "timeout: of the request", Unknown},
		{"only without a type", "", "Oops", "", "ValueError: not a number", Unknown},
		{"a message that begins with a long name", "", "", "", strings.Repeat("x", MaxWord) + "TimeoutException: y", Unknown},
	} {
		if got := classOf(tt.given, tt.kind, tt.wrapper, tt.message); got != tt.want {
			t.Errorf("%s: %s, want %s", tt.name, got, tt.want)
		}
	}
	for class, words := range map[ErrorClass][]string{Transient: transientWords, Permanent: permanentWords} {
		for _, word := range words {
			if got := classOf("", "a.B"+strings.ToUpper(word)+"C", "", ""); got != class {
				t.Errorf("%s is %s, want %s", word, got, class)
			}
		}
	}
}

// These are facts that a record contains about its letter, apart from the families of headers.
func TestWhatARecordTells(t *testing.T) {
	t.Parallel()
	root, drive := uuid.New(), uuid.New()
	at := testNow.Add(-time.Hour)
	arrival := func(topic string, when time.Time, pairs ...string) Arrival {
		r := Record{Place: Position{Topic: topic}, Timestamp: when, Content: Content{Payload: []byte("payload")}}
		for i := 0; i < len(pairs); i += 2 {
			r.Content.Headers = append(r.Content.Headers, Header{pairs[i], []byte(pairs[i+1])})
		}
		in := Intake{Suffixes: []string{"", ".DLQ", "-dlt"}, Prefixes: []string{"", "dlq."}, MaxPayload: 7}
		return in.Arrival(r)
	}
	if a := arrival("a.dlq", at); !a.Written.Equal(at) || !a.Origin.Timestamp.Equal(at) || a.Labels != nil {
		t.Errorf("it was written at %v, and failed at %v; labels %v", a.Written, a.Origin.Timestamp, a.Labels)
	}
	if a := arrival("a.dlq", time.Time{}); !a.Written.IsZero() || a.Origin.Timestamp != nil {
		t.Errorf("nobody knows when it was written: %v, %v", a.Written, a.Origin.Timestamp)
	}
	for topic, want := range map[string]string{
		"orders.dlq": "orders", "orders.Dlq": "orders", "orders-DLT": "orders",
		"DLQ.orders": "orders", ".dlq": "unknown:.dlq",
		"dlq.": "unknown:dlq.", "dlq.orders-dlt": "dlq.orders",
		"other": "unknown:other", "or ders.dlq": "unknown:or ders.dlq",
	} {
		if got := arrival(topic, at).OriginalTopic; got != want {
			t.Errorf("%s serves the topic %q, want %q", topic, got, want)
		}
	}
	for want, names := range map[string][]string{ // for a record that was moved several times, the first topic
		"orders": {"x-original-topic", "orders", "X-Original-Topic", "orders.retry"},
		"paid":   {"x-original-topic", "", "x-original-topic", "paid"},
	} {
		if got := arrival("x.dlq", at, names...).OriginalTopic; got != want {
			t.Errorf("%q come from the topic %q, want %q", names, got, want)
		}
	}
	for partition, want := range map[string]int32{
		"0": 0, "2147483647": math.MaxInt32, "2147483648": -1, "-1": -1, "x": -1,
	} {
		p := arrival("x", at, "x-original-topic", "orders", "x-original-partition", partition).Origin.Partition
		if got := deref(p, -1); got != want {
			t.Errorf("the partition %q is %d, want %d", partition, got, want)
		}
	}
	for _, tt := range []struct {
		name    string
		headers []string
		root    uuid.UUID
		on, now int
		drive   uuid.UUID
	}{
		{"never redriven", []string{HeaderGeneration, "3"}, uuid.Nil, 0, 0, uuid.Nil},
		{"redriven once", []string{HeaderMessageID, root.String()}, root, 0, 1, uuid.Nil},
		{"redriven in bulk", []string{HeaderMessageID, root.String(), HeaderGeneration, "4", HeaderRedriveID, drive.String()}, root, 4, 5, drive},
		{"the last of each", []string{HeaderMessageID, drive.String(), HeaderMessageID, root.String(), HeaderGeneration, "1", HeaderGeneration, "2"}, root, 2, 3, uuid.Nil},
		{"no id", []string{HeaderMessageID, "x", HeaderGeneration, "4"}, uuid.Nil, 0, 0, uuid.Nil},
		{"no lineage", []string{HeaderMessageID, uuid.Nil.String(), HeaderGeneration, "4"}, uuid.Nil, 0, 0, uuid.Nil},
		{"no generation", []string{HeaderMessageID, root.String(), HeaderGeneration, "x"}, root, 0, 1, uuid.Nil},
		{"the last generation", []string{HeaderMessageID, root.String(), HeaderGeneration, "1048575"}, root, 1048575, 1048576, uuid.Nil},
		{"more generations than anybody has", []string{HeaderMessageID, root.String(), HeaderGeneration, "1048576"}, root, 0, 1, uuid.Nil},
		{"no redrive", []string{HeaderMessageID, root.String(), HeaderRedriveID, "x"}, root, 0, 1, uuid.Nil},
	} {
		a := arrival("x.dlq", at, tt.headers...)
		want := a
		want.BounceOf, want.RootID, want.BounceOn = tt.root, tt.root, tt.on
		want.Generation, want.OnRedrive = tt.now, tt.drive
		if diff := cmp.Diff(want, a); diff != "" {
			t.Errorf("%s (-want +got):\n%s", tt.name, diff)
		}
	}
	for _, tt := range []struct {
		name                 string
		headers              []string
		kind, message, group string
	}{
		{"nothing", nil, "", noReason, ""},
		{"an exception as Java prints it", []string{"x-exception-fqcn", "a.B: it broke: twice"}, "a.B", "it broke: twice", ""},
		{"with a message of its own", []string{"x-exception-fqcn", "a.B: it broke", "x-exception-message", "m"}, "a.B", "m", ""},
		{"an exception alone", []string{"x-exception-fqcn", "a.B"}, "a.B", "a.B", ""},
		{"what is empty tells nothing", []string{"x-exception-message", "", "dead-letter-reason", "r"}, "", "r", ""},
		{"the first value, unless it came back", []string{"x-exception-message", "old", "x-exception-message", "new"}, "", "new", ""},
		{"a group", []string{"kafka_dlt-original-consumer-group", "shop", "__connect.errors.connector.name", "sink"}, "", noReason, "shop"},
		{"a connector", []string{"__connect.errors.connector.name", "sink"}, "", noReason, "connect-sink"},
		{"families in their order", []string{"x-exception-message", "early", "dead-letter-reason", "late"}, "", "early", ""},
		{"latest first, when it came back", []string{"x-exception-message", "old", HeaderMessageID, root.String(), "dead-letter-reason", "new"}, "", "new", ""},
		{"a name that is too long to be one", []string{strings.Repeat("x", 65), "v", "dead-letter-reason", "r"}, "", "r", ""},
	} {
		a := arrival("x.dlq", at, tt.headers...)
		if a.Failure.Type != tt.kind || a.Failure.Message != tt.message || a.ConsumerGroup != tt.group {
			t.Errorf("%s: %q %q of %q, want %q %q of %q", tt.name, a.Failure.Type, a.Failure.Message, a.ConsumerGroup, tt.kind, tt.message, tt.group)
		}
	}
	const trace, other = "4bf92f3577b34da6a3ce929d0e0e4736", "11111111111111111111111111111111"
	parent := "00-" + trace + "-00f067aa0ba902b7-01"
	for _, tt := range []struct {
		name               string
		headers            []string
		correlation, trace string
	}{
		{"the best correlation, wherever it stands", []string{"correlation_id", "3", "X-Correlation-Id", "1", "correlation-id", "2"}, "1", ""},
		{"the first of one name", []string{"correlation-id", "1", "correlation-id", "2"}, "1", ""},
		{"not an empty one", []string{"x-correlation-id", "", "kafka_correlationId", "6"}, "6", ""},
		{"the last traceparent", []string{"traceparent", "00-" + other + "-0-0", "Traceparent", parent}, "", trace},
		{"not one that is none", []string{"traceparent", parent, "traceparent", "x"}, "", trace},
		{"B3 without a traceparent", []string{"X-B3-TraceId", strings.ToUpper(trace[:16])}, "", trace[:16]},
		{"a traceparent before B3", []string{"traceparent", parent, "x-b3-traceid", other}, "", trace},
		{"a traceparent after B3", []string{"x-b3-traceid", other, "traceparent", parent}, "", trace},
		{"another header", []string{"x-trace", trace}, "", ""},
	} {
		a := arrival("x.dlq", at, tt.headers...)
		if a.CorrelationID != tt.correlation || a.TraceID != tt.trace {
			t.Errorf("%s: %q of the trace %q", tt.name, a.CorrelationID, a.TraceID)
		}
	}
	whole := Intake{}.Arrival(Record{Content: Content{Payload: make([]byte, MaxPayload)}})
	cut := Intake{}.Arrival(Record{Content: Content{Payload: make([]byte, MaxPayload+1)}})
	if whole.Labels != nil || whole.MaxRetries != -1 {
		t.Errorf("the largest payload is labelled %v, with %d retries", whole.Labels, whole.MaxRetries)
	}
	if !slices.Equal(cut.Labels, []string{LabelTruncated}) || len(cut.Content.Payload) != MaxPayload ||
		cut.MaxRetries != 0 {
		t.Errorf("a larger one is labelled %v, of %d bytes, with %d retries",
			cut.Labels, len(cut.Content.Payload), cut.MaxRetries)
	}
}

func deref[T any](p *T, none T) T {
	if p == nil {
		return none
	}
	return *p
}

func TestHeadersOfARedrive(t *testing.T) {
	t.Parallel()
	root, drive := uuid.New(), uuid.New()
	sent := Content{Headers: []Header{{"a", []byte("1")}, {"X-DLQ-Attempt", []byte("old")}, {"x-dlq", nil}, {"a", nil},
		{"x-dlq-anything", []byte("old")}}}
	d := Drive{Letter: Letter{RootID: root, OriginalTopic: "orders", Generation: 2, Revision: 3, Content: sent},
		Send: sent, Number: 4}
	kept := []Header{{"a", []byte("1")}, {"x-dlq", nil}, {"a", nil}}
	of := func(pairs ...string) []Header {
		out := slices.Clone(kept)
		for i := 0; i < len(pairs); i += 2 {
			out = append(out, Header{pairs[i], []byte(pairs[i+1])})
		}
		return out
	}
	want := of(HeaderMessageID, root.String(), HeaderGeneration, "2", HeaderAttempt, "4", HeaderRevision, "3",
		HeaderTopic, "orders")
	if diff := cmp.Diff(want, RedriveHeaders(&d)); diff != "" {
		t.Errorf("by hand (-want +got):\n%s", diff)
	}
	d.RedriveID, d.Send.Payload = drive, []byte("edited")
	d.Origin = Origin{Partition: new(int32(0)), Offset: new(int64(0))}
	want = of(HeaderMessageID, root.String(), HeaderRedriveID, drive.String(), HeaderGeneration, "2", HeaderAttempt, "4",
		HeaderRevision, "3", HeaderEdited, d.EditTag(), HeaderTopic, "orders", HeaderPartition, "0", HeaderOffset, "0")
	if diff := cmp.Diff(want, RedriveHeaders(&d)); diff != "" {
		t.Errorf("in bulk, edited, of a known place (-want +got):\n%s", diff)
	}
	back := Intake{}.Arrival(Record{Content: Content{Headers: RedriveHeaders(&d)}})
	wanted := back
	wanted.RootID, wanted.BounceOn, wanted.OnRedrive, wanted.OriginalTopic = root, 2, drive, "orders"
	wanted.Origin.Partition, wanted.Origin.Offset = d.Origin.Partition, d.Origin.Offset
	if diff := cmp.Diff(wanted, back); diff != "" {
		t.Errorf("what comes back (-want +got):\n%s", diff)
	}
	for name, want := range map[string]bool{"x-dlq-": true, "X-Dlq-Z": true, "x-dlq": false, "x-dl-q": false, "": false} {
		if OwnHeader(name) != want {
			t.Errorf("%q is one of ours: %v", name, !want)
		}
	}
}

func TestCredentialsGoToTheHostOfTheLetterOnly(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		own, to string
		same    bool
	}{
		{"https://h/a", "https://h/b?c", true}, {"https://h:1/a", "https://h:1", true}, {"https://H/a", "HTTPS://h/b", true},
		{"https://h/a", "http://h/a", false}, {"https://h/a", "https://h:444/a", false}, {"https://h/a", "https://g.h/a", false},
		{"https://h/a", "https://h@g/a", false}, {"mailto:a", "mailto:a", false}, {"http://[", "http://[", false},
		{"http://h", "http://[", false}, {"", "", false},
	} {
		l := Letter{Target: Target{Kind: ToHTTP, URL: tt.own}}
		d := Drive{Letter: l, To: Target{Kind: ToHTTP, URL: tt.to},
			Send: Content{Headers: []Header{{"Authorization", []byte("s")}}}}
		if got := l.SameHost(&d.To); got != tt.same {
			t.Errorf("%q is on the host of %q: %v", tt.to, tt.own, got)
		}
		carried, err := d.CarryOverHTTP()
		if withheld := carried.Withheld != nil; withheld == tt.same || err != nil {
			t.Errorf("%q: credentials of a letter for %q are withheld: %v, %v", tt.to, tt.own, withheld, err)
		}
	}
	url := Target{Kind: ToHTTP, URL: "https://h/"}
	kafka := Target{Kind: ToKafka, URL: "https://h/"}
	if (&Letter{Target: kafka}).SameHost(&url) || (&Letter{Target: url}).SameHost(&kafka) {
		t.Error("a topic is on the host of a URL")
	}
}
