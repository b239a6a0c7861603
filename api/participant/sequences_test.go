//go:build dialects

package participant

import (
	"context"
	"database/sql"
	"fmt"
	"testing"

	"pgregory.net/rapid"

	"github.com/skald-saga/skald/internal/test/databases"
	"github.com/skald-saga/skald/internal/test/testdb"
)

// Runs the random sequences, with crashes, over each database. The effects are counted in a table.
func TestRandomSequencesInDatabases(t *testing.T) {
	for name, at := range map[string]func(t *testing.T) (*sql.DB, Dialect){
		"sqlite": func(t *testing.T) (*sql.DB, Dialect) { return opened(t, "sqlite", databases.SQLite(t)), SQLite },
		"mysql":  func(t *testing.T) (*sql.DB, Dialect) { return opened(t, "mysql", databases.MySQL(t)), MySQL },
		"pgx":    func(t *testing.T) (*sql.DB, Dialect) { return opened(t, "pgx", testdb.Empty(t)), PostgreSQL },
		"pq":     func(t *testing.T) (*sql.DB, Dialect) { return opened(t, "postgres", testdb.Empty(t)), PostgreSQL },
	} {
		t.Run(name, func(t *testing.T) {
			db, d := at(t)
			for _, create := range []string{Migration(d),
				`CREATE TABLE effects (saga varchar(100) NOT NULL, n integer NOT NULL)`,
				`CREATE INDEX effects_saga ON effects (saga)`} {
				if _, err := db.ExecContext(t.Context(), create); err != nil {
					t.Fatal(err)
				}
			}
			insert, sum := `INSERT INTO effects VALUES (?, ?)`, `SELECT coalesce(sum(n), 0) FROM effects WHERE saga = ?`
			if d == PostgreSQL {
				insert, sum = `INSERT INTO effects VALUES ($1, $2)`, `SELECT coalesce(sum(n), 0) FROM effects WHERE saga = $1`
			}
			store, err := SQL(db, d)
			if err != nil {
				t.Fatal(err)
			}
			p := place{
				store: store, db: db,
				effect: func(ctx context.Context, tx *sql.Tx, c *Call, by int) error {
					_, err := tx.ExecContext(ctx, insert, c.Saga, by)
					return err
				},
				effects: func(saga string) (n int) {
					if err := db.QueryRowContext(t.Context(), sum, saga).Scan(&n); err != nil {
						t.Error(err)
					}
					return n
				},
			}
			sequences, calls := 0, 0
			rapid.Check(t, func(r *rapid.T) {
				for range 100 {
					sequences++
					calls += play(r, p, fmt.Sprintf("saga-%d", sequences))
				}
			})
			t.Logf("%d sequences, %d calls", sequences, calls)
		})
	}
}

// opened returns a database of Open, which only makes a difference for PostgreSQL.
func opened(t *testing.T, driver, dsn string) *sql.DB {
	t.Helper()
	db, err := Open(driver, dsn)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	return db
}
