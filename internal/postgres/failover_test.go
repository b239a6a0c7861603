package postgres_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"net"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/lib/pq"

	"github.com/skald-saga/skald/db"
	"github.com/skald-saga/skald/internal/fault"
	"github.com/skald-saga/skald/internal/postgres"
	"github.com/skald-saga/skald/internal/postgres/devpg"
	"github.com/skald-saga/skald/internal/saga"
	"github.com/skald-saga/skald/internal/saga/sagadb"
	"github.com/skald-saga/skald/internal/test/patience"
	"github.com/skald-saga/skald/internal/test/pgtest"
	"github.com/skald-saga/skald/internal/test/testdb"
)

// through opens dsn's database through a proxy.
func through(t *testing.T, dsn string) (*postgres.DB, *proxy) {
	t.Helper()
	server, err := pq.NewConfig(dsn)
	if err != nil {
		t.Fatal(err)
	}
	p := newProxy(t, net.JoinHostPort(server.Host, fmt.Sprint(server.Port)), nil)
	d := pgtest.Connect(t, pgtest.With(t, pgtest.With(t, dsn, "host", "127.0.0.1"), "port", p.port))
	return d, p
}

// exists queries the database without the stores.
func exists(t *testing.T, d *sql.DB, id uuid.UUID) (found bool) {
	t.Helper()
	if err := d.QueryRowContext(t.Context(), `SELECT EXISTS (SELECT FROM saga.saga_states WHERE id = $1)`, id).Scan(&found); err != nil {
		t.Fatal(err)
	}
	return found
}

// every reserves all connections of a pool and runs a statement on each.
func every(t *testing.T, pool *sql.DB, statement string) {
	t.Helper()
	for range pool.Stats().MaxOpenConnections {
		c, err := pool.Conn(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if _, err := c.ExecContext(t.Context(), statement); err != nil {
			t.Fatal(err)
		}
		defer c.Close()
	}
}

// A primary that became a standby refuses writes with 25006 on connections that otherwise work
// (invariant F59).
func TestConnectionsToAServerThatBecameReadOnlyAreGivenUp(t *testing.T) {
	t.Parallel()
	dsn := testdb.DSN(t)
	d := pgtest.Connect(t, dsn)
	pgtest.Registered(t, d)
	st := sagadb.NewSagas(d)
	every(t, d.Write.DB, `SET default_transaction_read_only = on`)
	every(t, d.Lease.DB, `SET default_transaction_read_only = on`)
	every(t, d.Points(), `SET default_transaction_read_only = on`)
	batch := pgtest.Unkeyed()
	if r, err := st.Create(t.Context(), batch); err != nil || r[0].Created != saga.Stored {
		t.Fatalf("create = %v, %v; want it stored by another connection", r, err)
	}
	if _, err := st.Register(t.Context(), "n", "", time.Minute); err != nil {
		t.Errorf("the lease's connection was not replaced: %v", err)
	}
	for name, pool := range map[string]*sql.DB{"readers": d.Points(), "writers": d.Write.DB} {
		for range 6 { // whichever connection is used
			var mode string
			if err := pool.QueryRowContext(t.Context(), `SHOW default_transaction_read_only`).Scan(&mode); err != nil || mode != "off" {
				t.Errorf("%s: read only %s, %v; want every old connection given up", name, mode, err)
			}
		}
	}
	// When every server is read-only, the caller soon gets an error with the reason.
	pgtest.Execute(t, pgtest.Observer(t, dsn), `DO $$ BEGIN EXECUTE format('ALTER DATABASE %I SET default_transaction_read_only = on', current_database()); END $$`)
	every(t, d.Write.DB, `SET default_transaction_read_only = on`)
	_, err := st.Create(patience.Context(t), pgtest.Unkeyed())
	if err == nil || fault.As(err) != nil || errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("create on a read-only server = %v; want an outage at once", err)
	}
	if !exists(t, d.SQL(), batch[0].Saga.ID) {
		t.Error("the first saga is not there")
	}
}

func TestIdleConnectionsThatTheServerHasClosedAreNotUsed(t *testing.T) {
	t.Parallel()
	dsn := testdb.DSN(t)
	d := pgtest.Connect(t, dsn)
	pgtest.Registered(t, d)
	st := sagadb.NewSagas(d)
	own := pgtest.Observer(t, dsn)
	for round := range 5 {
		if _, err := st.Create(t.Context(), pgtest.Unkeyed()); err != nil {
			t.Fatal(err)
		}
		if _, err := st.Register(t.Context(), "n", "", time.Minute); err != nil {
			t.Fatal(err)
		}
		pgtest.Execute(t, own, `SELECT pg_terminate_backend(pid, 10000) FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()`)
		if r, err := st.Create(t.Context(), pgtest.Unkeyed()); err != nil || r[0].Created != saga.Stored {
			t.Errorf("round %d: create = %v, %v; want it stored at the first try", round, r, err)
		}
		if _, err := st.Load(t.Context(), pgtest.RefsOf(pgtest.Big)); err != nil {
			t.Errorf("round %d: read: %v", round, err)
		}
		if _, err := st.Register(t.Context(), "n", "", time.Minute); err != nil {
			t.Errorf("round %d: lease: %v", round, err)
		}
	}
}

// database/sql repeats a statement whose connection broke before a response arrived. A repeated
// create would then find the saga that it stored itself, and be refused as a duplicate.
func TestAWriteWhoseAnswerIsLostIsUnknownAndNotRepeated(t *testing.T) {
	t.Parallel()
	dsn := testdb.DSN(t)
	d, p := through(t, dsn)
	pgtest.Registered(t, d)
	st := sagadb.NewSagas(d)
	own := pgtest.Observer(t, dsn)
	for range 3 { // prepare the statement on each connection
		if _, err := st.Create(t.Context(), pgtest.Unkeyed()); err != nil {
			t.Fatal(err)
		}
	}
	p.mute.Store(true)
	batch := pgtest.Unkeyed()
	r, err := st.Create(t.Context(), batch)
	if err == nil || fault.As(err) != nil {
		t.Errorf("create = %v, %v; want an unknown outcome", r, err)
	}
	if !exists(t, own, batch[0].Saga.ID) {
		t.Error("the saga is not there: the test tests nothing")
	}
	if r, err := st.Create(t.Context(), pgtest.Unkeyed()); err != nil || r[0].Created != saga.Stored {
		t.Errorf("create afterwards = %v, %v", r, err)
	}
}

// The server restarts repeatedly under a client that creates without a pause. 57P01, 57P03,
// refused and broken connections are all outages.
func TestARestartOfTheServerLosesNoCommitAndReportsNoFalseOne(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	start := func() *devpg.Server {
		s, err := devpg.Start(t.Context(), devpg.Config{Dir: dir, Exclusive: true,
			Settings: map[string]string{"fsync": "off"}})
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	server := start()
	t.Cleanup(func() { _ = server.Stop(context.Background()) })
	if err := db.Migrate(t.Context(), server.DSN(devpg.Database)); err != nil {
		t.Fatal(err)
	}
	d, p := through(t, server.DSN(devpg.Database))
	pgtest.Registered(t, d)
	st := sagadb.NewSagas(d)
	var told []uuid.UUID // of the goroutine below, until it has finished
	var stored, failed atomic.Int64
	var stop atomic.Bool
	// busy returns when n more creates of the client have been stored.
	busy := func(n int64) {
		goal := stored.Load() + n
		patience.Until(t, fmt.Sprintf("%d more creates are stored", n), func() bool { return stored.Load() >= goal })
	}
	defer stop.Store(true)
	finished := make(chan struct{})
	go func() {
		defer close(finished)
		for !stop.Load() {
			batch := pgtest.Unkeyed()
			r, err := st.Create(context.Background(), batch)
			switch {
			case err == nil && r[0].Created == saga.Stored:
				told = append(told, batch[0].Saga.ID)
				stored.Add(1)
			case err == nil || fault.As(err) != nil:
				t.Errorf("create = %v, %v; want it stored or an outage", r, err)
			default:
				failed.Add(1)
				time.Sleep(time.Millisecond) // like the engine's backoff, but shorter
			}
		}
	}()
	for range 3 {
		busy(30)
		if err := server.Stop(t.Context()); err != nil {
			t.Fatal(err)
		}
		server = start()
		moved := net.JoinHostPort("127.0.0.1", fmt.Sprint(server.Port()))
		p.target.Store(&moved)
	}
	busy(30)
	stop.Store(true)
	<-finished
	var there int
	if err := d.SQL().QueryRowContext(t.Context(), `SELECT count(*) FROM saga.saga_states WHERE id = ANY ($1)`, pq.Array(told)).Scan(&there); err != nil {
		t.Fatal(err)
	}
	t.Logf("%d creates told as stored, %d outages", len(told), failed.Load())
	if there != len(told) || failed.Load() == 0 {
		t.Errorf("%d sagas of %d that were told as stored are there, %d outages", there, len(told), failed.Load())
	}
}
