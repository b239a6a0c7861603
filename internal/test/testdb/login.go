package testdb

import (
	"context"
	"crypto/rand"
	"database/sql"
	"net/url"
	"strings"
	"testing"

	"github.com/lib/pq"

	"github.com/skald-saga/skald/internal/test/patience"
)

// Login creates a database login that is not a superuser and returns dsn with that login in place
// of the superuser. options are those of CREATE ROLE, such as "IN ROLE saga_app_role" or
// "CREATEROLE". The login may create objects in dsn's database; when the test ends, the objects and
// the login are dropped.
func Login(t testing.TB, dsn, options string) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience.Limit)
	defer cancel()
	own := func(string) string { return dsn }
	a := address{maintenance: dsn, dsn: own}
	name, password := "skald_test_"+strings.ToLower(rand.Text()), rand.Text()
	quoted := pq.QuoteIdentifier(name)
	err := connected(ctx, a, func(conn *sql.Conn) error {
		var database string
		if err := conn.QueryRowContext(ctx, `SELECT current_database()`).Scan(&database); err != nil {
			return err
		}
		for _, statement := range []string{
			"CREATE ROLE " + quoted + " LOGIN PASSWORD " + pq.QuoteLiteral(password) + " " + options,
			"GRANT CREATE ON DATABASE " + pq.QuoteIdentifier(database) + " TO " + quoted,
		} {
			if _, err := conn.ExecContext(ctx, statement); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), patience.Limit)
		defer cancel()
		if err := run(ctx, a, "DROP OWNED BY "+quoted+" CASCADE", "DROP ROLE "+quoted); err != nil {
			t.Errorf("drop the test's login: %v", err)
		}
	})
	if !strings.Contains(dsn, "://") { // key=value form: the last value wins
		return dsn + " user=" + name + " password=" + password
	}
	u, err := url.Parse(dsn)
	if err != nil {
		t.Fatal(err)
	}
	u.User = url.UserPassword(name, password)
	return u.String()
}
