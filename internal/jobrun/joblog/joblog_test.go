package joblog_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/lib/pq"

	"github.com/skald-saga/skald/internal/failpoint"
	"github.com/skald-saga/skald/internal/fault"
	"github.com/skald-saga/skald/internal/jobrun"
	"github.com/skald-saga/skald/internal/jobrun/joblog"
	"github.com/skald-saga/skald/internal/jobrun/logstore"
	"github.com/skald-saga/skald/internal/secret/envelope"
)

const (
	week = 7*24*time.Hour + time.Minute // a little more than log_retention_days_db
	year = 366 * 24 * time.Hour         // more than run_retention_days
)

func once(t *testing.T, m *joblog.Mover) joblog.Round {
	t.Helper()
	r, err := m.Once(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// many returns the given number of chunks, every seventh of which is not text.
func many(n int) (chunks []string) {
	for i := range n {
		c := fmt.Sprintf("line %d of many \"chunk_sealed\":\n", i)
		if i%7 == 6 {
			c = "\xff\x00\x80" + c
		}
		chunks = append(chunks, c)
	}
	return chunks
}

func TestOldLogsMoveAndYoungOnesStay(t *testing.T) {
	t.Parallel()
	ring, err := envelope.Parse("k:AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAE=")
	if err != nil {
		t.Fatal(err)
	}
	for name, keys := range map[string]*envelope.Keyring{"plain": nil, "sealed": ring} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, keys)
			old := w.ended(w.tenants[0], week, many(50)...)
			w.ended(w.tenants[1], week, "one\n")
			w.ended(w.tenants[1], week, many(16)...) // exactly one page
			w.ended(w.tenants[0], week)              // this run wrote no log
			w.ended(w.tenants[0], 6*24*time.Hour, "young\n")
			if r := once(t, w.mover()); r.Moved != 3 || r.Failed != 0 || r.Purged != 0 || r.Bytes == 0 {
				t.Errorf("a round: %+v", r)
			}
			if moved := w.whole(); moved != 3 {
				t.Errorf("%d logs have moved", moved)
			}
			if r := once(t, w.mover()); r != (joblog.Round{}) {
				t.Errorf("another round: %+v", r)
			}
			run := w.run(old)
			stored, err := w.store.Get(t.Context(), run.LogRef, 0)
			if err != nil {
				t.Fatal(err)
			}
			defer stored.Close()
			content, err := io.ReadAll(stored)
			if err != nil || strings.Contains(string(content), "of many") == (keys != nil) {
				t.Errorf("what is stored, %v: %.200s", err, content)
			}
		})
	}
}

func TestARefOfAnotherRunIsNotFollowed(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	mine, others := w.ended(w.tenants[0], week, "mine\n"), w.ended(w.tenants[1], week, "secret\n")
	once(t, w.mover())
	run, other := w.run(mine), w.run(others)
	for name, ref := range map[string]string{"another tenant's": other.LogRef, "none": "../../etc/passwd"} {
		run.LogRef = ref
		if chunks, err := w.read(&run); !errors.Is(err, logstore.ErrRef) {
			t.Errorf("%s: %v, %v", name, chunks, err)
		}
	}
}

func TestADamagedOrMissingLogIsTold(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	id := w.ended(w.tenants[0], week, many(50)...)
	once(t, w.mover())
	run := w.run(id)
	path := filepath.Join(w.dir, filepath.FromSlash(run.LogRef))
	content, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	content[5] ^= 1 // decompression does not notice this
	if err := os.WriteFile(path, content, 0o600); err != nil {
		t.Fatal(err)
	}
	if chunks, err := w.read(&run); !errors.Is(err, logstore.ErrCorrupt) {
		t.Errorf("damaged: %d chunks, %v", len(chunks), err)
	}
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	if _, err := w.read(&run); fault.KindOf(err) != fault.NotFound {
		t.Errorf("missing: %v", err)
	}
}

// TestAFailedUploadChangesNothing checks S20.
func TestAFailedUploadChangesNothing(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	for range 5 {
		w.ended(w.tenants[0], week, "a log\n")
	}
	blocked := filepath.Join(w.dir, w.tenants[0].String())
	if err := os.WriteFile(blocked, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	m := w.mover()
	if r := once(t, m); r.Moved != 0 || r.Failed != 3 { // the cause is then the store
		t.Errorf("a round: %+v", r)
	}
	if moved := w.whole(); moved != 0 {
		t.Errorf("%d logs have moved", moved)
	}
	if err := os.Remove(blocked); err != nil {
		t.Fatal(err)
	}
	if r := once(t, m); r.Moved != 5 {
		t.Errorf("the next round: %+v", r)
	}
	w.whole()
}

// TestALogThatCannotBeMovedHoldsNobodyUp checks that such a log is skipped for an hour.
func TestALogThatCannotBeMovedHoldsNobodyUp(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	now := time.Now()
	m := w.mover(func(c *joblog.Config) { c.Now = func() time.Time { return now } })
	first := w.ended(w.tenants[0], week+time.Hour, "x")
	w.ended(w.tenants[1], week, "y")
	blocked := filepath.Join(w.dir, w.tenants[0].String())
	if err := os.WriteFile(blocked, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if r := once(t, m); r.Moved != 1 || r.Failed != 1 {
		t.Errorf("a round: %+v", r)
	}
	if said := w.said.String(); !strings.Contains(said, first.String()) {
		t.Errorf("it is logged: %s", said)
	}
	if err := os.Remove(blocked); err != nil {
		t.Fatal(err)
	}
	if r := once(t, m); r != (joblog.Round{}) {
		t.Errorf("the next round: %+v", r)
	}
	now = now.Add(time.Hour)
	if r := once(t, m); r.Moved != 1 {
		t.Errorf("a round after an hour: %+v", r)
	}
	w.whole()
}

func TestAChunkThatComesMeanwhileKeepsTheLogHere(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	id := w.ended(w.tenants[0], week, "a log\n")
	m := w.mover(func(c *joblog.Config) { c.Chunks = busy{w.jobs, w.db.SQL()} })
	if r := once(t, m); r != (joblog.Round{}) {
		t.Errorf("a round: %+v", r)
	}
	r := w.run(id)
	if chunks, err := w.read(&r); err != nil || len(chunks) != 2 || r.LogRef != "" {
		t.Errorf("ref %q, %d chunks, %v", r.LogRef, len(chunks), err)
	}
}

func TestManyMoversMoveEachLogOnce(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	for range 12 {
		w.ended(w.tenants[rand.IntN(2)], week, many(3)...)
	}
	var all sync.WaitGroup
	for range 3 {
		m := w.mover(func(c *joblog.Config) { c.Log = discard })
		for range 2 {
			all.Go(func() {
				if _, err := m.Once(t.Context()); err != nil {
					t.Error(err)
				}
			})
		}
	}
	all.Wait()
	if moved := w.whole(); moved != 12 {
		t.Errorf("%d logs have moved", moved)
	}
	if n := len(w.stored()); n != 12 {
		t.Errorf("%d objects are stored", n)
	}
}

func TestPurgedRunsTakeTheirStoredLogsAlong(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	young := w.ended(w.tenants[0], week, "young\n")
	for range 3 {
		w.ended(w.tenants[1], week+time.Hour, "old\n")
	}
	once(t, w.mover())
	later := w.mover(func(c *joblog.Config) {
		c.Now = func() time.Time { return time.Now().Add(83*24*time.Hour - 30*time.Minute) }
	})
	if r := once(t, later); r.Purged != 3 {
		t.Errorf("a round after 83 days: %+v", r)
	}
	if got := w.stored(); len(got) != 1 || !strings.Contains(got[0], young.String()) {
		t.Errorf("the store has %v", got)
	}
	w.ended(w.tenants[0], year, "never moved\n")
	if r := once(t, w.mover(func(c *joblog.Config) { c.Store = nil })); r.Purged != 1 || r.Moved != 0 {
		t.Errorf("a round without a store: %+v", r)
	}
}

// forgetful does not record removals, like a node that dies after it has deleted the objects.
type forgetful struct{ jobrun.Offloading }

var errDied = errors.New("the node dies")

func (forgetful) Removed(context.Context, jobrun.LogRemoval) error { return errDied }

// A node dies between deleting the log of an erased run and recording that. The next node deletes
// what is left and records it.
func TestDeletedLogsSurviveACrash(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	for range 3 {
		w.ended(w.tenants[0], week, "old\n")
	}
	once(t, w.mover())
	w.sql(`SELECT saga.purge_contents($1, '{}', '{}', $2::uuid[], '{}')`, w.tenants[0],
		pq.Array(slices.Collect(maps.Keys(w.logs))))
	dying := w.mover(func(c *joblog.Config) { c.Offloading = forgetful{c.Offloading} })
	for range 2 { // the same log again
		if _, err := dying.Once(t.Context()); !errors.Is(err, errDied) || len(w.stored()) != 2 {
			t.Errorf("%v, and %d objects are stored; want one deleted", err, len(w.stored()))
		}
	}
	if r := once(t, w.mover()); r.Erased != 3 || len(w.stored()) > 0 {
		t.Errorf("%+v, and %d objects are stored", r, len(w.stored()))
	}
}

// mover is the program testdata/move, with failpoints.
var movers = sync.OnceValues(func() (string, error) {
	path := filepath.Join(scratch, "move")
	if out, err := exec.Command("go", "build", "-tags", "failpoints", "-o", path,
		"./testdata/move").CombinedOutput(); err != nil {
		return "", fmt.Errorf("build testdata/move: %w\n%s", err, out)
	}
	return path, nil
})

// TestALogSurvivesACrashAtEveryPoint checks F54 and J9 with a real database: at every moment, a log
// is where its run says.
func TestALogSurvivesACrashAtEveryPoint(t *testing.T) {
	t.Parallel()
	program, err := movers()
	if err != nil {
		t.Fatal(err)
	}
	for _, at := range []failpoint.Name{failpoint.LogAfterWrite, failpoint.LogAfterRename, failpoint.LogBeforeTx,
		failpoint.LogAfterTx} {
		for hit := range 2 {
			t.Run(fmt.Sprintf("%s %d", at, hit+1), func(t *testing.T) {
				t.Parallel()
				w := newWorld(t, nil)
				for range 3 {
					w.ended(w.tenants[0], week, many(20)...)
				}
				move := func(failpoints string) (string, error) {
					cmd := exec.Command(program, w.dsn, w.url())
					cmd.Env = append(os.Environ(), "SKALD_FAILPOINTS="+failpoints)
					out, err := cmd.CombinedOutput()
					return string(out), err
				}
				out, err := move(fmt.Sprintf("%s=kill@%d", at, hit+1))
				if err == nil || !strings.Contains(out, "failpoint reached: "+string(at)) {
					t.Fatalf("it did not die there: %v\n%s", err, out)
				}
				want := hit
				if at == failpoint.LogAfterTx {
					want++
				}
				if moved := w.whole(); moved != want {
					t.Errorf("%d logs had moved, want %d", moved, want)
				}
				if out, err := move(""); err != nil {
					t.Fatalf("%v\n%s", err, out)
				}
				if moved := w.whole(); moved != 3 || len(w.stored()) != 3 {
					t.Errorf("in the end %d logs have moved, and %d objects are stored", moved, len(w.stored()))
				}
			})
		}
	}
}

func TestRoundsAreDoneUntilTheEnd(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	w.ended(w.tenants[0], week, "a log\n")
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	var rounds []joblog.Round
	w.mover().Run(ctx, time.Millisecond, func(r joblog.Round, err error) {
		if err != nil {
			t.Error(err)
		}
		if rounds = append(rounds, r); len(rounds) == 2 {
			stop()
		}
	})
	if len(rounds) != 2 || rounds[0].Moved != 1 || rounds[1].Moved != 0 {
		t.Errorf("%+v", rounds)
	}
	w.whole()
	if !strings.Contains(w.said.String(), "logs=1") {
		t.Errorf("it is logged: %s", w.said.String())
	}
}
