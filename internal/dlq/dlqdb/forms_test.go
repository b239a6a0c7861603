package dlqdb_test

import (
	"context"
	"database/sql"
	"fmt"
	"sync"
	"testing"

	"github.com/google/uuid"

	"github.com/skald-saga/skald/internal/dlq"
	"github.com/skald-saga/skald/internal/test/patience"
	"github.com/skald-saga/skald/internal/test/pgtest"
)

// lastVersion stores a record in the way of a node of the previous version: at a place without the
// id of its topic. The letters it stores are first in the table stored_before.
type lastVersion struct {
	t    *testing.T
	look *sql.DB
	conn *sql.Conn
}

// lastVersionOf does not store anything yet. Its record is the one in m.arrived.
func lastVersionOf(t *testing.T, m pgtest.LetterQueue, offset int64, payload string) lastVersion {
	t.Helper()
	if n, err := m.Queue.Arrive(t.Context(), []dlq.Arrival{m.Arrived(uuid.Nil, offset, payload)}); err != nil || n != 1 {
		t.Fatal(n, err)
	}
	raw := pgtest.RawTables(t, m.Dsn)
	pgtest.Execute(t, raw, `CREATE TABLE public.stored_before AS SELECT * FROM dlq.dlq_messages`)
	pgtest.Execute(t, raw, `DELETE FROM dlq.dlq_messages`)
	conn, err := raw.Conn(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	return lastVersion{t, raw, conn}
}

func (v lastVersion) execute(statement string) (rows int64) {
	done, err := v.conn.ExecContext(context.WithoutCancel(v.t.Context()), statement)
	if err != nil {
		v.t.Errorf("%s: %v", statement, err)
		return 0
	}
	rows, err = done.RowsAffected()
	if err != nil {
		v.t.Error(err)
	}
	return rows
}

const storeAsBefore = `INSERT INTO dlq.dlq_messages OVERRIDING SYSTEM VALUE SELECT * FROM public.stored_before ON CONFLICT DO NOTHING`

// waiting blocks until a statement waits for a lock, or done is closed.
func (v lastVersion) waiting(done <-chan struct{}, statement string) {
	v.t.Helper()
	patience.Until(v.t, statement+" waits for a lock, or ends", func() bool {
		select {
		case <-done:
			return true
		default:
		}
		return pgtest.Ask[int](v.t, v.look, `SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock' AND query LIKE $1`, "%"+statement+"%") > 0
	})
}

// A node of the previous version and a newer one store the same record at the same time. The second
// one sees the letter of the first.
func TestARecordThatNodesOfTwoVersionsStoreAtOnceIsOneLetter(t *testing.T) {
	t.Parallel()
	for _, batched := range []bool{false, true} { // whether other, new letters arrive with it
		t.Run(fmt.Sprint("the last version first, batched: ", batched), func(t *testing.T) {
			t.Parallel()
			m := pgtest.NewLetterQueue(t)
			last := lastVersionOf(t, m, 7, "a")
			life := pgtest.NewID()
			batch, want := []dlq.Arrival{m.Arrived(life, 7, "a")}, 0
			if batched {
				batch, want = append(batch, m.Arrived(life, 100, "x")), 1
			}
			last.execute(`BEGIN`)
			if n := last.execute(storeAsBefore); n != 1 {
				t.Fatalf("the last version has stored %d", n)
			}
			stored, done := 0, make(chan struct{})
			go func() {
				defer close(done)
				var err error
				if stored, err = m.Queue.Arrive(t.Context(), batch); err != nil {
					t.Error(err)
				}
			}()
			last.waiting(done, "places_in_doubt")
			last.execute(`COMMIT`)
			<-done
			if n := pgtest.Ask[int](t, last.look, `SELECT count(*) FROM dlq.dlq_messages`); stored != want || n != len(batch) {
				t.Errorf("%d of %d stored beside that of the last version; there are %d letters", stored, len(batch), n)
			}
		})
	}
	t.Run("the newer version first", func(t *testing.T) {
		t.Parallel()
		m := pgtest.NewLetterQueue(t)
		last := lastVersionOf(t, m, 7, "a")
		group, err := last.look.BeginTx(t.Context(), nil) // the newer node waits for it when its letter is inserted
		if err != nil {
			t.Fatal(err)
		}
		defer group.Rollback() //nolint:errcheck // after Commit it does nothing
		if _, err := group.ExecContext(t.Context(), `SELECT FROM dlq.dlq_groups FOR UPDATE`); err != nil {
			t.Fatal(err)
		}
		var both sync.WaitGroup
		newer, older := make(chan struct{}), make(chan struct{})
		both.Go(func() {
			defer close(newer)
			if n, err := m.Queue.Arrive(t.Context(), []dlq.Arrival{m.Arrived(pgtest.NewID(), 7, "a")}); err != nil || n != 1 {
				t.Errorf("the newer version has stored %d: %v", n, err)
			}
		})
		last.waiting(newer, "places_in_doubt")
		both.Go(func() {
			defer close(older)
			if n := last.execute(storeAsBefore); n != 0 {
				t.Errorf("the last version has stored it too")
			}
		})
		last.waiting(older, "stored_before")
		if err := group.Commit(); err != nil {
			t.Fatal(err)
		}
		both.Wait()
		if n := pgtest.Ask[int](t, last.look, `SELECT count(*) FROM dlq.dlq_messages`); n != 1 {
			t.Errorf("%d letters of one record", n)
		}
	})
}

// While brokers are replaced, one node receives the id of a topic and another does not.
func TestNodesWithAndWithoutTheTopicIDStoreARecordOnce(t *testing.T) {
	t.Parallel()
	m := pgtest.NewLetterQueue(t)
	const rounds, records = 10, 20
	for round := range int64(rounds) {
		life := pgtest.NewID()
		var nodes sync.WaitGroup
		for node := range 4 {
			nodes.Go(func() {
				var batch []dlq.Arrival
				for i := range int64(records) {
					id := life
					if node%2 == 0 || node == 3 && i%2 == 0 { // the last node receives it only now and then
						id = uuid.Nil
					}
					batch = append(batch, m.Arrived(id, 1000*round+i, fmt.Sprint("record ", i)))
				}
				if _, err := m.Queue.Arrive(t.Context(), batch); err != nil {
					t.Error(err)
				}
			})
		}
		nodes.Wait()
	}
	if n := pgtest.Ask[int](t, pgtest.Connect(t, m.Dsn).SQL(), `SELECT count(*) FROM dlq.dlq_messages`); n != rounds*records {
		t.Errorf("%d letters of %d records", n, rounds*records)
	}
}
