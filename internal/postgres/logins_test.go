package postgres_test

import (
	"context"
	"database/sql"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/lib/pq"

	"github.com/skald-saga/skald/internal/page"
	"github.com/skald-saga/skald/internal/postgres"
	"github.com/skald-saga/skald/internal/saga"
	"github.com/skald-saga/skald/internal/saga/sagadb"
	"github.com/skald-saga/skald/internal/secret/credentials"
	"github.com/skald-saga/skald/internal/test/pgtest"
	"github.com/skald-saga/skald/internal/test/testdb"
)

// logins is a Source that a test controls.
type logins struct {
	mu      sync.Mutex
	now     credentials.Login   // guarded by mu
	next    *credentials.Login  // guarded by mu: becomes current when now is refused
	refused []credentials.Login // guarded by mu
	sticky  bool                // old logins stay current, as when Vault revokes one unnoticed
}

func (l *logins) Login(_ context.Context, refused credentials.Login) (credentials.Login, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if refused != (credentials.Login{}) {
		l.refused = append(l.refused, refused)
		if refused == l.now && l.next != nil {
			l.now, l.next = *l.next, nil
		}
	}
	return l.now, nil
}

func (l *logins) Current(c credentials.Login) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.sticky || c == l.now
}

func (l *logins) turn(to credentials.Login) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.now = to
}

// roles creates n login roles with the rights of the application. Roles belong to the whole
// server, so they have generated names, and they are dropped with the test.
func roles(t *testing.T, d *sql.DB, n int) []credentials.Login {
	t.Helper()
	group := "skald_test_" + strings.ToLower(pgtest.NewID().String())
	made := []string{group}
	pgtest.Execute(t, d, `CREATE ROLE `+pq.QuoteIdentifier(group)+` NOLOGIN`)
	pgtest.Execute(t, d, `GRANT saga_app_role, saga_engine_role TO `+pq.QuoteIdentifier(group))
	var out []credentials.Login
	for i := range n {
		l := credentials.Login{User: fmt.Sprint(group, "_", i), Password: fmt.Sprint("secret-", i)}
		pgtest.Execute(t, d, `CREATE ROLE `+pq.QuoteIdentifier(l.User)+` LOGIN PASSWORD '`+l.Password+`' IN ROLE `+
			pq.QuoteIdentifier(group))
		out, made = append(out, l), append(made, l.User)
	}
	t.Cleanup(func() {
		pgtest.Execute(t, d, `DROP OWNED BY `+pq.QuoteIdentifier(group))
		for _, name := range slices.Backward(made) {
			pgtest.Execute(t, d, `DROP ROLE IF EXISTS `+pq.QuoteIdentifier(name))
		}
	})
	return out
}

func openAs(t *testing.T, dsn string, source credentials.Source) *postgres.DB {
	t.Helper()
	d, err := postgres.Open(t.Context(), postgres.Config{DSN: dsn, Logins: source})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(d.Close)
	return d
}

// users returns the logins that have connections to this database.
func users(t *testing.T, d *sql.DB) []string {
	t.Helper()
	return strings.Fields(pgtest.Ask[string](t, d, `SELECT coalesce(string_agg(DISTINCT usename, ' ' ORDER BY usename), '')
		FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()`))
}

func TestConnectionsOfAReplacedLoginAreClosedAfterTheirUse(t *testing.T) {
	t.Parallel()
	dsn := testdb.DSN(t)
	own := pgtest.Observer(t, dsn)
	as := roles(t, own, 2)
	source := &logins{now: as[0]}
	d := openAs(t, dsn, source)
	pgtest.Registered(t, d)
	tx, err := d.SQL().BeginTx(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	every(t, d.Points(), `SELECT 1`)
	if got := users(t, own); !slices.Equal(got, []string{as[0].User}) {
		t.Fatalf("signed in as %v, want the first role", got)
	}
	source.turn(as[1])
	d.Refresh()
	var who string
	if err := tx.QueryRowContext(t.Context(), `SELECT session_user`).Scan(&who); err != nil || who != as[0].User {
		t.Errorf("the transaction in hand goes on as %q, %v; want the first role", who, err)
	}
	if r, err := sagadb.NewSagas(d).Create(t.Context(), pgtest.Unkeyed()); err != nil || r[0].Created != saga.Stored {
		t.Errorf("create = %v, %v", r, err)
	}
	if err := tx.Commit(); err != nil {
		t.Errorf("commit: %v", err)
	}
	for users(t, own)[0] != as[1].User { // the server notices the end of a session after a while
		if err := t.Context().Err(); err != nil {
			t.Fatal(err)
		}
	}
	if got := users(t, own); !slices.Equal(got, []string{as[1].User}) {
		t.Errorf("signed in as %v, want only the second role", got)
	}
}

// What happens to the sessions of a role that may no longer log in, is dropped, or whose
// sessions are terminated; the source learns of it only through refusals.
func TestALoginThatIsTakenAwayIsReplacedWithoutAnError(t *testing.T) {
	t.Parallel()
	const terminate = `SELECT pg_terminate_backend(pid, 10000) FROM pg_stat_activity WHERE usename = $1`
	for _, tt := range []struct {
		name, take string
		terminate  bool
	}{
		{"it is dropped, and its sessions stay", `DROP ROLE %s`, false},
		{"it is dropped, and its sessions are ended", `DROP ROLE %s`, true},
		{"it may no longer log in", `ALTER ROLE %s NOLOGIN`, true},
		{"it gets another password", `ALTER ROLE %s PASSWORD 'other'`, true},
		{"it has run out", `ALTER ROLE %s VALID UNTIL '2001-01-01'`, true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			dsn := testdb.DSN(t)
			own := pgtest.Observer(t, dsn)
			as := roles(t, own, 2)
			source := &logins{now: as[0], next: &as[1], sticky: true}
			d := openAs(t, dsn, source)
			pgtest.Registered(t, d)
			st := sagadb.NewSagas(d)
			use := func(when string) {
				t.Helper()
				if r, err := st.Create(t.Context(), pgtest.Unkeyed()); err != nil || r[0].Created != saga.Stored {
					t.Errorf("%s: create = %v, %v", when, r, err)
				}
				if _, err := st.Load(t.Context(), pgtest.RefsOf(pgtest.Big)); err != nil {
					t.Errorf("%s: read: %v", when, err)
				}
				if _, err := st.Register(t.Context(), "n", "", 1e9); err != nil {
					t.Errorf("%s: lease: %v", when, err)
				}
				if _, err := st.List(t.Context(), pgtest.Big, saga.Filter{ByTime: page.ByTime{Limit: 1}}); err != nil {
					t.Errorf("%s: list: %v", when, err)
				}
			}
			for range 3 {
				use("before")
			}
			pgtest.Execute(t, own, fmt.Sprintf(tt.take, pq.QuoteIdentifier(as[0].User)))
			if tt.terminate {
				pgtest.Execute(t, own, terminate, as[0].User)
			}
			for range 3 {
				use("after")
			}
			// A session outlives its dropped login: it acts as one of Skald's roles.
			if noticed := !strings.HasPrefix(tt.take, "DROP"); noticed && len(source.refused) == 0 ||
				slices.ContainsFunc(source.refused, func(l credentials.Login) bool { return l != as[0] }) {
				t.Errorf("refused: %v, want the first role only", source.refused)
			}
		})
	}
}

func TestARefusedLoginWithoutAnotherSaysWhy(t *testing.T) {
	t.Parallel()
	_,
		err := postgres.Open(t.Context(), postgres.Config{DSN: testdb.DSN(t),
		Logins: credentials.Fixed{User: "nobody_here", Password: "canary"}})
	if err == nil || !strings.Contains(err.Error(), "password authentication failed") || strings.Contains(err.Error(), "canary") {
		t.Errorf("error = %v; want the server's words and no password", err)
	}
}
