package dlq

import "strings"

// A retry sends the record as it was before it failed. It leaves out the headers in which tools
// describe the failure. The letter already contains that description, and a consumer that fails
// again appends its own headers, so the record would otherwise grow until its topic rejects it. It
// also leaves out the headers in which frameworks count their own retries, because with them a
// consumer would give up immediately.
var (
	// leftBegins are prefixes, in lower case, that only such headers have.
	leftBegins = []string{
		"kafka_dlt-", "kafka_original-", "kafka_exception-", "kafka_key-exception-", // Spring for Apache Kafka
		"springdeserializerexception", // a Java object, which no consumer should deserialize from others
		"retry_topic-",                // Spring's @RetryableTopic: attempts, backoff
		"__connect.errors.", "__streams.errors.", "__dlq.errors.", "_dlq.errors.",
		"x-exception-",                   // Spring Cloud Stream
		"dead-letter-", "delayed-retry-", // SmallRye
	}
	// leftNames are complete names, because other headers share their prefixes.
	leftNames = words(`x-original-topic x-original-partition x-original-offset x-original-timestamp
		x-original-timestamp-type
		kafka_deliveryattempt deliveryattempt kafka_listenerinfo
		topic_poisoned reason_poisoned handler_poisoned subscriber_poisoned`)
)

// k1s0 is a family of headers whose names are common words with other meanings elsewhere. They are
// left out only if both are present, as k1s0 writes them.
const k1s0 = 1

// Left decides which headers of one record a retry leaves out.
type Left struct {
	keep    []string // from the policy, in lower case
	renamed string   // prefix of header names chosen by the application
	k1s0    bool
}

// LeftOf returns the rule for a record with these headers and a policy that keeps some of them.
func LeftOf(headers []Header, keep []string) Left {
	l := Left{renamed: renamed(headers)}
	for _, k := range keep {
		l.keep = append(l.keep, strings.ToLower(k))
	}
	told := 0
	for name, x := range families[k1s0] {
		for _, h := range headers {
			if strings.EqualFold(h.Name, name) && (x != fTopic || topicName(h.Value) != "") {
				told++
				break
			}
		}
	}
	l.k1s0 = told == len(families[k1s0])
	return l
}

// Out reports whether a header is left out. Skald's own headers always are, because every retry
// rewrites them.
func (l *Left) Out(name string) bool {
	if OwnHeader(name) {
		return true
	}
	name = strings.ToLower(name)
	return l.describes(name) && !matchesAny(l.keep, name)
}

// LeftOut returns the names of the headers that are left out, as written in the record.
func LeftOut(headers []Header, keep []string) (names []string) {
	left := LeftOf(headers, keep)
	for _, h := range headers {
		if left.Out(h.Name) {
			names = append(names, h.Name)
		}
	}
	return names
}

// describes reports whether a header, given by its name in lower case, is about the failure or the
// consumer's own retries.
func (l *Left) describes(name string) bool {
	if leftNames[name] {
		return true
	}
	for _, p := range leftBegins {
		if strings.HasPrefix(name, p) {
			return true
		}
	}
	if _, ok := families[k1s0][name]; ok {
		return l.k1s0
	}
	if l.renamed == "" || !strings.HasPrefix(name, l.renamed) {
		return false
	}
	rest := name[len(l.renamed):]
	return strings.HasPrefix(rest, "original-") || strings.HasPrefix(rest, "exception-") ||
		strings.HasPrefix(rest, "key-exception-")
}

// matchesAny reports whether a name matches one of the patterns: a name, or a prefix followed by
// an asterisk.
func matchesAny(patterns []string, name string) bool {
	for _, p := range patterns {
		if begin, many := strings.CutSuffix(p, "*"); many && strings.HasPrefix(name, begin) || p == name {
			return true
		}
	}
	return false
}

// keepable reports whether a policy's KeepHeaders may contain this pattern.
func keepable(pattern string) bool {
	name := strings.TrimSuffix(pattern, "*")
	return pattern != "" && !strings.Contains(name, "*") && !OwnHeader(name)
}
