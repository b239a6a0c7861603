package app_test

import (
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/skald-saga/skald/internal/config"
	"github.com/skald-saga/skald/internal/test/patience"
	"github.com/skald-saga/skald/internal/test/testdb"
)

func TestKafkaGetsEveryEventInOrderThoughNodesComeAndGo(t *testing.T) {
	t.Parallel()
	broker, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.SeedTopics(3, "skald.saga.events"))
	if err != nil {
		t.Fatal(err)
	}
	defer broker.Close()
	published := func(c *config.Config) {
		c.Kafka.Brokers, c.Kafka.EventTopic, c.Engine.LeaseTTL = broker.ListenAddrs(), "skald.saga.events", time.Second
	}
	dsn := testdb.DSN(t)
	a, b := start(t, dsn, "a", published), start(t, dsn, "b", published)
	registerPair(t, a.url)
	runSagas(t, a.url, 3)
	if err := a.stop(); err != nil {
		t.Errorf("stop: %v", err)
	}
	runSagas(t, b.url, 4)
	want := happened(t, b.url)

	client, err := kgo.NewClient(kgo.SeedBrokers(broker.ListenAddrs()...), kgo.ConsumeTopics("skald.saga.events"))
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	ctx := patience.Context(t)
	events, order := map[string]map[string]any{}, map[string][]string{}
	for len(events) < len(want) {
		fetches := client.PollFetches(ctx)
		if ctx.Err() != nil {
			t.Fatalf("%d of %d events came", len(events), len(want))
		}
		fetches.EachRecord(func(r *kgo.Record) {
			var doc struct {
				ID      string
				Subject string
				Data    map[string]any
			}
			if err := json.Unmarshal(r.Value, &doc); err != nil || doc.Subject != string(r.Key) {
				t.Errorf("%v: %s", err, r.Value)
			}
			if events[doc.ID] == nil {
				events[doc.ID] = doc.Data
				order[doc.Subject] = append(order[doc.Subject], doc.ID)
			}
		})
	}
	happenedTo := map[string][]string{}
	for _, e := range want {
		id, sagaID := e["id"].(string), e["saga_id"].(string)
		happenedTo[sagaID] = append(happenedTo[sagaID], id)
		if diff := cmp.Diff(e, events[id]); diff != "" {
			t.Errorf("an event reads otherwise (-API +Kafka):\n%s", diff)
		}
	}
	if diff := cmp.Diff(happenedTo, order); diff != "" {
		t.Errorf("order (-happened +published):\n%s", diff)
	}
	res, err := http.Get(b.url + "/metrics")
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	metrics, _ := io.ReadAll(res.Body)
	for _, want := range []string{"skald_kafka_leader 1", "skald_kafka_events_published_total"} {
		if !strings.Contains(string(metrics), want) {
			t.Errorf("the metrics lack %s", want)
		}
	}
}
