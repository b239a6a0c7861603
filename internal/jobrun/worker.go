package jobrun

import (
	"time"

	"github.com/google/uuid"

	"github.com/skald-saga/skald/internal/fault"
	"github.com/skald-saga/skald/internal/page"
)

// WorkerState is what a worker may do.
type WorkerState string

// States of workers.
const (
	WorkerActive   WorkerState = "ACTIVE"
	WorkerDraining WorkerState = "DRAINING" // finishes what it has, gets nothing new
	WorkerLost     WorkerState = "LOST"     // silent for heartbeat_ttl_seconds; the next heartbeat or claim revives it
	WorkerDetached WorkerState = "DETACHED" // the process registers again; only an operator ends it
)

// WorkerProcess is one process that runs jobs. A restart is another one (S15).
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
	Commands     []string // what it can run; empty: anything
	MaxRuns      int      // runs at once (A-07: max_jobs_per_worker)
	Principal    string   // subject of the credential that registered it
	Running      int      // as its last heartbeat told
	Load         float64
	HeartbeatSeq int64
	RegisteredAt time.Time
	HeartbeatAt  time.Time // database clock
	DrainAt      *time.Time
	LostAt       *time.Time
	DetachedAt   *time.Time
	Reason       string
}

// Place is where it stands in a list.
func (w *WorkerProcess) Place() page.TimeID { return page.TimeID{At: w.RegisteredAt, ID: w.ID} }

// Moved changes w's state on request of an operator: to ACTIVE, DRAINING or DETACHED, or
// from DETACHED to LOST. A LOST worker stays LOST, and drains after a heartbeat has
// revived it if DrainAt is set; one that was DETACHED must first show that it lives.
// changed is false when the state is the same already. Fault: Conflict for anything else
// of a DETACHED one: its process must register again.
func (w *WorkerProcess) Moved(to WorkerState) (changed bool, refusal error) {
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

// Actions lists what an operator can do to a worker now; never nil.
func (w *WorkerProcess) Actions() []string {
	switch {
	case w.State == WorkerDetached:
		return []string{"undetach"}
	case w.State == WorkerDraining, w.DrainAt != nil:
		return []string{"undrain", "detach"}
	}
	return []string{"drain", "detach"}
}

// Beat is what a heartbeat says of one run.
type Beat struct {
	RunID    uuid.UUID
	Fence    Fence
	Progress *Progress // nil: as it was
	// Checkpoint nil: as it was.
	Checkpoint []byte
}

// Released is its worker giving the run back. LeaseLost: not because it stops, but because it
// could not renew the lease.
type Released struct {
	Reason    string
	LeaseLost bool
	Settings  Settings
}

// Lease is the answer to a heartbeat for one run.
type Lease struct {
	RunID           uuid.UUID
	OK              bool // false: stop it, Reason says why
	ExpiresAt       time.Time
	CancelRequested bool
	Reason          string // a code of a refusal, or the reason of the cancel
}
