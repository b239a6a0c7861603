package dlqdb

import (
	"bytes"
	"encoding/json"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/google/uuid"

	"github.com/skald-saga/skald/internal/dlq"
)

// Lists find a letter by its terms where no other index helps. Each term is a hash of the tenant,
// the kind and the value, stored in a single GIN index. Two values may have the same hash, so a
// search by terms also checks the row.

// TermKind is the first byte of a term. Terms are stored as hashes, so changing a kind makes stored
// letters impossible to find by it.
type TermKind byte

// Kinds of terms.
const (
	termSource      TermKind = 's'
	termErrorType   TermKind = 't'
	termErrorClass  TermKind = 'c'
	termConsumers   TermKind = 'g' // consumer group
	termFingerprint TermKind = 'f' // for the archive; live letters have an index
	TermCorrelation TermKind = 'r'
	TermTrace       TermKind = 'x'
	TermSaga        TermKind = 'a'
	TermJobRun      TermKind = 'j'
	termAssignee    TermKind = 'n'
	termLabel       TermKind = 'l'
	termKey         TermKind = 'k'
	termHeader      TermKind = 'h' // name, NUL, value
	termPayload     TermKind = 'p' // dotted path, NUL, scalar
	termWord        TermKind = 'w' // a word of the error's message, in lower case
)

// Limits on how much of a letter is indexed by terms. The rest is stored but cannot be searched.
const (
	maxHeaderTerms = 40
	maxWordTerms   = 60
	commonTerms    = 20 // the usual number per letter
	maxPayloadView = 256 << 10
)

// hash is 64-bit FNV-1a, implemented here for speed because a letter has about thirty terms.
type hash uint64

const (
	hashBasis hash = 14695981039346656037
	hashPrime hash = 1099511628211
)

func hashed[T string | []byte](h hash, s T) hash {
	for i := range len(s) {
		h = (h ^ hash(s[i])) * hashPrime
	}
	return h
}

// term folds a hash to 32 bits.
func (h hash) term() int32 { return int32(uint32(h ^ h>>32)) } //nolint:gosec // use all 32 bits

// Term hashes one value.
func Term(tenant uuid.UUID, k TermKind, value string) int32 {
	return hashed(hashed(hashed(hashBasis, tenant[:]), []byte{byte(k)}), value).term()
}

// letterTerms returns a letter's terms, sorted and without duplicates. It reuses the memory of
// terms, which is empty or nil. Sealed letters have no terms for key, headers and payload, because
// an unkeyed hash would let anyone test guesses of the value.
func letterTerms(terms []int32, l *dlq.Letter, isSealed bool) []int32 {
	of := hashed(hashBasis, l.TenantID[:])
	kindOf := func(k TermKind) hash { return (of ^ hash(k)) * hashPrime }
	add := func(k TermKind, value string) { terms = append(terms, hashed(kindOf(k), value).term()) }
	unlessEmpty := func(k TermKind, value string) {
		if value != "" {
			add(k, value)
		}
	}
	add(termSource, string(l.Source))
	add(termErrorClass, string(l.Failure.Class))
	unlessEmpty(termErrorType, l.Failure.Type)
	unlessEmpty(termConsumers, l.ConsumerGroup)
	unlessEmpty(termFingerprint, l.Fingerprint)
	unlessEmpty(TermCorrelation, l.CorrelationID)
	unlessEmpty(TermTrace, l.TraceID)
	unlessEmpty(termAssignee, l.Assignee)
	if l.Link.SagaID != uuid.Nil {
		add(TermSaga, l.Link.SagaID.String())
	}
	if l.Link.JobRunID != uuid.Nil {
		add(TermJobRun, l.Link.JobRunID.String())
	}
	for _, label := range l.Labels {
		add(termLabel, label)
	}
	for _, w := range words(l.Failure.Message) {
		add(termWord, w)
	}
	if !isSealed {
		if l.Content.Key != nil {
			terms = append(terms, hashed(kindOf(termKey), l.Content.Key).term())
		}
		for _, h := range l.Content.Headers[:min(len(l.Content.Headers), maxHeaderTerms)] {
			if h.Value != nil && len(h.Value) <= maxTermValue && askable(h.Value) {
				terms = append(terms, hashed(hashed(hashed(kindOf(termHeader), h.Name), "\x00"), h.Value).term()) // as headerTerm
			}
		}
		if l.Encoding == dlq.JSON && len(l.Content.Payload) <= maxPayloadView {
			for _, m := range members(l.Content.Payload) {
				add(termPayload, m)
			}
		}
	}
	slices.Sort(terms)
	return slices.Compact(terms)
}

// askable reports whether a filter can contain a header's value. Many values cannot occur in
// filters: Spring for Apache Kafka writes offsets and timestamps as big-endian integers, nearly all
// of them different, so that each would be a separate key in the index.
func askable(value []byte) bool { return utf8.Valid(value) && bytes.IndexByte(value, 0) < 0 }

func headerTerm(name, value string) string { return name + "\x00" + value }

// words returns the first words of a message, in lower case and without duplicates.
func words(message string) []string {
	var out []string
	for w := range strings.FieldsFuncSeq(message,
		func(r rune) bool { return !unicode.IsLetter(r) && !unicode.IsDigit(r) }) {
		if w = strings.ToLower(w); len(w) > maxTermValue || slices.Contains(out, w) {
			continue
		}
		if out = append(out, w); len(out) == maxWordTerms {
			break
		}
	}
	return out
}

// asked parses the value with which a filter compares a payload member: a JSON scalar or, failing
// that, a string. It returns the term's value and the JSON.
func asked(value string) (termValue string, doc []byte) {
	var v any
	d := json.NewDecoder(strings.NewReader(value))
	d.UseNumber()
	if d.Decode(&v) == nil && !d.More() && d.InputOffset() == int64(len(value)) {
		if s, ok := scalar(v); ok {
			return s, []byte(value)
		}
	}
	doc, _ = json.Marshal(value) // encoding a string cannot fail
	return `"` + value + `"`, doc
}
