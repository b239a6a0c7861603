package jobdb_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/skald-saga/skald/internal/jobrun"
	"github.com/skald-saga/skald/internal/jobrun/jobdb"
	"github.com/skald-saga/skald/internal/test/pgtest"
)

// BenchmarkEncodeRuns encodes the parameters of batches of 64 rows, without a database.
func BenchmarkEncodeRuns(b *testing.B) {
	runs := make([]jobrun.Run, 64)
	for i := range runs {
		runs[i] = jobrun.Run{
			ID: uuid.New(), TenantID: pgtest.Big, DefinitionID: pgtest.Big, DefinitionName: "report", CommandName: "report",
			Queue: "default",
			State: jobrun.Pending, Trigger: jobrun.ByHand, ScheduledFor: pgtest.Now(), AvailableAt: pgtest.Now(),
			AdmittedAt: new(time.Now()), Args: []byte(`{"n":1}`),
			IdempotencyKey: fmt.Sprint("manual:", i), RootRunID: uuid.New(), CreatedAt: pgtest.Now(), UpdatedAt: pgtest.Now(),
			Labels: []string{"a", "b"},
		}
	}
	for name, encode := range map[string]func(){
		"insert": func() { jobdb.RunParameters(b, runs) },
	} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				encode()
			}
		})
	}
}
