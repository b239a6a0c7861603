package app_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/skald-saga/skald/internal/config"
	"github.com/skald-saga/skald/internal/test/patience"
	"github.com/skald-saga/skald/internal/test/testdb"
)

// TestDeadLettersComeFromKafkaAndGoBack lets two nodes share dead-letter topics, and redrives
// what was ingested: one letter by request, the others in bulk.
func TestDeadLettersComeFromKafkaAndGoBack(t *testing.T) {
	t.Parallel()
	broker, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.SeedTopics(3, "orders", "orders.dlq"))
	if err != nil {
		t.Fatal(err)
	}
	defer broker.Close()
	client, err := kgo.NewClient(kgo.SeedBrokers(broker.ListenAddrs()...), kgo.ConsumeTopics("orders"))
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	const all = 60
	want := map[string]string{}
	for i := range all {
		key, value := fmt.Sprintf("k-%d", i), fmt.Sprintf(`{"n":%d,"n":1.00}`, i)
		want[key] = value
		client.Produce(t.Context(), &kgo.Record{Topic: "orders.dlq", Key: []byte(key), Value: []byte(value),
			Headers: []kgo.RecordHeader{
				{Key: "kafka_dlt-original-topic", Value: []byte("orders")}, {Key: "kafka_dlt-exception-message", Value: []byte("no stock")},
			}}, nil)
	}
	if err := client.Flush(t.Context()); err != nil {
		t.Fatal(err)
	}
	dsn := testdb.DSN(t)
	read := func(c *config.Config) {
		c.Kafka.Brokers, c.Ingest.Topics = broker.ListenAddrs(), `[.]dlq$`
	}
	a, b := start(t, dsn, "a", read), start(t, dsn, "b", read)

	var list map[string]any
	patience.Until(t, "all are letters", func() bool {
		_, list = call(t, "GET", a.url+"/api/v1/dlq/orders?view=full&page_size=200", "")
		messages, _ := list["messages"].([]any)
		return len(messages) == all
	})
	first := list["messages"].([]any)[0].(map[string]any)
	if first["error_message"] != "no stock" || first["source"] != "KAFKA" || first["status"] != "PENDING" {
		t.Errorf("a letter: %v", first)
	}
	id := first["id"].(string)
	if status, doc := call(t, "POST", b.url+"/api/v1/dlq/messages/"+id+"/retry", `{"target":{"kind":"kafka","topic":"orders.dlq"}}`); status != 422 {
		t.Errorf("a target that is read: %d %v, want 422", status, doc)
	}
	if status, doc := call(t, "POST", b.url+"/api/v1/dlq/messages/"+id+"/retry", `{}`); status != 200 {
		t.Errorf("retry: %d %v", status, doc)
	}
	status, redrive := call(
		t,
		"POST",
		b.url+"/api/v1/dlq/redrives",
		`{"action":"retry","reason":"r","filter":{"topic":"orders"},"rate_per_second":1000}`,
	)
	if status/100 != 2 {
		t.Fatalf("redrive: %d %v", status, redrive)
	}
	patience.Until(t, "the redrive ends", func() bool {
		status, redrive = call(t, "GET", a.url+"/api/v1/dlq/redrives/"+redrive["id"].(string), "")
		return status != 200 || redrive["state"] == "COMPLETED"
	})
	if status != 200 || redrive["done"] != float64(all-1) || redrive["failed"] != 0.0 {
		t.Fatalf("redrive: %d %v", status, redrive)
	}
	ctx := patience.Context(t)
	got := map[string]string{}
	for records := 0; records < all; {
		fetches := client.PollFetches(ctx)
		if ctx.Err() != nil {
			t.Fatalf("%d of %d records came", records, all)
		}
		fetches.EachRecord(func(r *kgo.Record) {
			records++
			got[string(r.Key)] = string(r.Value)
		})
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("(-dead +driven):\n%s", d)
	}
	if m := metrics(t, a) + metrics(t, b); !strings.Contains(
		m,
		`skald_loop_last_success_timestamp_seconds{loop="ingest"}`,
	) ||
		!strings.Contains(m, "skald_dlq_ingest_records_total") {
		t.Error("the metrics lack those of ingestion")
	}
}
