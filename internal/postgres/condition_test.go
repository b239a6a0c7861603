package postgres_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/skald-saga/skald/internal/postgres"
	"github.com/skald-saga/skald/internal/test/testdb"
)

func TestTheConditionOfAServerIsKnown(t *testing.T) {
	t.Parallel()
	dsn := testdb.DSN(t)
	db := opened(t, postgres.Config{DSN: dsn})
	c, err := db.Condition(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	// Test servers trade durability for speed, and tests log in as their superuser.
	if !slices.Equal(c.Off, postgres.Settings) || !c.Superuser || c.Login == "" || c.Schema < 175 {
		t.Errorf("condition %+v", c)
	}
	text := strings.Join(c.Warnings(), "\n")
	for _, part := range append([]string{c.Login + " is a superuser", "fsync is off"}, postgres.Settings...) {
		if !strings.Contains(text, part) {
			t.Errorf("the warnings lack %q: %s", part, text)
		}
	}
	if risks := strings.Join(c.Risks(), ", "); strings.Contains(risks, c.Login) || len(c.Risks()) != 4 {
		t.Errorf("risks, for everybody: %s", risks)
	}
	if w := (postgres.Condition{Login: "skald_server"}).Warnings(); w != nil {
		t.Errorf("warnings without reason: %q", w)
	}
}

func TestTheConditionCannotBeReadWhereNothingCanBeWritten(t *testing.T) {
	t.Parallel()
	dsn := testdb.DSN(t)
	join := "?"
	if strings.Contains(dsn, "?") {
		join = "&"
	}
	db := opened(t, postgres.Config{DSN: dsn + join + "default_transaction_read_only=on"})
	if c, err := db.Condition(t.Context()); err == nil {
		t.Errorf("a read-only session can write: %+v", c)
	}
}

func opened(t *testing.T, cfg postgres.Config) *postgres.DB {
	t.Helper()
	db, err := postgres.Open(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(db.Close)
	return db
}
