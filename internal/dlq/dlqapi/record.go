package dlqapi

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"errors"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/getkin/kin-openapi/openapi3"
	"github.com/google/uuid"

	"github.com/skald-saga/skald/api"
	"github.com/skald-saga/skald/internal/dlq"
	"github.com/skald-saga/skald/internal/fault"
	"github.com/skald-saga/skald/internal/httpkit"
	"github.com/skald-saga/skald/internal/strictjson"
	"github.com/skald-saga/skald/internal/strictjson/plaintext"
)

// letterRecord is a line of an export or an import: the members of a push, and the letter's
// subsequent history. Members are pointers if zero is a meaningful value.
type letterRecord struct {
	ID *uuid.UUID `json:"id"`
	api.DeadLetterInput
	Source      dlq.Source         `json:"source,omitempty"`
	Status      dlq.Status         `json:"status,omitempty"`
	Resolution  dlq.Resolution     `json:"resolution,omitempty"`
	RetryCount  int                `json:"retry_count,omitempty"`
	CreatedAt   *time.Time         `json:"created_at,omitempty"`
	LastRetryAt *time.Time         `json:"last_retry_at,omitempty"`
	TerminalAt  *time.Time         `json:"terminal_at,omitempty"`
	ReadFrom    *api.KafkaPosition `json:"read_from,omitempty"`
	StepIndex   int                `json:"step_index,omitempty"`
	StepName    string             `json:"step_name,omitempty"`
	StepAction  string             `json:"step_action,omitempty"`
	WebhookID   *uuid.UUID         `json:"webhook_id,omitempty"`
	DeliveryID  *uuid.UUID         `json:"delivery_id,omitempty"`
	Assignee    string             `json:"assignee,omitempty"`
	Note        string             `json:"note,omitempty"`
	RootID      *uuid.UUID         `json:"root_id,omitempty"`
	ParentID    *uuid.UUID         `json:"parent_id,omitempty"`
	Generation  int                `json:"generation,omitempty"`
	Cursor      string             `json:"cursor,omitempty"`

	texts plaintext.Members // texts that were cleaned or cut
}

// maxURL is the contract's limit for the length of a target's URL.
const maxURL = 2048

func recordOf(l *dlq.Letter, cursor string) letterRecord {
	target := toAPITarget(&l.Target)
	r := letterRecord{
		ID: &l.ID, Source: l.Source, Status: l.Status, Resolution: l.Resolution, RetryCount: l.RetryCount,
		CreatedAt:   &l.CreatedAt,
		LastRetryAt: l.LastRetryAt, TerminalAt: l.TerminalAt, ReadFrom: toAPIPlace(l.Arrived), StepIndex: l.Link.StepIndex,
		StepName: l.Link.StepName, StepAction: l.Link.Action, WebhookID: httpkit.UnlessNil(l.Link.WebhookID),
		DeliveryID: httpkit.UnlessNil(l.Link.DeliveryID),
		Assignee:   l.Assignee, Note: l.Note, RootID: &l.RootID, ParentID: httpkit.UnlessNil(l.ParentID),
		Generation: l.Generation, Cursor: cursor,
		DeadLetterInput: api.DeadLetterInput{
			OriginalTopic: l.OriginalTopic, ErrorMessage: l.Failure.Message, ErrorType: httpkit.UnlessEmpty(l.Failure.Type),
			ErrorStack:        httpkit.UnlessEmpty(l.Failure.Stack),
			ErrorClass:        httpkit.EnumUnlessEmpty[api.DeadLetterErrorClass](string(l.Failure.Class)),
			OriginalPartition: l.Origin.Partition, OriginalOffset: l.Origin.Offset, OriginalTimestamp: l.Origin.Timestamp,
			ConsumerGroup: httpkit.UnlessEmpty(l.ConsumerGroup), DedupeKey: httpkit.UnlessEmpty(l.DedupeKey),
			CorrelationID: httpkit.UnlessEmpty(l.CorrelationID),
			//nolint:gosec // at most MaxRetries
			TraceID: httpkit.UnlessEmpty(l.TraceID), MaxRetries: new(int32(l.MaxRetries)),
			SagaID:   httpkit.UnlessNil(l.Link.SagaID),
			JobRunID: httpkit.UnlessNil(l.Link.JobRunID), Labels: l.Labels, Target: &target,
			PayloadBase64: asBase64(l.Content.Payload), KeyBase64: asBase64(l.Content.Key),
		},
	}
	for _, h := range l.Content.Headers {
		r.Headers = append(r.Headers, api.DeadLetterHeader{Name: h.Name, ValueBase64: asBase64(h.Value)})
	}
	return r
}

func asBase64(b []byte) *string {
	if b == nil {
		return nil
	}
	return new(base64.StdEncoding.EncodeToString(b))
}

// readRecord parses a line; schema is the schema of a pushed letter. Faults: Malformed, Invalid.
func readRecord(schema *openapi3.Schema, line []byte, maxDepth int) (r letterRecord, err error) {
	canonical, adjusted, err := httpkit.Mended(schema, line, strictjson.Limits{MaxDepth: maxDepth})
	if err != nil {
		return r, httpkit.NotStrict(err)
	}
	r.texts.Changed = adjusted
	dec := json.NewDecoder(bytes.NewReader(canonical))
	dec.DisallowUnknownFields()
	if err := dec.Decode(&r); err != nil {
		var typ *json.UnmarshalTypeError
		if errors.As(err, &typ) {
			return r, httpkit.SchemaFault(fault.Field{Pointer: "/" + typ.Field, Code: "type", Message: "has the wrong type"})
		}
		return r, httpkit.SchemaFault(notARecord(err))
	}
	return r, nil
}

// notARecord describes what is wrong with a line, without using the decoder's wording.
func notARecord(err error) fault.Field {
	if quoted, ok := strings.CutPrefix(err.Error(), "json: unknown field "); ok {
		if name, err := strconv.Unquote(quoted); err == nil {
			return fault.Field{Pointer: "/" + strictjson.Token(name), Code: "unknown", Message: "is unknown"}
		}
	}
	var at *time.ParseError
	if errors.As(err, &at) {
		return fault.Field{Code: "invalid", Message: "is not a dead letter: one of its times is not in RFC 3339 format"}
	}
	return fault.Field{Code: "invalid", Message: "is not a dead letter: one of its members has an invalid format"}
}

// letter makes a letter from a record. Everything is kept except for a running or scheduled retry.
// Fault: Invalid.
func (r *letterRecord) letter(tenant uuid.UUID, p *dlq.Policy, m dlq.Moment) (dlq.Letter, error) {
	l, wrong := readLetter(&r.DeadLetterInput, &r.texts)
	if r.ID == nil || *r.ID == uuid.Nil {
		wrong.Add("/id", "required", "is required")
		r.ID = new(uuid.UUID)
	}
	if r.Source != "" && !slices.Contains(dlq.Sources, r.Source) {
		wrong.Add("/source", "enum", "must be a known source")
	}
	if r.Status != "" && !slices.Contains(dlq.Statuses, r.Status) {
		wrong.Add("/status", "enum", "must be a known status")
	}
	if c := l.Failure.Class; c != "" && !slices.Contains(dlq.Classes, c) {
		wrong.Add("/error_class", "enum", "must be a known error class")
	}
	if r.Resolution != "" && !r.Resolution.Ends(r.Status) {
		wrong.Add("/resolution", "invalid", "does not match the status")
	}
	if r.RetryCount < 0 || r.RetryCount > dlq.MaxRetries || l.MaxRetries < -1 {
		wrong.Add("/retry_count", "out_of_range", "must be from 0 to 1000")
	}
	if r.Generation < 0 || r.Generation > dlq.MaxRetries {
		wrong.Add("/generation", "out_of_range", "must be from 0 to 1000")
	}
	if r.StepIndex < 0 || r.StepIndex > 1<<30 {
		wrong.Add("/step_index", "out_of_range", "must be 0 or more")
	}
	if a := r.StepAction; a != "" && a != "EXECUTE" && a != "COMPENSATE" {
		wrong.Add("/step_action", "enum", "must be EXECUTE or COMPENSATE")
	}
	if t := &l.Target; t.Kind != "" && !slices.Contains(dlq.TargetKinds, t.Kind) || len(t.Topic) > dlq.MaxTopic ||
		len(t.URL) > maxURL ||
		t.Partition != nil && *t.Partition < 0 || !slices.Contains([]string{"", "POST", "PUT", "PATCH", "DELETE"}, t.Method) {
		wrong.Add("/target", "invalid", "must be a valid target")
	}
	for pointer, word := range map[string]struct {
		s    string
		most int
	}{"/assignee": {r.Assignee, dlq.MaxWord}, "/note": {r.Note, dlq.MaxNote}, "/step_name": {r.StepName, dlq.MaxWord}} {
		if utf8.RuneCountInString(word.s) > word.most {
			wrong.Add(pointer, "too_long", "is too long")
		}
	}
	for pointer, at := range map[string]*time.Time{"/created_at": r.CreatedAt, "/last_retry_at": r.LastRetryAt,
		"/terminal_at": r.TerminalAt} {
		if at != nil && (at.UTC().Year() < 1970 || at.UTC().Year() > 9999) {
			wrong.Add(pointer, "invalid", "must be in the years 1970 to 9999")
		}
	}
	place, placed := r.place()
	if !placed {
		wrong.Add("/read_from", "invalid", "must have a valid topic, partition and offset of Kafka")
	}
	if wrong != nil {
		return l, httpkit.FieldsFault(fault.Invalid, dlq.CodeInvalid, wrong)
	}
	if err := dlq.Check(&l); err != nil {
		return l, err
	}
	l.TenantID = tenant
	l.Arrived = place // so that the record is recognized when its topic is read
	l.Assignee, l.Note = r.Assignee, r.Note
	l.Link.StepIndex, l.Link.StepName, l.Link.Action = r.StepIndex, r.StepName, r.StepAction
	l.RootID, l.ParentID, l.Link.WebhookID, l.Link.DeliveryID = orNil(r.RootID), orNil(r.ParentID), orNil(r.WebhookID),
		orNil(r.DeliveryID)
	if r.Source != "" {
		l.Source = r.Source
	}
	l = dlq.New(l, *r.ID, p, m)
	l.Generation, l.RetryCount = r.Generation, r.RetryCount
	l.LastRetryAt = micros(r.LastRetryAt)
	if r.CreatedAt != nil {
		l.CreatedAt = *micros(r.CreatedAt)
	}
	return l.Imported(r.Status, r.Resolution, micros(r.TerminalAt), m), nil
}

// place returns the position in Kafka that the letter was read from, or nil if it did not come from
// Kafka. It returns false if such a position cannot exist.
func (r *letterRecord) place() (*dlq.Position, bool) {
	at := r.ReadFrom
	if at == nil {
		return nil, true
	}
	id, err := dlq.ParseTopicID(httpkit.Text(at.TopicID))
	return &dlq.Position{Topic: at.Topic, Partition: at.Partition, Offset: at.Offset, TopicID: id},
		err == nil && dlq.CanBeTopic(at.Topic) && at.Partition >= 0 && at.Offset >= 0
}

func orNil(id *uuid.UUID) uuid.UUID {
	if id == nil {
		return uuid.Nil
	}
	return *id
}

func micros(t *time.Time) *time.Time {
	if t == nil {
		return nil
	}
	return new(t.UTC().Truncate(time.Microsecond))
}
