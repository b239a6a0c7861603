package overviewapi

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/skald-saga/skald/internal/ops/overview"
)

// TestAnOverviewIsReadOnceForAll: fifty people who look at once cost one reading, and so do those who look within the
// next seconds.
func TestAnOverviewIsReadOnceForAll(t *testing.T) {
	k := known{of: map[uuid.UUID]*reading{}}
	at := time.Now()
	now := func() time.Time { return at }
	var mu sync.Mutex
	reads, failing := 0, false
	proceed := make(chan struct{})
	read := func() (overview.Overview, error) {
		mu.Lock()
		defer mu.Unlock()
		<-proceed
		reads++
		if failing {
			return overview.Overview{}, errors.New("down")
		}
		return overview.Overview{At: at}, nil
	}
	var all sync.WaitGroup
	for range 50 {
		all.Go(func() {
			if _, err := k.get(context.Background(), uuid.UUID{1}, now, read); err != nil {
				t.Error(err)
			}
		})
	}
	impatient, cancel := context.WithCancel(context.Background())
	cancel()
	if _, err := k.get(impatient, uuid.UUID{2}, now, read); !errors.Is(err, context.Canceled) {
		t.Errorf("who leaves waits: %v", err)
	}
	close(proceed)
	all.Wait()
	get := func(want int, why string) {
		t.Helper()
		_, _ = k.get(context.Background(), uuid.UUID{1}, now, read)
		_, _ = k.get(context.Background(), uuid.UUID{2}, now, read)
		mu.Lock()
		defer mu.Unlock()
		if reads != want {
			t.Errorf("%s: %d readings, want %d", why, reads, want)
		}
	}
	get(2, "one for each tenant")
	at = at.Add(fresh)
	get(4, "no longer fresh")
	failing = true
	at = at.Add(fresh)
	get(6, "both fail")
	get(8, "an error is not kept")
}
