package sagadb_test

import (
	"database/sql"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"

	"github.com/skald-saga/skald/internal/audit/eventtype"
	"github.com/skald-saga/skald/internal/audit/trail"
	"github.com/skald-saga/skald/internal/saga/sagadb"
	"github.com/skald-saga/skald/internal/test/pgtest"
	"github.com/skald-saga/skald/internal/test/storetest"
	"github.com/skald-saga/skald/internal/test/testdb"
)

// Seed 2, section saga_events: 事件类型. state.changed is for changes that none of the other types
// describes.
func TestTheTrailRecordsEveryEventTypeOfTheSeed(t *testing.T) {
	t.Parallel()
	told := storetest.Types(t, pgtest.OpenEnv)
	for _, want := range []eventtype.Type{
		"saga.started", "saga.step.started", "saga.step.completed", "saga.step.failed",
		"saga.completed", "saga.failed", "saga.cancelled", "saga.timed_out",
		"compensation.started", "compensation.step.started", "compensation.step.completed", "compensation.step.failed",
		"compensation.completed", "compensation.failed", "retry.attempted", "retry.exhausted",
	} {
		if !told[want] {
			t.Errorf("no saga has the event %s", want)
		}
	}
}

const insertEvent = `INSERT INTO saga.audit_events (saga_id, tenant_id, event_type, digest) VALUES ($1, $2, 'saga.started', '') RETURNING id`

// A sequence assigns ids when rows are written, not when they are committed. A reader that
// continues after the highest id it has seen loses the rows of transactions that commit late (trap
// X8).
func TestTheFeedWaitsForTransactionsThatCommitLate(t *testing.T) {
	t.Parallel()
	db := pgtest.Connect(t, testdb.DSN(t))
	feed := sagadb.NewTrail(db)
	begin := func() *sql.Tx {
		tx, err := db.SQL().BeginTx(t.Context(), nil)
		if err != nil {
			t.Fatal(err)
		}
		return tx
	}
	write := func(tx *sql.Tx) (id int64) {
		if err := tx.QueryRowContext(t.Context(), insertEvent, completedSaga, pgtest.Big).Scan(&id); err != nil {
			t.Fatal(err)
		}
		return id
	}
	read := func() []int64 {
		got := []int64{}
		events, _, err := feed.Feed(t.Context(), pgtest.Big, trail.Position{}, trail.EventFilter{}, 10)
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range events {
			got = append(got, e.ID)
		}
		return got
	}
	commit := func(tx *sql.Tx) {
		if err := tx.Commit(); err != nil {
			t.Fatal(err)
		}
	}
	late, early := begin(), begin()
	defer late.Rollback() //nolint:errcheck // after a failure only
	first := write(late)
	second := write(early)
	commit(early)
	if got := read(); len(got) != 0 {
		t.Errorf("the feed shows %v while a transaction that began earlier is open", got)
	}
	third := write(late)
	commit(late)
	pgtest.Settle(t, db.SQL())
	if diff := cmp.Diff([]int64{first, third, second}, read()); diff != "" {
		t.Errorf("by transaction, then by id (-want +got):\n%s", diff)
	}
}

func TestSixteenWritersThatCommitOutOfOrderAndOneReader(t *testing.T) {
	t.Parallel()
	dsn := testdb.DSN(t)
	db := pgtest.Connect(t, dsn)
	feed := sagadb.NewTrail(db)
	var mu sync.Mutex
	committed := map[int64]bool{}
	var writers sync.WaitGroup
	for i := range 16 {
		conn := pgtest.Observer(t, dsn)
		writers.Go(func() {
			for n := range 10 {
				tx, err := conn.BeginTx(t.Context(), nil)
				if err != nil {
					t.Error(err)
					return
				}
				var ids []int64
				for range 1 + (i+n)%3 {
					var id int64
					err := tx.QueryRowContext(t.Context(), insertEvent, uuid.New(), pgtest.Big).Scan(&id)
					if err == nil {
						// The server sleeps, so that the order of commits differs from the order of
						// ids.
						_, err = tx.ExecContext(t.Context(), `SELECT pg_sleep($1)`, rand.Float64()/100)
					}
					if err != nil {
						t.Error(err)
						return
					}
					ids = append(ids, id)
				}
				if n%4 == 3 {
					err = tx.Rollback()
					ids = nil
				} else {
					err = tx.Commit()
				}
				if err != nil {
					t.Error(err)
				}
				mu.Lock()
				for _, id := range ids {
					committed[id] = true
				}
				mu.Unlock()
			}
		})
	}
	written := make(chan struct{})
	go func() { writers.Wait(); pgtest.Settle(t, db.SQL()); close(written) }()
	seen, last, disorder := map[int64]bool{}, trail.Position{}, 0
	for at, over := (trail.Position{}), false; ; {
		select {
		case <-written:
			over = true
		default:
		}
		events, end, err := feed.Feed(t.Context(), pgtest.Big, at, trail.EventFilter{}, 7)
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range events {
			if seen[e.ID] || e.Compare(last) <= 0 {
				t.Fatalf("event %v after %v, seen before: %v", e.Position, last, seen[e.ID])
			}
			if e.ID < last.ID {
				disorder++
			}
			seen[e.ID], last = true, e.Position
		}
		if over && end == at {
			break
		}
		at = end
	}
	if diff := cmp.Diff(committed, seen); diff != "" {
		t.Errorf("events (-committed +read):\n%s", diff)
	}
	if disorder == 0 {
		t.Error("no transaction overtook another: the test proves nothing")
	}
}

// A dump contains transaction ids that the new cluster has not reached yet.
func TestTheFeedContinuesAfterARestore(t *testing.T) {
	t.Parallel()
	db := pgtest.Connect(t, testdb.DSN(t))
	feed := sagadb.NewTrail(db)
	var want []int64
	write := func(statement string, args ...any) {
		t.Helper()
		var id int64
		if err := db.SQL().QueryRowContext(t.Context(), statement, append([]any{uuid.New(), pgtest.Big}, args...)...).Scan(
			&id); err != nil {
			t.Fatal(err)
		}
		want = append(want, id)
		pgtest.Settle(t, db.SQL())
	}
	read := func() []int64 {
		t.Helper()
		ids := []int64{}
		events, _, err := feed.Feed(t.Context(), pgtest.Big, trail.Position{}, trail.EventFilter{}, 10)
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range events {
			ids = append(ids, e.ID)
		}
		return ids
	}
	restored := func() int {
		t.Helper()
		var mu sync.Mutex
		n := 0
		var all sync.WaitGroup
		for range 4 { // several nodes that start together
			all.Go(func() {
				yes, err := feed.AfterRestore(t.Context())
				if err != nil {
					t.Error(err)
				}
				mu.Lock()
				defer mu.Unlock()
				if yes {
					n++
				}
			})
		}
		all.Wait()
		return n
	}
	if n := restored(); n != 0 {
		t.Errorf("%d nodes mistake an empty trail for a restored one", n)
	}
	write(insertEvent)
	for _, ahead := range []string{"1000000", "5000000000"} { // twice: the second dump is of a restored database
		if n := restored(); n != 0 {
			t.Errorf("%d nodes mistake their own events for restored ones", n)
		}
		write(`INSERT INTO saga.audit_events (saga_id, tenant_id, event_type, digest, txid)
			VALUES ($1, $2, 'saga.started', '', (pg_current_xact_id()::text::bigint + $3)::text::xid8) RETURNING id`, ahead)
		if got := read(); slices.Contains(got, want[len(want)-1]) {
			t.Errorf("shown too early: %v", got)
		}
		if n := restored(); n != 1 {
			t.Errorf("%d nodes advanced the feed, want one", n)
		}
		write(insertEvent)
		write(insertEvent)
		if diff := cmp.Diff(want, read()); diff != "" {
			t.Errorf("after the restore (-want +got):\n%s", diff)
		}
		if n, err := feed.Seal(t.Context(), pgtest.Big); err != nil || n == 0 {
			t.Errorf("sealed %d, %v", n, err)
		}
	}
}

// testTrailPlans shows that every filter of the feed uses the right index on the large table.
func testTrailPlans(t *testing.T, l large, check func(t *testing.T, p pgtest.Plan, want ...string)) {
	lists := pgtest.InTenant(t, l.db, pgtest.Big)
	at := trail.Position{TxID: 1}
	for _, tt := range []struct {
		name   string
		filter trail.EventFilter
		index  string
	}{
		{"X8 the feed", trail.EventFilter{}, "idx_event_feed"},
		{"S2-99 what went wrong", trail.EventFilter{Types: []eventtype.Type{eventtype.SagaFailed, eventtype.SagaTimedOut}}, "idx_event_type_timestamp"},
		{"common types among others", trail.EventFilter{Types: []eventtype.Type{eventtype.SagaFailed, eventtype.SagaStarted}}, "idx_event_feed"},
		{"one saga", trail.EventFilter{SagaID: completedSaga}, "idx_event_saga_timestamp"},
		{"S2-113 a trace", trail.EventFilter{TraceID: "trace-12000"}, "idx_event_trace_id"},
		{"an actor", trail.EventFilter{Actor: "ann"}, "idx_event_feed"},
	} {
		t.Run("feed: "+tt.name, func(t *testing.T) {
			query, args, _ := sagadb.FeedQuery(pgtest.Big, at, tt.filter, 100)
			p := pgtest.Explain(t, lists, query, args...)
			check(t, p, tt.index, "saga_states_pkey", "idx_event_feed")
			p.Each(func(n pgtest.Plan) {
				if n.Index == "idx_event_feed" && !strings.Contains(n.Cond, "txid") {
					t.Errorf("the feed is read from its beginning:\n%s", p)
				}
			})
		})
	}
	for _, newestFirst := range []bool{false, true} {
		t.Run(fmt.Sprint("S2-111 the history of a saga, newest first: ", newestFirst), func(t *testing.T) {
			query, args := sagadb.EventsQuery(pgtest.Big, completedSaga, trail.EventFilter{}, newestFirst, 5, 100)
			check(t, pgtest.Explain(t, lists, query, args...), "idx_event_saga_timestamp")
		})
	}
}
