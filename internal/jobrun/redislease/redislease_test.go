package redislease_test

import (
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/skald-saga/skald/internal/jobrun"
	"github.com/skald-saga/skald/internal/jobrun/redislease"
	"github.com/skald-saga/skald/internal/test/patience"
	"github.com/skald-saga/skald/internal/test/testnet"
)

func TestALeaseIsStoredUnderTheDocumentedKey(t *testing.T) {
	t.Parallel()
	w := newHints(t)
	run := newRun()
	w.Hold(run)
	w.settles(t, true, run.RunFence)
	key := "scheduler:jobrun:lease:" + run.RunID.String()
	f := run.Fence
	if got := w.do(t, "GET", key); got != fmt.Sprintf("9 %s %s", f.WorkerID, f.LeaseToken) {
		t.Errorf("%s holds %s", key, got)
	}
	if ms := w.do(t, "PTTL", key).(int64); ms < 50_000 || ms > 60_000 {
		t.Errorf("it ends in %d ms", ms)
	}
	w.Release(run.RunFence)
	w.settles(t, false, run.RunFence)
	if n := w.do(t, "DBSIZE").(int64); n != 0 {
		t.Errorf("%d keys are left", n)
	}
}

func TestALeaseExpires(t *testing.T) {
	t.Parallel()
	w := newHints(t)
	run := newRun()
	run.TTL = 200 * time.Millisecond
	w.Hold(run)
	w.settles(t, true, run.RunFence)
	w.settles(t, false, run.RunFence)
	run.TTL = 0 // as late as possible
	w.Hold(run)
	w.settles(t, false, run.RunFence)
}

func TestOnlyTheSameFenceIsAlive(t *testing.T) {
	t.Parallel()
	w := newHints(t)
	run := newRun()
	w.Hold(run)
	w.settles(t, true, run.RunFence)
	var others []jobrun.RunFence
	for _, change := range []func(r *jobrun.RunFence){
		func(r *jobrun.RunFence) { r.RunID = uuid.New() },
		func(r *jobrun.RunFence) { r.Fence.Attempt++ },
		func(r *jobrun.RunFence) { r.Fence.Attempt-- },
		func(r *jobrun.RunFence) { r.Fence.LeaseToken = uuid.New() },
		func(r *jobrun.RunFence) { r.Fence.WorkerID = uuid.New() },
	} {
		other := run.RunFence
		change(&other)
		others = append(others, other)
	}
	if got := w.alive(t, append(others, run.RunFence)...); !slices.Equal(got,
		[]bool{false, false, false, false, false, true}) {
		t.Errorf("alive are %v, want the last only", got)
	}
	w.Release(others...)
	w.settles(t, true, run.RunFence)
	if got := w.alive(t); len(got) != 0 {
		t.Errorf("of none %v are alive", got)
	}
}

// TestALaterAttemptWins checks that a late call of an old worker, or on another node, does not
// replace the new worker.
func TestALaterAttemptWins(t *testing.T) {
	t.Parallel()
	w := newHints(t)
	old := newRun()
	later := old
	later.Fence.Attempt, later.Fence.LeaseToken = 10, uuid.New() // 10 is more than 9, "10" is less than "9"
	w.Hold(old)
	w.settles(t, true, old.RunFence)
	w.Hold(later)
	w.settles(t, true, later.RunFence)
	w.Hold(old)
	w.Release(old.RunFence)
	if got := w.alive(t, old.RunFence, later.RunFence); !slices.Equal(got, []bool{false, true}) {
		t.Errorf("old and later are alive: %v", got)
	}
}

// TestKeysOfOtherProgramsAreLeftAlone uses keys of another type and keys of another program.
func TestKeysOfOtherProgramsAreLeftAlone(t *testing.T) {
	t.Parallel()
	w := newHints(t)
	list, text, run := newRun(), newRun(), newRun()
	w.do(t, "RPUSH", "scheduler:jobrun:lease:"+list.RunID.String(), "x")
	w.do(t, "SET", "scheduler:jobrun:lease:"+text.RunID.String(), "mine")
	w.Hold(list, text, run)
	w.settles(t, true, run.RunFence)
	w.Release(list.RunFence, text.RunFence)
	if got := w.alive(t, list.RunFence, text.RunFence, run.RunFence); !slices.Equal(got, []bool{false, false, true}) {
		t.Errorf("alive are %v, want the last only", got)
	}
	if got := w.do(t, "GET", "scheduler:jobrun:lease:"+text.RunID.String()); got != "mine" {
		t.Errorf("the text is %s", got)
	}
	if n := w.do(t, "LLEN", "scheduler:jobrun:lease:"+list.RunID.String()).(int64); n != 1 {
		t.Errorf("the list has %d entries", n)
	}
	if said := w.said(); said != "" {
		t.Errorf("it is logged: %s", said)
	}
}

func TestTheNextNoteRestoresAFlushedLease(t *testing.T) {
	t.Parallel()
	w := newHints(t)
	run := newRun()
	w.Hold(run)
	w.settles(t, true, run.RunFence)
	w.do(t, "FLUSHALL")
	w.do(t, "SCRIPT", "FLUSH")
	w.settles(t, false, run.RunFence)
	w.Hold(run)
	w.settles(t, true, run.RunFence)
}

// quick fails the test if callers had to wait. The number of notes and questions is so large that
// they take longer than the patience of the test if a note waits for the hints' 50 ms, or if a
// question waits for the second that a connection may take. Without waiting they take milliseconds.
func (w *world) quick(t *testing.T, what string) {
	t.Helper()
	run, never := newRun(), newRun() // with so many notes, the last one, a release, may find the queue full
	over := make(chan struct{})
	go func() {
		defer close(over)
		for range 5000 {
			w.Hold(run)
			w.Release(run.RunFence)
		}
		for range 300 {
			if w.alive(t, never.RunFence)[0] {
				t.Errorf("%s: a run is alive that was never held", what)
			}
		}
	}()
	patience.Receive(t, what+": nobody waits", over)
}

func TestNoCallerWaitsForARedisThatDies(t *testing.T) {
	t.Parallel()
	w := newHints(t)
	run := newRun()
	w.Hold(run)
	w.settles(t, true, run.RunFence)
	w.quick(t, "while it lives")
	w.kill()
	w.settles(t, false, run.RunFence)
	w.quick(t, "after it died")
	w.says(t, "is unreachable") // callers may have their answer before the failure is logged
	if said := w.said(); strings.Count(said, "is unreachable") != 1 || strings.Contains(said, "again") {
		t.Errorf("it is logged: %s", said)
	}
	w.start(t)
	w.heals(t, run)
	w.says(t, "reachable again")
	if answered, lost := w.counts(); answered < 2 || lost < 2000 {
		t.Errorf("%d commands were answered and %d lost", answered, lost)
	}
}

func TestNoCallerWaitsForASlowRedis(t *testing.T) {
	t.Parallel()
	s := newServer(t)
	w := newWorldWithin(t, s, "redis://"+s.addr, 0) // waits for a sleeping server for the default timeout
	run := newRun()
	w.Hold(run)
	w.settles(t, true, run.RunFence)
	w.signal(syscall.SIGSTOP)
	w.quick(t, "while it sleeps")
	w.signal(syscall.SIGCONT)
	w.heals(t, run)
}

func TestNoCallerWaitsForARedisThatNeverRan(t *testing.T) {
	t.Parallel()
	s := &server{addr: testnet.ClosedAddress(t)}
	w := newWorld(t, s, "redis://:hush@"+s.addr)
	w.quick(t, "without a server")
	if w.says(t, "is unreachable"); strings.Contains(w.said(), "hush") {
		t.Errorf("it is logged: %s", w.said())
	}
}

func TestNotesAreDroppedWhenTheQueueIsFull(t *testing.T) {
	t.Parallel()
	lost := 0
	h, err := redislease.New(redislease.Config{URL: "redis://127.0.0.1:1", Log: slog.New(slog.DiscardHandler),
		Done: func(commands int, _ bool, _ time.Duration) { lost += commands }})
	if err != nil {
		t.Fatal(err)
	}
	for range 10_000 {
		h.Hold(newRun())
	}
	if lost != 10_000-4096 {
		t.Errorf("%d notes are lost", lost)
	}
	if got := h.Alive(t.Context(), []jobrun.RunFence{newRun().RunFence}); !slices.Equal(got, []bool{false}) {
		t.Errorf("alive: %v", got)
	}
}

// TestARedisThatRefusesIsTreatedAsUnavailable uses a replica, which accepts no writes, and a server
// with a password, which accepts no clients without it.
func TestARedisThatRefusesIsTreatedAsUnavailable(t *testing.T) {
	t.Parallel()
	t.Run("replica", func(t *testing.T) {
		t.Parallel()
		w := newHints(t)
		run := newRun()
		w.do(t, "REPLICAOF", "127.0.0.1", "1")
		w.Hold(run)
		w.says(t, "READONLY")
		w.quick(t, "on a replica")
		w.do(t, "REPLICAOF", "NO", "ONE")
		w.heals(t, run)
	})
	t.Run("wrong password", func(t *testing.T) {
		t.Parallel()
		s := newServer(t, "--requirepass", "hush")
		run := newRun()
		wrong := newWorld(t, s, "redis://:guess@"+s.addr+"/3")
		wrong.Hold(run)
		wrong.settles(t, false, run.RunFence)
		if wrong.says(t, "WRONGPASS"); strings.Contains(wrong.said(), "guess") {
			t.Errorf("it is logged: %s", wrong.said())
		}
		right := newWorld(t, s, "redis://:hush@"+s.addr+"/3")
		right.Hold(run)
		right.settles(t, true, run.RunFence)
		elsewhere := newWorld(t, s, "redis://default:hush@"+s.addr)
		if elsewhere.alive(t, run.RunFence)[0] {
			t.Error("the number of the database does not count")
		}
	})
}

func TestManyAtOnce(t *testing.T) {
	t.Parallel()
	w := newHints(t)
	var at sync.WaitGroup
	for range 8 {
		at.Go(func() {
			for range 50 {
				run := newRun()
				w.Hold(run)
				w.settles(t, true, run.RunFence)
				w.Release(run.RunFence)
				w.settles(t, false, run.RunFence)
			}
		})
	}
	at.Wait()
}
