package postgres_test

import (
	"context"
	"database/sql"
	"testing"
	"time"

	"github.com/jmoiron/sqlx"

	"github.com/skald-saga/skald/internal/fault"
	"github.com/skald-saga/skald/internal/postgres"
	"github.com/skald-saga/skald/internal/postgres/devpg"
	"github.com/skald-saga/skald/internal/test/patience"
	"github.com/skald-saga/skald/internal/test/pgtest"
)

// alone is a primary whose synchronous standby is absent, so each commit waits for it.
type alone struct {
	t   *testing.T
	db  *postgres.DB
	own *sql.DB // its commits wait for no standby
}

func startAlone(t *testing.T) *alone {
	t.Helper()
	server, err := devpg.Start(t.Context(), devpg.Config{Dir: t.TempDir(), Exclusive: true,
		Settings: map[string]string{"fsync": "off"}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = server.Stop(context.Background()) })
	dsn := server.DSN(devpg.Database)
	a := &alone{t, nil, pgtest.Observer(t, pgtest.With(t, dsn, "synchronous_commit", "local"))}
	pgtest.Execute(t, a.own, `CREATE TABLE public.words (word text)`)
	// A role that wants to hear of errors only.
	pgtest.Execute(t, a.own, `DO $$ BEGIN EXECUTE format('ALTER ROLE %I SET client_min_messages = error', current_user); END $$`)
	a.db = opened(t, postgres.Config{DSN: dsn, Unsecured: true})
	return a
}

// standby sets the name of the standby that commits wait for; "" means that they wait for none.
func (a *alone) standby(name string) {
	a.t.Helper()
	pgtest.Execute(a.t, a.own, `ALTER SYSTEM SET synchronous_standby_names = '`+name+`'`)
	pgtest.Execute(a.t, a.own, `SELECT pg_reload_conf()`)
	// Sessions wait once the checkpointer has read the settings as well, and nothing tells.
	patience.Until(a.t, "the settings are read", func() bool { return a.probe() == (name != "") })
}

// probe reports whether commits wait.
func (a *alone) probe() bool {
	done := make(chan struct{})
	ctx, cancel := context.WithCancel(a.t.Context())
	defer cancel()
	go func() {
		defer close(done)
		_ = a.db.Read.QueryRowContext(ctx, `SELECT pg_logical_emit_message(true, 'test', '') IS NULL`).Scan(new(bool))
	}()
	waits := false
	patience.Until(a.t, "the commit is over, or waits", func() bool {
		select {
		case <-done:
			return true
		default:
			waits = a.waits("")
			return waits
		}
	})
	cancel()
	<-done
	return waits
}

const waiting = `FROM pg_stat_activity WHERE wait_event = 'SyncRep' AND query LIKE '%' || $1 || '%'`

func (a *alone) waits(query string) bool {
	return pgtest.Ask[bool](a.t, a.own, `SELECT count(*) > 0 `+waiting, query)
}

// The ways in which the kit commits, and the word that tells the waiting session.
var commitsOf = map[string]struct {
	session string
	write   func(ctx context.Context, db *postgres.DB, word string) error
}{
	"a transaction of the writers": {"COMMIT", func(ctx context.Context, db *postgres.DB, word string) error {
		return db.InWrite(ctx, func(tx *sqlx.Tx) error {
			return db.ExecIn(ctx, tx, `INSERT INTO public.words VALUES ($1)`, word)
		})
	}},
	"a statement of the writers": {"words", func(ctx context.Context, db *postgres.DB, word string) error {
		return db.WriteEach(ctx, `INSERT INTO public.words VALUES ($1) RETURNING word`,
			func(rows *sql.Rows) error { return rows.Scan(new(string)) }, word)
	}},
	"a statement of the upkeep": {"words", func(ctx context.Context, db *postgres.DB, word string) error {
		_, err := db.Read.ExecContext(ctx, `INSERT INTO public.words VALUES ($1)`, word)
		return err
	}},
	"a statement that returns one row": {"words", func(ctx context.Context, db *postgres.DB, word string) error {
		return db.Read.QueryRowContext(ctx, `INSERT INTO public.words VALUES ($1) RETURNING word`, word).Scan(new(string))
	}},
}

func (a *alone) written(word string) bool {
	return pgtest.Ask[bool](a.t, a.own, `SELECT EXISTS (SELECT FROM public.words WHERE word = $1)`, word)
}

// start calls write and returns when it waits for the standby.
func (a *alone) start(session string, write func() error) <-chan error {
	a.t.Helper()
	answer := make(chan error, 1)
	go func() { answer <- write() }()
	patience.Until(a.t, "the commit waits for the standby", func() bool {
		select {
		case err := <-answer:
			a.t.Fatalf("the commit did not wait for the standby, and returned %v", err)
		default:
		}
		return a.waits(session)
	})
	return answer
}

// Canceling or ending the session of a commit that waits for the standby makes PostgreSQL answer
// that it is committed, with a warning (invariant F63).
func TestACommitThatTheStandbyDidNotConfirmIsUnknown(t *testing.T) {
	t.Parallel()
	a := startAlone(t)
	a.standby("absent")
	for name, c := range commitsOf {
		for _, end := range []string{"pg_cancel_backend", "pg_terminate_backend"} {
			if end == "pg_terminate_backend" && c.session == "words" && name != "a statement of the writers" {
				continue // database/sql repeats statements outside of the writers' pool, and waits again
			}
			word := name + ", " + end
			answer := a.start(c.session, func() error { return c.write(t.Context(), a.db, word) })
			pgtest.Execute(t, a.own, `SELECT `+end+`(pid) `+waiting, c.session)
			err := <-answer
			if err == nil || fault.As(err) != nil || postgres.Collided(err) || postgres.DataError(err) {
				t.Errorf("%s: the commit answered %v; want an unknown outcome", word, err)
			}
			if !a.written(word) {
				t.Errorf("%s: nothing was written, so nothing was tested", word)
			}
		}
	}
}

// A client that hangs up must not leave the outcome of a commit unknown.
func TestTheEndOfAContextDoesNotCancelACommit(t *testing.T) {
	t.Parallel()
	a := startAlone(t)
	for name, c := range commitsOf {
		a.standby("absent")
		ctx, cancel := context.WithCancel(t.Context())
		answer := a.start(c.session, func() error { return c.write(ctx, a.db, name) })
		cancel()
		// If it was canceled, that happens about now.
		for range 20 {
			if time.Sleep(10 * time.Millisecond); !a.waits(c.session) {
				t.Errorf("%s: the end of its context canceled the commit", name)
				break
			}
		}
		a.standby("")
		if err := <-answer; err != nil && !a.written(name) {
			t.Errorf("%s = %v, and nothing was written", name, err)
		}
		if !a.written(name) {
			t.Errorf("%s: nothing was written", name)
		}
	}
}

// What answers in time whether the database takes writes, and what renews leases, ends
// with its context, and does not take a commit without the standby for one.
func TestAReadinessCheckWithoutTheStandbyEndsInTime(t *testing.T) {
	t.Parallel()
	a := startAlone(t)
	a.standby("absent")
	for name, check := range map[string]func(context.Context) error{
		"readiness": func(ctx context.Context) error {
			return a.db.Read.QueryRowContext(ctx, `SELECT pg_logical_emit_message(true, 'test', 'words') IS NULL`).Scan(new(bool))
		},
		"a lease": func(ctx context.Context) error {
			_, err := a.db.Lease.ExecContext(ctx, `INSERT INTO public.words VALUES ('lease')`)
			return err
		},
	} {
		ctx, cancel := context.WithCancel(t.Context())
		answer := a.start("words", func() error { return check(ctx) })
		cancel()
		if err := <-answer; err == nil {
			t.Errorf("%s without the standby succeeded", name)
		}
	}
}
