package postgres_test

import (
	"context"
	"errors"
	"testing"

	"github.com/jmoiron/sqlx"
	"github.com/lib/pq"
	"github.com/lib/pq/pqerror"

	"github.com/skald-saga/skald/internal/postgres"
	"github.com/skald-saga/skald/internal/test/testdb"
)

func TestAPlanThatBecameStaleIsMadeAgain(t *testing.T) {
	t.Parallel()
	dsn := testdb.DSN(t)
	db := opened(t, postgres.Config{DSN: dsn, Unsecured: true})
	ctx := t.Context()
	if _, err := db.Read.ExecContext(ctx, `CREATE TABLE public.widgets (a int); INSERT INTO public.widgets VALUES (1)`); err != nil {
		t.Fatal(err)
	}
	read, err := db.Read.PreparexContext(ctx, `SELECT * FROM public.widgets`)
	if err != nil {
		t.Fatal(err)
	}
	defer read.Close()
	var got map[string]any
	for _, change := range []string{"", `ALTER TABLE public.widgets ADD b int`, `ALTER TABLE public.widgets ALTER a TYPE bigint`} {
		if change != "" {
			if _, err := db.Write.ExecContext(ctx, change); err != nil {
				t.Fatal(err)
			}
		}
		got = map[string]any{}
		if err := read.QueryRowxContext(ctx).MapScan(got); err != nil {
			t.Fatalf("after %q: %v", change, err)
		}
	}
	if len(got) != 2 {
		t.Errorf("read %v", got)
	}
}

func TestACommitThatRollsBackIsAnError(t *testing.T) {
	t.Parallel()
	db := opened(t, postgres.Config{DSN: testdb.DSN(t), Unsecured: true})
	for name, spoil := range map[string]string{
		"a statement failed":         `SELECT 1/0`,
		"a deferred check fails":     `CREATE TEMP TABLE c (a int UNIQUE DEFERRABLE INITIALLY DEFERRED) ON COMMIT DROP; INSERT INTO c VALUES (1), (1)`,
		"the transaction was ended":  `ROLLBACK`,
		"an aborted one was chained": `ROLLBACK AND CHAIN; SELECT 1/0`,
	} {
		err := db.InWrite(context.WithoutCancel(t.Context()), func(tx *sqlx.Tx) error {
			_, _ = tx.ExecContext(t.Context(), spoil) // as if the caller overlooked this error
			return nil
		})
		if err == nil {
			t.Errorf("%s: the commit is said to have succeeded", name)
		}
	}
}

// Each class of failure has its treatment; any other failure is an outage, which clients see as
// 503 and which is not retried automatically.
func TestSQLStatesHaveTheirTreatment(t *testing.T) {
	t.Parallel()
	for code, want := range map[string]string{
		"40001": "collided", "40P01": "collided", "55P03": "collided",
		"57014": "timed out",
		"22003": "data", "23505": "data", "54000": "data",
		"53100": "disk", "53200": "memory", "53300": "connections", "53400": "resources",
		"25006": "", "08006": "", "57P01": "", "XX000": "", "0A000": "",
	} {
		err := errors.Join(errors.New("claim"), &pq.Error{Code: pqerror.Code(code)})
		got := postgres.Exhausted(err)
		for name, is := range map[string]bool{
			"collided": postgres.Collided(err), "timed out": postgres.TimedOut(err), "data": postgres.DataError(err),
		} {
			if is {
				got += name
			}
		}
		if got != want {
			t.Errorf("%s is %q, want %q", code, got, want)
		}
	}
}
