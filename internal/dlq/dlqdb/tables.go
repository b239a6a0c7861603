package dlqdb

import (
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"

	"github.com/skald-saga/skald/internal/dlq"
	"github.com/skald-saga/skald/internal/postgres"
	"github.com/skald-saga/skald/internal/secret/envelope"
)

// letterRow is a row of dlq.dlq_messages or of its archive. It consists of a letter, and of the
// stored form of values that may be sealed or NULL.
type letterRow struct {
	*dlq.Letter
	at        place
	stepIndex *int // nil without a step
	terms     int64

	view, target          []byte
	key, headers, payload []byte // sealed
	stack                 string // sealed
	order                 []byte // the digest of the key if the letter is ordered and encryption is on
}

// place is the position of a record in Kafka. All fields are nil if the letter did not come from
// Kafka.
type place struct {
	topic     *string
	partition *int32
	offset    *int64
	topicID   uuid.UUID
}

func placeOf(p *dlq.Position) place {
	if p == nil {
		return place{}
	}
	return place{&p.Topic, &p.Partition, &p.Offset, p.TopicID}
}

func (p place) position() *dlq.Position {
	if p.topic == nil {
		return nil
	}
	return &dlq.Position{Topic: *p.topic, Partition: *p.partition, Offset: *p.offset, TopicID: p.topicID}
}

// messageTable describes dlq.dlq_messages. Derived values (payload, terms, order_key) are not read.
// The column attempts is not included, because only claims count attempts.
var messageTable = postgres.NewTable(
	postgres.UUID("id", func(r *letterRow) *uuid.UUID { return &r.ID }),
	postgres.UUID("tenant_id", func(r *letterRow) *uuid.UUID { return &r.TenantID }).Once(),
	postgres.Int("seq", func(r *letterRow) *int64 { return &r.Seq }).ReadOnly(),
	postgres.Int("version", func(r *letterRow) *int64 { return &r.Version }).Once(),
	postgres.Text("original_topic", func(r *letterRow) *string { return &r.OriginalTopic }),
	postgres.Text("error_message", func(r *letterRow) *string { return &r.Failure.Message }),
	postgres.Int("retry_count", func(r *letterRow) *int { return &r.RetryCount }).Once(),
	postgres.Int("max_retries", func(r *letterRow) *int { return &r.MaxRetries }).Once(),
	postgres.JSON("payload", func(r *letterRow) *[]byte { return &r.view }).WriteOnly(),
	postgres.Text("status", func(r *letterRow) *dlq.Status { return &r.Status }).Once(),
	postgres.Time("created_at", func(r *letterRow) *time.Time { return &r.CreatedAt }).Once(),
	postgres.Time("updated_at", func(r *letterRow) *time.Time { return &r.UpdatedAt }).Once(),
	postgres.TimeOrNil("last_retry_at", func(r *letterRow) **time.Time { return &r.LastRetryAt }).Once(),
	postgres.Text("source", func(r *letterRow) *dlq.Source { return &r.Source }).Once(),
	postgres.Bytes("payload_raw", func(r *letterRow) *[]byte { return &r.payload }),
	postgres.Text("payload_encoding", func(r *letterRow) *dlq.Encoding { return &r.Encoding }),
	postgres.Bytes("message_key", func(r *letterRow) *[]byte { return &r.key }),
	postgres.Bytes("headers", func(r *letterRow) *[]byte { return &r.headers }),
	postgres.TextOrNil("dlq_topic", func(r *letterRow) **string { return &r.at.topic }),
	postgres.IntOrNil("dlq_partition", func(r *letterRow) **int32 { return &r.at.partition }),
	postgres.IntOrNil("dlq_offset", func(r *letterRow) **int64 { return &r.at.offset }),
	postgres.IntOrNil("original_partition", func(r *letterRow) **int32 { return &r.Origin.Partition }),
	postgres.IntOrNil("original_offset", func(r *letterRow) **int64 { return &r.Origin.Offset }),
	postgres.TimeOrNil("original_timestamp", func(r *letterRow) **time.Time { return &r.Origin.Timestamp }),
	postgres.Text("consumer_group", func(r *letterRow) *string { return &r.ConsumerGroup }),
	postgres.Text("error_type", func(r *letterRow) *string { return &r.Failure.Type }),
	postgres.Text("error_class", func(r *letterRow) *dlq.ErrorClass { return &r.Failure.Class }),
	postgres.Text("error_stack", func(r *letterRow) *string { return &r.stack }),
	postgres.Text("fingerprint", func(r *letterRow) *string { return &r.Fingerprint }),
	postgres.Int("terms", func(r *letterRow) *int64 { return &r.terms }).StoredFrom(termsStored).WriteOnly(),
	postgres.UUIDOrZero("saga_id", func(r *letterRow) *uuid.UUID { return &r.Link.SagaID }).Once(),
	postgres.IntOrNil("step_index", func(r *letterRow) **int { return &r.stepIndex }).Once(),
	postgres.TextOrEmpty("step_name", func(r *letterRow) *string { return &r.Link.StepName }).Once(),
	postgres.TextOrEmpty("step_action", func(r *letterRow) *string { return &r.Link.Action }).Once(),
	postgres.UUIDOrZero("job_run_id", func(r *letterRow) *uuid.UUID { return &r.Link.JobRunID }).Once(),
	postgres.UUIDOrZero("webhook_id", func(r *letterRow) *uuid.UUID { return &r.Link.WebhookID }).Once(),
	postgres.UUIDOrZero("delivery_id", func(r *letterRow) *uuid.UUID { return &r.Link.DeliveryID }).Once(),
	postgres.Text("correlation_id", func(r *letterRow) *string { return &r.CorrelationID }),
	postgres.Text("trace_id", func(r *letterRow) *string { return &r.TraceID }),
	postgres.TextOrEmpty("dedupe_key", func(r *letterRow) *string { return &r.DedupeKey }).Once(),
	postgres.Texts("labels", func(r *letterRow) *[]string { return &r.Labels }).Once(),
	postgres.Text("assignee", func(r *letterRow) *string { return &r.Assignee }).Once(),
	postgres.Text("note", func(r *letterRow) *string { return &r.Note }).Once(),
	postgres.TextOrEmpty("resolution", func(r *letterRow) *dlq.Resolution { return &r.Resolution }).Once(),
	postgres.TimeOrNil("next_retry_at", func(r *letterRow) **time.Time { return &r.NextRetryAt }),
	postgres.TimeOrNil("terminal_at", func(r *letterRow) **time.Time { return &r.TerminalAt }).Once(),
	postgres.UUIDOrZero("retry_token", func(r *letterRow) *uuid.UUID { return &r.Token }).ReadOnly(),
	postgres.TimeOrNil("retry_lease_until", func(r *letterRow) **time.Time { return &r.LeaseUntil }).ReadOnly(),
	postgres.TimeOrNil("held_retry_at", func(r *letterRow) **time.Time { return &r.HeldRetryAt }).ReadOnly(),
	postgres.Bool("retry_asked", func(r *letterRow) *bool { return &r.RetryAsked }).ReadOnly(),
	postgres.UUIDOrZero("redrive_id", func(r *letterRow) *uuid.UUID { return &r.RedriveID }).Once(),
	postgres.JSON("target", func(r *letterRow) *[]byte { return &r.target }).Once(),
	postgres.Int("revision", func(r *letterRow) *int { return &r.Revision }).Once(),
	postgres.Bool("ordered", func(r *letterRow) *bool { return &r.Ordered }),
	postgres.UUID("root_id", func(r *letterRow) *uuid.UUID { return &r.RootID }),
	postgres.UUIDOrZero("parent_id", func(r *letterRow) *uuid.UUID { return &r.ParentID }).Once(),
	postgres.Int("generation", func(r *letterRow) *int { return &r.Generation }).Once(),
	postgres.UUID("dlq_topic_id", func(r *letterRow) *uuid.UUID { return &r.at.topicID }),
	postgres.Bytes("order_key", func(r *letterRow) *[]byte { return &r.order }).Once().WriteOnly(),
)

// LetterColumns are the columns of dlq_messages and of its archive, alias m, in the order that
// ScanLetter expects.
var LetterColumns = messageTable.Selected("m")

// ScanLetter reads one row that begins with LetterColumns; more receives the columns after them. If
// the content cannot be decrypted, it returns envelope.ErrUnreadable and a letter that has
// everything but its content. A caller that reads many letters may skip it (DB.PassOver).
func ScanLetter(db *postgres.DB, row postgres.Scanner, more ...any) (dlq.Letter, error) {
	var l dlq.Letter
	r := letterRow{Letter: &l}
	if err := messageTable.Scan(row, &r, more...); err != nil {
		return l, err
	}
	l.Arrived = r.at.position()
	if r.stepIndex != nil {
		l.Link.StepIndex = *r.stepIndex
	}
	if len(l.Labels) == 0 {
		l.Labels = nil
	}
	err := readLetter(db, &r)
	l.Unreadable = errors.Is(err, envelope.ErrUnreadable)
	return l, err
}

// readLetter decodes the fields that are stored in a special form. Damaged content is reported like
// content that cannot be decrypted.
func readLetter(db *postgres.DB, r *letterRow) (err error) {
	sealer := db.Keys.SealerFor(r.TenantID, r.ID)
	if err := ReadTarget(r.target, &r.Target); err != nil {
		return fmt.Errorf("dead letter %s: %w: %w", r.ID, envelope.ErrUnreadable, err)
	}
	r.Content, err = openContent(&sealer, contentFields, r.key, r.headers, r.payload)
	if err != nil {
		return fmt.Errorf("dead letter %s: %w: %w", r.ID, envelope.ErrUnreadable, err)
	}
	plain, err := sealer.OpenBytes(fieldLetterStack, []byte(r.stack))
	r.Failure.Stack = string(plain)
	return err
}

// shown converts the error to nil for letters that are shown without the content that cannot be
// read.
func shown(err error) error {
	if errors.Is(err, envelope.ErrUnreadable) {
		return nil
	}
	return err
}

// ReadTarget decodes a stored target into t.
func ReadTarget(stored []byte, t *dlq.Target) error {
	if err := json.Unmarshal(stored, t); err != nil {
		return fmt.Errorf("decode a stored target: %w", err)
	}
	return nil
}

// groupRow is a group of letters in a batch, and what the batch adds to it if all its letters are
// new. The counts are sent separately, and only with the statements that use them.
type groupRow struct {
	tenant                                 uuid.UUID
	fingerprint, topic, errorType, message string
	// Id of the action that records the regression if the group was resolved.
	regression uuid.UUID

	received    int64
	first, last time.Time
	sample      uuid.UUID // the last letter's id
}

var batchGroups = postgres.NewTable(
	postgres.UUID("tenant_id", func(r *groupRow) *uuid.UUID { return &r.tenant }),
	postgres.Text("fingerprint", func(r *groupRow) *string { return &r.fingerprint }),
	postgres.Text("topic", func(r *groupRow) *string { return &r.topic }),
	postgres.Text("error_type", func(r *groupRow) *string { return &r.errorType }),
	postgres.Text("message", func(r *groupRow) *string { return &r.message }),
	postgres.UUID("regression", func(r *groupRow) *uuid.UUID { return &r.regression }),
)

var batchTallies = postgres.NewTable(
	postgres.Int("received", func(r *groupRow) *int64 { return &r.received }),
	postgres.Time("first_seen", func(r *groupRow) *time.Time { return &r.first }),
	postgres.Time("last_seen", func(r *groupRow) *time.Time { return &r.last }),
	postgres.UUID("sample_id", func(r *groupRow) *uuid.UUID { return &r.sample }),
)

// arrivalRow is the number of letters of a topic that arrived in a minute.
type arrivalRow struct {
	arrivalKey
	minute   time.Time
	received int64
}

var batchArrivals = postgres.NewTable(
	postgres.UUID("tenant_id", func(r *arrivalRow) *uuid.UUID { return &r.tenant }),
	postgres.Text("topic", func(r *arrivalRow) *string { return &r.topic }),
	postgres.Time("minute", func(r *arrivalRow) *time.Time { return &r.minute }),
	postgres.Int("received", func(r *arrivalRow) *int64 { return &r.received }),
)

// spanRow is the range of offsets of a partition that a batch covers.
type spanRow struct {
	partitionKey
	first, last int64
}

var batchSpans = postgres.NewTable(
	postgres.UUID("tenant_id", func(r *spanRow) *uuid.UUID { return &r.tenant }),
	postgres.Text("topic", func(r *spanRow) *string { return &r.topic }),
	postgres.Int("partition", func(r *spanRow) *int32 { return &r.partition }),
	postgres.Int("first", func(r *spanRow) *int64 { return &r.first }),
	postgres.Int("last", func(r *spanRow) *int64 { return &r.last }),
	postgres.UUID("topic_id", func(r *spanRow) *uuid.UUID { return &r.topicID }),
)

// termsStored extracts the array of a letter's terms.
var termsStored = fmt.Sprintf("(@terms::integer[])[(l.terms >> %[1]d)::integer + 1 : (l.terms >> %[1]d)::integer + (l.terms & %[2]d)::integer]",
	termBits, 1<<termBits-1)

type arrivalKey struct {
	tenant uuid.UUID
	topic  string
	minute int64 // minutes since 1970
}

type partitionKey struct {
	tenant    uuid.UUID
	topic     string
	topicID   uuid.UUID
	partition int32
}

// The terms of a whole batch are sent as one list. For each letter, the position and the number of
// its terms in the list are sent.
const termBits = 12 // bits for the number of terms, which is far below 4096

// LetterTable is a table of letters that lists read from.
type LetterTable struct {
	table string
	// view is the table that searches by terms read from: under row-level security, their index is
	// usable only by roles that bypass the policies (migration 0090).
	view string
	at   string // the time column by which lists are ordered
	// groups and redrives report whether the table has an index for searching by them.
	groups, redrives bool
}

// letterWhere collects conditions on dead letters.
type letterWhere struct{ postgres.Where }

func texts[T ~string](values []T) []string {
	if values == nil {
		return nil
	}
	out := make([]string, len(values))
	for i, v := range values {
		out[i] = string(v)
	}
	return out
}
