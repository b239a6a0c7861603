package kafka_test

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/skald-saga/skald/internal/event/eventdb"
	"github.com/skald-saga/skald/internal/event/publication"
	"github.com/skald-saga/skald/internal/jobrun"
	"github.com/skald-saga/skald/internal/jobrun/jobdb"
	"github.com/skald-saga/skald/internal/kafka"
	"github.com/skald-saga/skald/internal/test/patience"
	"github.com/skald-saga/skald/internal/test/testdb"
)

// emits stores events in the outbox as their runs do: n for a topic, using three keys. It returns
// the ids by key, in order.
func (b *inbox) emits(topic string, n int, payload string) map[string][]string {
	b.t.Helper()
	all := map[string][]string{}
	for i := range n {
		id, key := uuid.Must(uuid.NewV7()), fmt.Sprintf("key-%d", i%3)
		for _, statement := range []string{
			`INSERT INTO jobs.events (id, tenant_id, event_type, payload_json, correlation_id, occurred_at, source_run_id, created_at)
			 VALUES ($1, $2, 'order.paid', $3, $4, now(), $1, now())`,
			`INSERT INTO jobs.event_publications (event_id, tenant_id, topic, key, created_at) VALUES ($1, $2, $3, $4, now())`,
		} {
			args := []any{id, tenantID, payload, key}
			if strings.Contains(statement, "event_publications") {
				args[2] = topic
			}
			if _, err := b.db.SQL().ExecContext(b.t.Context(), statement, args...); err != nil {
				b.t.Fatal(err)
			}
		}
		all[key] = append(all[key], id.String())
	}
	return all
}

// publish runs a node that publishes the outbox.
func (b *inbox) publish(c *cluster, node string, change ...func(*publication.Config)) (stop func()) {
	b.t.Helper()
	cfg := publication.Config{
		Name: "kafka:emitted", Node: node, Store: eventdb.NewPublications(b.db),
		Outbox: jobdb.NewEvents(jobdb.NewDB(b.db, jobrun.Chance{}, nil), jobdb.NewSettings(b.db).Current),
		Refuse: func(string) string { return "" },
		Open:   kafka.Config{Connection: c.connection()}.Open,
		NewID:  func() uuid.UUID { return uuid.Must(uuid.NewV7()) },
		Now:    time.Now, Log: slog.New(slog.DiscardHandler),
		Lease: time.Second, Poll: 10 * time.Millisecond, Batch: 7,
	}
	for _, f := range change {
		f(&cfg)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() { defer close(done); publication.Run(ctx, cfg) }()
	stop = func() { cancel(); <-done }
	b.t.Cleanup(stop)
	return stop
}

// heard returns the ids of the events in a topic by key, each once and in the order of their first
// copies, and all records that the topic contains now.
func (c *cluster) heard(topic string, partitions int32) (ids map[string][]string, records []*kgo.Record) {
	c.t.Helper()
	ids = map[string][]string{}
	records = c.consume(topic, int(c.ends(topic, partitions)))
	for _, r := range records {
		if key, id := string(r.Key), header(r, "ce_id"); !slices.Contains(ids[key], id) {
			ids[key] = append(ids[key], id)
		}
	}
	return ids, records
}

func (b *inbox) emptied() {
	b.t.Helper()
	patience.Until(b.t, "the outbox is empty", func() bool {
		return b.count("SELECT count(*) FROM jobs.event_publications WHERE ended_at IS NULL") == 0
	})
}

// deadAfterSend is the outbox of a node that dies after it has sent a batch, having recorded some
// batches before.
type deadAfterSend struct {
	jobrun.Outbox
	batches atomic.Int32
	died    chan struct{}
}

func (d *deadAfterSend) Sent(
	ctx context.Context, name string, epoch int64, sent []uuid.UUID, refused []jobrun.RefusedEvent,
) (bool, error) {
	if d.batches.Add(1) < 4 {
		return d.Outbox.Sent(ctx, name, epoch, sent, refused)
	}
	close(d.died)
	<-ctx.Done()
	return false, ctx.Err()
}

func TestEveryEmittedEventIsPublishedInOrderAlthoughANodeDiesBeforeItRecordsThat(t *testing.T) {
	t.Parallel()
	c, b := newCluster(t), newInbox(t, testdb.DSN(t))
	topic := c.create("orders", 3)
	want := b.emits(topic, 60, `{"a":1}`)
	dead := &deadAfterSend{died: make(chan struct{})}
	stop := b.publish(c, "a", undisturbed, func(cfg *publication.Config) { dead.Outbox = cfg.Outbox; cfg.Outbox = dead })
	<-dead.died
	stop()
	if n := b.count("SELECT count(*) FROM jobs.event_publications WHERE ended_at IS NULL"); n != 60-3*7 {
		t.Fatalf("the node died with %d of 60 events recorded", 60-n)
	}
	b.publish(c, "b", undisturbed)
	b.publish(c, "c", undisturbed)
	b.emptied()
	got, records := c.heard(topic, 3)
	for key, ids := range want {
		if !slices.Equal(got[key], ids) {
			t.Errorf("the events of %s came as\n%v, want\n%v", key, got[key], ids)
		}
	}
	if len(records) != 60+7 {
		t.Errorf("%d records; only the batch of the node that died is there twice", len(records))
	}
	r := records[0]
	var doc map[string]any
	if err := json.Unmarshal(r.Value, &doc); err != nil || doc["id"] != header(r, "ce_id") ||
		doc["type"] != "order.paid" || header(r, "ce_type") != "order.paid" ||
		header(r, "job_run_id") != doc["subject"] || doc["correlationid"] != string(r.Key) {
		t.Errorf("a record is %s with the headers %v (%v)", r.Value, r.Headers, err)
	}
}

func TestAnEventThatItsTopicRefusesBecomesALetterAndStopsNothing(t *testing.T) {
	t.Parallel()
	c, b := newCluster(t), newInbox(t, testdb.DSN(t))
	topic := c.create("orders", 1)
	missing := b.emits(c.name("nobody"), 1, `1`)
	large := b.emits(topic, 1, `"`+strings.Repeat("x", 3<<20)+`"`)
	loops := b.emits(c.name("source"), 1, `1`)
	want := b.emits(topic, 9, `{"a":1}`)
	var refused atomic.Int32
	b.publish(c, "a", undisturbed, func(cfg *publication.Config) {
		cfg.Batch, cfg.Observer.Refused = 100, func() { refused.Add(1) }
		cfg.Refuse = func(topic string) string {
			if topic == c.name("source") {
				return "is read"
			}
			return ""
		}
	})
	b.emptied()
	got, records := c.heard(topic, 1)
	if len(records) != 9 {
		t.Errorf("%d records, want 9", len(records))
	}
	for key, ids := range want {
		if !slices.Equal(got[key], ids) {
			t.Errorf("the events of %s came as\n%v, want\n%v", key, got[key], ids)
		}
	}
	for id, why := range map[string]string{
		missing["key-0"][0]: "UNKNOWN_TOPIC_OR_PARTITION", large["key-0"][0]: "MESSAGE_TOO_LARGE",
		loops["key-0"][0]: c.name("source") + " is read",
	} {
		if n := b.count(`SELECT count(*) FROM dlq.dlq_messages m JOIN jobs.event_publications p ON p.letter_id = m.id
			WHERE p.event_id = $1 AND m.error_message LIKE '%' || $2 || '%' AND m.status = 'PENDING' AND m.next_retry_at IS NULL
			  AND m.target->>'kind' = 'kafka'`, id, why); n != 1 {
			t.Errorf("%d letters say %s", n, why)
		}
	}
	patience.Until(t, "three refusals are counted, after they are stored", func() bool { return refused.Load() == 3 })
}
