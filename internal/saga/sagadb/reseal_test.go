package sagadb_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"

	"github.com/skald-saga/skald/internal/postgres"
	"github.com/skald-saga/skald/internal/saga"
	"github.com/skald-saga/skald/internal/saga/sagadb"
	"github.com/skald-saga/skald/internal/test/pgtest"
	"github.com/skald-saga/skald/internal/test/testdb"
)

// Sagas keep changing on nodes with both keys while their stored content is sealed again.
func TestContentIsSealedAgainWhileSagasRun(t *testing.T) {
	t.Parallel()
	dsn := testdb.DSN(t)
	old, fresh := pgtest.ConnectWith(t, dsn, pgtest.Keyring(t, pgtest.KeyOne+","+pgtest.KeyTwo)),
		pgtest.ConnectWith(t, pgtest.PlainLogin(t, dsn), pgtest.Keyring(t, pgtest.KeyTwo+","+pgtest.KeyOne))
	pgtest.Registered(t, old)
	ended := withCanary(t, sagadb.NewSagas(old))
	nodes := []*sagadb.Sagas{sagadb.NewSagas(old), sagadb.NewSagas(fresh)}
	work, stop := context.WithCancel(t.Context())
	defer stop()
	var passes sync.WaitGroup
	passes.Go(func() {
		for work.Err() == nil {
			_, err := fresh.Reseal(work, sagadb.SealedTables(), postgres.Resealing{}, 7, func(postgres.Resealing) {})
			if err != nil && work.Err() == nil {
				t.Error(err)
				return
			}
		}
	})
	var load sync.WaitGroup
	stored := make([][]saga.Instance, 6)
	for i := range stored {
		load.Go(func() {
			for range 10 {
				n := pgtest.Unkeyed()
				n[0].Payload = pgtest.Says(fmt.Sprint(i))
				if r, err := nodes[i%2].Create(t.Context(), n); err != nil || r[0].Created != saga.Stored {
					t.Error(r, err)
					return
				}
				run := saga.NewInstance(n[0].Saga, pgtest.Order)
				for step := range 3 {
					c := pgtest.Applied(run, pgtest.Done())
					if errs, err := nodes[(i+step)%2].Commit(t.Context(), []saga.Change{c}); err != nil || errs[0] != nil {
						t.Error(errs, err)
						return
					}
					run = c.After
				}
				stored[i] = append(stored[i], run)
			}
		})
	}
	load.Wait()
	stop()
	passes.Wait()

	stamps := `SELECT string_agg(concat_ws(' ', id, version, updated_at), ',' ORDER BY id) FROM saga.saga_states`
	before := pgtest.Ask[string](t, old.SQL(), stamps)
	done, err := fresh.Reseal(t.Context(), sagadb.SealedTables(), postgres.Resealing{}, 0, func(postgres.Resealing) {})
	if err != nil || len(done.Left) > 0 {
		t.Fatalf("%+v, %v", done, err)
	}
	if after := pgtest.Ask[string](t, old.SQL(), stamps); after != before {
		t.Errorf("versions and times were\n%s\nand are\n%s", before, after)
	}
	if all := dump(t, old.SQL()); strings.Contains(all, "v1.one.") || !strings.Contains(all, "v1.two.") {
		t.Error("the old key is still necessary")
	}
	alone := sagadb.NewSagas(pgtest.ConnectWith(t, dsn, pgtest.Keyring(t, pgtest.KeyTwo)))
	for i, all := range stored {
		for _, run := range all {
			s, err := alone.Get(t.Context(), run.Tenant.ID, run.ID)
			if err != nil || string(s.Payload) != string(pgtest.Says(fmt.Sprint(i))) || s.Version != run.Version {
				t.Errorf("saga %s: %+v, %v; want version %d", run.ID, s, err, run.Version)
			}
		}
	}
	l, err := alone.Load(t.Context(), pgtest.RefsOf(ended.ID))
	if err != nil || len(l) != 1 {
		t.Fatal(l, err)
	}
	if diff := cmp.Diff([]any{ended.Payload, ended.Result, ended.Error, ended.Interventions},
		[]any{l[0].Saga.Payload, l[0].Saga.Result, l[0].Saga.Error, l[0].Saga.Interventions}); diff != "" {
		t.Errorf("read with the new key alone (-want +got):\n%s", diff)
	}
}

// A node that dies leaves a record of its progress, and another node continues from there. A value
// that was moved from its place is left as it is, and is reported together with the key that it
// needs.
func TestSealingAgainContinuesAfterACrashAndLeavesWhatWasMoved(t *testing.T) {
	t.Parallel()
	dsn := testdb.DSN(t)
	old, fresh := pgtest.ConnectWith(t, dsn, pgtest.Keyring(t, pgtest.KeyOne)),
		pgtest.ConnectWith(t, dsn, pgtest.Keyring(t, pgtest.KeyTwo+","+pgtest.KeyOne))
	pgtest.Registered(t, old)
	var ids []uuid.UUID
	for range 20 {
		n := pgtest.Unkeyed()
		n[0].Payload = pgtest.Says("payload")
		if r, err := sagadb.NewSagas(old).Create(t.Context(), n); err != nil || r[0].Created != saga.Stored {
			t.Fatal(r, err)
		}
		ids = append(ids, n[0].ID)
	}
	pgtest.Execute(t, old.SQL(), `UPDATE saga.saga_states s SET payload = o.payload
		FROM saga.saga_states o WHERE s.id = $1 AND o.id = $2`, ids[0], ids[1])
	payload := `SELECT payload::text FROM saga.saga_states WHERE id = '` + ids[0].String() + `'`
	moved := pgtest.Ask[string](t, old.SQL(), payload)

	crash := errors.New("the node died")
	var at postgres.Resealing
	ctx, die := context.WithCancelCause(t.Context())
	_, err := fresh.Reseal(ctx, sagadb.SealedTables(), postgres.Resealing{}, 6, func(st postgres.Resealing) {
		if at = st; st.Rows >= 6 {
			die(crash)
		}
	})
	if err == nil || at.Resealed["saga.saga_states"] == 0 || at.Resealed["saga.saga_states"] >= 19 {
		t.Fatalf("came to %+v, %v", at, err)
	}
	begun := time.Now()
	var next []int64
	done, err := fresh.Reseal(t.Context(), sagadb.SealedTables(), at, 6, func(st postgres.Resealing) {
		next = append(next, st.Rows)
	})
	if err != nil || done.Resealed["saga.saga_states"] != 19 || next[0] <= at.Rows {
		t.Errorf("after %s it is %+v, %v, having begun at %d of %d", time.Since(begun), done, err, next[0], at.Rows)
	}
	if diff := cmp.Diff(map[string]map[string]int64{"one": {"saga.saga_states": 1}}, done.Left); diff != "" {
		t.Errorf("what is left (-want +got):\n%s", diff)
	}
	if is := pgtest.Ask[string](t, old.SQL(), payload); is != moved {
		t.Error("a value that is not in its place was written")
	}
}
