package sagadb_test

import (
	"bytes"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/skald-saga/skald/internal/fault"
	"github.com/skald-saga/skald/internal/saga"
	"github.com/skald-saga/skald/internal/saga/sagadb"
	"github.com/skald-saga/skald/internal/test/pgtest"
	"github.com/skald-saga/skald/internal/test/testdb"
)

func TestKeysExpireByAgeInBatches(t *testing.T) {
	t.Parallel()
	dsn := testdb.DSN(t)
	db, holder := pgtest.Connect(t, dsn), pgtest.Observer(t, dsn)
	st := sagadb.NewSagas(db)
	pgtest.Execute(t, db.SQL(), `INSERT INTO saga.idempotency_keys (tenant_id, principal, route, key, request_hash, saga_id, created_at)
		SELECT $1, 'p', 'r', 'k' || i, '', gen_random_uuid(), now() - i * interval '1 minute' FROM generate_series(1, 12000) AS i`, pgtest.Big)
	// Another client holds a lock on one of the old keys, so that key is left for the next run.
	tx, err := holder.BeginTx(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := tx.ExecContext(t.Context(), `SELECT 1 FROM saga.idempotency_keys WHERE key = 'k11000' FOR UPDATE`); err != nil {
		t.Fatal(err)
	}
	day := 1440 * time.Minute
	for i, want := range []int64{12000 - 1440, 0} {
		got, err := st.ExpireKeys(t.Context(), day+30*time.Second)
		if i == 0 {
			want-- // the locked one
		}
		if err != nil || got != want {
			t.Errorf("expired %d keys, %v; want %d", got, err, want)
		}
	}
	if err := tx.Rollback(); err != nil {
		t.Fatal(err)
	}
	if got, err := st.ExpireKeys(t.Context(), day+30*time.Second); err != nil || got != 1 {
		t.Errorf("expired %d keys, %v; want the one that was locked", got, err)
	}
	var left, youngest int
	if err := db.SQL().QueryRowContext(t.Context(), `SELECT count(*), max(substr(key, 2)::int) FROM saga.idempotency_keys`).Scan(&left, &youngest); err != nil {
		t.Fatal(err)
	}
	if left != 1440 || youngest != 1440 {
		t.Errorf("%d keys are left, the oldest is %d minutes old; want 1440 of the last 1440 minutes", left, youngest)
	}
}

func TestNodesShareASecret(t *testing.T) {
	t.Parallel()
	dsn := testdb.DSN(t)
	secrets := make([][]byte, 8)
	var wg sync.WaitGroup
	for i := range secrets {
		db := pgtest.Connect(t, dsn)
		wg.Go(func() {
			var err error
			if secrets[i], err = db.Secret(t.Context(), "cursors"); err != nil {
				t.Errorf("secret: %v", err)
			}
		})
	}
	wg.Wait()
	for _, s := range secrets {
		if len(s) != 32 || !bytes.Equal(s, secrets[0]) {
			t.Errorf("secret of %d bytes; want 32, the same for all", len(s))
		}
	}
	if other, err := pgtest.Connect(t, dsn).Secret(t.Context(), "another"); err != nil || bytes.Equal(other, secrets[0]) {
		t.Errorf("another name has the same secret, or %v", err)
	}
}

// The database's limits are the last check; the API's limits are narrower.
func TestTextsThatAreTooLongAreUnstorable(t *testing.T) {
	t.Parallel()
	db := pgtest.Connect(t, testdb.DSN(t))
	pgtest.Registered(t, db)
	st := sagadb.NewSagas(db)
	long := strings.Repeat("ñ", 256)
	for name, change := range map[string]func(*saga.NewSaga){
		"business key": func(n *saga.NewSaga) { n.BusinessKey = &long },
		"correlation":  func(n *saga.NewSaga) { n.CorrelationID = &long },
		"caller":       func(n *saga.NewSaga) { n.InitiatedBy = long },
		"key":          func(n *saga.NewSaga) { n.Key.Key = long },
		"NUL":          func(n *saga.NewSaga) { n.InitiatedBy = "a\x00b" },
		"not UTF-8":    func(n *saga.NewSaga) { n.InitiatedBy = "a\xffb" },
		"region":       func(n *saga.NewSaga) { n.Tenant.Region = long[:66] },
		"major":        func(n *saga.NewSaga) { n.Tenant.Major = 65536 },
	} {
		batch := pgtest.SomeSagas(2)
		change(&batch[0])
		results, err := st.Create(t.Context(), batch)
		if err != nil || results[0].Created != saga.Unstorable || results[1].Created != saga.Stored {
			t.Errorf("%s: %s; want unstorable, its neighbour stored", name, fmt.Sprint(results[0].Created, results[1].Created, err))
		}
	}
	results, err := st.Create(t.Context(), pgtest.SomeSagas(1))
	if err != nil {
		t.Fatal(err)
	}
	c := pgtest.Applied(saga.NewInstance(results[0].Saga, pgtest.Order), pgtest.Done())
	c.Logs[0].Outcome = &long
	errs, err := st.Commit(t.Context(), []saga.Change{c})
	if err != nil || !fault.IsCode(errs[0], saga.CodeUnstorable) {
		t.Errorf("outcome: %v, %v; want unstorable", errs, err)
	}
}
