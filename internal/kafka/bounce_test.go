package kafka_test

import (
	"fmt"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/skald-saga/skald/internal/audit/operator"
	"github.com/skald-saga/skald/internal/dlq"
	"github.com/skald-saga/skald/internal/dlq/dlqdb"
	"github.com/skald-saga/skald/internal/dlq/targets"
	"github.com/skald-saga/skald/internal/kafka"
	"github.com/skald-saga/skald/internal/test/testdb"
)

// retry drives one letter to Kafka, as an operator's retry does, and stores the result.
func (b *inbox) retry(r *targets.Kafka, id uuid.UUID) {
	b.t.Helper()
	b.retryWith(r, id, nil)
}

// retryWith sends a different payload; nil means the letter's own.
func (b *inbox) retryWith(r *targets.Kafka, id uuid.UUID, payload []byte) {
	b.t.Helper()
	by := operator.By{
		Actor: "ada",
	}.Did(
		uuid.New(),
		tenantID,
		time.Now(),
		operator.DeadLetter,
		id.String(),
		dlq.VerbRetry,
		nil,
	)
	claim := dlq.Claim{
		TenantID: tenantID,
		LetterID: id,
		Routes:   dlq.Routes{Kinds: []dlq.TargetKind{dlq.ToKafka}},
		Actor:    "ada",
		By:       by,
	}
	if payload != nil {
		claim.Revision = &dlq.Revision{LetterID: id, Number: 1, Content: dlq.Content{Payload: payload},
			Author: "ada", CreatedAt: time.Now()}
	}
	d, err := b.queue.Take(b.t.Context(), claim, time.Minute)
	if err != nil {
		b.t.Fatalf("take: %v", err)
	}
	result := r.Drive(b.t.Context(), []dlq.Drive{d})[0]
	if result.Outcome != dlq.Acknowledged {
		b.t.Fatalf("drive: %+v", result)
	}
	policy := dlq.DefaultPolicy
	end, err := d.Finished(result, &policy, dlq.Moment{Now: time.Now()})
	if err != nil {
		b.t.Fatal(err)
	}
	held, err := b.queue.Finish(b.t.Context(), []dlq.Finish{end})
	if err != nil || !held[0] {
		b.t.Fatalf("finish: %v, %v", held, err)
	}
}

// TestALetterThatComesBackIsLinkedUntilItIsPoison simulates a consumer that can never process a
// record, however often the record is driven back to it.
func TestALetterThatComesBackIsLinkedUntilItIsPoison(t *testing.T) {
	t.Parallel()
	c, b := newCluster(t), newInbox(t, testdb.DSN(t))
	orders, graveyard := c.create("orders", 2), c.create("orders.dlq", 1)
	r := c.redriver()
	record := c.produce(&kgo.Record{Topic: graveyard, Key: []byte("k"), Value: []byte(`{"b":1.00,"a":2}`),
		Headers: []kgo.RecordHeader{
			{Key: "kafka_dlt-original-topic", Value: []byte(orders)}, {Key: "kafka_dlt-exception-message", Value: []byte("first")}, {Key: "n", Value: nil},
		}})[0]
	b.ingest(c)
	b.has(1)
	root := b.letter(record)
	parent := root
	for generation := 1; generation <= dlq.DefaultPolicy.MaxGenerations+1; generation++ {
		b.retry(r, parent.ID)
		var driven *kgo.Record
		for _, rec := range c.consume(orders, generation) {
			if header(rec, dlq.HeaderGeneration) == strconv.Itoa(generation-1) {
				driven = rec
			}
		}
		if driven == nil {
			t.Fatalf("no record of generation %d", generation-1)
		}
		record = c.produce(&kgo.Record{Topic: graveyard, Key: driven.Key, Value: driven.Value, Headers: append(driven.Headers,
			kgo.RecordHeader{Key: "__connect.errors.exception.message", Value: []byte("again")})})[0]
		b.has(1 + generation)
		l := b.letter(record)
		want := l
		want.RootID, want.ParentID, want.Generation, want.OriginalTopic = root.ID, parent.ID, generation, orders
		want.Failure.Message, want.Content.Payload = "again", []byte(`{"b":1.00,"a":2}`)
		if diff := cmp.Diff(want, l); diff != "" {
			t.Fatalf("generation %d (-want +got):\n%s", generation, diff)
		}
		wantStatus := dlq.Pending
		if generation > dlq.DefaultPolicy.MaxGenerations {
			wantStatus = dlq.Dead
		}
		if l.Status != wantStatus || wantStatus == dlq.Dead && l.Resolution != dlq.Poison {
			t.Errorf("generation %d is %s %s, want %s", generation, l.Status, l.Resolution, wantStatus)
		}
		before, err := b.letters.Get(t.Context(), tenantID, parent.ID)
		if err != nil || before.Status != dlq.Resolved || before.Resolution != dlq.Bounced {
			t.Errorf(
				"the letter of generation %d is %s %s, %v; want it bounced",
				generation-1,
				before.Status,
				before.Resolution,
				err,
			)
		}
		parent = l
	}
}

// TestLettersOfAnOrderedKeyAreDrivenAsTheyArrived lets two nodes compete for letters. Letters with
// the same key must not overtake each other (invariant D7).
func TestLettersOfAnOrderedKeyAreDrivenAsTheyArrived(t *testing.T) {
	t.Parallel()
	c, b := newCluster(t), newInbox(t, testdb.DSN(t))
	policy := dlq.DefaultPolicy
	policy.Ordered, policy.Backoff.InitialIntervalMS = true, 1
	b.queue = dlqdb.NewQueue(b.db, policy)
	orders, graveyard := c.create("orders", 3), c.create("orders.dlq", 3)
	var records []*kgo.Record
	for i := range 200 {
		key := i % 10
		records = append(records, &kgo.Record{
			Topic: graveyard, Partition: int32(key) % 3, Key: fmt.Appendf(nil, "key-%d", key), Value: fmt.Append(nil, i),
			Headers: []kgo.RecordHeader{{Key: "kafka_dlt-original-topic", Value: []byte(orders)}},
		})
	}
	c.produce(records...)
	b.ingest(c, func(cfg *kafka.IngestConfig) { cfg.Backlog = true })
	b.has(len(records))
	r := c.redriver()
	var nodes sync.WaitGroup
	var mu sync.Mutex
	left := len(records)
	for range 2 {
		nodes.Go(func() {
			for {
				mu.Lock()
				done := left == 0
				mu.Unlock()
				if done || t.Context().Err() != nil {
					return
				}
				drives, err := b.queue.Due(t.Context(), []dlq.TargetKind{dlq.ToKafka}, time.Minute, 7)
				if err != nil {
					t.Errorf("due: %v", err)
					return
				}
				var ends []dlq.Finish
				for i, result := range r.Drive(t.Context(), drives) {
					end, err := drives[i].Finished(result, &policy, dlq.Moment{Now: time.Now()})
					if err != nil {
						t.Error(err)
						return
					}
					ends = append(ends, end)
				}
				if _, err := b.queue.Finish(t.Context(), ends); err != nil {
					t.Errorf("finish: %v", err)
					return
				}
				mu.Lock()
				left -= len(ends)
				mu.Unlock()
			}
		})
	}
	nodes.Wait()
	order := map[string][]string{}
	for _, rec := range c.consume(orders, len(records)) {
		order[string(rec.Key)] = append(order[string(rec.Key)], string(rec.Value))
	}
	want := map[string][]string{}
	for _, rec := range records {
		want[string(rec.Key)] = append(want[string(rec.Key)], string(rec.Value))
	}
	if d := cmp.Diff(want, order); d != "" {
		t.Errorf("order by key (-arrived +driven):\n%s", d)
	}
}
