package redrive

import (
	"sync"
	"time"

	"github.com/google/uuid"

	"github.com/skald-saga/skald/internal/dlq"
	"github.com/skald-saga/skald/internal/saga/registry"
)

// busyFor is how long a letter waits here while too many calls to its participant are in flight.
const busyFor = 20 * time.Second

// farLook is the time after which a letter at a gate is tried again even though nothing has let it
// through.
func farLook(chance float64) time.Duration {
	return 30*time.Minute + time.Duration(chance*float64(30*time.Minute))
}

// heardOf returns what a result says about the participant of its target, or nil if the call was
// not made.
func heardOf(r *dlq.Result) *registry.Heard {
	if r.Outcome == dlq.Withdrawn {
		return nil
	}
	return &registry.Heard{
		Status: r.StatusCode, Unreached: r.Unreached,
		Unsendable: r.Outcome == dlq.FailedDrive && r.StatusCode == 0 && !r.Unreached,
		RetryAfter: r.RetryAfter, StartedAt: r.StartedAt, EndedAt: r.EndedAt,
	}
}

// reports records when redrives that are waiting at a gate last reported that.
type reports struct {
	mu sync.Mutex
	at map[uuid.UUID]time.Time // guarded by mu
}

// due reports whether it is time to report again.
func (t *reports) due(id uuid.UUID, every time.Duration) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	now := time.Now()
	if t.at == nil {
		t.at = map[uuid.UUID]time.Time{}
	}
	for other, at := range t.at {
		if now.Sub(at) > time.Minute {
			delete(t.at, other)
		}
	}
	if now.Sub(t.at[id]) < every {
		return false
	}
	t.at[id] = now
	return true
}
