package dlq

import (
	"cmp"
	"slices"
	"strings"
)

// field is the meaning of a header.
type field int

const (
	fTopic field = iota
	fPartition
	fOffset
	fTimestamp
	fGroup
	fConnector
	fMessage
	fType
	fCause // the type of the wrapped exception, which is preferred to fType
	fStack
	fClass
	fRoot
	fGeneration
	fRedrive
	fields // number of fields
)

// families lists the headers of each tool, in order of preference. Names are in lower case, and
// case is ignored in comparisons.
var families = [...]map[string]field{
	{ // Skald's, written by a redrive; the headers of the failure are written by consumers without a framework
		HeaderTopic: fTopic, HeaderPartition: fPartition, HeaderOffset: fOffset, "x-dlq-original-timestamp": fTimestamp,
		"x-dlq-consumer-group": fGroup, "x-dlq-error-message": fMessage, "x-dlq-error-type": fType,
		"x-dlq-error-stack": fStack, "x-dlq-error-class": fClass,
		HeaderMessageID: fRoot, HeaderGeneration: fGeneration, HeaderRedriveID: fRedrive,
	},
	{"original_topic": fTopic, "error": fMessage}, // k1s0
	{ // Spring for Apache Kafka: numbers are big-endian
		"kafka_dlt-original-topic": fTopic, "kafka_dlt-original-partition": fPartition, "kafka_dlt-original-offset": fOffset,
		"kafka_dlt-original-timestamp": fTimestamp, "kafka_dlt-original-consumer-group": fGroup,
		"kafka_dlt-exception-fqcn": fType, "kafka_dlt-exception-cause-fqcn": fCause, "kafka_dlt-exception-message": fMessage, "kafka_dlt-exception-stacktrace": fStack,
		"kafka_dlt-key-exception-fqcn": fType, "kafka_dlt-key-exception-message": fMessage, "kafka_dlt-key-exception-stacktrace": fStack,
	},
	{ // Spring for Apache Kafka's non-blocking retries (@RetryableTopic)
		"kafka_original-topic": fTopic, "kafka_original-partition": fPartition, "kafka_original-offset": fOffset,
		"kafka_original-timestamp": fTimestamp, "kafka_original-consumer-group": fGroup,
		"kafka_exception-fqcn": fType, "kafka_exception-cause-fqcn": fCause, "kafka_exception-message": fMessage,
		"kafka_exception-stacktrace": fStack,
		"kafka_key-exception-fqcn":   fType, "kafka_key-exception-message": fMessage, "kafka_key-exception-stacktrace": fStack,
	},
	{ // Kafka Connect
		"__connect.errors.topic": fTopic, "__connect.errors.partition": fPartition, "__connect.errors.offset": fOffset,
		"__connect.errors.connector.name": fConnector, "__connect.errors.exception.class.name": fType,
		"__connect.errors.exception.message": fMessage, "__connect.errors.exception.stacktrace": fStack,
	},
	{ // Kafka Streams, KIP-1034: the exception includes its message
		"__streams.errors.topic": fTopic, "__streams.errors.partition": fPartition, "__streams.errors.offset": fOffset,
		"__streams.errors.exception": fType, "__streams.errors.message": fMessage, "__streams.errors.stacktrace": fStack,
	},
	{ // share groups, KIP-1191, and the draft KIP-1317
		"__dlq.errors.topic": fTopic, "__dlq.errors.partition": fPartition, "__dlq.errors.offset": fOffset,
		"__dlq.errors.group": fGroup, "__dlq.errors.message": fMessage,
		"_dlq.errors.original.topic": fTopic, "_dlq.errors.original.partition": fPartition, "_dlq.errors.original.offset": fOffset,
		"_dlq.errors.topic": fTopic, "_dlq.errors.partition": fPartition, "_dlq.errors.offset": fOffset,
		"_dlq.errors.group": fGroup, "_dlq.errors.message": fMessage,
		"_dlq.errors.disposition": fType,
	},
	{ // Spring Cloud Stream, and tools that have adopted its headers
		"x-original-topic": fTopic, "x-original-partition": fPartition, "x-original-offset": fOffset,
		"x-original-timestamp": fTimestamp,
		"x-exception-message":  fMessage, "x-exception-fqcn": fType, "x-exception-stacktrace": fStack,
	},
	{ // SmallRye Reactive Messaging (Quarkus)
		"dead-letter-topic": fTopic, "dead-letter-partition": fPartition, "dead-letter-offset": fOffset,
		"dead-letter-reason": fMessage, "dead-letter-exception-class-name": fType, "dead-letter-cause-class-name": fCause,
	},
	{ // its delayed retries: the place is in the last retry topic, so only the time is that of the original
		"delayed-retry-original-timestamp": fTimestamp,
		"delayed-retry-reason":             fMessage, "delayed-retry-exception-class-name": fType,
		"delayed-retry-cause-class-name": fCause,
	},
	{"topic_poisoned": fTopic, "reason_poisoned": fMessage}, // Watermill
	{}, // Spring's names with an application-specific prefix (renamed)
}

// renamedFamily holds names that only the record itself explains.
const renamedFamily = len(families) - 1

// springNames are the endings of the names of Spring's headers. Applications can choose the
// beginnings (DeadLetterPublishingRecoverer.setHeaderNamesSupplier).
var springNames = map[string]field{
	"original-topic": fTopic, "original-partition": fPartition, "original-offset": fOffset,
	"original-timestamp": fTimestamp, "original-consumer-group": fGroup,
	"exception-fqcn": fType, "exception-cause-fqcn": fCause, "exception-message": fMessage, "exception-stacktrace": fStack,
}

// springName splits the name of a header, in lower case, that ends like one of Spring's.
func springName(name string) (prefix string, x field, ok bool) {
	at := strings.LastIndex(name, "original-")
	if at < 0 {
		at = strings.LastIndex(name, "exception-")
	}
	if at <= 0 {
		return "", 0, false
	}
	x, ok = springNames[name[at:]]
	return name[:at], x, ok
}

// renamed returns the prefix that an application has chosen for the headers in which Spring
// describes the failure, or "" if there is none. The headers must contain both a topic and an
// exception, because either alone could mean anything.
func renamed(headers []Header) string {
	topics, failures := map[string]bool{}, map[string]bool{}
	for _, h := range headers {
		if len(h.Name) > maxHeaderName {
			continue
		}
		name := strings.ToLower(h.Name)
		prefix, x, ok := springName(name)
		if _, known := slots[name]; known || !ok {
			continue
		}
		switch x {
		case fTopic:
			topics[prefix] = true
		case fType, fCause, fMessage, fStack:
			failures[prefix] = true
		}
		if topics[prefix] && failures[prefix] {
			return prefix
		}
	}
	return ""
}

// maxHeaderName is more than the length of any header name listed here.
const maxHeaderName = 64

var familyOrder = func() []int {
	all := make([]int, len(families))
	for i := range all {
		all[i] = i
	}
	return all
}()

type slot struct {
	family int
	field  field
}

var slots = func() map[string]slot {
	all := map[string]slot{}
	for i, f := range families {
		for name, x := range f {
			all[name] = slot{i, x}
		}
	}
	return all
}()

// correlations are headers that identify what a record belongs to, in order of preference.
var correlations = map[string]int{
	"x-correlation-id": 1, "correlation-id": 2, "correlation_id": 3, "correlationid": 4, "ce_correlationid": 5,
	"kafka_correlationid": 6,
}

// value is the value of a header that may occur several times.
type value struct {
	first, last []byte
	at          int // index of the last occurrence, from 1; 0: none
}

// told holds the parsed headers of a record. It is large and stays on the stack.
type told struct {
	vals               [len(families)][fields]value
	correlation, trace string
}

// CorrelationOf returns the correlation id in the headers of a record, or "" if there is none.
func CorrelationOf(headers []Header) string {
	var t told
	t.tell(headers)
	return t.correlation
}

// tell parses headers into t, which must be empty. It visits each header once, because it runs for
// every record.
func (t *told) tell(headers []Header) {
	best, spring := len(correlations)+1, false
	for i, h := range headers {
		if len(h.Name) > maxHeaderName {
			continue // no known name is that long
		}
		name := strings.ToLower(h.Name)
		if s, ok := slots[name]; ok {
			t.vals[s.family][s.field].add(h.Value, i)
			continue
		}
		if rank, ok := correlations[name]; ok && rank < best && len(h.Value) > 0 {
			t.correlation, best = printable(h.Value), rank
		}
		switch {
		case name == "traceparent":
			if id := traceOf(h.Value); id != "" {
				t.trace = id
			}
		case name == "x-b3-traceid" && t.trace == "":
			t.trace = hexID(string(h.Value))
		case strings.HasSuffix(name, "original-topic"):
			spring = true
		}
	}
	if spring {
		t.tellRenamed(headers)
	}
}

// tellRenamed parses headers whose names an application has chosen.
func (t *told) tellRenamed(headers []Header) {
	prefix := renamed(headers)
	if prefix == "" {
		return
	}
	for i, h := range headers {
		if len(h.Name) > maxHeaderName {
			continue
		}
		if p, x, ok := springName(strings.ToLower(h.Name)); ok && p == prefix {
			t.vals[renamedFamily][x].add(h.Value, i)
		}
	}
}

// add records the value of the header at index i.
func (v *value) add(b []byte, i int) {
	if len(b) == 0 {
		return // it contains no information
	}
	if v.at == 0 {
		v.first = b
	}
	v.last, v.at = b, i+1
}

// first returns the first value that a family has for a field, which is the oldest one if the
// record was moved several times.
func (t *told) first(family int, x field) []byte { return t.vals[family][x].first }

// last returns the last value of one of Skald's fields.
func (t *told) last(x field) []byte { return t.vals[0][x].last }

// latestFirst orders the families by the position of their last failure header, because tools
// append headers.
func (t *told) latestFirst() []int {
	order := slices.Clone(familyOrder)
	at := func(f int) (latest int) {
		for _, x := range []field{fMessage, fType, fCause, fStack} {
			latest = max(latest, t.vals[f][x].at)
		}
		return latest
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(at(b), at(a)) })
	return order
}
