package jobrun

import (
	"time"

	"github.com/google/uuid"

	"github.com/skald-saga/skald/internal/fault"
	"github.com/skald-saga/skald/internal/page"
)

// WorkerState determines what a worker may do.
type WorkerState string

// States of workers.
const (
	WorkerActive   WorkerState = "ACTIVE"
	WorkerDraining WorkerState = "DRAINING" // finishes its runs and gets no new ones
	WorkerLost     WorkerState = "LOST"     // silent for heartbeat_ttl_seconds; the next heartbeat or claim revives it
	WorkerDetached WorkerState = "DETACHED" // its process must register again; ended only by an operator
)

// WorkerProcess is one process that executes runs. After a restart it counts as a different process
// (S15).
type WorkerProcess struct {
	ID           uuid.UUID
	TenantID     uuid.UUID
	Version      int64 // ETag
	State        WorkerState
	Name         string
	Node         string // host
	PID          int64
	SDK          string
	SDKVersion   string
	Labels       []string // name=value, sorted
	Queues       []string // at least one
	Commands     []string // commands that it can run; empty: any
	MaxRuns      int      // maximum number of runs at once (A-07: max_jobs_per_worker)
	Principal    string   // subject of the credential with which it registered
	Running      int      // as reported by its last heartbeat
	Load         float64
	HeartbeatSeq int64
	RegisteredAt time.Time
	HeartbeatAt  time.Time // by the database's clock
	DrainAt      *time.Time
	LostAt       *time.Time
	DetachedAt   *time.Time
	Reason       string
}

// Place returns the worker's position in a list.
func (w *WorkerProcess) Place() page.TimeID { return page.TimeID{At: w.RegisteredAt, ID: w.ID} }

// Moved changes the state of w on an operator's request: to ACTIVE, DRAINING or DETACHED, or from
// DETACHED to LOST. A LOST worker stays LOST; if DrainAt is set, it becomes DRAINING when a
// heartbeat revives it. A worker that was DETACHED must send a heartbeat first. changed is false if
// w already has the state. Fault: Conflict for any other change of a DETACHED worker, because its
// process must register again.
func (w *WorkerProcess) Moved(to WorkerState, now time.Time) (changed bool, refusal error) {
	was := w.State
	if changed, refusal = w.moved(to); !changed {
		return changed, refusal
	}
	if to == WorkerDraining && w.DrainAt == nil {
		w.DrainAt = &now
	}
	if w.State == was {
		return true, nil
	}
	w.LostAt, w.DetachedAt = nil, nil
	switch w.State {
	case WorkerDetached:
		w.DetachedAt = &now
	case WorkerLost:
		w.LostAt = &now
	}
	return true, nil
}

// moved is Moved without the times.
func (w *WorkerProcess) moved(to WorkerState) (changed bool, refusal error) {
	draining := w.DrainAt != nil
	switch {
	case to == WorkerLost:
		if w.State != WorkerDetached {
			return false, nil
		}
		w.State = WorkerLost
		return true, nil
	case w.State == to && w.State != WorkerLost:
		return false, nil
	case w.State == WorkerDetached:
		return false, fault.New(fault.Conflict, CodeConflict, "the worker is detached: its process must register again").Allowing(w.Actions())
	case w.State == WorkerLost && to != WorkerDetached:
		if draining == (to == WorkerDraining) {
			return false, nil
		}
		if to == WorkerActive {
			w.DrainAt = nil
		}
		return true, nil
	}
	if w.State = to; to == WorkerActive {
		w.DrainAt = nil
	}
	return true, nil
}

// Actions lists the actions that an operator can currently perform on a worker; it is never nil.
func (w *WorkerProcess) Actions() []string {
	switch {
	case w.State == WorkerDetached:
		return []string{"undetach"}
	case w.State == WorkerDraining, w.DrainAt != nil:
		return []string{"undrain", "detach"}
	}
	return []string{"drain", "detach"}
}

// Beat is the part of a heartbeat about one run.
type Beat struct {
	RunID    uuid.UUID
	Fence    Fence
	Progress *Progress // nil: unchanged
	// Checkpoint is the new checkpoint; nil means that it is unchanged.
	Checkpoint []byte
}

// Released is a worker's request to return a run. LeaseLost is true if the reason is that the
// worker could not renew its lease, rather than that it stops.
type Released struct {
	Reason    string
	LeaseLost bool
	Settings  Settings
}

// Lease is the response to a heartbeat for one run.
type Lease struct {
	RunID           uuid.UUID
	OK              bool // false: stop the run because of Reason
	ExpiresAt       time.Time
	CancelRequested bool
	Reason          string // the code of a refusal, or the reason for the cancel
}
