package dlqdb_test

import (
	"fmt"
	"testing"

	"github.com/google/uuid"

	"github.com/skald-saga/skald/internal/dlq"
	"github.com/skald-saga/skald/internal/dlq/dlqdb"
	"github.com/skald-saga/skald/internal/test/pgtest"
)

// BenchmarkEncodeLetters encodes the parameters of batches of 64 rows, without a database.
func BenchmarkEncodeLetters(b *testing.B) {
	letters := make([]dlq.Letter, 64)
	for i := range letters {
		l := &letters[i]
		l.ID, l.TenantID, l.Source, l.OriginalTopic, l.CreatedAt = uuid.New(), pgtest.Big, dlq.FromKafka,
			"orders", pgtest.Now()
		l.Arrived = &dlq.Position{Topic: "orders.dlq", Partition: 1, Offset: int64(i), TopicID: uuid.New()}
		l.Content = dlq.Content{Key: fmt.Append(nil, i), Payload: []byte(`{"order": 1, "customer": "somebody", "lines": [1, 2, 3]}`)}
		l.Encoding, l.Status, l.Failure = dlq.JSON, dlq.Pending, dlq.Failure{Type: "Timeout", Message: "no answer after 5 s"}
		l.Fingerprint, l.UpdatedAt, l.RootID = "f", l.CreatedAt, l.ID
	}
	for name, encode := range map[string]func(){
		"push":   func() { dlqdb.PushParameters(b, letters) },
		"arrive": func() { dlqdb.ArriveParameters(b, letters) },
	} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				encode()
			}
		})
	}
}
