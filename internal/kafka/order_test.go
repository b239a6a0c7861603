package kafka_test

import (
	"context"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/skald-saga/skald/internal/event/publication"
	"github.com/skald-saga/skald/internal/test/patience"
)

// After a request that the broker permanently rejected, no later message may be stored: the
// rejected messages are sent again, and the later one would precede them.
func TestNothingIsStoredAfterWhatTheBrokerRefused(t *testing.T) {
	t.Parallel()
	const messages = 3000
	for refuse := int32(2); refuse <= 4; refuse++ {
		t.Run(fmt.Sprintf("request %d", refuse), func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			var requests atomic.Int32
			w.broker.ControlKey(int16(kmsg.Produce), func(req kmsg.Request) (kmsg.Response, error, bool) {
				w.broker.KeepControl()
				if requests.Add(1) != refuse {
					return nil, nil, false
				}
				return refused(req.(*kmsg.ProduceRequest), kerr.TopicAuthorizationFailed.Code), nil, true
			})
			p, err := w.config.Open()
			if err != nil {
				t.Fatal(err)
			}
			batch := make([]publication.Message, messages)
			for i := range batch {
				batch[i] = publication.Message{Key: []byte("k"), Value: fmt.Appendf(nil, "%01000d", i), At: time.Now()}
			}
			if err := p.Send(t.Context(), batch[:1]); err != nil { // the client knows the topic's partitions
				t.Fatal(err)
			}
			err = p.Send(t.Context(), batch[1:])
			p.Close()
			stored := w.stored()
			for i, value := range stored {
				if value != string(batch[i].Value) {
					t.Fatalf("message %s is stored as number %d", strings.TrimLeft(value, "0"), i)
				}
			}
			if err == nil || len(stored) == messages {
				t.Errorf("%d messages are stored after %d requests: %v", len(stored), requests.Load(), err)
			}
		})
	}
}

// stored returns the values of the records in the topic.
func (w *world) stored() []string {
	w.t.Helper()
	client, err := kgo.NewClient(kgo.SeedBrokers(w.broker.ListenAddrs()...), kgo.ConsumeTopics(topic))
	if err != nil {
		w.t.Fatal(err)
	}
	defer client.Close()
	end := int64(0)
	for p := range int32(4) {
		end += w.broker.PartitionInfo(topic, p).HighWatermark
	}
	var values []string
	ctx, cancel := context.WithTimeout(w.t.Context(), patience.Limit)
	defer cancel()
	for int64(len(values)) < end {
		fetches := client.PollFetches(ctx)
		if ctx.Err() != nil {
			w.t.Fatalf("%d of %d records have come", len(values), end)
		}
		fetches.EachRecord(func(r *kgo.Record) { values = append(values, string(r.Value)) })
	}
	return values
}
