package postgres_test

import (
	"testing"
	"time"

	"github.com/skald-saga/skald/internal/retry"
	"github.com/skald-saga/skald/internal/saga"
	"github.com/skald-saga/skald/internal/saga/sagadb"
	"github.com/skald-saga/skald/internal/test/pgtest"
	"github.com/skald-saga/skald/internal/test/testdb"
)

// Only differences of a node's clock count: a saga is due by the database's clock, whichever
// node scheduled it, and whichever node asks.
func TestSagasOfANodeWithAWrongClockAreDueInTime(t *testing.T) {
	t.Parallel()
	for name, wrong := range map[string]time.Duration{"fast": 5 * time.Minute, "slow": -5 * time.Minute} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			db := pgtest.Connect(t, testdb.DSN(t))
			pgtest.Registered(t, db)
			st, there := sagadb.NewSagas(db), pgtest.Now().Add(wrong)
			dueIn := func(s saga.Saga) (ms int64) {
				if err := db.SQL().QueryRowContext(t.Context(), `SELECT (1000 * extract(epoch FROM next_run_at - clock_timestamp()))::bigint FROM saga.saga_states WHERE id = $1`, s.ID).Scan(&ms); err != nil {
					t.Fatal(err)
				}
				return ms
			}

			batch := pgtest.SomeSagas(2)
			for i := range batch {
				batch[i].CreatedAt, batch[i].UpdatedAt = there, there
			}
			free, owned := &batch[0].Saga, &batch[1].Saga
			free.LeaseOwner, free.LeaseEpoch, free.Attempt, free.StartedAt, free.NextRunAt = nil, 0, 0, nil, &there
			owned.RetryPolicy = &retry.Policy{MaxAttempts: 3, InitialIntervalMS: 20_000}
			if results, err := st.Create(t.Context(), batch); err != nil || results[0].Created != saga.Stored ||
				results[1].Created != saga.Stored {
				t.Fatal(results, err)
			}
			if ms := dueIn(*free); ms > 0 || ms < -60_000 {
				t.Errorf("a saga without an owner is due in %d ms, not now", ms)
			}
			refused := saga.Answered{Outcome: saga.Outcome{Verdict: saga.NotApplied, Class: retry.Network,
				Code: "connection_refused", StartedAt: there, EndedAt: there}}
			retried, err := saga.Apply(saga.NewInstance(*owned, pgtest.Order), refused,
				saga.Moment{Now: there, NewID: pgtest.NewID})
			if err != nil {
				t.Fatal(err)
			}
			wait := retried.After.NextRunAt.Sub(there)
			pgtest.Commit(t, st, []saga.Change{retried})
			if ms := dueIn(*owned); ms > wait.Milliseconds() || ms < wait.Milliseconds()-60_000 || wait <= 0 {
				t.Errorf("a saga that waits %v is due in %d ms", wait, ms)
			}
			var before, after time.Time
			row := `SELECT next_run_at FROM saga.saga_states WHERE id = $1`
			if err := db.SQL().QueryRowContext(t.Context(), row, owned.ID).Scan(&before); err != nil {
				t.Fatal(err)
			}
			loaded, err := st.Load(t.Context(), pgtest.RefsOf(owned.ID))
			if err != nil || len(loaded) != 1 {
				t.Fatal(loaded, err)
			}
			longer, err := saga.Apply(saga.NewInstance(loaded[0].Saga, pgtest.Order), saga.DeadlineSet{TimeoutMS: 600_000},
				saga.Moment{Now: there, NewID: pgtest.NewID})
			if err != nil {
				t.Fatal(err)
			}
			pgtest.Commit(t, st, []saga.Change{longer})
			if err := db.SQL().QueryRowContext(t.Context(), row, owned.ID).Scan(&after); err != nil || !after.Equal(before) {
				t.Errorf("a change that has nothing to do with it moves the time from %v to %v, %v", before, after, err)
			}
		})
	}
}
