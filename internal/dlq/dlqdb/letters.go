// Package dlqdb keeps dead letters on PostgreSQL: letters as people see them, and the
// queue that the loops work through.
//
// Read letters.go, tables.go and queue.go first. A letter comes by push.go (from the API),
// arrive.go (from Kafka) or updates.go (told by a saga, run or webhook), all through
// insert.go. take.go, finish.go and holds.go are its retries; filter.go, terms.go
// and page_search.go how lists find it; groups.go, topics.go and policies.go what is
// known of many.
//
// Files, each on top of those before it: headers, letters, tables, payload_members,
// terms, insert, edges, read, history, filter_terms, places, policy_read, push, upkeep,
// filter, groups, handover, holds, insert_new, page_search, queue, arrive, change,
// finish, inflows, known, last_errors, list, policies, restore, take, topics, updates.
package dlqdb

import (
	"github.com/skald-saga/skald/internal/dlq"
	"github.com/skald-saga/skald/internal/postgres"
	"github.com/skald-saga/skald/internal/secret/envelope"
)

// Letters is dlq.Letters and dlq.Overview on PostgreSQL.
//
// With encryption (Config.Encryption) payload, key, headers and stack are sealed,
// those of revisions and their patches too. Then there is no JSON view of the
// payload, and nothing finds a letter by its key, headers or payload. The error's
// message stays readable: groups are made of it.
type Letters struct {
	db     *postgres.DB
	common dlq.Policy
}

// NewLetters returns the dead letters of db. common is the policy of topics that
// have none, in tenants that have none; its Version is 0.
func NewLetters(db *postgres.DB, common dlq.Policy) *Letters { return &Letters{db, common} }

// The fields of a letter that are sealed, and of its revisions, by number. The
// archive takes rows as they are.
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

// contentFields are the fields of a content: key, headers, payload.
var contentFields = [3]envelope.Field{FieldLetterKey, fieldLetterHeaders, fieldLetterPayload}

// revisionFields are contentFields of a revision.
func revisionFields(number int) [3]envelope.Field {
	var out [3]envelope.Field
	for i, f := range contentFields {
		out[i] = revisionField(f, number)
	}
	return out
}

// sealContent returns what to store for a content: key, headers, payload. What
// it does not have is nil.
func sealContent(p *envelope.Sealer, fields [3]envelope.Field, c dlq.Content) (stored [3][]byte, err error) {
	for i, plain := range [...][]byte{c.Key, packHeaders(c.Headers), c.Payload} {
		if stored[i], err = p.SealBytes(fields[i], plain); err != nil {
			return stored, err
		}
	}
	return stored, nil
}

// openContent reads what sealContent returned.
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
