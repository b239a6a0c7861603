package dlq

import (
	"strings"
	"time"

	"github.com/google/uuid"
)

// Record is a record of a dead-letter topic, as a consumer receives it.
type Record struct {
	Place     Position
	Timestamp time.Time
	Content   Content
}

// Intake configures how records become letters.
type Intake struct {
	Tenant uuid.UUID // the tenant that owns the letters
	// Suffixes and Prefixes are the parts that dead-letter topics add to the names of the original
	// topics. Case is ignored, and the first match counts.
	Suffixes, Prefixes []string
	// MaxPayload is the maximum number of payload bytes to store; 0 means the constant MaxPayload.
	MaxPayload int
}

// UnknownTopic is put before the dead-letter topic's name if the original topic is unknown. A Kafka
// topic cannot have a colon in its name, so such a letter can be retried only to an explicit
// target.
const UnknownTopic = "unknown:"

const (
	noReason     = "unknown: no header of the record says why"
	maxTopicName = 249 // Kafka's own limit
)

// Arrival returns the letter for a Kafka record; New must complete it. It reads the headers of
// every tool in the table of families. The record's original position comes from the first family
// that names a topic, and each field of the failure comes from the first family that has it. A
// record that failed more than once also has the headers of its earlier failures; the headers
// appended last win. Every record yields a letter that can be stored: texts are cleaned, and
// content is kept byte for byte.
func (in Intake) Arrival(r Record) Arrival {
	var t told
	t.tell(r.Content.Headers)
	a := Arrival{Letter: Letter{
		TenantID: in.Tenant, Source: FromKafka, Arrived: &r.Place, Content: r.Content, MaxRetries: -1,
		CorrelationID: t.correlation, TraceID: t.trace,
	}}
	if sensible(r.Timestamp) {
		a.Written = r.Timestamp
	}
	in.origin(&a, &t, r)
	a.bounce(&t)
	a.failure(&t)
	limit := in.MaxPayload
	if limit <= 0 {
		limit = MaxPayload
	}
	if size := len(r.Content.Payload); size > limit {
		a.Content.Payload = r.Content.Payload[:limit:limit]
		a.Labels, a.MaxRetries = []string{LabelTruncated}, 0
		a.Note = truncatedNote(limit, size)
	}
	return a
}

// origin fills in where the record was before it failed.
func (in Intake) origin(a *Arrival, t *told, r Record) {
	for f := range families {
		topic := topicName(t.first(f, fTopic))
		if topic == "" || topic == r.Place.Topic {
			continue
		}
		a.OriginalTopic = topic
		if n, ok := number(t.first(f, fPartition)); ok && n <= 1<<31-1 {
			p := int32(n)
			a.Origin.Partition = &p
		}
		if n, ok := number(t.first(f, fOffset)); ok {
			a.Origin.Offset = &n
		}
		a.Origin.Timestamp = instant(t.first(f, fTimestamp))
		break
	}
	if a.OriginalTopic == "" {
		a.OriginalTopic = in.served(r.Place.Topic)
	}
	if a.Origin.Timestamp == nil && sensible(r.Timestamp) {
		at := r.Timestamp.UTC().Truncate(time.Microsecond)
		a.Origin.Timestamp = &at
	}
}

// served returns the original topic of a dead-letter topic, derived from its name.
func (in Intake) served(topic string) string {
	lower := strings.ToLower(topic)
	for _, s := range in.Suffixes {
		if s != "" && strings.HasSuffix(lower, strings.ToLower(s)) {
			if name := topicName([]byte(topic[:len(topic)-len(s)])); name != "" {
				return name
			}
		}
	}
	for _, p := range in.Prefixes {
		if p != "" && strings.HasPrefix(lower, strings.ToLower(p)) {
			if name := topicName([]byte(topic[len(p):])); name != "" {
				return name
			}
		}
	}
	return Storable(UnknownTopic+topic, MaxTopic)
}

// bounce fills in the fields of a returned letter from Skald's own headers.
func (a *Arrival) bounce(t *told) {
	root, err := uuid.Parse(plain(t.last(fRoot)))
	if err != nil || root == uuid.Nil {
		return
	}
	a.BounceOf, a.RootID = root, root
	if n, ok := number(t.last(fGeneration)); ok && n < 1<<20 {
		a.BounceOn = int(n)
	}
	a.Generation = a.BounceOn + 1
	if id, err := uuid.Parse(plain(t.last(fRedrive))); err == nil {
		a.OnRedrive = id
	}
}

// failure fills in why the record could not be processed.
func (a *Arrival) failure(t *told) {
	order := familyOrder
	if a.BounceOf != uuid.Nil {
		order = t.latestFirst()
	}
	pick := func(fields ...field) string {
		for _, f := range order {
			for _, x := range fields {
				if s := plain(t.vals[f][x].last); s != "" {
					return s
				}
			}
		}
		return ""
	}
	outer, rest, printed := strings.Cut(pick(fType), ": ") // an exception in Java's format, with its message
	message, stack := pick(fMessage), pick(fStack)
	if message == "" && printed {
		message = rest
	}
	kind := typeOf(outer, pick(fCause), message, stack)
	a.Failure.Type = Storable(kind, MaxWord)
	a.Failure.Message = Storable(message, MaxError)
	if a.Failure.Message == "" {
		a.Failure.Message = Storable(kind, MaxError)
	}
	if a.Failure.Message == "" {
		a.Failure.Message = noReason
	}
	a.Failure.Stack = Storable(stack, MaxStack)
	a.ConsumerGroup = Storable(pick(fGroup), MaxWord)
	if a.ConsumerGroup == "" {
		if connector := pick(fConnector); connector != "" {
			a.ConsumerGroup = Storable("connect-"+connector, MaxWord) // Connect's name for the group
		}
	}
	if a.ConsumerGroup == "" { // Spring Cloud Stream encodes the group only in the topic's name
		if group, ok := strings.CutPrefix(a.Arrived.Topic, "error."+a.OriginalTopic+"."); ok {
			a.ConsumerGroup = Storable(group, MaxWord)
		}
	}
	a.Failure.Class = classOf(ErrorClass(strings.ToUpper(pick(fClass))), kind, outer, message)
}

// topicName returns a header's value if it is a valid topic name, and "" otherwise.
func topicName(value []byte) string {
	if len(value) > maxTopicName+2 {
		return ""
	}
	if s := plain(value); CanBeTopic(s) {
		return s
	}
	return ""
}

// TopicForm describes valid names of Kafka topics.
const TopicForm = `1 to 249 of the characters a-z, A-Z, 0-9, ".", "_" and "-"`

// CanBeTopic reports whether a Kafka topic can have this name.
func CanBeTopic(s string) bool {
	if s == "" || len(s) > maxTopicName || s == "." || s == ".." {
		return false
	}
	for i := range len(s) {
		switch c := s[i]; {
		case c >= 'a' && c <= 'z', c >= 'A' && c <= 'Z', c >= '0' && c <= '9', c == '.', c == '_', c == '-':
		default:
			return false
		}
	}
	return true
}
