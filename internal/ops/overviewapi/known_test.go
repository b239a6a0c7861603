package overviewapi

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/uuid"

	"github.com/skald-saga/skald/internal/ops/overview"
)

// TestAnOverviewIsReadOnceForAll checks that fifty people who look at the same time cause one
// reading. While the overview is being viewed, it is read again in the background and no request
// waits; afterwards it is not read.
func TestAnOverviewIsReadOnceForAll(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		stopping := make(chan struct{})
		var reads, slow atomic.Int64 // the second in nanoseconds
		var failing atomic.Bool
		takes := 20 * time.Millisecond // what the visitors expect
		slow.Store(int64(takes))
		k := known{of: map[uuid.UUID]*kept{}, now: time.Now, within: time.Minute, stopping: stopping}
		k.read = func(context.Context, tenantID) (overview.Overview, error) {
			time.Sleep(time.Duration(slow.Load()))
			reads.Add(1)
			if failing.Load() {
				return overview.Overview{}, errors.New("down")
			}
			return overview.Overview{At: time.Now()}, nil
		}
		// look returns how long a visitor waits, and how old the overview is.
		look := func() (waited, age time.Duration) {
			begun := time.Now()
			o, err := k.get(t.Context(), uuid.UUID{1})
			if err != nil {
				t.Error(err)
			}
			return time.Since(begun), time.Since(o.At)
		}
		var all sync.WaitGroup
		for range 50 {
			all.Go(func() {
				if waited, _ := look(); waited != takes {
					t.Errorf("waited for %s", waited)
				}
			})
		}
		impatient, cancel := context.WithCancel(t.Context())
		cancel()
		if _, err := k.get(impatient, uuid.UUID{2}); !errors.Is(err, context.Canceled) {
			t.Errorf("who leaves waits: %v", err)
		}
		all.Wait()
		synctest.Wait() // the reading that no one waits for ends at the same moment
		if n := reads.Load(); n != 2 {
			t.Errorf("%d readings, want one for each tenant", n)
		}
		for range 12 { // two minutes of an open page
			time.Sleep(10 * time.Second)
			if waited, age := look(); waited != 0 || age > every+takes {
				t.Errorf("waited %s for an overview %s old", waited, age)
			}
		}
		time.Sleep(time.Minute)
		before := reads.Load()
		time.Sleep(time.Minute)
		if n := reads.Load() - before; n != 0 {
			t.Errorf("%d readings while nobody looks", n)
		}
		if waited, age := look(); waited != takes || age != 0 {
			t.Errorf("after a pause: waited %s for an overview %s old", waited, age)
		}

		// Slow readings are less frequent, but the page is never older than half a minute.
		for _, c := range []struct{ takes, oldest, each time.Duration }{
			{50 * time.Millisecond, 21 * time.Second, 10 * time.Second}, {time.Second, 30 * time.Second, 15 * time.Second},
			{20 * time.Second, 40 * time.Second, 40 * time.Second},
		} {
			takes = c.takes
			slow.Store(int64(takes))
			time.Sleep(time.Minute)
			look()
			before = reads.Load()
			for range 60 {
				time.Sleep(10 * time.Second)
				if _, age := look(); age > c.oldest {
					t.Errorf("readings take %s, and an overview %s old is shown", takes, age)
				}
			}
			if n := reads.Load() - before; n > int64(11*time.Minute/c.each) {
				t.Errorf("%d readings of %s in ten minutes", n, takes)
			}
		}

		failing.Store(true)
		time.Sleep(time.Hour)
		before = reads.Load()
		for range 2 {
			if _, err := k.get(t.Context(), uuid.UUID{1}); err == nil {
				t.Error("it cannot be read, and is shown")
			}
		}
		if reads.Load()-before != 2 {
			t.Error("an error is kept")
		}
		failing.Store(false)
		look()
		close(stopping)
	})
}
