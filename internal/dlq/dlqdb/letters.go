// Package dlqdb keeps dead letters on PostgreSQL: letters as people see them, and the
// queue that the loops work through.
//
// Read letters.go and queue.go first. A letter comes by push.go (from the API),
// arrive.go (from Kafka) or updates.go (told by a saga, run or webhook), all through
// insert.go. take.go, finish.go and holds.go are its retries; filter.go, terms.go
// and page_search.go how lists find it; groups.go, topics.go and policies.go what is
// known of many.
package dlqdb

import (
	"database/sql"
	"encoding/json"
	"fmt"

	"github.com/google/uuid"
	"github.com/lib/pq"

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

// LetterColumns are the columns of dlq_messages and of its archive, alias m, in
// the order of ScanLetter. What is derived from others is not read: payload,
// terms; and attempts, which only claims count.
const LetterColumns = `m.id, m.tenant_id, m.seq, m.version, m.source, m.original_topic, m.original_partition, m.original_offset,
	m.original_timestamp, m.dlq_topic, m.dlq_partition, m.dlq_offset, m.consumer_group, m.error_message, m.error_type, m.error_class,
	m.error_stack, m.message_key, m.headers, m.payload_raw, m.payload_encoding, m.fingerprint, m.saga_id, m.step_index, m.step_name,
	m.step_action, m.job_run_id, m.webhook_id, m.delivery_id, m.correlation_id, m.trace_id, m.dedupe_key, m.labels, m.assignee, m.note,
	m.status, m.resolution, m.retry_count, m.max_retries, m.next_retry_at, m.last_retry_at, m.terminal_at, m.retry_token,
	m.retry_lease_until, m.redrive_id, m.target, m.revision, m.ordered, m.root_id, m.parent_id, m.generation, m.created_at, m.updated_at,
	m.dlq_topic_id, m.held_retry_at, m.retry_asked`

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

// ScanLetter reads one row that begins with LetterColumns; more receives the
// columns after them. Content that does not open is envelope.ErrUnreadable, and
// the letter has all but its content then: whoever reads many may pass over it
// (DB.PassOver).
func ScanLetter(db *postgres.DB, row postgres.Scanner, more ...any) (dlq.Letter, error) {
	var l dlq.Letter
	var arrived struct {
		topic     sql.NullString
		partition sql.NullInt32
		offset    sql.NullInt64
		topicID   uuid.UUID
	}
	var index sql.NullInt64
	var step, action, dedupe, resolution sql.NullString
	var saga, run, webhook, delivery, token, redrive, parent uuid.NullUUID
	var stack, key, headers, payload, target []byte
	dest := []any{
		&l.ID, &l.TenantID, &l.Seq, &l.Version, &l.Source, &l.OriginalTopic, &l.Origin.Partition, &l.Origin.Offset,
		&l.Origin.Timestamp, &arrived.topic, &arrived.partition, &arrived.offset, &l.ConsumerGroup, &l.Failure.Message, &l.Failure.Type, &l.Failure.Class,
		&stack, &key, &headers, &payload, &l.Encoding, &l.Fingerprint, &saga, &index, &step,
		&action, &run, &webhook, &delivery, &l.CorrelationID, &l.TraceID, &dedupe, pq.Array(&l.Labels), &l.Assignee, &l.Note,
		&l.Status, &resolution, &l.RetryCount, &l.MaxRetries, &l.NextRetryAt, &l.LastRetryAt, &l.TerminalAt, &token,
		&l.LeaseUntil, &redrive, &target, &l.Revision, &l.Ordered, &l.RootID, &parent, &l.Generation, &l.CreatedAt, &l.UpdatedAt,
		&arrived.topicID, &l.HeldRetryAt, &l.RetryAsked,
	}
	if err := row.Scan(append(dest, more...)...); err != nil {
		return l, err
	}
	if arrived.topic.Valid {
		l.Arrived = &dlq.Position{Topic: arrived.topic.String, Partition: arrived.partition.Int32, Offset: arrived.offset.Int64, TopicID: arrived.topicID}
	}
	l.Link = dlq.Link{
		SagaID: saga.UUID, StepIndex: int(index.Int64), StepName: step.String, Action: action.String,
		JobRunID: run.UUID, WebhookID: webhook.UUID, DeliveryID: delivery.UUID,
	}
	l.DedupeKey, l.Resolution = dedupe.String, dlq.Resolution(resolution.String)
	l.Token, l.RedriveID, l.ParentID = token.UUID, redrive.UUID, parent.UUID
	if len(l.Labels) == 0 {
		l.Labels = nil
	}
	postgres.UTC(l.Origin.Timestamp, l.NextRetryAt, l.HeldRetryAt, l.LastRetryAt, l.TerminalAt, l.LeaseUntil, &l.CreatedAt, &l.UpdatedAt)
	if err := json.Unmarshal(target, &l.Target); err != nil {
		return l, fmt.Errorf("stored target: %w", err)
	}
	sealer := db.Keys.SealerFor(l.TenantID, l.ID)
	var err error
	if l.Content, err = openContent(&sealer, contentFields, key, headers, payload); err != nil {
		return l, err
	}
	plain, err := sealer.OpenBytes(fieldLetterStack, stack)
	l.Failure.Stack = string(plain)
	return l, err
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
func openContent(p *envelope.Sealer, fields [3]envelope.Field, key, headers, payload []byte) (c dlq.Content, err error) {
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
