package participant_test

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"net/http"
	"sync"
	"testing"

	"github.com/lib/pq"

	"github.com/skald-saga/skald/api/participant"
	"github.com/skald-saga/skald/internal/test/testdb"
)

// wire records what is sent over the connections of a connector.
type wire struct {
	driver.Connector
	mu   sync.Mutex
	sent []string // guarded by mu
}

func (w *wire) Connect(ctx context.Context) (driver.Conn, error) {
	inner, err := w.Connector.Connect(ctx)
	return tapped{inner, w}, err
}

func (w *wire) note(query string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.sent = append(w.sent, query)
}

// take returns what was sent since the previous call.
func (w *wire) take() (sent []string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	sent, w.sent = w.sent, nil
	return sent
}

type tapped struct {
	driver.Conn
	w *wire
}

func (c tapped) ExecContext(ctx context.Context, query string, args []driver.NamedValue) (driver.Result, error) {
	c.w.note(query)
	return c.Conn.(driver.ExecerContext).ExecContext(ctx, query, args)
}

func (c tapped) QueryContext(ctx context.Context, query string, args []driver.NamedValue) (driver.Rows, error) {
	c.w.note(query)
	return c.Conn.(driver.QueryerContext).QueryContext(ctx, query, args)
}

func (c tapped) BeginTx(ctx context.Context, opts driver.TxOptions) (driver.Tx, error) {
	return c.Conn.(driver.ConnBeginTx).BeginTx(ctx, opts)
}

// tap returns a database with one connection, over which the store's statements are sent with BEGIN
// and COMMIT.
func tap(t *testing.T) (*sql.DB, *wire, participant.Store) {
	t.Helper()
	dsn := testdb.Empty(t)
	migrate(t, dsn)
	inner, err := pq.NewConnector(dsn)
	if err != nil {
		t.Fatal(err)
	}
	w := &wire{Connector: inner}
	db := sql.OpenDB(participant.Connector(w))
	db.SetMaxOpenConns(1)
	t.Cleanup(func() { _ = db.Close() })
	store, err := participant.SQL(db, participant.PostgreSQL)
	if err != nil {
		t.Fatal(err)
	}
	return db, w, store
}

const insertEffect = `INSERT INTO effects VALUES ($1)`

func TestTheStoreCostsNoRoundTrip(t *testing.T) {
	_, w, store := tap(t)
	h, err := participant.New(participant.Config{Store: store, Execute: func(
		ctx context.Context, tx *sql.Tx, c *participant.Call,
	) (any, error) {
		_, err := tx.ExecContext(ctx, insertEffect, c.Key)
		return nil, err
	}})
	if err != nil {
		t.Fatal(err)
	}
	for _, try := range []struct {
		saga string
		sent int
		what string
	}{
		{"a", 4, "the first call prepares"},
		{"b", 3, "BEGIN, the function's statement, COMMIT"},
		{"b", 3, "a repeat: BEGIN, the row, ROLLBACK"},
		{`it's \' and "; --`, 3, "a name with every quote"},
		{`it's \' and "; --`, 3, "and its repeat"},
	} {
		if got := called(t.Context(), h, try.saga); got != http.StatusOK {
			t.Errorf("%s: %d", try.what, got)
		}
		if sent := w.take(); len(sent) != try.sent {
			t.Errorf("%s: %d messages, want %d: %q", try.what, len(sent), try.sent, sent)
		}
	}
}

// Whatever happened on the connection before, a call is done once and leaves the connection usable.
func TestAConnectionThatIsShared(t *testing.T) {
	db, w, store := tap(t)
	count, body := 0, func(context.Context, *sql.Tx) error { return nil }
	h, err := participant.New(participant.Config{Store: store, Execute: func(
		ctx context.Context, tx *sql.Tx, c *participant.Call,
	) (any, error) {
		count++
		if _, err := tx.ExecContext(ctx, insertEffect, c.Key); err != nil {
			return nil, err
		}
		return count, body(ctx, tx)
	}})
	if err != nil {
		t.Fatal(err)
	}
	var own *sql.Stmt
	sent := func(query string) func() {
		return func() {
			if _, err := db.ExecContext(t.Context(), query); err != nil {
				t.Fatal(err)
			}
		}
	}
	for name, try := range map[string]struct {
		before func()
		body   func(context.Context, *sql.Tx) error
		want   int
	}{
		"nothing":                     {want: http.StatusOK},
		"statements were deallocated": {before: sent(`DEALLOCATE ALL`), want: http.StatusOK},
		"backslashes are plain":       {before: sent(`SET standard_conforming_strings = off`), want: http.StatusOK},
		"a transaction of another kind": {before: func() {
			tx, err := db.BeginTx(t.Context(), &sql.TxOptions{Isolation: sql.LevelSerializable, ReadOnly: true})
			if err != nil {
				t.Fatal(err)
			}
			if err := tx.Commit(); err != nil {
				t.Fatal(err)
			}
		}, want: http.StatusOK},
		"a statement of the database": {before: func() {
			if own, err = db.PrepareContext(t.Context(), `SELECT 1`); err != nil {
				t.Fatal(err)
			}
		}, body: func(ctx context.Context, tx *sql.Tx) error {
			var one int
			return tx.StmtContext(ctx, own).QueryRowContext(ctx).Scan(&one)
		}, want: http.StatusOK},
		"a failed statement that is ignored": {body: func(ctx context.Context, tx *sql.Tx) error {
			_, _ = tx.ExecContext(ctx, `SELECT 1/0`)
			return nil
		}, want: http.StatusInternalServerError},
		"statements deallocated within": {body: func(ctx context.Context, tx *sql.Tx) error {
			_, err := tx.ExecContext(ctx, `DEALLOCATE ALL`)
			return err
		}, want: http.StatusInternalServerError},
		"a constraint that fails at the commit": {body: func(ctx context.Context, tx *sql.Tx) error {
			_, err := tx.ExecContext(ctx, `CREATE TEMP TABLE late (n int UNIQUE DEFERRABLE INITIALLY DEFERRED) ON COMMIT DROP;
				INSERT INTO late VALUES (1), (1)`)
			return err
		}, want: http.StatusInternalServerError},
	} {
		t.Run(name, func(t *testing.T) {
			if try.before != nil {
				try.before()
			}
			count, body = 0, func(context.Context, *sql.Tx) error { return nil }
			if try.body != nil {
				body = try.body
			}
			if got := called(t.Context(), h, name); got != try.want {
				t.Errorf("%d; want %d: %q", got, try.want, w.take())
			}
			body = func(context.Context, *sql.Tx) error { return nil }
			if got := called(t.Context(), h, name); got != http.StatusOK {
				t.Errorf("repeated: %d: %q", got, w.take())
			}
			var effects int
			err := db.QueryRowContext(t.Context(), `SELECT count(*) FROM effects WHERE key = $1`, name+"/x/execute").Scan(&effects)
			if err != nil || effects != 1 || try.want == http.StatusOK && count != 1 {
				t.Errorf("%d effects, %d calls of the function, %v", effects, count, err)
			}
		})
	}
}

func TestOpenOfWhatDoesNotExist(t *testing.T) {
	if _, err := participant.Open("no such driver", ""); err == nil {
		t.Error("no error")
	}
}
