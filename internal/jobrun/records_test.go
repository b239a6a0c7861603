package jobrun_test

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"

	"github.com/skald-saga/skald/internal/dlq"
	"github.com/skald-saga/skald/internal/jobrun"
)

var written = time.Date(2026, 11, 23, 12, 0, 0, 0, time.UTC)

// record returns a record of the topic orders.
func record(value string, headers ...string) dlq.Record {
	r := dlq.Record{Place: dlq.Position{Topic: "orders", Partition: 2, Offset: 7}, Timestamp: written}
	if value != "" {
		r.Content.Payload = []byte(value)
	}
	for i := 0; i < len(headers); i += 2 {
		r.Content.Headers = append(r.Content.Headers, dlq.Header{Name: headers[i], Value: []byte(headers[i+1])})
	}
	return r
}

func TestARecordIsTheEventThatItsHeadersOrItsCloudEventDescribe(t *testing.T) {
	t.Parallel()
	early := written.Add(-time.Hour)
	long := strings.Repeat("s", 250)
	for _, tt := range []struct {
		name string
		r    dlq.Record
		want jobrun.NewEvent
	}{
		{"plain", record(`{"b":1, "a":2}`), jobrun.NewEvent{Type: "orders", Payload: []byte(`{"a":2,"b":1}`)}},
		{"no value", record(""), jobrun.NewEvent{Type: "orders"}},
		{"headers", record(`1`, "Event_Type", "order.paid", "dedupe_key", "k", "x-correlation-id", "c", "event_type", "2nd"),
			jobrun.NewEvent{Type: "order.paid", Payload: []byte(`1`), DedupeKey: "k", CorrelationID: "c"}},
		{"CloudEvent, binary", record(`{"x":true}`, "ce_specversion", "1.0", "ce_id", "7",
			"ce_source", "/shop", "ce_type", "shop.paid", "ce_time", "2026-11-23T12:00:00+01:00",
			"content-type", "application/json; charset=utf-8", "ce_correlationid", "c7", "correlation-id", "other"),
			jobrun.NewEvent{Type: "shop.paid", Payload: []byte(`{"x":true}`), DedupeKey: "/shop 7", CorrelationID: "c7",
				OccurredAt: &early}},
		{"CloudEvent, structured", record(
			`{"specversion":"1.0","id":"7","source":"/shop","type":"shop.paid","subject":"s","data":{"x":1}}`,
			"content-type", "application/cloudevents+json; charset=UTF-8", "ce_type", "of the header"),
			jobrun.NewEvent{Type: "shop.paid", Payload: []byte(`{"x":1}`), DedupeKey: "/shop 7"}},
		{"a long identity", record("1", "ce_specversion", "1.0", "ce_id", "123456", "ce_source", long, "ce_type", "t"),
			jobrun.NewEvent{Type: "t", Payload: []byte("1"), DedupeKey: "sha256:" + strings.Repeat("?", 64)}},
	} {
		got, err := jobrun.EventOf(&tt.r)
		if err != nil {
			t.Errorf("%s: %v", tt.name, err)
			continue
		}
		if tt.want.By = "kafka:orders"; tt.want.OccurredAt == nil {
			tt.want.OccurredAt = &written
		}
		if strings.HasPrefix(got.DedupeKey, "sha256:") && len(got.DedupeKey) == len(tt.want.DedupeKey) {
			tt.want.DedupeKey = got.DedupeKey // TestLongIdentitiesStayDifferent
		}
		if d := cmp.Diff(tt.want, got); d != "" {
			t.Errorf("%s (-want +got):\n%s", tt.name, d)
		}
	}
}

func TestLongIdentitiesStayDifferent(t *testing.T) {
	t.Parallel()
	keys := map[string]bool{}
	for _, id := range []string{"1", "2"} {
		r := record("1", "ce_specversion", "1.0", "ce_id", id, "ce_source", strings.Repeat("s", 300), "ce_type", "t")
		e, err := jobrun.EventOf(&r)
		if err != nil || len(e.DedupeKey) > jobrun.MaxWord {
			t.Fatalf("%v, %v", e, err)
		}
		keys[e.DedupeKey] = true
	}
	if len(keys) != 2 {
		t.Errorf("two CloudEvents have the keys %v", keys)
	}
}

func TestARecordThatIsNoEventIsRefusedWithTheReason(t *testing.T) {
	t.Parallel()
	structured := []string{"content-type", "application/cloudevents+json"}
	for name, tt := range map[string]struct {
		r   dlq.Record
		why string
	}{
		"no JSON":         {record("{"), "the value is not JSON that can be stored"},
		"NUL":             {record(`"\u0000"`), "the value is not JSON that can be stored"},
		"a name twice":    {record(`{"a":1,"a":2}`), "the value is not JSON that can be stored"},
		"too large":       {record(`"` + strings.Repeat("x", jobrun.MaxArgs) + `"`), "it has 1048578 bytes, but an event may have at most 1048576"},
		"far too large":   {record(strings.Repeat(" ", 3*jobrun.MaxArgs)), "it has 3145728 bytes"},
		"a selector":      {record("1", "event_type", "order.*"), "ends with *"},
		"a long type":     {record("1", "event_type", strings.Repeat("t", 256)), "its event type is not a valid text of at most 255"},
		"a broken type":   {record("1", "event_type", "a\xff"), "its event type is not a valid text"},
		"a broken key":    {record("1", "dedupe_key", "a\x00"), "its dedupe key is not a valid text"},
		"other content":   {record("1", "ce_specversion", "1.0", "content-type", "text/plain"), "its content type text/plain is not JSON"},
		"a batch":         {record("[]", "content-type", "application/cloudevents-batch+json"), "only single CloudEvents"},
		"no object":       {record("[]", structured...), "is not an object"},
		"no id":           {record(`{"specversion":"1.0","source":"s","type":"t"}`, structured...), "must have id, source and type"},
		"another version": {record(`{"specversion":"0.3","id":"1","source":"s","type":"t"}`, structured...), "is not 1.0"},
		"base64":          {record(`{"specversion":"1.0","id":"1","source":"s","type":"t","data_base64":"AA=="}`, structured...), "data_base64"},
		"a time": {record("1", "ce_specversion", "1.0", "ce_id", "1", "ce_source", "s", "ce_type", "t",
			"ce_time", "noon"), "RFC 3339"},
		"nothing but type": {record("1", "ce_specversion", "1.0", "ce_type", "t"), "must have id, source and type"},
	} {
		_, err := jobrun.EventOf(&tt.r)
		if err == nil || !strings.Contains(err.Error(), tt.why) {
			t.Errorf("%s: %v, want %q", name, err, tt.why)
		}
	}
}

// The letter is not retried automatically, because other consumers of the topic would receive the
// record again.
func TestTheLetterOfARecordThatIsNoEventWaitsForAnOperator(t *testing.T) {
	t.Parallel()
	r, tenant, id := record("{", "x-dlq-original-topic", "elsewhere"), uuid.New(), uuid.New()
	l := jobrun.NoEvent(r, tenant, "no JSON", id, dlq.DefaultPolicy, dlq.Moment{Now: written})
	if l.ID != id || l.TenantID != tenant || l.Status != dlq.Pending || l.NextRetryAt != nil ||
		l.OriginalTopic != "orders" ||
		*l.Origin.Partition != 2 || *l.Origin.Offset != 7 || l.Arrived.Offset != 7 || l.Failure.Class != dlq.Permanent ||
		l.Failure.Message != "the record is not an event: no JSON" || string(l.Content.Payload) != "{" {
		t.Errorf("%+v", l)
	}
}
