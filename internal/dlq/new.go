package dlq

import (
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/google/uuid"

	"github.com/skald-saga/skald/internal/fault"
)

// New completes a new letter: its encoding, fingerprint, target, lineage, number of retries and the
// time of the first automatic retry. MaxRetries < 0 means the policy's value. The letter starts as
// PENDING, or as DEAD if it may not be retried at all (invariant D3: a PENDING letter can always be
// retried). The content is used unchanged; Check must have validated it.
func New(l Letter, id uuid.UUID, p *Policy, m Moment) Letter {
	l.ID, l.Version, l.CreatedAt, l.UpdatedAt = id, 1, m.Now, m.Now
	if l.MaxRetries < 0 {
		l.MaxRetries = p.MaxRetries
	}
	if l.Failure.Class == "" {
		l.Failure.Class = Unknown
	}
	l.Encoding = EncodingOf(l.Content.Payload)
	l.Fingerprint = Fingerprint(l.OriginalTopic, l.ConsumerGroup, l.Failure)
	if l.Target.Kind == "" {
		l.Target.Kind = ToKafka
	}
	if l.RootID == uuid.Nil {
		l.RootID = id
	}
	l.Ordered = p.Ordered && l.Content.Key != nil
	slices.Sort(l.Labels)
	l.Labels = slices.Compact(l.Labels)
	switch {
	case l.Generation > p.MaxGenerations:
		l.Status, l.Resolution, l.TerminalAt = Dead, Poison, &m.Now
	case l.MaxRetries <= l.RetryCount:
		l.Status, l.Resolution, l.TerminalAt = Dead, Exhausted, &m.Now
	default:
		l.Status = Pending
		l.waits(p, m)
	}
	return l
}

// Allowed changes the number of retries of a letter that was never retried. With 0 retries it is
// DEAD (invariant D3).
func (l Letter) Allowed(retries int, m Moment) Letter {
	l.MaxRetries = retries
	if l.Status == Pending && retries <= l.RetryCount {
		l.Status, l.Resolution, l.TerminalAt, l.NextRetryAt = Dead, Exhausted, &m.Now, nil
	}
	return l
}

// EncodingOf returns the encoding of a payload.
func EncodingOf(payload []byte) Encoding {
	switch {
	case payload == nil:
		return NoPayload
	case jsonPayload(payload):
		return JSON
	case utf8.Valid(payload) && !strings.Contains(string(payload), "\x00"):
		return Text
	}
	return Binary
}

// Check returns what is wrong with a letter that was sent over REST: a fault of kind Invalid with a
// field for each mistake, or nil if there is none.
func Check(l *Letter) error {
	var wrong fault.Mistakes
	word := func(pointer, s string, limit int) {
		switch {
		case len(s) > limit:
			wrong.Add(pointer, "too_long", "has more than %d bytes", limit)
		case !storable(s):
			wrong.Add(pointer, "invalid_character", "must be UTF-8 text without NUL")
		}
	}
	if l.OriginalTopic == "" {
		wrong.Add("/original_topic", "required", "is required")
	} else if utf8.RuneCountInString(l.OriginalTopic) > MaxTopic || !storable(l.OriginalTopic) {
		wrong.Add("/original_topic", "too_long", "must be UTF-8 text of at most %d characters", MaxTopic)
	}
	if l.Failure.Message == "" {
		wrong.Add("/error_message", "required", "is required")
	}
	word("/error_message", l.Failure.Message, MaxError)
	word("/error_type", l.Failure.Type, MaxWord)
	word("/error_stack", l.Failure.Stack, MaxStack)
	word("/consumer_group", l.ConsumerGroup, MaxWord)
	word("/dedupe_key", l.DedupeKey, MaxWord)
	word("/correlation_id", l.CorrelationID, MaxWord)
	word("/trace_id", l.TraceID, MaxWord)
	if len(l.Content.Payload) > MaxPayload {
		wrong.Add("/payload", "too_long", "has more than %d bytes", MaxPayload)
	}
	if len(l.Content.Key) > MaxKey {
		wrong.Add("/key_base64", "too_long", "has more than %d bytes", MaxKey)
	}
	if len(l.Content.Headers) > MaxHeaders {
		wrong.Add("/headers", "too_many", "has more than %d headers", MaxHeaders)
	}
	for i, h := range l.Content.Headers {
		word(fmt.Sprintf("/headers/%d/name", i), h.Name, MaxWord)
	}
	if l.MaxRetries > MaxRetries {
		wrong.Add("/max_retries", "too_large", "must be at most %d", MaxRetries)
	}
	wrong = append(wrong, labelMistakes(l.Labels)...)
	if t := l.Origin.Timestamp; t != nil && (t.Year() < 1970 || t.Year() > 9999) {
		wrong.Add("/original_timestamp", "invalid", "must be in the years 1970 to 9999")
	}
	if len(wrong) == 0 {
		return nil
	}
	return fault.New(fault.Invalid, CodeInvalid, "%s: %s", wrong[0].Pointer, wrong[0].Message).With(wrong...)
}

func labelMistakes(labels []string) (wrong fault.Mistakes) {
	if len(labels) > MaxLabels {
		wrong.Add("/labels", "too_many", "has more than %d labels", MaxLabels)
	}
	for i, s := range labels {
		if s == "" || len(s) > MaxLabel || !storable(s) {
			wrong.Add(fmt.Sprintf("/labels/%d", i), "invalid", "must be UTF-8 text without NUL, of 1 to %d bytes", MaxLabel)
		}
	}
	return wrong
}

// DefaultPolicy is the policy that applies unless the topic or the configuration overrides it.
var DefaultPolicy = Policy{
	MaxRetries: 3, AutoRetry: true, RetentionDays: 30, ArchiveDays: 365, MaxGenerations: 3, Backoff: defaultBackoff,
}

// Arrival is a record of a dead-letter topic that is to be stored. The letter is complete (New);
// for a bounce, it has the root id and the generation from the record's headers. The parent is
// looked up in the database: it is the letter of that root in generation BounceOn, if it still
// exists.
type Arrival struct {
	Letter
	BounceOf  uuid.UUID // root id in x-dlq-message-id; zero: it was never a letter
	BounceOn  int       // the parent's generation, from x-dlq-generation
	OnRedrive uuid.UUID // from x-dlq-redrive-id; zero: it was not driven in bulk
	Written   time.Time // the record's timestamp; zero: it has none
}
