package jobrun

import (
	"context"
	"fmt"
	"time"

	"github.com/google/uuid"

	"github.com/skald-saga/skald/internal/audit/operator"
)

// Term is one leadership: every write of the leader carries it and is refused when
// it is over (J-18, S10).
type Term struct {
	LeaderID uuid.UUID // one per process start
	Epoch    int64     // grows with every change of leadership, never falls
}

// Leadership is the leader's row as it stands.
type Leadership struct {
	Term
	Node       string
	AcquiredAt time.Time
	ExpiresAt  time.Time // database clock
	SweptAt    *time.Time
	Alive      bool // the lease has not ended
	Standbys   []Standby
}

// Standby is a node that would lead.
type Standby struct {
	LeaderID  uuid.UUID
	Node      string
	StartedAt time.Time
	SeenAt    time.Time
	IsLeader  bool
}

// Elections is the leader's row.
type Elections interface {
	// Acquire makes id the leader, or renews its lease: one statement, by the
	// database's clock, on a dedicated connection (S11). leads is false when another
	// node leads. Every node calls it; it also registers the node as a standby.
	Acquire(ctx context.Context, id uuid.UUID, node string, ttl time.Duration) (t Term, leads bool, err error)
	// StepDown ends the lease of t; nothing happens when it is over already.
	StepDown(ctx context.Context, t Term) error
	// ForceResign ends the current leader's term, for an operator. Fault: Conflict
	// (CodeNoLeader).
	ForceResign(ctx context.Context, by operator.Action) error
	Leadership(ctx context.Context) (Leadership, error)
	// Gone forgets a standby that has stopped.
	Gone(ctx context.Context, id uuid.UUID) error
}

// Slot is a run that is to be made of a definition's schedule.
type Slot struct {
	Definition *Definition
	Run        Run    // PENDING, or SKIPPED
	Reason     string // of one that is skipped
}

// Advance is a definition whose slots exist up to Until.
type Advance struct {
	Definition uuid.UUID
	Version    int64 // that the slots were computed of; another one: nothing of it is stored
	Until      time.Time
	NextDueAt  *time.Time
}

// Swept is what one sweep has done.
type Swept struct {
	Moved int
	More  bool // there is more to do at once
	// Failed are those that it could not do, of things that do not depend on each other; it
	// went on with the others.
	Failed []Failure
}

// Failure is one thing that a sweep could not do. It is tried again in the next round.
type Failure struct {
	What string // the kind of thing
	ID   uuid.UUID
	Err  error
}

// Backlog is how many runs have not ended. Those that wait are counted up to
// BacklogCap.
type Backlog struct {
	Waiting   int // made ahead, for a key, or for a backoff
	Claimable int
	Assigned  int
	Running   int
	Doubted   int // of Running
	// Oldest is since when the oldest claimable run is due; zero: there is none.
	Oldest time.Time
}

// BacklogCap is where the counting of runs that wait stops.
const BacklogCap = 100_000

// Sweeps is the work of the leader. Each call is a separate short transaction that
// changes at most limit rows, skips locked ones, and records the reason of each change.
// When term t has ended it changes nothing: fault Conflict (CodeNoLeader).
type Sweeps interface {
	// Due returns definitions whose next slot is before until, enabled and not
	// deleted, the earliest first; paused ones too: their slots are skipped.
	Due(ctx context.Context, t Term, until time.Time, limit int) ([]Definition, error)
	// Timed returns definitions that have a schedule, enabled and not deleted, in the
	// order of their ids, after the given one: for who checks their next slots (F45).
	Timed(ctx context.Context, t Term, after uuid.UUID, limit int) ([]Definition, error)
	// Now is the time of the database, by which slots are due.
	Now(ctx context.Context) (time.Time, error)
	// Materialize stores slots and how far their definitions have come, each
	// definition wholly or not at all; a slot that exists is left alone (J1).
	Materialize(ctx context.Context, t Term, slots []Slot, advances []Advance) (made int, err error)
	// Admit makes runs claimable that are due: those without a key, the first
	// waiting one of a key that is free, and orphaned ones whose backoff is over.
	// Of forbid it skips the others, of replace it cancels what was before, of queue
	// it leaves them waiting (sweeps 5 and 10).
	Admit(ctx context.Context, t Term, s Settings, limit int) (Swept, error)
	// Orphan takes back assignments that were not started in time (sweep 2, J-33, S8).
	Orphan(ctx context.Context, t Term, s Settings, limit int) (Swept, error)
	// Doubt makes RUNNING runs CONFIRMING whose lease has expired (sweep 3, S2), and
	// orphans those whose deadline has passed (sweep 4).
	Doubt(ctx context.Context, t Term, s Settings, limit int) (Swept, error)
	// Lose ends orphaned runs that have no assignment left: FAILED, LOST (sweep 5, S7).
	Lose(ctx context.Context, t Term, s Settings, limit int) (Swept, error)
	// TimeOut ends RUNNING runs past their timeout and grace (sweep 6, S21).
	TimeOut(ctx context.Context, t Term, s Settings, limit int) (Swept, error)
	// EndCanceled ends runs whose cancel was not acknowledged in time (sweep 7, S9).
	EndCanceled(ctx context.Context, t Term, s Settings, limit int) (Swept, error)
	// WatchWorkers makes workers LOST and DETACHED (sweep 8).
	WatchWorkers(ctx context.Context, t Term, s Settings, limit int) (Swept, error)
	// Backlog counts what has not ended.
	Backlog(ctx context.Context) (Backlog, error)
	// Swept notes that a round was completed.
	Swept(ctx context.Context, t Term) error
}

func fencingToken(epoch, seq int64) string { return fmt.Sprintf("%d.%d", epoch, seq) }
