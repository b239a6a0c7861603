package jobrun

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/google/uuid"

	"github.com/skald-saga/skald/internal/dlq"
	"github.com/skald-saga/skald/internal/strictjson"
)

// RecordEvent is an event read from a Kafka record.
type RecordEvent struct {
	NewEvent
	TenantID uuid.UUID
	Place    dlq.Position
}

// RecordEvents stores events read from Kafka records.
type RecordEvents interface {
	// PublishRecords stores a batch of events durably, all or none, and returns how many are new. A
	// record below the offset mark of its partition is already stored, and so is an event whose
	// dedupe key is in use. The records of a partition must be in order. Fault: Invalid if the
	// content of an event cannot be stored.
	PublishRecords(ctx context.Context, batch []RecordEvent) (stored int, err error)
}

// FromKafka is the publisher of an event read from Kafka, up to the name of the topic.
const FromKafka = "kafka:"

// EventOf returns the event in a Kafka record, without an id. The record contains either a
// CloudEvent in structured or binary mode, or a JSON value whose type is in the header event_type
// or, by default, the name of the topic. The error explains why the record is not an event; it is
// shown to users.
func EventOf(r *dlq.Record) (e NewEvent, err error) {
	h := headersOf(r)
	e = NewEvent{CorrelationID: dlq.CorrelationOf(r.Content.Headers), By: dlq.Storable(FromKafka+r.Place.Topic, MaxWord)}
	if t := r.Timestamp; t.Year() >= 1970 && t.Year() <= 9999 {
		e.OccurredAt = new(t.UTC().Truncate(time.Microsecond))
	}
	media, _, _ := strings.Cut(strings.ToLower(h["content-type"]), ";")
	media = strings.TrimSpace(media)
	switch {
	case media == "application/cloudevents+json":
		err = e.structured(r.Content.Payload)
	case strings.HasPrefix(media, "application/cloudevents"):
		err = fmt.Errorf("the content type %s is not supported: only single CloudEvents in JSON format are", dlq.Storable(media, 100))
	case h["ce_specversion"] != "":
		err = e.binary(h, media, r.Content.Payload)
	default:
		if e.Type, e.DedupeKey = h["event_type"], h["dedupe_key"]; e.Type == "" {
			e.Type = r.Place.Topic
		}
		e.Payload, err = jsonOf("the value", r.Content.Payload)
	}
	if err == nil {
		err = e.wrong()
	}
	return e, err
}

// headersOf returns the first value of each relevant header, keyed by its lower-case name.
func headersOf(r *dlq.Record) map[string]string {
	out := map[string]string{}
	for _, h := range r.Content.Headers {
		switch name := strings.ToLower(h.Name); name {
		case "content-type", "event_type", "dedupe_key", "ce_specversion", "ce_id", "ce_source", "ce_type", "ce_time",
			"ce_correlationid":
			if _, is := out[name]; !is {
				out[name] = string(h.Value)
			}
		}
	}
	return out
}

// structured reads a CloudEvent in structured mode, in which the record's value contains the event.
func (e *NewEvent) structured(value []byte) error {
	doc, err := jsonOf("the CloudEvent", value)
	if err != nil {
		return err
	}
	var ce struct {
		SpecVersion, ID, Source, Type, Time, CorrelationID string
		Data                                               json.RawMessage
		Base64                                             *string `json:"data_base64"`
	}
	if json.Unmarshal(doc, &ce) != nil {
		return errors.New("the CloudEvent is not an object whose attributes are strings")
	}
	if ce.Base64 != nil {
		return errors.New("the CloudEvent has data_base64: its data must be JSON")
	}
	e.Payload = ce.Data
	return e.cloudEvent(ce.SpecVersion, ce.ID, ce.Source, ce.Type, ce.Time, ce.CorrelationID)
}

// binary reads a CloudEvent in binary mode, in which the headers contain the attributes.
func (e *NewEvent) binary(h map[string]string, media string, value []byte) (err error) {
	if media != "" && media != "application/json" && !strings.HasSuffix(media, "+json") {
		return fmt.Errorf("its content type %s is not JSON", dlq.Storable(media, 100))
	}
	if e.Payload, err = jsonOf("the value", value); err != nil {
		return err
	}
	return e.cloudEvent(h["ce_specversion"], h["ce_id"], h["ce_source"], h["ce_type"], h["ce_time"], h["ce_correlationid"])
}

func (e *NewEvent) cloudEvent(version, id, source, kind, at, correlation string) error {
	switch {
	case version != "1.0":
		return errors.New("the CloudEvents version (specversion) is not 1.0")
	case id == "" || source == "" || kind == "":
		return errors.New("a CloudEvent must have id, source and type")
	}
	if at != "" {
		t, err := time.Parse(time.RFC3339Nano, at)
		if err != nil || t.UTC().Year() < 1970 || t.UTC().Year() > 9999 {
			return errors.New("the time of the CloudEvent is not in RFC 3339 format, or not in the years 1970 to 9999")
		}
		e.OccurredAt = new(t.UTC().Truncate(time.Microsecond))
	}
	if correlation != "" {
		e.CorrelationID = dlq.Storable(correlation, MaxWord)
	}
	// Together they identify the event: a producer that sends the event again repeats them.
	if e.Type, e.DedupeKey = kind, source+" "+id; utf8.RuneCountInString(e.DedupeKey) > MaxWord {
		sum := sha256.Sum256([]byte(e.DedupeKey))
		e.DedupeKey = "sha256:" + hex.EncodeToString(sum[:])
	}
	return nil
}

// wrong returns the reason why an event is invalid, or "".
func (e *NewEvent) wrong() error {
	for _, is := range []struct{ what, text string }{{"event type", e.Type}, {"dedupe key", e.DedupeKey}} {
		if !utf8.ValidString(is.text) || strings.ContainsRune(is.text, 0) || utf8.RuneCountInString(is.text) > MaxWord {
			return fmt.Errorf("its %s is not a valid text of at most %d characters", is.what, MaxWord)
		}
	}
	switch {
	case strings.HasSuffix(e.Type, "*"):
		return errors.New("its event type ends with *, which is allowed only in the event selectors of definitions")
	case len(e.Payload) > MaxArgs:
		return tooLarge(len(e.Payload))
	}
	return nil
}

func tooLarge(n int) error {
	return fmt.Errorf("it has %d bytes, but an event may have at most %d", n, MaxArgs)
}

// jsonOf returns a value in canonical form, or nil if it is empty. The error calls the value what.
func jsonOf(what string, value []byte) (json.RawMessage, error) {
	if len(value) == 0 {
		return nil, nil
	}
	if len(value) > 2*MaxArgs {
		return nil, tooLarge(len(value))
	}
	doc, err := strictjson.Canonical(nil, value, strictjson.Limits{})
	var wrong *strictjson.Error
	if errors.As(err, &wrong) {
		return nil, fmt.Errorf("%s is not JSON that can be stored: %s at byte %d", what, wrong.Detail, wrong.Offset)
	}
	return doc, err
}

// NoEvent returns the dead letter for a record that is not an event, with the reason. It is not
// retried automatically: the unchanged record would be refused again, and other consumers of the
// topic would receive it twice.
func NoEvent(r dlq.Record, tenant uuid.UUID, why string, id uuid.UUID, p dlq.Policy, m dlq.Moment) dlq.Arrival {
	a := dlq.Intake{Tenant: tenant}.Arrival(r)
	a.OriginalTopic = r.Place.Topic
	a.Origin.Partition, a.Origin.Offset = &r.Place.Partition, &r.Place.Offset
	a.Failure = dlq.Failure{
		Message: dlq.Storable("the record is not an event: "+why, dlq.MaxError), Type: "INVALID_EVENT", Class: dlq.Permanent,
	}
	p.AutoRetry = false
	a.Letter = dlq.New(a.Letter, id, &p, m)
	return a
}
