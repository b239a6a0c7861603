package sagadb_test

import (
	"testing"

	"github.com/skald-saga/skald/internal/saga/sagadb"
	"github.com/skald-saga/skald/internal/test/pgtest"
)

// BenchmarkEncodeSagas encodes the parameters of batches of 64 rows, without a database.
func BenchmarkEncodeSagas(b *testing.B) {
	changes, ordered := pgtest.SomeChanges(64), pgtest.SomeSagas(64)
	for name, encode := range map[string]func(){
		"create": func() { sagadb.CreateParameters(b, ordered) },
		"commit": func() { sagadb.CommitParameters(b, changes) },
	} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				encode()
			}
		})
	}
}
