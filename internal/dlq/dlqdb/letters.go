// Package dlqdb stores dead letters in PostgreSQL: the letters that the API shows, and
// the queue that the loops work through.
//
// Read letters.go, tables.go and queue.go first. A letter arrives by push.go (from the API),
// arrive.go (from Kafka) or updates.go (reported by a saga, run or webhook), all through
// insert.go. take.go, finish.go and holds.go store its retries; filter.go, terms.go and
// page_search.go find letters for lists; groups.go, topics.go and policies.go are about many
// letters.
//
// Files, each on top of those before it: headers, letters, tables, payload_members,
// terms, insert, edges, read, history, filter_terms, places, policy_read, push, upkeep,
// filter, groups, handover, holds, insert_new, page_search, queue, arrive, change,
// finish, inflows, known, last_errors, list, policies, restore, sealed, take, topics,
// alerts, updates.
package dlqdb

import (
	"github.com/google/uuid"

	"github.com/skald-saga/skald/internal/dlq"
	"github.com/skald-saga/skald/internal/postgres"
	"github.com/skald-saga/skald/internal/secret/envelope"
)

// Letters implements dlq.Letters and dlq.Overview on PostgreSQL.
//
// With encryption (Config.Encryption), the payload, key, headers and stack are sealed, including
// those of revisions and their patches. In that case the payload has no JSON view, and letters
// cannot be found by key, headers or payload. The error message stays readable because letters are
// grouped by it.
type Letters struct {
	db     *postgres.DB
	common dlq.Policy
	// changed is called with tenants whose policies have changed; it may be nil.
	changed func(tenant uuid.UUID)
}

// NewLetters returns the dead letters of db. common is the policy for topics without a policy in
// tenants without a default; its Version is 0.
func NewLetters(db *postgres.DB, common dlq.Policy) *Letters {
	return &Letters{db: db, common: common}
}

// Telling returns a copy of st that calls a function with the tenants whose policies are changed
// through that copy.
func (st *Letters) Telling(changed func(tenant uuid.UUID)) *Letters {
	told := *st
	told.changed = changed
	return &told
}

// The sealed fields of a letter and, by number, of its revisions. A letter is moved to the archive
// in its stored form, without being resealed.
var (
	FieldLetterKey     = envelope.Field{Name: "dlq.message_key"}
	fieldLetterHeaders = envelope.Field{Name: "dlq.headers"}
	fieldLetterPayload = envelope.Field{Name: "dlq.payload_raw"}
	fieldLetterStack   = envelope.Field{Name: "dlq.error_stack"}
)

func revisionField(f envelope.Field, number int) envelope.Field {
	f.Name, f.Step = "revision."+f.Name, number
	return f
}

// contentFields are the sealed fields of a content: key, headers and payload.
var contentFields = [3]envelope.Field{FieldLetterKey, fieldLetterHeaders, fieldLetterPayload}

// revisionFields are the sealed fields of a revision's content.
func revisionFields(number int) [3]envelope.Field {
	var out [3]envelope.Field
	for i, f := range contentFields {
		out[i] = revisionField(f, number)
	}
	return out
}

// sealContent returns the stored form of a content's key, headers and payload. A missing part is
// nil.
func sealContent(p *envelope.Sealer, fields [3]envelope.Field, c dlq.Content) (stored [3][]byte, err error) {
	for i, plain := range [...][]byte{c.Key, packHeaders(c.Headers), c.Payload} {
		if stored[i], err = p.SealBytes(fields[i], plain); err != nil {
			return stored, err
		}
	}
	return stored, nil
}

// openContent decrypts and decodes what sealContent returned.
func openContent(p *envelope.Sealer, fields [3]envelope.Field, key, headers,
	payload []byte) (c dlq.Content, err error) {
	var plain [3][]byte
	for i, stored := range [...][]byte{key, headers, payload} {
		if plain[i], err = p.OpenBytes(fields[i], stored); err != nil {
			return dlq.Content{}, err
		}
	}
	c.Key, c.Payload = plain[0], plain[2]
	c.Headers, err = unpackHeaders(plain[1])
	return c, err
}
