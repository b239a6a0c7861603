package postgres_test

import (
	"database/sql"
	"testing"

	"github.com/google/uuid"

	"github.com/skald-saga/skald/internal/test/pgtest"
	"github.com/skald-saga/skald/internal/test/testdb"
)

// A statement that is prepared again in every transaction costs more than it saves.
func TestAReadByKeyIsPreparedOncePerConnection(t *testing.T) {
	t.Parallel()
	db := pgtest.Connect(t, testdb.DSN(t))
	first := 0
	for i := range 5 {
		n := 0
		err := db.ReadTenant(t.Context(), uuid.New(), `SELECT count(*) FROM pg_prepared_statements WHERE $1::uuid IS NOT NULL`,
			func(rows *sql.Rows) error { return rows.Scan(&n) })
		if err != nil {
			t.Fatal(err)
		}
		if i == 0 {
			first = n
		}
		if n == 0 || n != first {
			t.Errorf("after %d reads the connection has %d prepared statements, after the first %d", i+1, n, first)
		}
	}
}
