package jobrun

import (
	"context"
	"fmt"
	"time"

	"github.com/google/uuid"

	"github.com/skald-saga/skald/internal/audit/operator"
)

// Term is one term of leadership. Every write of the leader carries its term and is refused when
// that term is over (J-18, S10).
type Term struct {
	LeaderID uuid.UUID // one per process start
	Epoch    int64     // grows with every change of leadership and never falls
}

// Leadership is the leader's row.
type Leadership struct {
	Term
	Node       string
	AcquiredAt time.Time
	ExpiresAt  time.Time // the database's time
	SweptAt    *time.Time
	Alive      bool // the lease has not expired
	Standbys   []Standby
}

// Standby is a node that may become the leader.
type Standby struct {
	LeaderID  uuid.UUID
	Node      string
	StartedAt time.Time
	SeenAt    time.Time
	IsLeader  bool
}

// Elections manages the leader's row.
type Elections interface {
	// Acquire makes id the leader, or renews its lease, in one statement, at the database's time,
	// on a dedicated connection (S11). leads is false if another node leads. Every node calls
	// Acquire, which also registers the node as a standby.
	Acquire(ctx context.Context, id uuid.UUID, node string, ttl time.Duration) (t Term, leads bool, err error)
	// StepDown ends the lease of t. It does nothing if t is already over.
	StepDown(ctx context.Context, t Term) error
	// ForceResign ends the current leader's term on an operator's request. Fault: Conflict
	// (CodeNoLeader).
	ForceResign(ctx context.Context, by operator.Action) error
	Leadership(ctx context.Context) (Leadership, error)
	// Gone removes a standby that has stopped.
	Gone(ctx context.Context, id uuid.UUID) error
}

// Slot is a run to create for a slot of a definition's schedule.
type Slot struct {
	Definition *Definition
	Run        Run    // PENDING, or SKIPPED
	Reason     string // why it is skipped, if it is
}

// Advance records that the slots of a definition exist up to Until.
type Advance struct {
	Definition uuid.UUID
	Version    int64 // the version from which the slots were computed; if it has changed, nothing is stored
	Until      time.Time
	NextDueAt  *time.Time
}

// Swept is the result of a sweep.
type Swept struct {
	Moved int
	More  bool // there is more to do immediately
	// Failed lists the items that could not be processed. Items are independent, and the others
	// were processed.
	Failed []Failure
}

// Failure is an item that a sweep could not process. The next round retries it.
type Failure struct {
	What string // the kind of thing
	ID   uuid.UUID
	Err  error
}

// Backlog counts the unfinished runs. It counts waiting runs only up to BacklogCap.
type Backlog struct {
	Waiting   int // created ahead of time, or waiting for a key or a backoff
	Claimable int
	Held      int // claimable except that a person holds their queue
	Assigned  int
	Running   int
	Doubted   int // those of Running that are in doubt
	// Oldest is the due time of the oldest claimable run; zero means that there is none.
	Oldest time.Time
}

// BacklogCap is the highest number of waiting runs that is counted.
const BacklogCap = 100_000

// Sweeps is the work of the leader. Each call is a separate short transaction that changes at most
// limit rows, skips locked rows, and records the reason for each change. If term t is over, it
// changes nothing and returns the fault Conflict (CodeNoLeader).
type Sweeps interface {
	// Due returns the enabled definitions that are not deleted and whose next slot is before until,
	// earliest first. It includes paused definitions, whose slots are skipped.
	Due(ctx context.Context, t Term, until time.Time, limit int) ([]Definition, error)
	// Timed returns the enabled definitions that are not deleted, have a schedule, and have ids
	// after the given one, in id order. The caller checks their next slots (F45).
	Timed(ctx context.Context, t Term, after uuid.UUID, limit int) ([]Definition, error)
	// Now returns the database's time, which decides which slots are due.
	Now(ctx context.Context) (time.Time, error)
	// Materialize stores slots and the progress of their definitions, each definition completely or
	// not at all. Existing slots are left unchanged (J1).
	Materialize(ctx context.Context, t Term, slots []Slot, advances []Advance) (made int, err error)
	// Admit makes due runs claimable: runs without a key, the first waiting run of a free key, and
	// orphaned runs whose backoff is over. Other waiting runs follow their policy: forbid skips
	// them, replace cancels the runs before them, and queue leaves them waiting (sweeps 5 and 10).
	Admit(ctx context.Context, t Term, s Settings, limit int) (Swept, error)
	// Orphan takes runs from silent workers: assignments that were not started in time (sweep 2,
	// J-33, S8), and runs in doubt whose deadline has passed (sweep 4).
	Orphan(ctx context.Context, t Term, s Settings, limit int) (Swept, error)
	// Doubt makes RUNNING runs whose lease has expired CONFIRMING (sweep 3, S2).
	Doubt(ctx context.Context, t Term, s Settings, limit int) (Swept, error)
	// Lose ends orphaned runs whose loss budget is exhausted as FAILED, with the error LOST (sweep
	// 5, S7).
	Lose(ctx context.Context, t Term, s Settings, limit int) (Swept, error)
	// TimeOut ends RUNNING runs whose timeout and grace period have passed (sweep 6, S21).
	TimeOut(ctx context.Context, t Term, s Settings, limit int) (Swept, error)
	// EndCanceled ends runs whose cancel was not acknowledged in time (sweep 7, S9).
	EndCanceled(ctx context.Context, t Term, s Settings, limit int) (Swept, error)
	// WatchWorkers marks silent workers as LOST, and LOST ones as DETACHED (sweep 8).
	WatchWorkers(ctx context.Context, t Term, s Settings, limit int) (Swept, error)
	// Backlog counts the unfinished runs.
	Backlog(ctx context.Context) (Backlog, error)
	// Swept records that a round was completed.
	Swept(ctx context.Context, t Term) error
}

func fencingToken(epoch, seq int64) string { return fmt.Sprintf("%d.%d", epoch, seq) }
