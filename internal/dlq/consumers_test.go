package dlq_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"

	"github.com/skald-saga/skald/internal/dlq"
)

// savedRecord is a record in testdata/consumers. These are written by the test of real consumers in
// package kafka (scripts/kafka.sh records).
type savedRecord struct {
	Topic      string
	Partition  int32
	Offset     int64
	Timestamp  time.Time
	Key, Value []byte
	Headers    []dlq.Header
}

func (r *savedRecord) content() dlq.Content {
	return dlq.Content{Key: r.Key, Payload: r.Value, Headers: r.Headers}
}

func (r *savedRecord) record() dlq.Record {
	return dlq.Record{Place: dlq.Position{Topic: r.Topic, Partition: r.Partition, Offset: r.Offset},
		Timestamp: r.Timestamp, Content: r.content()}
}

// These are records as written by real consumers. The letter describes what happened where, and a
// retry sends what the consumer had received.
func TestRecordsOfRealConsumers(t *testing.T) {
	t.Parallel()
	const timeout, shop = "java.net.SocketTimeoutException", "-shop"
	for name, want := range map[string]struct {
		failure dlq.Failure
		group   string
	}{
		"spring-recoverer":    {dlq.Failure{Type: timeout, Class: dlq.Transient, Message: "threw exception; order refused"}, shop},
		"spring-retryable":    {dlq.Failure{Type: timeout, Class: dlq.Transient, Message: "Listener failed; order refused"}, shop},
		"spring-cloud-stream": {dlq.Failure{Type: timeout, Class: dlq.Transient, Message: "; Read timed out"}, shop},
		"spring-deserializer": {dlq.Failure{Type: "org.springframework.kafka.support.serializer.DeserializationException",
			Class: dlq.Permanent, Message: "failed to deserialize"}, shop}, // with application-specific names
		"connect": {dlq.Failure{Type: "org.apache.kafka.connect.errors.DataException", Class: dlq.Permanent,
			Message: "Converting byte[] to Kafka Connect data failed"}, "connect-"},
	} {
		raw, err := os.ReadFile(filepath.Join("testdata", "consumers", name+".json"))
		if err != nil {
			t.Fatal(err)
		}
		var r struct{ Original, Dead savedRecord }
		if err := json.Unmarshal(raw, &r); err != nil {
			t.Fatal(err)
		}
		a := intake.Arrival(r.Dead.record())
		at := r.Original.Timestamp
		if a.OriginalTopic != r.Original.Topic {
			t.Errorf("%s: of the topic %s, want %s", name, a.OriginalTopic, r.Original.Topic)
		}
		if diff := cmp.Diff(dlq.Origin{Partition: &r.Original.Partition, Offset: &r.Original.Offset,
			Timestamp: &at}, a.Origin); diff != "" {
			t.Errorf("%s: its place (-want +got):\n%s", name, diff)
		}
		if f := a.Failure; f.Type != want.failure.Type || f.Class != want.failure.Class ||
			!strings.Contains(f.Message, want.failure.Message) ||
			!strings.Contains(f.Stack, "\tat ") || !strings.Contains(a.ConsumerGroup, want.group) {
			t.Errorf("%s: %s %s of %s: %q", name, f.Class, f.Type, a.ConsumerGroup, f.Message)
		}
		d := dlq.Drive{Letter: a.Letter, Send: a.Content}
		d.RootID = uuid.New()
		var sent []dlq.Header
		for _, h := range dlq.RedriveHeaders(&d) {
			if !dlq.OwnHeader(h.Name) {
				sent = append(sent, h)
			}
		}
		if diff := cmp.Diff(r.Original.Headers, sent); diff != "" {
			t.Errorf("%s: a retry has the headers (-want +got):\n%s", name, diff)
		}
	}
}
