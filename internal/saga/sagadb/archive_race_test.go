package sagadb_test

import (
	"context"
	"fmt"
	"sync"
	"testing"

	"github.com/google/uuid"

	"github.com/skald-saga/skald/internal/fault"
	"github.com/skald-saga/skald/internal/page"
	"github.com/skald-saga/skald/internal/postgres"
	"github.com/skald-saga/skald/internal/retry"
	"github.com/skald-saga/skald/internal/saga"
	"github.com/skald-saga/skald/internal/saga/sagadb"
	"github.com/skald-saga/skald/internal/test/pgtest"
	"github.com/skald-saga/skald/internal/test/testdb"
)

// driver drives sagas on one node and remembers what it has committed.
type driver struct {
	t  *testing.T
	st *sagadb.Sagas

	mu   sync.Mutex
	runs map[uuid.UUID]saga.Instance
	logs map[uuid.UUID]int
}

func (d *driver) begin() saga.Instance {
	n := pgtest.SomeSagas(1)
	results, err := d.st.Create(d.t.Context(), n)
	if err != nil || results[0].Created != saga.Stored {
		d.t.Fatalf("create: %+v, %v", results, err)
	}
	return d.keep(saga.NewInstance(results[0].Saga, pgtest.Order), 0)
}

func (d *driver) keep(run saga.Instance, logs int) saga.Instance {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.runs[run.ID] = run
	d.logs[run.ID] += logs
	return run
}

func (d *driver) play(run saga.Instance, events ...saga.Event) saga.Instance {
	for _, e := range events {
		c := pgtest.Applied(run, e)
		pgtest.Commit(d.t, d.st, []saga.Change{c})
		run = d.keep(c.After, len(c.Logs))
	}
	return run
}

func refusal() saga.Event {
	return saga.Answered{Outcome: saga.Outcome{
		Verdict: saga.Refused, Class: retry.Refused, Code: "http_409", Request: []byte(`{}`), StartedAt: pgtest.Now(),
		EndedAt: pgtest.Now(),
	}}
}

// Several nodes create, end, reopen, archive and restore sagas at the same time, and some of them
// lose their connections. In the end each saga exists exactly once and is complete (invariant D4,
// failure F41, trap X1).
func TestNoSagaIsLostOrDuplicatedWhileNodesArchiveAndRestore(t *testing.T) {
	t.Parallel()
	const rounds = 60
	dsn := testdb.DSN(t)
	db := pgtest.Connect(t, dsn)
	pgtest.Registered(t, db)
	d := &driver{t: t, st: sagadb.NewSagas(db), runs: map[uuid.UUID]saga.Instance{}, logs: map[uuid.UUID]int{}}

	over := make(chan struct{})
	var others, drivers sync.WaitGroup
	until := func(f func(ctx context.Context)) {
		others.Go(func() {
			for {
				select {
				case <-over:
					return
				default:
					f(t.Context())
				}
			}
		})
	}
	// Errors of these nodes may leave work undone, but must not leave it half done.
	var archived, restored, lost counter
	for range 3 {
		node, err := postgres.Open(t.Context(), postgres.Config{DSN: dsn, Application: "cleaner"})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(node.Close)
		st := sagadb.NewSagas(node)
		until(func(ctx context.Context) {
			n, err := st.ArchiveExpired(ctx, pgtest.Once, 7)
			archived.add(n)
			lost.addIf(err != nil)
		})
		until(func(ctx context.Context) {
			found, err := st.ListArchived(ctx, pgtest.Big, saga.Filter{ByTime: page.ByTime{Limit: 3}})
			lost.addIf(err != nil)
			for _, a := range found.Items {
				err := st.Restore(ctx, saga.Restoration{TenantID: pgtest.Big, SagaID: a.Saga.ID,
					Event: a.Saga.Restored("op", "", "op", "", pgtest.Now())})
				restored.addIf(err == nil)
				lost.addIf(fault.As(err) == nil && err != nil)
			}
		})
	}
	killer, holder := pgtest.Observer(t, dsn), pgtest.Observer(t, dsn)
	until(func(ctx context.Context) {
		if _, err := killer.ExecContext(ctx, `SELECT pg_sleep(0.005), pg_terminate_backend(pid) FROM (
			SELECT pid FROM pg_stat_activity WHERE datname = current_database() AND application_name = 'cleaner api' AND state <> 'idle' LIMIT 1) AS victim`); err != nil {
			t.Errorf("kill: %v", err)
		}
	})
	until(func(ctx context.Context) { // another client locks ended sagas
		tx, err := holder.BeginTx(ctx, nil)
		if err == nil {
			_, err = tx.ExecContext(ctx, `SELECT id, pg_sleep(0.001) FROM (SELECT id FROM saga.saga_states WHERE completed_at IS NOT NULL LIMIT 3 FOR UPDATE SKIP LOCKED) AS held`)
			_ = tx.Rollback()
		}
		if err != nil {
			t.Errorf("hold: %v", err)
		}
	})
	for range 2 {
		drivers.Go(func() {
			for i := range rounds {
				switch run := d.begin(); i % 3 {
				case 0:
					d.play(run, pgtest.Done(), pgtest.Done(), pgtest.Done())
				case 1:
					d.play(run, refusal())
				default: // a compensation gives up and is resumed, and then the saga ends
					run = d.play(run, pgtest.Done(), refusal(), refusal())
					if run.State != saga.Failed {
						t.Errorf("the saga is %s", run.State)
					}
					d.play(run, saga.ResumeRequested{By: "op"}, pgtest.Done())
				}
			}
		})
	}
	drivers.Wait()
	close(over)
	others.Wait()

	if archived.n == 0 || restored.n == 0 || lost.n == 0 {
		t.Errorf("%d sagas were archived and %d restored, %d connections lost: nothing was tested", archived.n, restored.n, lost.n)
	}
	t.Logf("%d sagas: %d times archived, %d times restored, %d calls lost", len(d.runs), archived.n, restored.n, lost.n)
	if n := pgtest.Ask[int](t, db.SQL(), `SELECT (SELECT count(*) FROM saga.saga_states) + (SELECT count(*) FROM saga.saga_states_archive)`); n != len(d.runs) {
		t.Errorf("%d sagas are live or archived, %d were created", n, len(d.runs))
	}
	if n := pgtest.Ask[int](t, db.SQL(), `SELECT count(*) FROM saga.saga_events WHERE event_type = 'saga.restored'`); n < restored.n || n > restored.n+lost.n {
		t.Errorf("%d events for %d restores and %d lost answers", n, restored.n, lost.n)
	}
	for id, run := range d.runs {
		where, logs := "live", 0
		got, err := d.st.Get(t.Context(), pgtest.Big, id)
		a, archErr := d.st.GetArchived(t.Context(), pgtest.Big, id, saga.Logs{})
		if (err == nil) == (archErr == nil) {
			t.Fatalf("saga %s: live %v, archived %v", id, err, archErr)
		}
		if archErr == nil {
			where, got = "archived", a.Saga
		}
		for table, place := range map[string]string{"saga.saga_step_logs": "live",
			"saga.saga_step_logs_archive": "archived"} {
			n := pgtest.Ask[int](t, db.SQL(), `SELECT count(*) FROM `+table+` WHERE saga_id = $1`, id)
			if logs += n; n > 0 && place != where {
				t.Errorf("saga %s is %s and has %d logs %s", id, where, n, place)
			}
		}
		if logs != d.logs[id] || got.Version != run.Version || got.State != run.State {
			t.Errorf("%s saga %s: %s, version %d, %d logs; its driver left it %s, version %d, %d logs",
				where, id, got.State, got.Version, logs, run.State, run.Version, d.logs[id])
		}
	}
}

type counter struct {
	mu sync.Mutex
	n  int
}

func (c *counter) add(n int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.n += n
}

func (c *counter) addIf(yes bool) {
	if yes {
		c.add(1)
	}
}

func TestLockedSagasAreLeftForTheNextRun(t *testing.T) {
	t.Parallel()
	dsn := testdb.DSN(t)
	db := pgtest.Connect(t, dsn)
	pgtest.Registered(t, db)
	pgtest.Ended(t, db, 20)
	st := sagadb.NewSagas(db)
	tx, err := pgtest.Observer(t, dsn).BeginTx(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := tx.ExecContext(t.Context(), `SELECT 1 FROM saga.saga_states WHERE correlation_id IN ('c3', 'c7') FOR UPDATE`); err != nil {
		t.Fatal(err)
	}
	var got []int
	archive := func() {
		n, err := st.ArchiveExpired(t.Context(), pgtest.Once, 10)
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, n)
	}
	archive()
	archive()
	archive()
	if err := tx.Rollback(); err != nil {
		t.Fatal(err)
	}
	archive()
	archive()
	if fmt.Sprint(got) != "[10 8 0 2 0]" {
		t.Errorf("archived %v; want 10 and 8, nothing while two are held, and then those", got)
	}
}
