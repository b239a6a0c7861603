//go:build dialects

package participant_test

import (
	"database/sql"
	"testing"

	"github.com/skald-saga/skald/api/participant"
	"github.com/skald-saga/skald/internal/test/databases"
	"github.com/skald-saga/skald/internal/test/testdb"
)

// Runs the vectors over each database and driver that the other tests do not cover (make test-sdk).
// The drivers are not among Skald's dependencies, so they are listed in tools/dialects.mod.
func TestVectorsInTheOtherDialects(t *testing.T) {
	t.Run("sqlite", func(t *testing.T) {
		dsn := databases.SQLite(t)
		db := created(t, "sqlite", dsn, participant.SQLite)
		between(t, db, `INSERT INTO effects VALUES (?)`, func(t *testing.T) [2]participant.Store {
			return [2]participant.Store{
				stored(t, connected(t, "sqlite", dsn), participant.SQLite),
				stored(t, connected(t, "sqlite", dsn), participant.SQLite),
			}
		})
	})
	for name, options := range map[string]string{"mysql": "", "mysql with literals": "?interpolateParams=true"} {
		t.Run(name, func(t *testing.T) {
			dsn := databases.MySQL(t)
			db := created(t, "mysql", dsn, participant.MySQL)
			between(t, db, `INSERT INTO effects VALUES (?)`, func(t *testing.T) [2]participant.Store {
				return [2]participant.Store{
					stored(t, connected(t, "mysql", dsn+options), participant.MySQL),
					stored(t, connected(t, "mysql", dsn+options), participant.MySQL),
				}
			})
		})
	}
	t.Run("pgx", func(t *testing.T) {
		dsn := testdb.Empty(t)
		db := created(t, "pgx", dsn, participant.PostgreSQL)
		between(t, db, insertEffect, func(t *testing.T) [2]participant.Store {
			opened, err := participant.Open("pgx", dsn)
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = opened.Close() })
			return [2]participant.Store{
				stored(t, opened, participant.PostgreSQL),
				stored(t, connected(t, "pgx", dsn), participant.PostgreSQL),
			}
		})
	})
}

func TestPurgeInTheOtherDialects(t *testing.T) {
	lite := databases.SQLite(t)
	maria := databases.MySQL(t)
	for d, db := range map[participant.Dialect]*sql.DB{
		participant.SQLite: created(t, "sqlite", lite, participant.SQLite),
		participant.MySQL:  created(t, "mysql", maria, participant.MySQL),
	} {
		purges(t, string(d), stored(t, db, d))
	}
}

func connected(t *testing.T, driver, dsn string) *sql.DB {
	t.Helper()
	db, err := sql.Open(driver, dsn)
	if err != nil {
		t.Fatal(err)
	}
	db.SetMaxOpenConns(4)
	t.Cleanup(func() { _ = db.Close() })
	return db
}

// created returns a database with the tables.
func created(t *testing.T, driver, dsn string, d participant.Dialect) *sql.DB {
	t.Helper()
	db := connected(t, driver, dsn)
	for _, create := range []string{participant.Migration(d), `CREATE TABLE effects (effect varchar(700) NOT NULL)`} {
		if _, err := db.ExecContext(t.Context(), create); err != nil {
			t.Fatal(err)
		}
	}
	return db
}

func stored(t *testing.T, db *sql.DB, d participant.Dialect) participant.Store {
	t.Helper()
	store, err := participant.SQL(db, d)
	if err != nil {
		t.Fatal(err)
	}
	return store
}
