package dlq_test

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"

	"github.com/skald-saga/skald/internal/dlq"
)

// families contains records as each tool writes them: the headers of the application, followed by
// those that the tool appends.
var families = map[string][]dlq.Header{
	"Spring for Apache Kafka": headers("kafka_dlt-original-topic", "orders", "kafka_dlt-original-partition", be32(1),
		"kafka_dlt-original-offset", be64(2), "kafka_dlt-original-timestamp", be64(3), "kafka_dlt-original-timestamp-type", "CREATE_TIME",
		"kafka_dlt-original-consumer-group", "g", "kafka_dlt-exception-fqcn", "a.B", "kafka_dlt-exception-cause-fqcn", "a.C",
		"kafka_dlt-exception-message", "m", "kafka_dlt-exception-stacktrace", "s", "kafka_dlt-key-exception-fqcn", "a.D",
		"kafka_deliveryAttempt", be32(3), "kafka_listenerInfo", "l", "springDeserializerExceptionValue", "\xac\xed\x00\x05"),
	"@RetryableTopic": headers("kafka_original-topic", "orders", "kafka_original-partition", be32(1),
		"kafka_original-offset", be64(2),
		"kafka_original-timestamp", be64(3), "kafka_original-timestamp-type", "CREATE_TIME", "kafka_exception-fqcn", "a.B",
		"kafka_exception-cause-fqcn", "a.C", "kafka_exception-message", "m",
		"kafka_exception-stacktrace", "s", "kafka_key-exception-message", "k",
		"retry_topic-attempts", be32(4), "retry_topic-original-timestamp", be64(3), "retry_topic-backoff-timestamp", be64(5)),
	"Spring with names of the application's": headers("acme_original-topic", "orders", "acme_original-timestamp-type", "CREATE_TIME",
		"acme_exception-message", "m", "Acme_exception-stacktrace", "s", "acme_key-exception-fqcn", "a.B"),
	"Spring Cloud Stream": headers("x-original-topic", "orders", "x-original-partition", be32(1),
		"x-original-offset", be64(2),
		"x-original-timestamp", be64(3), "x-original-timestamp-type", "CreateTime",
		"x-exception-message", "m", "x-exception-fqcn", "a.B",
		"x-exception-stacktrace", "s", "deliveryAttempt", "3"),
	"Kafka Connect": headers("__connect.errors.topic", "orders", "__connect.errors.partition", "1",
		"__connect.errors.offset", "2",
		"__connect.errors.connector.name", "c", "__connect.errors.task.id", "0", "__connect.errors.stage", "VALUE_CONVERTER",
		"__connect.errors.class.name", "a.J", "__connect.errors.exception.class.name", "a.B", "__connect.errors.exception.message", "m",
		"__connect.errors.exception.stacktrace", "s"),
	"Kafka Streams": headers("__streams.errors.topic", "orders", "__streams.errors.exception",
		"a.B: m", "__streams.errors.stacktrace", "s"),
	"share groups": headers("__dlq.errors.topic", "orders", "__dlq.errors.delivery.count", "5",
		"_dlq.errors.disposition", "CLIENT_REJECT"),
	"SmallRye": headers("dead-letter-topic", "orders", "dead-letter-reason", "m",
		"dead-letter-cause", "c", "dead-letter-cause-class-name", "a.C"),
	"SmallRye's delayed retries": headers("delayed-retry-topic", "orders_retry_10000",
		"delayed-retry-count", "3", "delayed-retry-reason", "m",
		"delayed-retry-first-processing-timestamp", "9"),
	"Watermill": headers("topic_poisoned", "orders", "reason_poisoned", "m", "handler_poisoned", "h",
		"subscriber_poisoned", "s"),
	"k1s0":  headers("original_topic", "orders", "error", "m"),
	"Skald": headers("x-dlq-error-message", "m", "x-dlq-error-stack", "s", "x-dlq-original-topic", "orders"),
}

// applications are headers that belong to the application, even if they look like those of a tool.
var applications = append(headers("traceparent", "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01", "n", "1", "n", "\x00\xff",
	"kafka_correlationId", "c", "kafka_replyTopic", "answers", "kafka_messageKey", "k",
	"spring_json_header_types", "{}", "x-original-url", "/a",
	"x-original-to", "b", "original-topic", "c", "x-retry-after", "9", "retry_topics", "d",
	"dead-letters", "2", "__TypeId__", "a.Order",
	"exception-message", "e", "contentType", "application/json"), dlq.Header{Name: "empty"})

func sentTo(kind dlq.TargetKind, d *dlq.Drive) (names []string) {
	if kind == dlq.ToHTTP {
		carried, _ := d.CarryOverHTTP()
		for _, h := range d.Send.Headers {
			left := false
			for _, name := range carried.Dropped {
				left = left || name == h.Name
			}
			if !left {
				names = append(names, h.Name)
			}
		}
		return names
	}
	for _, h := range dlq.RedriveHeaders(d) {
		if !dlq.OwnHeader(h.Name) {
			names = append(names, h.Name)
		}
	}
	return names
}

func names(headers []dlq.Header) (all []string) {
	for _, h := range headers {
		all = append(all, h.Name)
	}
	return all
}

// Whichever tool moved the record to the dead-letter topic, the application receives it as it was,
// over Kafka and over HTTP, with the same order, repetitions and bytes. A policy may keep headers,
// and nothing else is kept.
func TestARetrySendsTheRecordAsItWasBeforeItFailed(t *testing.T) {
	t.Parallel()
	for family, failed := range families {
		for _, kind := range []dlq.TargetKind{dlq.ToKafka, dlq.ToHTTP} {
			upper := make([]dlq.Header, len(failed)) // case is ignored in names
			for i, h := range failed {
				upper[i] = dlq.Header{Name: strings.ToUpper(h.Name), Value: h.Value}
			}
			for _, more := range [][]dlq.Header{failed, upper, append(append([]dlq.Header{}, failed...), failed...)} {
				d := dlq.Drive{Letter: dlq.Letter{ID: uuid.New(), RootID: uuid.New(), OriginalTopic: "orders"},
					Send: dlq.Content{Headers: append(append([]dlq.Header{}, applications...), more...)}, To: dlq.Target{Kind: kind}}
				d.Content = d.Send
				if diff := cmp.Diff(names(applications), sentTo(kind, &d)); diff != "" {
					t.Errorf("%s, to %s (-want +got):\n%s", family, kind, diff)
				}
				d.KeepHeaders = []string{"*"}
				want := names(d.Send.Headers)
				if family == "Skald" {
					want = names(applications) // Skald's own are always rewritten, whatever a policy says
				}
				if diff := cmp.Diff(want, sentTo(kind, &d)); diff != "" {
					t.Errorf("%s, all kept, to %s (-want +got):\n%s", family, kind, diff)
				}
			}
		}
	}
	d := dlq.Drive{Send: dlq.Content{Headers: families["@RetryableTopic"]},
		KeepHeaders: []string{"Kafka_Exception-*", "retry_topic-attempts", "kafka_original"}}
	want := []string{"kafka_exception-fqcn", "kafka_exception-cause-fqcn", "kafka_exception-message",
		"kafka_exception-stacktrace", "retry_topic-attempts"}
	if diff := cmp.Diff(want, sentTo(dlq.ToKafka, &d)); diff != "" {
		t.Errorf("some kept (-want +got):\n%s", diff)
	}
	for _, alone := range [][]dlq.Header{headers("error", "mine"), headers("original_topic",
		"orders"), headers("original_topic", "not a topic", "error", "mine")} {
		d := dlq.Drive{Send: dlq.Content{Headers: alone}}
		if diff := cmp.Diff(names(alone), sentTo(dlq.ToKafka, &d)); diff != "" {
			t.Errorf("words that mean other things (-want +got):\n%s", diff)
		}
	}
}

// A consumer that fails each time appends its headers to what it received. Repeated rounds must not
// make the record larger, and the letter keeps its first place and time.
func TestARecordDoesNotGrowWithItsRounds(t *testing.T) {
	t.Parallel()
	at := time.Date(2026, 11, 21, 20, 0, 0, 123_000_000, time.UTC)
	for family, failed := range families {
		if family == "Skald" {
			continue // a consumer that writes Skald's own gives no place of the redriven record
		}
		a := intake.Arrival(record("orders.dlq", append(append([]dlq.Header{}, applications...), failed...)))
		a.Origin.Timestamp = &at
		root, size := uuid.New(), 0
		a.RootID = root
		for round := range 5 {
			sent := dlq.RedriveHeaders(&dlq.Drive{Letter: a.Letter, Send: a.Content, Number: 1})
			n := 0
			for _, h := range sent {
				n += len(h.Name) + len(h.Value)
			}
			if size == 0 {
				size = n
			}
			if n != size {
				t.Fatalf("%s: sent with %d bytes of headers in round %d, with %d in the first", family, n, round, size)
			}
			back := record("orders.dlq", append(sent, failed...))
			back.Timestamp = at.Add(time.Duration(round+1) * time.Hour)
			place := a.Origin
			a = intake.Arrival(back)
			if a.BounceOf != root || a.OriginalTopic != "orders" {
				t.Fatalf("%s: came back as of %s, %s", family, a.BounceOf, a.OriginalTopic)
			}
			if diff := cmp.Diff(place, a.Origin); diff != "" {
				t.Fatalf("%s: its place and time (-want +got):\n%s", family, diff)
			}
		}
	}
}

func TestTheNamesThatAPolicyMayKeep(t *testing.T) {
	t.Parallel()
	p := dlq.DefaultPolicy
	for pattern, fits := range map[string]bool{
		"kafka_dlt-exception-message": true, "retry_topic-*": true, "*": true, "": false, "a*b": false, "**": false,
		"x-dlq-attempt": false, "X-DLQ-*": false, strings.Repeat("a", 255): true, strings.Repeat("a",
			256): false, "a\x00": false,
	} {
		p.KeepHeaders = []string{pattern}
		if err := dlq.CheckPolicy(&p); (err == nil) != fits {
			t.Errorf("%q: %v", pattern, err)
		}
	}
}

func TestWhatARecordThatIsTooLargeConsistsOf(t *testing.T) {
	t.Parallel()
	many := headers("a", strings.Repeat("x", 99), "b", strings.Repeat("x", 499), "a", strings.Repeat("x", 899))
	if got, want := dlq.HeaderSizes(many), "1500: a 1000 (2 times), b 500"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
	for i := range 9 {
		many = append(many, dlq.Header{Name: string(rune('c' + i))})
	}
	if got := dlq.HeaderSizes(many); !strings.HasSuffix(got, ", h 1, and 3 more") {
		t.Errorf("many: %q", got)
	}
	if got := dlq.HeaderSizes(nil); got != "0" {
		t.Errorf("none: %q", got)
	}
}
