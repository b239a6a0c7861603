package postgres_test

import (
	"testing"

	"github.com/skald-saga/skald/internal/postgres"
)

// BenchmarkEncodeSagas makes the parameters of batches of 64 rows, without a database.
func BenchmarkEncodeSagas(b *testing.B) {
	changes, ordered := someChanges(64), someSagas(64)
	for name, encode := range map[string]func(){
		"create": func() { postgres.CreateParameters(b, ordered) },
		"commit": func() { postgres.CommitParameters(b, changes) },
	} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				encode()
			}
		})
	}
}
