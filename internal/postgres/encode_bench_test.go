package postgres_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/skald-saga/skald/internal/dlq"
	"github.com/skald-saga/skald/internal/jobrun"
	"github.com/skald-saga/skald/internal/postgres"
)

// BenchmarkEncode makes the parameters of batches of 64 rows, without a database.
func BenchmarkEncode(b *testing.B) {
	changes, ordered, letters, runs := someChanges(64), someSagas(64), make([]dlq.Letter, 64), make([]jobrun.Run, 64)
	for i := range letters {
		l := &letters[i]
		l.ID, l.TenantID, l.Source, l.OriginalTopic, l.CreatedAt = uuid.New(), big, dlq.FromKafka, "orders", now()
		l.Arrived = &dlq.Position{Topic: "orders.dlq", Partition: 1, Offset: int64(i), TopicID: uuid.New()}
		l.Content = dlq.Content{Key: fmt.Append(nil, i), Payload: []byte(`{"order": 1, "customer": "somebody", "lines": [1, 2, 3]}`)}
		l.Encoding, l.Status, l.Failure = dlq.JSON, dlq.Pending, dlq.Failure{Type: "Timeout", Message: "no answer after 5 s"}
		l.Fingerprint, l.UpdatedAt, l.RootID = "f", l.CreatedAt, l.ID
	}
	for i := range runs {
		runs[i] = jobrun.Run{
			ID: uuid.New(), TenantID: big, DefinitionID: big, DefinitionName: "report", CommandName: "report", Queue: "default",
			State: jobrun.Pending, Trigger: jobrun.ByHand, ScheduledFor: now(), AvailableAt: now(), AdmittedAt: new(time.Now()), Args: []byte(`{"n":1}`),
			IdempotencyKey: fmt.Sprint("manual:", i), RootRunID: uuid.New(), CreatedAt: now(), UpdatedAt: now(), Labels: []string{"a", "b"},
		}
	}
	for name, encode := range map[string]func(){
		"create": func() { postgres.CreateParameters(b, ordered) },
		"commit": func() { postgres.CommitParameters(b, changes) },
		"push":   func() { postgres.PushParameters(b, letters) },
		"arrive": func() { postgres.ArriveParameters(b, letters) },
		"runs":   func() { postgres.RunParameters(b, runs) },
	} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				encode()
			}
		})
	}
}
