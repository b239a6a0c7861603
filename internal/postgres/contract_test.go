package postgres_test

import (
	"context"
	"database/sql"
	"net"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/skald-saga/skald/internal/access"
	"github.com/skald-saga/skald/internal/postgres"
	"github.com/skald-saga/skald/internal/saga"
	"github.com/skald-saga/skald/internal/saga/workflow"
	"github.com/skald-saga/skald/internal/secret/envelope"
	"github.com/skald-saga/skald/internal/test/storetest"
	"github.com/skald-saga/skald/internal/test/testdb"
)

var (
	_ saga.Store     = (*postgres.Sagas)(nil)
	_ saga.Ownership = (*postgres.Sagas)(nil)
	_ saga.Archive   = (*postgres.Sagas)(nil)
	_ saga.Reports   = (*postgres.Sagas)(nil)
	_ workflow.Store = (*postgres.Workflows)(nil)
	_ saga.Trail     = (*postgres.Trail)(nil)
	_ saga.Chain     = (*postgres.Trail)(nil)
	_ access.Store   = (*postgres.Keys)(nil)
)

func TestSagasKeepTheContract(t *testing.T)        { storetest.Sagas(t, openEnv) }
func TestOwnershipKeepsTheContract(t *testing.T)   { storetest.Ownership(t, emptied(t, nil)) }
func TestWorkflowsKeepTheContract(t *testing.T)    { storetest.Workflows(t, openEnv) }
func TestTrailKeepsTheContract(t *testing.T)       { storetest.Trail(t, openEnv) }
func TestKeysKeepTheContract(t *testing.T)         { storetest.Keys(t, openEnv) }
func TestTheArchiveKeepsTheContract(t *testing.T)  { storetest.Archive(t, openEnv) }
func TestWebhooksKeepTheContract(t *testing.T)     { storetest.Webhooks(t, openEnv) }
func TestPublicationsKeepTheContract(t *testing.T) { storetest.Publications(t, openEnv) }

// connect opens a database that is closed with the test.
func connect(t *testing.T, dsn string) *postgres.DB {
	t.Helper()
	return connectWith(t, dsn, nil)
}

// rawTables is a way to the tables past the stores.
func rawTables(t *testing.T, dsn string) *sql.DB {
	t.Helper()
	db, err := sql.Open("postgres", dsn)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { db.Close() })
	return db
}

// connectWith is connect with encryption.
func connectWith(t *testing.T, dsn string, keys *envelope.Keyring) *postgres.DB {
	t.Helper()
	db, err := postgres.Open(t.Context(), postgres.Config{DSN: dsn, CountFor: 20 * time.Second, Encryption: keys})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(db.Close)
	return db
}

// with returns dsn, which has one of the two forms, with one more parameter.
func with(t *testing.T, dsn, name, value string) string {
	t.Helper()
	if !strings.Contains(dsn, "://") {
		return dsn + " " + name + "=" + value // the last word counts
	}
	u, err := url.Parse(dsn)
	if err != nil {
		t.Fatal(err)
	}
	switch name {
	case "dbname":
		u.Path = "/" + value
	case "host":
		u.Host = net.JoinHostPort(value, u.Port())
	case "port":
		u.Host = net.JoinHostPort(u.Hostname(), value)
	default:
		q := u.Query()
		q.Set(name, value)
		u.RawQuery = q.Encode()
	}
	return u.String()
}

// plainLogin is a member of the roles that Skald acts as, and has no rights of
// its own: what a production system signs in as.
func plainLogin(t *testing.T, dsn string) string {
	t.Helper()
	return testdb.Login(t, dsn, "NOINHERIT IN ROLE saga_app_role, saga_engine_role")
}

// openEnv returns the stores on a database of their own.
func openEnv(t *testing.T) storetest.Env {
	t.Helper()
	return envOf(t, connect(t, plainLogin(t, testdb.DSN(t))))
}

func envOf(t *testing.T, db *postgres.DB) storetest.Env {
	sagas := postgres.NewSagas(db)
	return storetest.Env{
		Sagas:        sagas,
		Ownership:    sagas,
		Archive:      sagas,
		Reports:      sagas,
		Workflows:    postgres.NewWorkflows(db),
		Trail:        postgres.NewTrail(db),
		Chain:        postgres.NewTrail(db),
		Keys:         postgres.NewKeys(db),
		Webhooks:     postgres.NewWebhooks(db, nil),
		Publications: postgres.NewPublications(db),
		OpenLetters: func(t *testing.T, id uuid.UUID) (open []uuid.UUID) {
			t.Helper()
			rows, err := db.SQL().QueryContext(t.Context(), `SELECT id FROM dlq.dlq_messages WHERE saga_id = $1 AND status <> 'RESOLVED'`, id)
			if err != nil {
				t.Fatal(err)
			}
			defer rows.Close()
			for rows.Next() {
				var letter uuid.UUID
				if err := rows.Scan(&letter); err != nil {
					t.Fatal(err)
				}
				open = append(open, letter)
			}
			if err := rows.Err(); err != nil {
				t.Fatal(err)
			}
			return open
		},
		Now:    time.Now,
		Settle: func(t *testing.T) { settle(t, db.SQL()) },
		// The server's clock cannot be put forward, so all it is compared with is put back.
		Advance: func(d time.Duration) {
			execute(t, db.SQL(), `UPDATE saga.webhook_deliveries SET lease_until = lease_until - $1 * interval '1 us'`, d.Microseconds())
			execute(t, db.SQL(), `UPDATE saga.publications SET lease_until = lease_until - $1 * interval '1 us'`, d.Microseconds())
			execute(t, db.SQL(), `UPDATE saga.engine_nodes SET lease_until = lease_until - $1 * interval '1 us'`, d.Microseconds())
			execute(t, db.SQL(), `
				UPDATE saga.saga_states
				   SET next_run_at = next_run_at - $1 * interval '1 us', updated_at = updated_at - $1 * interval '1 us',
				       suspended_at = suspended_at - $1 * interval '1 us', timeout_at = timeout_at - $1 * interval '1 us',
				       compensation_timeout_at = compensation_timeout_at - $1 * interval '1 us'
				 WHERE completed_at IS NULL`, d.Microseconds())
		},
	}
}

// settle returns when every transaction of the server that is open now has
// ended, those of other databases too.
func settle(t *testing.T, db *sql.DB) {
	t.Helper()
	var until int64
	if err := db.QueryRowContext(t.Context(), `SELECT pg_current_xact_id()::text`).Scan(&until); err != nil {
		t.Fatal(err)
	}
	for xmin := int64(0); xmin <= until; {
		if err := db.QueryRowContext(t.Context(), `SELECT pg_snapshot_xmin(pg_current_snapshot())::text FROM pg_sleep(0.001)`).Scan(&xmin); err != nil {
			t.Fatal(err)
		}
	}
}

// emptied opens a few databases and gives them out in turn, emptied: making one
// costs half a second on a busy machine.
func emptied(t *testing.T, keys *envelope.Keyring) func(*testing.T) storetest.Env {
	t.Helper()
	type pair struct {
		env storetest.Env
		db  *postgres.DB
	}
	free := make(chan pair, 2)
	for range cap(free) {
		db := connectWith(t, testdb.DSN(t), keys)
		free <- pair{envOf(t, db), db}
	}
	return func(t *testing.T) storetest.Env {
		p := <-free
		t.Cleanup(func() {
			for _, table := range []string{"saga_states", "engine_nodes", "idempotency_keys", "workflow_definitions", "workflows"} {
				execute(t, p.db.SQL(), "DELETE FROM saga."+table)
			}
			free <- p
		})
		return p.env
	}
}

// execute runs a statement that must succeed, during a cleanup too.
func execute(t testing.TB, db *sql.DB, statement string, args ...any) {
	t.Helper()
	if _, err := db.ExecContext(context.WithoutCancel(t.Context()), statement, args...); err != nil {
		t.Errorf("%s: %v", statement, err)
	}
}
