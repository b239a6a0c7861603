package app_test

import (
	"context"
	"encoding/json"
	"fmt"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/skald-saga/skald/api/worker"
	"github.com/skald-saga/skald/internal/config"
	"github.com/skald-saga/skald/internal/test/patience"
	"github.com/skald-saga/skald/internal/test/testdb"
)

// A record of a topic starts a run, whose event goes to another topic; what is not an event,
// and what a topic refuses, are letters of one queue.
func TestARecordStartsARunWhoseEventIsPublished(t *testing.T) {
	t.Parallel()
	broker, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.SeedTopics(2, "orders", "handled"))
	if err != nil {
		t.Fatal(err)
	}
	defer broker.Close()
	n := start(t, testdb.DSN(t), "node", stopAtOnce, func(c *config.Config) {
		c.Kafka.Brokers, c.Kafka.SourceTopics, c.Kafka.SourceStart = broker.ListenAddrs(), []string{"orders"}, "earliest"
	})
	y := &workerNode{node: n, t: t}
	define := func(name, topic string, status int) map[string]any {
		t.Helper()
		return y.must("POST", "/api/v1/job-definitions", fmt.Sprintf(`{"name":%q,"type":"event","command_name":"handle",
			"event":{"event_type":"order.*","args_from":"payload"},"emit":[{"event_type":"handled","topic":%q}]}`, name, topic), status)
	}
	refused := define("loop", "orders", 422)
	if field := refused["errors"].([]any)[0].(map[string]any); field["pointer"] != "/emit/0/topic" {
		t.Errorf("a definition that publishes to the topic that triggers it: %v", refused)
	}
	define("handle", "handled", 201)
	define("lost", "nobody", 201)

	client, err := kgo.NewClient(kgo.SeedBrokers(broker.ListenAddrs()...), kgo.ConsumeTopics("handled"))
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	ctx := patience.Context(t)
	if err := client.ProduceSync(ctx,
		&kgo.Record{Topic: "orders", Value: []byte(`{"order":7}`), Headers: []kgo.RecordHeader{
			{Key: "event_type", Value: []byte("order.paid")}, {Key: "x-correlation-id", Value: []byte("c-7")}}},
		&kgo.Record{Topic: "orders", Value: []byte(`{`)},
	).FirstErr(); err != nil {
		t.Fatal(err)
	}
	y.cfg = worker.Config{URL: y.url, Poll: 2 * time.Second}
	if y.w, err = worker.New(y.cfg); err != nil {
		t.Fatal(err)
	}
	y.w.Handle("handle", func(_ context.Context, r *worker.Run) (any, error) {
		r.EmitEvent("handled", r.Args)
		return nil, nil
	})
	y.work()

	var record *kgo.Record
	for record == nil {
		fetches := client.PollFetches(ctx)
		if ctx.Err() != nil {
			t.Fatalf("no event has come; the node says:\n%s", n.logs)
		}
		fetches.EachRecord(func(r *kgo.Record) { record = r })
	}
	var doc struct {
		ID, Type, CorrelationID string
		Data                    map[string]any
	}
	if err := json.Unmarshal(record.Value, &doc); err != nil || doc.Type != "handled" || doc.CorrelationID != "c-7" ||
		string(record.Key) != "c-7" || doc.Data["order"] != 7.0 {
		t.Errorf("%s was published (%v)", record.Value, err)
	}
	patience.Until(t, "its publication is recorded", func() bool {
		p, _ := y.must("GET", "/api/v1/events/"+doc.ID, "", 200)["publication"].(map[string]any)
		return p != nil && p["topic"] == "handled" && p["published_at"] != nil
	})
	letters := map[string]map[string]any{}
	patience.Until(t, "the record that is not an event and the event that no topic takes are letters", func() bool {
		for _, m := range y.must("GET", "/api/v1/dlq/messages", "", 200)["messages"].([]any) {
			letter := m.(map[string]any)
			letters[letter["error_type"].(string)] = letter
		}
		return letters["INVALID_EVENT"] != nil && letters["EVENT_NOT_PUBLISHED"] != nil
	})
	if l := letters["INVALID_EVENT"]; l["source"] != "KAFKA" || l["original_topic"] != "orders" ||
		l["next_retry_at"] != nil {
		t.Errorf("the record that is not an event is %v", l)
	}
	if l := letters["EVENT_NOT_PUBLISHED"]; l["source"] != "JOB" || l["original_topic"] != "nobody" {
		t.Errorf("the event that no topic takes is %v", l)
	}
	for _, e := range y.must("GET", "/api/v1/events?event_type=order.paid", "", 200)["events"].([]any) {
		r, _ := e.(map[string]any)["record"].(map[string]any)
		if r["topic"] != "orders" || r["offset"] == nil {
			t.Errorf("an event that is a record: %v", e)
		}
	}
}
