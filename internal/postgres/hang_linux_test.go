package postgres_test

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jmoiron/sqlx"

	"github.com/skald-saga/skald/db"
	"github.com/skald-saga/skald/internal/fault"
	"github.com/skald-saga/skald/internal/page"
	"github.com/skald-saga/skald/internal/postgres"
	"github.com/skald-saga/skald/internal/postgres/devpg"
	"github.com/skald-saga/skald/internal/saga"
	"github.com/skald-saga/skald/internal/saga/sagadb"
	"github.com/skald-saga/skald/internal/test/patience"
	"github.com/skald-saga/skald/internal/test/pgtest"
	"github.com/skald-saga/skald/internal/test/testdb"
)

// private starts a server for this test alone, with the schema.
func private(t *testing.T) *devpg.Server {
	t.Helper()
	s, err := devpg.Start(t.Context(), devpg.Config{Dir: t.TempDir(), Exclusive: true,
		Settings: map[string]string{"fsync": "off"}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Stop(context.Background()) })
	if err := db.Migrate(t.Context(), s.DSN(devpg.Database)); err != nil {
		t.Fatal(err)
	}
	return s
}

// uses are statements of every kind, on every pool.
func uses(d *postgres.DB) map[string]func(context.Context) error {
	st := sagadb.NewSagas(d)
	return map[string]func(context.Context) error{
		"a read":    func(ctx context.Context) error { _, err := st.Load(ctx, pgtest.RefsOf(pgtest.Big)); return err },
		"a create":  func(ctx context.Context) error { _, err := st.Create(ctx, pgtest.Unkeyed()); return err },
		"a commit":  func(ctx context.Context) error { _, err := st.Commit(ctx, pgtest.SomeChanges(1)); return err },
		"a renewal": func(ctx context.Context) error { _, err := st.Renew(ctx, 1, time.Minute); return err },
		"a list": func(ctx context.Context) error {
			_, err := st.List(ctx, pgtest.Big, saga.Filter{ByTime: page.ByTime{Limit: 1}})
			return err
		},
		"a transaction": func(ctx context.Context) error {
			return d.InRead(ctx, func(tx *sqlx.Tx) error { _, err := tx.ExecContext(ctx, `SELECT 1`); return err })
		},
		"a ping": d.Ping,
	}
}

// A server whose processes are stopped closes no connections, and its machine still accepts new
// ones. The time limits of statements are longer than this test waits.
func TestAServerThatHangsIsLeftByAllPools(t *testing.T) {
	t.Parallel()
	server := private(t)
	var told atomic.Int64
	d := opened(t, postgres.Config{
		DSN: server.DSN(devpg.Database), StatementTimeout: patience.Limit, IOTimeout: 2 * patience.Limit,
		Silent: func(string, int) { told.Add(1) },
	})
	pgtest.Registered(t, d)
	all := uses(d)
	for what, use := range all {
		if err := use(t.Context()); err != nil {
			t.Fatalf("%s before: %v", what, err)
		}
	}
	listener, err := d.Listener(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	thaw := testdb.Freeze(t, server.PID())
	began := time.Now()
	var wg sync.WaitGroup
	for what, use := range all {
		wg.Go(func() {
			if err := use(t.Context()); err == nil || fault.As(err) != nil {
				t.Errorf("%s meanwhile: %v; want an outage", what, err)
			}
			t.Logf("%s ended after %s", what, time.Since(began).Round(time.Millisecond))
		})
	}
	patience.Receive(t, "all statements have ended", ended(&wg))
	patience.Receive(t, "the connection that listens is lost", listener.Lost)
	if told.Load() == 0 {
		t.Error("the silence was not told")
	}
	if err := d.Ping(t.Context()); err == nil || !postgres.Away(err) {
		t.Errorf("a new connection: %v; want that it takes too long", err)
	}
	thaw()
	for what, use := range all {
		patience.Until(t, what+" works afterwards", func() bool { return use(t.Context()) == nil })
	}
}

// A statement ends with its context even where nothing shows yet that the server hangs, and whether
// it can be canceled or not.
func TestAStatementEndsWithItsContext(t *testing.T) {
	t.Parallel()
	server := private(t)
	d := opened(t, postgres.Config{
		DSN: server.DSN(devpg.Database), StatementTimeout: patience.Limit, IOTimeout: 2 * patience.Limit,
	})
	pgtest.Registered(t, d)
	for what, use := range uses(d) {
		if err := use(t.Context()); err != nil {
			t.Fatalf("%s before: %v", what, err)
		}
	}
	testdb.Freeze(t, server.PID())
	var wg sync.WaitGroup
	for what, use := range uses(d) {
		wg.Go(func() {
			ctx, cancel := context.WithCancel(t.Context())
			defer time.AfterFunc(10*time.Millisecond, cancel).Stop()
			began := time.Now()
			if err := use(ctx); err == nil || fault.As(err) != nil {
				t.Errorf("%s: %v; want an outage", what, err)
			}
			t.Logf("%s ended after %s", what, time.Since(began).Round(time.Millisecond))
		})
	}
	patience.Receive(t, "all statements have ended", ended(&wg))
}

func ended(wg *sync.WaitGroup) <-chan struct{} {
	done := make(chan struct{})
	go func() { wg.Wait(); close(done) }()
	return done
}
