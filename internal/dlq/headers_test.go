package dlq_test

import (
	"encoding/binary"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"

	"github.com/skald-saga/skald/internal/dlq"
)

var intake = dlq.Intake{
	Tenant:   uuid.MustParse("00000000-0000-0000-0000-000000000001"),
	Suffixes: []string{".dlq", "-dlq", "_dlq", ".dlt", "-dlt"}, Prefixes: []string{"dlq."},
}

func be32(n uint32) string { return string(binary.BigEndian.AppendUint32(nil, n)) }
func be64(n uint64) string { return string(binary.BigEndian.AppendUint64(nil, n)) }

// headers makes headers of name, value, name, value.
func headers(pairs ...string) (out []dlq.Header) {
	for i := 0; i < len(pairs); i += 2 {
		out = append(out, dlq.Header{Name: pairs[i], Value: []byte(pairs[i+1])})
	}
	return out
}

// seen is the part of an arrival that a test compares.
type seen struct {
	Topic             string
	Partition, Offset int64 // -1: not known
	At                string
	Group             string
	Failure           dlq.Failure
	Correlation       string
	Trace             string
}

func what(a dlq.Arrival) seen {
	s := seen{Topic: a.OriginalTopic, Partition: -1, Offset: -1, Group: a.ConsumerGroup, Failure: a.Failure,
		Correlation: a.CorrelationID, Trace: a.TraceID}
	if p := a.Origin.Partition; p != nil {
		s.Partition = int64(*p)
	}
	if o := a.Origin.Offset; o != nil {
		s.Offset = *o
	}
	if at := a.Origin.Timestamp; at != nil {
		s.At = at.Format(time.RFC3339Nano)
	}
	return s
}

const written = "2026-11-21T20:00:00Z" // the timestamp of every test's record

func record(topic string, h []dlq.Header) dlq.Record {
	at, _ := time.Parse(time.RFC3339, written)
	return dlq.Record{Place: dlq.Position{Topic: topic, Partition: 1, Offset: 9}, Timestamp: at,
		Content: dlq.Content{Key: []byte("k"), Payload: []byte(`{"a":1}`), Headers: h}}
}

func TestEachToolsHeadersAreUnderstood(t *testing.T) {
	t.Parallel()
	const stack = "java.net.SocketTimeoutException: Read timed out\n\tat a.B.c(B.java:1)"
	for name, tt := range map[string]struct {
		topic   string
		headers []dlq.Header
		want    seen
	}{
		"Skald's own": {"orders.dlq", headers(
			"x-dlq-original-topic", "orders", "x-dlq-original-partition", "3", "x-dlq-original-offset", "41",
			"x-dlq-consumer-group", "shop",
			"x-dlq-error-message", "no stock", "x-dlq-error-type", "OutOfStock", "x-dlq-error-class", "permanent",
		), seen{"orders", 3, 41, written, "shop", dlq.Failure{Message: "no stock", Type: "OutOfStock",
			Class: dlq.Permanent}, "", ""}},
		"k1s0": {"k1s0.orders.dlq", headers("original_topic", "k1s0.system.orders.v1", "error", "handler failed: connection reset"),
			seen{"k1s0.system.orders.v1", -1, -1, written, "", dlq.Failure{Message: "handler failed: connection reset", Class: dlq.Unknown}, "", ""}},
		"Spring for Apache Kafka": {"orders-dlt", headers(
			"kafka_dlt-exception-fqcn", "org.springframework.kafka.listener.ListenerExecutionFailedException",
			"kafka_dlt-exception-cause-fqcn", "java.net.SocketTimeoutException", "kafka_dlt-exception-message", "Listener failed; Read timed out",
			"kafka_dlt-exception-stacktrace", stack, "kafka_dlt-original-topic", "orders", "kafka_dlt-original-partition", be32(7),
			"kafka_dlt-original-offset", be64(123456789012), "kafka_dlt-original-timestamp", be64(1_700_000_000_123),
			"kafka_dlt-original-timestamp-type", "CREATE_TIME",
			"kafka_dlt-original-consumer-group", "shop", "kafka_correlationId", "\x01\x02", "traceparent", "00-4BF92F3577B34DA6A3CE929D0E0E4736-00f067aa0ba902b7-01",
		), seen{"orders", 7, 123456789012, "2023-11-14T22:13:20.123Z", "shop",
			dlq.Failure{Message: "Listener failed; Read timed out", Type: "java.net.SocketTimeoutException", Class: dlq.Transient, Stack: stack}, "0102", "4bf92f3577b34da6a3ce929d0e0e4736"}},
		"@RetryableTopic": {"payments-dlt", headers(
			"kafka_original-topic", "payments", "kafka_original-partition", be32(2), "kafka_original-offset", be64(4711),
			"kafka_original-timestamp", be64(1_700_000_000_123), "kafka_original-timestamp-type", "CREATE_TIME",
			"kafka_dlt-original-consumer-group", "shop", "retry_topic-attempts", be32(4), "retry_topic-original-timestamp", be64(1_700_000_000_123),
			"retry_topic-backoff-timestamp", be64(1_700_000_009_000), "kafka_exception-fqcn", "org.springframework.kafka.listener.ListenerExecutionFailedException",
			"kafka_exception-cause-fqcn", "java.net.SocketTimeoutException", "kafka_exception-message", "Listener failed; Read timed out", "kafka_exception-stacktrace", stack,
		), seen{"payments", 2, 4711, "2023-11-14T22:13:20.123Z", "shop",
			dlq.Failure{Message: "Listener failed; Read timed out", Type: "java.net.SocketTimeoutException", Class: dlq.Transient, Stack: stack}, "", ""}},
		"Spring with names of the application's": {"orders-dlt", headers(
			"acme.failed.original-topic", "orders", "acme.failed.original-partition", be32(3), "acme.failed.original-offset", be64(5),
			"acme.failed.original-consumer-group", "shop", "acme.failed.exception-fqcn", "java.lang.IllegalStateException",
			"acme.failed.exception-message", "closed", "acme.failed.exception-stacktrace", "at z",
		), seen{"orders", 3, 5, written, "shop", dlq.Failure{Message: "closed",
			Type: "java.lang.IllegalStateException", Class: dlq.Unknown, Stack: "at z"}, "", ""}},
		"names that are no failure": {"orders.dlq", headers("acme-original-topic", "pictures",
			"other-exception-message", "none"),
			seen{"orders", -1, -1, written, "", dlq.Failure{Message: "unknown: no header of the record says why", Class: dlq.Unknown}, "", ""}},
		"Kafka Connect": {"dlq-sink", headers(
			"__connect.errors.topic", "orders", "__connect.errors.partition", "0", "__connect.errors.offset", "17",
			"__connect.errors.connector.name", "jdbc-sink",
			"__connect.errors.task.id", "0", "__connect.errors.stage", "VALUE_CONVERTER", "__connect.errors.class.name", "org.apache.kafka.connect.json.JsonConverter",
			"__connect.errors.exception.class.name", "org.apache.kafka.connect.errors.DataException",
			"__connect.errors.exception.message", "Converting byte[] to Kafka Connect data failed due to serialization error: ", "__connect.errors.exception.stacktrace", "at x",
		), seen{"orders", 0, 17, written, "connect-jdbc-sink", dlq.Failure{
			Message: "Converting byte[] to Kafka Connect data failed due to serialization error:", Type: "org.apache.kafka.connect.errors.DataException", Class: dlq.Permanent, Stack: "at x",
		}, "", ""}},
		"Kafka Streams": {"streams-dlq", headers(
			"__streams.errors.exception", "java.lang.NullPointerException: Cannot invoke \"Order.id()\"", "__streams.errors.message", "Cannot invoke \"Order.id()\"",
			"__streams.errors.stacktrace", "at y", "__streams.errors.topic", "orders", "__streams.errors.partition", "2",
			"__streams.errors.offset", "5",
		), seen{"orders", 2, 5, written, "", dlq.Failure{Message: `Cannot invoke "Order.id()"`, Type: "java.lang.NullPointerException", Class: dlq.Permanent,
			Stack: "at y"}, "", ""}},
		"share groups": {"dlq.share", headers(
			"__dlq.errors.topic", "orders", "__dlq.errors.partition", "4", "__dlq.errors.offset", "99",
			"__dlq.errors.group", "share-1",
			"__dlq.errors.delivery.count", "5", "__dlq.errors.message", "Offset delivery count exceeded the threshold.",
		), seen{"orders", 4, 99, written, "share-1", dlq.Failure{Message: "Offset delivery count exceeded the threshold.", Class: dlq.Unknown}, "", ""}},
		"the draft of KIP-1317": {"dlq.share",
			headers("_dlq.errors.disposition", "CLIENT_REJECT", "_dlq.errors.original.topic", "orders", "_dlq.errors.original.partition", "4",
				"_dlq.errors.original.offset", "1"),
			seen{"orders", 4, 1, written, "", dlq.Failure{Message: "CLIENT_REJECT", Type: "CLIENT_REJECT", Class: dlq.Unknown},
				"", ""}},
		"Spring Cloud Stream": {"error.orders.g", headers("x-original-topic", "orders", "x-original-partition", be32(1),
			"x-original-offset", be64(2), "x-original-timestamp", be64(1_700_000_000_000),
			"x-exception-fqcn", "org.apache.kafka.common.errors.TimeoutException", "x-exception-message", "m", "x-exception-stacktrace", "s"),
			seen{"orders", 1, 2, "2023-11-14T22:13:20Z", "g", dlq.Failure{Message: "m",
				Type: "org.apache.kafka.common.errors.TimeoutException", Class: dlq.Transient, Stack: "s"},
				"", ""}},
		"SmallRye": {"dead-letter-topic-orders", headers("dead-letter-topic", "orders", "dead-letter-partition", "1",
			"dead-letter-offset", "2", "dead-letter-reason", "boom", "dead-letter-exception-class-name", "java.lang.IllegalArgumentException"),
			seen{"orders", 1, 2, written, "", dlq.Failure{Message: "boom", Type: "java.lang.IllegalArgumentException", Class: dlq.Permanent}, "", ""}},
		"SmallRye's delayed retries": {"orders-dlq", headers("delayed-retry-topic", "orders_retry_20000",
			"delayed-retry-partition", "1", "delayed-retry-count", "3",
			"delayed-retry-reason", "503", "delayed-retry-exception-class-name", "java.lang.RuntimeException", "delayed-retry-cause-class-name", "java.net.ConnectException"),
			seen{"orders", -1, -1, written, "", dlq.Failure{Message: "503",
				Type: "java.net.ConnectException", Class: dlq.Transient}, "", ""}},
		"Watermill": {"poison", headers("topic_poisoned", "orders", "reason_poisoned", "no stock",
			"handler_poisoned", "h", "subscriber_poisoned", "s"),
			seen{"orders", -1, -1, written, "", dlq.Failure{Message: "no stock", Class: dlq.Unknown}, "", ""}},
		"none, a suffix":               {"orders.v1.DLQ", nil, seen{"orders.v1", -1, -1, written, "", dlq.Failure{Message: "unknown: no header of the record says why", Class: dlq.Unknown}, "", ""}},
		"none, a prefix":               {"dlq.orders", nil, seen{"orders", -1, -1, written, "", dlq.Failure{Message: "unknown: no header of the record says why", Class: dlq.Unknown}, "", ""}},
		"none, nothing to strip":       {"graveyard", nil, seen{"unknown:graveyard", -1, -1, written, "", dlq.Failure{Message: "unknown: no header of the record says why", Class: dlq.Unknown}, "", ""}},
		"nothing but an affix":         {"dlq.", nil, seen{"unknown:dlq.", -1, -1, written, "", dlq.Failure{Message: "unknown: no header of the record says why", Class: dlq.Unknown}, "", ""}},
		"the dead-letter topic itself": {"orders.dlq", headers("kafka_dlt-original-topic", "orders.dlq", "kafka_dlt-original-offset", be64(1), "x-original-topic", "orders", "x-original-offset", "8"), seen{"orders", -1, 8, written, "", dlq.Failure{Message: "unknown: no header of the record says why", Class: dlq.Unknown}, "", ""}},
		"two families": {"orders.dlq", headers("__connect.errors.topic", "late", "__connect.errors.partition", "1",
			"kafka_dlt-original-topic", "orders", "__connect.errors.exception.message", "why"),
			seen{"orders", -1, -1, written, "", dlq.Failure{Message: "why", Class: dlq.Unknown}, "", ""}},
		"quotes, blanks and capitals": {"orders.dlq", headers("Kafka_DLT-original-topic", ` "orders" `, "X-Correlation-ID", "c-1", "correlation_id", "worse"), seen{"orders", -1, -1, written, "", dlq.Failure{Message: "unknown: no header of the record says why", Class: dlq.Unknown}, "c-1", ""}},
		"garbage": {"orders.dlq", headers("kafka_dlt-original-topic", "or\x00ders", "kafka_dlt-original-partition",
			"\xff\xff\xff\xff", "x-original-topic", strings.Repeat("x", 300),
			"kafka_dlt-exception-message", "a\x00b\xff", "kafka_dlt-exception-fqcn", strings.Repeat("E", 300), "traceparent", "00-0000000000000000000000000000000-0-0",
			"correlation-id", "\xff\xfe"),
			seen{"orders", -1, -1, written, "", dlq.Failure{Message: "a\uFFFDb\uFFFD", Type: strings.Repeat("E", 255),
				Class: dlq.Unknown}, "fffe", ""}},
	} {
		t.Run(name, func(t *testing.T) {
			a := intake.Arrival(record(tt.topic, tt.headers))
			if d := cmp.Diff(tt.want, what(a)); d != "" {
				t.Errorf("(-want +got):\n%s", d)
			}
			if d := cmp.Diff(tt.headers, a.Content.Headers); d != "" || a.Source != dlq.FromKafka ||
				*a.Arrived != (dlq.Position{Topic: tt.topic, Partition: 1, Offset: 9}) {
				t.Errorf("source %s, place %v, raw headers (-want +got):\n%s", a.Source, a.Arrived, d)
			}
		})
	}
}

func TestABounceIsKnownAndItsNewestFailureCounts(t *testing.T) {
	t.Parallel()
	root, bulk := uuid.New(), uuid.New()
	d := dlq.Drive{Letter: dlq.Letter{ID: uuid.New(), RootID: root, Generation: 1, OriginalTopic: "orders",
		RedriveID: bulk}, Number: 4, Send: dlq.Content{Headers: headers(
		"kafka_dlt-original-topic", "orders", "kafka_dlt-exception-message", "first", "x-dlq-message-id", uuid.NewString(),
		"X-DLQ-Error-Message", "ours", "n", "1", "n", "1",
	)}}
	d.Content = d.Send
	sent := dlq.RedriveHeaders(&d)
	want := headers("n", "1", "n", "1",
		"x-dlq-message-id", root.String(), "x-dlq-redrive-id", bulk.String(), "x-dlq-generation", "1", "x-dlq-attempt", "4",
		"x-dlq-revision", "0",
		"x-dlq-original-topic", "orders")
	if diff := cmp.Diff(want, sent); diff != "" {
		t.Errorf("redrive headers (-want +got):\n%s", diff)
	}
	back := intake.Arrival(record("orders.dlq", append(sent, headers("__connect.errors.topic", "orders", "__connect.errors.exception.message", "second")...)))
	bounce := back
	bounce.BounceOf, bounce.RootID, bounce.BounceOn, bounce.Generation, bounce.OnRedrive = root, root, 1, 2, bulk
	bounce.Failure.Message = "second"
	if diff := cmp.Diff(bounce, back); diff != "" {
		t.Errorf("a bounce (-want +got):\n%s", diff)
	}
	policy := dlq.DefaultPolicy
	for generation, status := range map[int]dlq.Status{3: dlq.Pending, 4: dlq.Dead} {
		back.Generation = generation
		if l := dlq.New(back.Letter, uuid.New(), &policy, dlq.Moment{Now: time.Now()}); l.Status != status ||
			l.RootID != root {
			t.Errorf("generation %d is %s of %s, want %s of %s", generation, l.Status, l.RootID, status, root)
		}
	}
}

func TestAPayloadThatIsTooLargeIsCutAndSaysSo(t *testing.T) {
	t.Parallel()
	in := intake
	in.MaxPayload = 4
	r := record("orders.dlq", nil)
	a := in.Arrival(r)
	policy := dlq.DefaultPolicy
	l := dlq.New(a.Letter, uuid.New(), &policy, dlq.Moment{Now: time.Now()})
	want := l
	want.Content.Payload, want.Status, want.Labels = []byte(`{"a"`), dlq.Dead, []string{dlq.LabelTruncated}
	if diff := cmp.Diff(want, l); diff != "" {
		t.Errorf("cut (-want +got):\n%s", diff)
	}
	if !strings.Contains(l.Note, "7 bytes") {
		t.Errorf("its note is %q", l.Note)
	}
	if a := intake.Arrival(r); len(a.Content.Payload) != 7 || a.Labels != nil {
		t.Errorf("one that is not too large came as %q, %v", a.Content.Payload, a.Labels)
	}
}

func FuzzWhateverARecordContainsTheLetterCanBeStored(f *testing.F) {
	f.Add("orders.dlq", "kafka_dlt-original-topic", []byte("orders"), "kafka_dlt-original-partition", []byte{0, 0, 0, 7},
		[]byte(`{"a":1}`))
	f.Add("x", "x-dlq-message-id", []byte(uuid.NewString()), "x-dlq-generation", []byte("9"), []byte(nil))
	f.Add(".dlq", "__streams.errors.exception", []byte("E: \x00"), "traceparent", []byte("00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"), []byte("\xff"))
	f.Add("dlq.dlq", "x-original-timestamp", []byte("99999999999999"), "x-original-topic",
		[]byte("dlq.dlq"), []byte("\x00"))
	f.Fuzz(func(t *testing.T, topic, name1 string, value1 []byte, name2 string, value2, payload []byte) {
		if len(topic) > 249 {
			topic = topic[:249]
		}
		topic = dlq.Storable(topic, 249) // brokers have no others
		h := []dlq.Header{{Name: name1, Value: value1}, {Name: name2, Value: value2}, {Name: name1, Value: value2}}
		r := record(topic, h)
		r.Content.Payload = payload
		a := intake.Arrival(r)
		l := a.Letter
		l.Content.Key, l.Content.Headers = nil, nil // kept as they are, whatever they are
		l.MaxRetries = 0
		if err := dlq.Check(&l); err != nil {
			t.Errorf("it could not be stored: %v", err)
		}
		if a.OriginalTopic == topic {
			t.Errorf("the original topic is the dead-letter topic %q", topic)
		}
		if d := cmp.Diff(h, a.Content.Headers); d != "" || string(a.Content.Payload) != string(payload) {
			t.Errorf("content has changed: %s", d)
		}
		ours := 0
		for _, s := range dlq.RedriveHeaders(&dlq.Drive{Letter: a.Letter, Send: a.Content}) {
			if strings.EqualFold(s.Name, dlq.HeaderMessageID) || strings.EqualFold(s.Name, dlq.HeaderGeneration) {
				ours++
			}
		}
		if ours != 2 {
			t.Errorf("%d headers of ours where each is there once", ours)
		}
	})
}
