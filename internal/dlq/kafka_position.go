package dlq

import (
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"slices"
	"time"

	"github.com/google/uuid"
)

// ParseTopicID is the inverse of ID.
func ParseTopicID(s string) (id uuid.UUID, err error) {
	if s == "" {
		return uuid.Nil, nil
	}
	b, err := base64.RawURLEncoding.Strict().DecodeString(s)
	if err != nil || len(b) != len(id) {
		return uuid.Nil, errors.New("a topic id must have 22 characters of base64url, as kafka-topics shows it")
	}
	return uuid.UUID(b), nil
}

// SameRecord reports whether a letter read from Kafka is the same record as the stored letter at
// its position, even though the topic may have been recreated. If both topic ids are known, they
// decide. Otherwise the content and the time of failure must be equal, and the letter must not have
// been stored before the record was written. A letter stored without its content never matches.
// written is the record's timestamp, or zero if that is unknown.
func (l *Letter) SameRecord(stored *Letter, written time.Time) bool {
	if a, b := l.Arrived.KnownTopic(), stored.Arrived.KnownTopic(); a != uuid.Nil && b != uuid.Nil {
		return a == b
	}
	if a, b := l.Origin.Timestamp, stored.Origin.Timestamp; a != nil && b != nil && !a.Equal(*b) {
		return false
	}
	if written.After(stored.CreatedAt.Add(clockSkew)) {
		return false
	}
	return l.Content.same(stored.Content)
}

// clockSkew is the maximum time by which a producer's clock may be ahead of ours.
const clockSkew = time.Minute

func (c Content) same(d Content) bool {
	sameBytes := func(a, b []byte) bool { return (a == nil) == (b == nil) && bytes.Equal(a, b) }
	return sameBytes(c.Key, d.Key) && sameBytes(c.Payload, d.Payload) &&
		slices.EqualFunc(c.Headers, d.Headers, func(a, b Header) bool {
			return a.Name == b.Name && sameBytes(a.Value, b.Value)
		})
}

// Digest replaces an unknown topic id if the position is already taken by another record. It is the
// same each time the record is read.
func (l *Letter) Digest(written time.Time) uuid.UUID {
	var b []byte
	add := func(p []byte) {
		n := int64(-1)
		if p != nil {
			n = int64(len(p))
		}
		b = append(binary.BigEndian.AppendUint64(b, uint64(n)), p...) //nolint:gosec // keeps all bits
	}
	add(l.Content.Key)
	add(l.Content.Payload)
	for _, h := range l.Content.Headers {
		add([]byte(h.Name))
		add(h.Value)
	}
	if !written.IsZero() {
		b = binary.BigEndian.AppendUint64(b, uint64(written.UnixMilli())) //nolint:gosec // keeps all bits
	}
	return uuid.NewHash(sha256.New(), uuid.Nil, b, digestVersion)
}
