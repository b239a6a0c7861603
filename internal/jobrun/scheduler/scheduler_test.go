package scheduler_test

import (
	"bytes"
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"
	_ "github.com/lib/pq"

	"github.com/skald-saga/skald/internal/jobrun"
	"github.com/skald-saga/skald/internal/jobrun/jobdb"
	"github.com/skald-saga/skald/internal/jobrun/leaderdb"
	"github.com/skald-saga/skald/internal/jobrun/schedule"
	"github.com/skald-saga/skald/internal/jobrun/scheduler"
	"github.com/skald-saga/skald/internal/postgres"
	"github.com/skald-saga/skald/internal/test/patience"
	"github.com/skald-saga/skald/internal/test/testdb"
)

// world contains a database, and the schedulers of its nodes.
type world struct {
	db     *postgres.DB
	see    *sql.DB // superuser connection
	tenant uuid.UUID
	set    map[string]float64
}

func newID() uuid.UUID { return uuid.Must(uuid.NewV7()) }

func newWorld(t testing.TB) *world {
	t.Helper()
	dsn := testdb.DSN(t)
	db, err := postgres.Open(t.Context(), postgres.Config{DSN: dsn})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(db.Close)
	see, err := sql.Open("postgres", dsn)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { see.Close() })
	return &world{db, see, newID(), map[string]float64{jobrun.LeaderTTL: 3, jobrun.LeaderTick: 0.1}}
}

func (w *world) exec(t testing.TB, statement string, args ...any) {
	t.Helper()
	if _, err := w.see.ExecContext(t.Context(), statement, args...); err != nil {
		t.Fatalf("%s: %v", statement, err)
	}
}

func (w *world) count(t testing.TB, query string, args ...any) (n int) {
	t.Helper()
	if err := w.see.QueryRowContext(t.Context(), query, args...).Scan(&n); err != nil {
		t.Fatalf("%s: %v", query, err)
	}
	return n
}

// define stores a definition whose schedule has been processed up to a given time.
func (w *world) define(t testing.TB, spec jobrun.Spec, upTo time.Time) uuid.UUID {
	t.Helper()
	id := newID()
	spec.CommandName = "c"
	doc, err := json.Marshal(spec)
	if err != nil {
		t.Fatal(err)
	}
	w.exec(t, `INSERT INTO jobs.job_definitions (id, tenant_id, name, type, command_name, spec, last_materialized_at, next_due_at, created_at, updated_at)
		VALUES ($1, $2, gen_random_uuid(), $3, 'c', $4, $5, $5, now(), now())`, id, w.tenant, spec.Type, string(doc), upTo)
	w.exec(t, `INSERT INTO jobs.job_definition_versions (definition_id, tenant_id, spec_version, spec, created_at) VALUES ($1, $2, 1, $3, now())`, id, w.tenant, string(doc))
	return id
}

func timed(typ schedule.Type, value, zone string) jobrun.Spec {
	return jobrun.Spec{Type: jobrun.OnTime, Schedule: &schedule.Spec{Type: typ, Value: value, Timezone: zone}}
}

// node is one scheduler and what it has reported.
type node struct {
	*scheduler.Scheduler
	id     uuid.UUID
	epoch  atomic.Int64 // 0 unless it leads
	rounds atomic.Int64
	stop   func() // waits until it has ended

	mu    sync.Mutex
	swept map[string]int           // successful sweeps, by name; guarded by mu
	took  map[string]time.Duration // guarded by mu
}

func (n *node) count(sweep string) int {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.swept[sweep]
}

// config returns the common configuration of the nodes of w.
func (w *world) config() scheduler.Config {
	return scheduler.Config{
		Elections: leaderdb.NewElections(w.db),
		Sweeps:    leaderdb.NewSweeps(jobdb.NewDB(w.db, jobrun.Chance{Jitter: rand.Float64, NewID: newID}, nil)),
		Settings:  func(context.Context) (jobrun.Settings, error) { return jobrun.NewSettings(1, w.set), nil },
		NewID:     newID, Log: slog.New(slog.NewTextHandler(io.Discard, nil)),
	}
}

// start runs a scheduler until the test ends.
func start(t testing.TB, cfg scheduler.Config) *node {
	t.Helper()
	n := &node{id: newID(), swept: map[string]int{}, took: map[string]time.Duration{}}
	cfg.ID, cfg.Node = n.id, n.id.String()
	cfg.Observer = scheduler.Observer{
		Leads: func(leads bool, epoch int64) {
			if !leads {
				epoch = 0
			}
			n.epoch.Store(epoch)
		},
		Round: func() { n.rounds.Add(1) },
		Swept: func(name string, _ int, took time.Duration, err error) {
			n.mu.Lock()
			defer n.mu.Unlock()
			n.took[name] += took
			if err == nil {
				n.swept[name]++
			}
		},
	}
	n.Scheduler = scheduler.New(cfg)
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	done := make(chan struct{})
	go func() { defer close(done); n.Run(ctx) }()
	n.stop = func() { cancel(); <-done }
	t.Cleanup(n.stop)
	return n
}

// lasting wraps elections in which a lease lasts longer than any test, unless its holder resigns.
type lasting struct{ jobrun.Elections }

func (l lasting) Acquire(ctx context.Context, id uuid.UUID, node string, _ time.Duration) (jobrun.Term, bool, error) {
	return l.Elections.Acquire(ctx, id, node, time.Hour)
}

func TestALeaderThatStopsIsFollowedAtOnce(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	cfg := w.config()
	cfg.Elections = lasting{cfg.Elections}
	a := start(t, cfg)
	patience.Until(t, "the first leads", func() bool { return a.epoch.Load() == 1 && a.rounds.Load() > 2 })
	b := start(t, cfg)
	patience.Until(t, "the second stands by", func() bool { return w.count(t, `SELECT count(*) FROM jobs.schedulers`) == 2 })
	if b.epoch.Load() != 0 {
		t.Error("two lead")
	}
	a.stop()
	if a.epoch.Load() != 0 {
		t.Error("it leads after its end")
	}
	patience.Until(t, "the second leads before the lease ends", func() bool { return b.epoch.Load() == 2 })
	if n := w.count(t, `SELECT count(*) FROM jobs.schedulers`); n != 1 {
		t.Errorf("%d are listed", n)
	}
	b.stop()
	if n := w.count(t, `SELECT count(*) FROM jobs.leader WHERE expires_at > now()`); n != 0 {
		t.Error("a lease is left behind")
	}
}

// cutOff wraps elections that a node cannot reach once cut is set. Its calls hang, as those of a
// paused process do.
type cutOff struct {
	jobrun.Elections
	cut atomic.Bool
}

func (c *cutOff) Acquire(ctx context.Context, id uuid.UUID, node string, ttl time.Duration) (jobrun.Term, bool, error) {
	if c.cut.Load() {
		<-ctx.Done()
		return jobrun.Term{}, false, ctx.Err()
	}
	return c.Elections.Acquire(ctx, id, node, ttl)
}

func (c *cutOff) StepDown(ctx context.Context, t jobrun.Term) error {
	if c.cut.Load() {
		<-ctx.Done()
		return ctx.Err()
	}
	return c.Elections.StepDown(ctx, t)
}

// A leader that cannot renew its lease stops. Package lease shows with a fake clock that it stops
// before another node leads, which happens within the lease's length and two seconds.
func TestALeaderThatCannotRenewStopsBeforeItsLeaseEnds(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	cfg := w.config()
	cut := &cutOff{Elections: cfg.Elections}
	cfg.Elections = cut
	a := start(t, cfg)
	patience.Until(t, "the first leads", func() bool { return a.rounds.Load() > 0 })
	cfg.Elections = lasting{cut.Elections}
	b := start(t, cfg)
	cut.cut.Store(true)
	patience.Until(t, "the second leads", func() bool {
		second := b.epoch.Load() // read before the first, so that two leaders at once would be detected
		if first := a.epoch.Load(); first != 0 && second != 0 {
			t.Fatalf("epochs %d and %d at once", first, second)
		}
		return second > 1
	})
	cut.cut.Store(false) // another node now has its lease
	rounds := a.rounds.Load()
	patience.Until(t, "rounds of the second", func() bool { return b.rounds.Load() > 20 })
	if a.rounds.Load() != rounds || a.epoch.Load() != 0 {
		t.Error("the first one goes on")
	}
}

// A leader that is deposed by an operator notices and stops, and another one leads.
func TestADeposedLeaderStops(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	a := start(t, w.config())
	patience.Until(t, "the first leads", func() bool { return a.epoch.Load() == 1 })
	b := start(t, w.config())
	patience.Until(t, "the second stands by", func() bool { return w.count(t, `SELECT count(*) FROM jobs.schedulers`) == 2 })
	w.exec(t, `UPDATE jobs.leader SET expires_at = clock_timestamp()`)
	patience.Until(t, "another one leads", func() bool { return b.epoch.Load() > 1 && a.epoch.Load() == 0 })
}

// F44: a call that hangs is canceled, and the other sweeps continue. F48 and O5: a failure is
// reported, and a round with a failure does not count as successful.
func TestASweepThatHangsOrFailsDoesNotStopTheOthers(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	cfg := w.config()
	cfg.Timeout = 300 * time.Millisecond
	var hangs atomic.Bool
	hangs.Store(true)
	cfg.More = []scheduler.Sweep{
		{Name: "hangs", Run: func(ctx context.Context, _ jobrun.Term, _ jobrun.Settings, _ int) (jobrun.Swept, error) {
			if hangs.Load() {
				<-ctx.Done()
				return jobrun.Swept{}, ctx.Err()
			}
			return jobrun.Swept{}, nil
		}}}
	a := start(t, cfg)
	patience.Until(t, "the others go on", func() bool { return a.count("admit") >= 3 && a.count("slots") >= 3 })
	if a.rounds.Load() != 0 || a.count("hangs") != 0 {
		t.Error("a round with a failure counts")
	}
	hangs.Store(false)
	patience.Until(t, "rounds", func() bool { return a.rounds.Load() > 0 })
}

// An item that a sweep cannot process is logged, at growing intervals, and the round still counts
// as successful. Otherwise a damaged bulk operation would look like a leader that does not work.
func TestWhatASweepCannotDoIsLoggedAndTheRoundCounts(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	cfg := w.config()
	damaged := newID()
	var logged, rounds atomic.Int64
	cfg.Log = slog.New(slog.NewTextHandler(writer(func(line []byte) {
		if bytes.Contains(line, []byte(damaged.String())) {
			logged.Add(1)
		}
	}), nil))
	cfg.More = []scheduler.Sweep{
		{Name: "bulks", Run: func(context.Context, jobrun.Term, jobrun.Settings, int) (jobrun.Swept, error) {
			rounds.Add(1)
			return jobrun.Swept{Failed: []jobrun.Failure{{What: "bulk", ID: damaged, Err: errors.New("damaged")}}}, nil
		}}}
	a := start(t, cfg)
	patience.Until(t, "rounds", func() bool { return rounds.Load() > 20 && a.rounds.Load() > 5 })
	if n := logged.Load(); n == 0 || n > rounds.Load()/2 {
		t.Errorf("logged %d times in %d rounds", n, rounds.Load())
	}
}

type writer func([]byte)

func (w writer) Write(p []byte) (int, error) { w(p); return len(p), nil }

// F48: a leader that cannot start its term steps down completely.
func TestALeaderThatCannotBeginStepsDown(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	cfg := w.config()
	cfg.Settings = func(context.Context) (jobrun.Settings, error) {
		return jobrun.NewSettings(1, w.set), errors.New("no settings")
	}
	a := start(t, cfg)
	patience.Until(t, "it has stepped down", func() bool {
		return w.count(t, `SELECT count(*) FROM jobs.leader WHERE epoch >= 1 AND expires_at <= now()`) == 1
	})
	b := start(t, w.config())
	patience.Until(t, "another one leads", func() bool { return b.rounds.Load() > 0 })
	if a.count("slots") != 0 {
		t.Error("it swept")
	}
}

// A leader whose sweeps all fail steps down, so that another node can try.
func TestALeaderWithoutProgressStepsDown(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	cfg := w.config()
	cfg.Stalled = 500 * time.Millisecond
	broken := &brokenSweeps{Sweeps: cfg.Sweeps}
	cfg.Sweeps = broken
	a := start(t, cfg)
	patience.Until(t, "the first leads", func() bool { return a.rounds.Load() > 0 })
	b := start(t, w.config())
	patience.Until(t, "the second stands by", func() bool { return w.count(t, `SELECT count(*) FROM jobs.schedulers`) == 2 })
	broken.broken.Store(true)
	patience.Until(t, "another one leads", func() bool { return b.rounds.Load() > 0 })
}

// brokenSweeps wraps sweeps, all of which hang once broken is set.
type brokenSweeps struct {
	jobrun.Sweeps
	broken atomic.Bool
}

func (b *brokenSweeps) Now(ctx context.Context) (time.Time, error) {
	if b.broken.Load() {
		<-ctx.Done()
		return time.Time{}, ctx.Err()
	}
	return b.Sweeps.Now(ctx)
}

// A run whose key becomes free is admitted when the leader is woken, without waiting for the next
// sweep.
func TestAWokenLeaderAdmitsAtOnce(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.set[jobrun.LeaderTick] = 60
	d := w.define(t, jobrun.Spec{Type: jobrun.OnDemand}, time.Now())
	run := func() uuid.UUID {
		id := newID()
		w.exec(t, `INSERT INTO jobs.job_runs (id, tenant_id, definition_id, definition_name, spec_version, command_name, trigger, scheduled_for, available_at,
			idempotency_key, concurrency_key, concurrency_policy, root_run_id, created_at, updated_at)
			VALUES ($1, $2, $3, 'd', 1, 'c', 'MANUAL', now(), now(), gen_random_uuid(), 'key', 'queue', $1, now(), now())`, id, w.tenant, d)
		return id
	}
	first := run()
	a := start(t, w.config())
	admitted := func(id uuid.UUID) func() bool {
		return func() bool {
			return w.count(t, `SELECT count(*) FROM jobs.job_runs WHERE id = $1 AND admitted_at IS NOT NULL`, id) == 1
		}
	}
	patience.Until(t, "the first is admitted", admitted(first))
	patience.Until(t, "the round is over", func() bool { return a.rounds.Load() == 1 })
	second := run()
	w.exec(t, `UPDATE jobs.job_runs SET state = 'CANCELED', version = version + 1, finished_at = now() WHERE id = $1`, first)
	a.Wake()
	patience.Until(t, "the second is admitted", admitted(second))
}
