package jobdb_test

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"
	"github.com/jmoiron/sqlx"

	"github.com/skald-saga/skald/internal/audit/operator"
	"github.com/skald-saga/skald/internal/fault"
	"github.com/skald-saga/skald/internal/jobrun"
	"github.com/skald-saga/skald/internal/jobrun/jobdb"
	"github.com/skald-saga/skald/internal/jobrun/leaderdb"
	"github.com/skald-saga/skald/internal/test/patience"
	"github.com/skald-saga/skald/internal/test/pgtest"
	"github.com/skald-saga/skald/internal/test/testdb"
)

func TestALeaderLeadsUntilItsLeaseEnds(t *testing.T) {
	t.Parallel()
	dsn := testdb.DSN(t)
	db, see := pgtest.Connect(t, dsn), pgtest.Observer(t, dsn)
	e := leaderdb.NewElections(db)
	a, b := uuid.New(), uuid.New()
	acquire := func(id uuid.UUID) (int64, bool) {
		t.Helper()
		term, leads, err := e.Acquire(t.Context(), id, "node "+id.String()[:4], time.Minute)
		if err != nil || leads && term.LeaderID != id {
			t.Fatalf("%+v, %v", term, err)
		}
		return term.Epoch, leads
	}
	expect := func(what string, id uuid.UUID, epoch int64) {
		t.Helper()
		if got, leads := acquire(id); got != epoch || leads != (epoch > 0) {
			t.Errorf("%s: epoch %d, leads %v; want %d", what, got, leads, epoch)
		}
	}
	expect("the first one", a, 1)
	expect("another one", b, 0)
	expect("a renewal", a, 1)
	pgtest.Expire(t, see)
	expect("after the lease", b, 2)
	expect("the former leader", a, 0)
	if err := e.StepDown(t.Context(), jobrun.Term{LeaderID: b, Epoch: 1}); err != nil {
		t.Fatal(err)
	}
	expect("stepping down from a term that is over", b, 2)
	if err := e.StepDown(t.Context(), jobrun.Term{LeaderID: b, Epoch: 2}); err != nil {
		t.Fatal(err)
	}
	expect("the same one after its lease has ended", b, 3)
	got, err := e.Leadership(t.Context())
	if err != nil || len(got.Standbys) != 2 || got.Standbys[0].IsLeader || !got.Standbys[1].IsLeader {
		t.Errorf("standbys %+v, %v", got.Standbys, err)
	}
	want := got
	want.Epoch, want.LeaderID, want.Alive = 3, b, true
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("leadership (-want +got):\n%s", diff)
	}
	if err := e.Gone(t.Context(), a); err != nil {
		t.Fatal(err)
	}
	if got, err = e.Leadership(t.Context()); err != nil || len(got.Standbys) != 1 {
		t.Errorf("%+v, %v", got, err)
	}
}

func TestAnOperatorDeposesTheLeader(t *testing.T) {
	t.Parallel()
	dsn := testdb.DSN(t)
	db := pgtest.Connect(t, dsn)
	e := leaderdb.NewElections(db)
	by := operator.By{Actor: "ada", Reason: "a try"}.Did(uuid.New(), uuid.New(), time.Now(), operator.JobScheduler, "node",
		"step-down", nil)
	if err := e.ForceResign(t.Context(), by); fault.KindOf(err) != fault.Conflict {
		t.Errorf("without a leader: %v", err)
	}
	if got, err := e.Leadership(t.Context()); err != nil || got.Alive || got.Epoch != 0 {
		t.Errorf("%+v, %v", got, err)
	}
	pgtest.Lead(t, e, time.Minute)
	if err := e.ForceResign(t.Context(), by); err != nil {
		t.Fatal(err)
	}
	if got, err := e.Leadership(t.Context()); err != nil || got.Alive || got.Epoch != 1 {
		t.Errorf("%+v, %v", got, err)
	}
	if n := pgtest.Ask[int](t, pgtest.Observer(t, dsn), `SELECT count(*) FROM saga.audit_actions WHERE verb = 'step-down' AND actor = 'ada'`); n != 1 {
		t.Errorf("%d actions", n)
	}
}

func TestOfManyContendersOneLeadsAndEpochsGrow(t *testing.T) {
	t.Parallel()
	dsn := testdb.DSN(t)
	see := pgtest.Observer(t, dsn)
	const contenders, rounds = 8, 20
	elections := make([]*leaderdb.Elections, contenders)
	ids := make([]uuid.UUID, contenders)
	for i := range elections {
		if i%2 == 0 { // two contenders share each database handle, so that they also compete for its connections
			elections[i] = leaderdb.NewElections(pgtest.Connect(t, dsn))
		} else {
			elections[i] = elections[i-1]
		}
		ids[i] = uuid.New()
	}
	for round := range rounds {
		var leaders, epoch atomic.Int64
		var all sync.WaitGroup
		for i := range elections {
			all.Go(func() {
				term, leads, err := elections[i].Acquire(t.Context(), ids[i], "node", time.Minute)
				if err != nil {
					t.Error(err)
				}
				if leads {
					leaders.Add(1)
					epoch.Store(term.Epoch)
				}
			})
		}
		all.Wait()
		if leaders.Load() != 1 || epoch.Load() != int64(round+1) {
			t.Fatalf("round %d: %d leaders, epoch %d", round, leaders.Load(), epoch.Load())
		}
		pgtest.Expire(t, see)
	}
}

// J5: a write of the leader and the change of the epoch cannot commit in the wrong order, however
// long the leader is paused in between.
func TestALeadersWriteAndTheNextEpochAreSerialised(t *testing.T) {
	t.Parallel()
	dsn := testdb.DSN(t)
	db, see := pgtest.Connect(t, dsn), pgtest.Observer(t, dsn)
	e := leaderdb.NewElections(db)
	term := pgtest.Lead(t, e, time.Minute)
	inside, resume, wrote := make(chan struct{}), make(chan struct{}), make(chan error, 1)
	go func() {
		wrote <- jobdb.AsLeader(context.WithoutCancel(t.Context()), db, term, func(tx *sqlx.Tx) error {
			close(inside)
			<-resume
			_, err := tx.ExecContext(context.WithoutCancel(t.Context()), `UPDATE jobs.leader SET swept_at = clock_timestamp() WHERE epoch = $1`, term.Epoch)
			return err
		})
	}()
	<-inside
	// The leader's own renewals do not wait for the write.
	if again, leads, err := e.Acquire(t.Context(), term.LeaderID, "node", time.Minute); err != nil || !leads ||
		again.Epoch != term.Epoch {
		t.Fatalf("renewal: %+v, %v, %v", again, leads, err)
	}
	pgtest.Expire(t, see)
	taken := make(chan jobrun.Term, 1)
	go func() {
		for {
			next, leads, err := e.Acquire(context.WithoutCancel(t.Context()), uuid.New(), "next", time.Minute)
			if err == nil && leads {
				taken <- next
				return
			}
		}
	}()
	patience.Until(t, "the takeover waits for the write", func() bool {
		return pgtest.Ask[int](t, see, `SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock' AND query LIKE '%jobs.leader%'`) > 0
	})
	select {
	case next := <-taken:
		t.Fatalf("epoch %d began while a write of epoch %d was open", next.Epoch, term.Epoch)
	default:
	}
	close(resume)
	if err := <-wrote; err != nil {
		t.Errorf("the write came before the next epoch: %v", err)
	}
	if next := <-taken; next.Epoch != term.Epoch+1 {
		t.Errorf("epoch %d", next.Epoch)
	}
	err := jobdb.AsLeader(t.Context(), db, term, func(*sqlx.Tx) error { t.Error("wrote under an epoch that is over"); return nil })
	if f := fault.As(err); f == nil || f.Code != jobrun.CodeNoLeader {
		t.Errorf("%v", err)
	}
}

// A leader that is paused in the middle of a write delays its successor for less than
// its lease, and commits nothing when it resumes (J5, F43).
func TestALeaderThatPausesInAWriteLosesItsTransaction(t *testing.T) {
	t.Parallel()
	dsn := testdb.DSN(t)
	db, see := pgtest.Connect(t, dsn), pgtest.Observer(t, dsn)
	e := leaderdb.NewElections(db)
	term := pgtest.Lead(t, e, time.Minute)
	inside, resume, wrote := make(chan struct{}), make(chan struct{}), make(chan error, 1)
	var silence float64 // the number of seconds after which the server ends the write
	go func() {
		wrote <- jobdb.AsLeader(context.WithoutCancel(t.Context()), db, term, func(tx *sqlx.Tx) error {
			if _, err := tx.ExecContext(context.WithoutCancel(t.Context()), `INSERT INTO jobs.settings (name, value, updated_at) VALUES ('zombie', '1', now())`); err != nil {
				return err
			}
			if err := tx.QueryRowContext(context.WithoutCancel(t.Context()), `SELECT extract(epoch FROM current_setting('idle_in_transaction_session_timeout')::interval)`).Scan(&silence); err != nil {
				return err
			}
			close(inside)
			<-resume
			return nil
		})
	}()
	<-inside
	pgtest.Expire(t, see)
	next := uuid.New()
	patience.Until(t, "another leader takes over", func() bool {
		_, leads, err := e.Acquire(t.Context(), next, "next", time.Minute)
		return err == nil && leads
	})
	if lease, _ := jobrun.FindSetting(jobrun.LeaderTTL); silence <= 0 || silence >= lease.Min {
		t.Errorf("a write may be silent for %v s; want less than the shortest lease, %v s", silence, lease.Min)
	}
	close(resume)
	if err := <-wrote; err == nil || errors.Is(err, context.Canceled) {
		t.Errorf("the write of the former leader: %v", err)
	}
	if n := pgtest.Ask[int](t, see, `SELECT count(*) FROM jobs.settings WHERE name = 'zombie'`); n != 0 {
		t.Error("it was committed under the next epoch")
	}
}
