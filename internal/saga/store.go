package saga

import (
	"context"
	"time"

	"github.com/google/uuid"

	"github.com/skald-saga/skald/internal/idempotency"
	"github.com/skald-saga/skald/internal/page"
)

// Created is the result for one NewSaga of a batch.
type Created int

// Results of Store.Create.
const (
	Stored      Created = iota + 1 // durable; TimeoutAt is filled in
	Replayed                       // the idempotency key was used before for the same request
	KeyReused                      // ... for another request
	IDTaken                        // the tenant has a saga with this id, live or archived
	NotCurrent                     // Floating, and a newer workflow version exists
	NotRunnable                    // the workflow does not exist or is disabled
	Unstorable                     // the database cannot store its content
	// KeyActive: a saga of the workflow with this business key has not ended. With
	// NewSaga.Join that saga is the result (Joined), and the idempotency key refers to
	// it from then on.
	KeyActive
	Joined
)

// CreateResult is the answer for one NewSaga.
type CreateResult struct {
	Created Created
	Saga    Saga      // when Stored
	Prior   uuid.UUID // the existing saga, when Replayed, KeyActive or Joined
}

// Store stores sagas. Every method that takes a tenant sees only that tenant's rows;
// for rows of others it returns the fault NotFound. Faults are as stated; any other
// error is an outage, after which the outcome of a write is unknown. Implementations
// are safe for concurrent use.
type Store interface {
	// Create stores new sagas, each with its idempotency key, durably on return. The
	// refusal of one saga does not affect the others. A batch must not name one saga
	// (Ref) twice.
	Create(ctx context.Context, batch []NewSaga) ([]CreateResult, error)
	// Commit writes each change if its precondition (version and epoch) still holds,
	// durably on return. Per change: nil, or a fault: Conflict with CodeStale when the
	// row has changed since, or idempotency.CodeUsed when Change.Key was used before; Invalid
	// with CodeUnstorable when the database cannot store its content; Conflict with
	// CodeBusinessKey when it would reopen a saga whose business key another saga has
	// now. Nothing of a refused change is written, and the others are not affected. A
	// batch must not name one saga twice. In a change with StartsCompensation it sets
	// After.CompensationTimeoutAt to the deadline that it has stored.
	Commit(ctx context.Context, batch []Change) ([]error, error)
	// Load returns sagas of any tenant with their step logs, for the engine. Unknown
	// ones are left out; the order is undefined.
	Load(ctx context.Context, refs []Ref) ([]Loaded, error)
	// Get returns one saga. Fault: NotFound.
	Get(ctx context.Context, tenant, id uuid.UUID) (Saga, error)
	// List returns a page, newest first (created_at, id descending).
	List(ctx context.Context, tenant uuid.UUID, f Filter) (page.Of[Saga], error)
	// StepLogs returns a saga's logs ordered by step index, start and attempt
	// (seed 1). An unknown saga has none.
	StepLogs(ctx context.Context, tenant, id uuid.UUID, want Logs) ([]StepLog, error)
	// Key looks up an idempotency key: KeyNew, KeySame with the saga, or KeyOther when it
	// was used with another hash.
	Key(ctx context.Context, k idempotency.Key) (KeyState, uuid.UUID, error)
}

// KeyState is what is known about an idempotency key.
type KeyState int

// Key states.
const (
	KeyNew KeyState = iota
	KeySame
	KeyOther
)

// Logs selects which step logs are read, and which parts of them. The zero value: all, complete.
type Logs struct {
	// Brief leaves out requests and responses, which may be megabytes for a saga with many attempts, except the
	// responses of skipped attempts, as Rebuild checks whether they have one, and the progress of running ones.
	Brief bool
	// Explained is Brief for Explain, with at most the newest five errors, since it shows no others and the failed
	// attempt on which the available actions depend is the newest. Encrypted content is read as well, so that the
	// logs say whether it can be decrypted (ContentUnreadable).
	Explained bool
	IDs       []uuid.UUID // empty: all
}

// Loaded is a saga with its step logs.
type Loaded struct {
	Saga Saga
	Logs []StepLog
}

// Ownership records which node drives which saga: every node has one lease row, and
// sagas name their owner (DESIGN.md section 4.4). Lease ends are computed and compared
// by the store's clock, so that a node with a wrong clock cannot take a lease early.
type Ownership interface {
	// Former returns the incarnation of a node whose lease has not ended; found is
	// false when there is none.
	Former(ctx context.Context, node string) (f Incarnation, found bool, err error)
	// Register takes a lease of length ttl for a node and ends those of its earlier
	// incarnations, whose sagas may be taken over immediately. process identifies the
	// process ("" when unknown). The result is the incarnation that sagas name as
	// LeaseOwner.
	Register(ctx context.Context, node, process string, ttl time.Duration) (int64, error)
	// Renew extends the lease to ttl from now. False: the lease is lost and can never
	// be renewed.
	Renew(ctx context.Context, owner int64, ttl time.Duration) (bool, error)
	// Resign ends the lease immediately.
	Resign(ctx context.Context, owner int64) error
	// Claim makes owner the owner of up to limit sagas that wait unowned and are due,
	// or whose owner's lease has ended (LeaseEpoch+1, Attempt as the next call must
	// send it, Uncertain when the dead owner may have sent a call). Steps recorded
	// RUNNING by the dead owner are closed as FAILED. Tenants take turns: one claim is
	// divided equally between its tenants, oldest sagas first, and the next claim
	// starts with the tenant after the last one. Since a tenant may not use up its
	// share, fewer than limit sagas do not mean that none are left; zero sagas do.
	Claim(ctx context.Context, owner int64, limit int) ([]Loaded, error)
	// Release gives up those of refs that owner drives, so that any node may claim them
	// when they are due. They must have no call in flight.
	Release(ctx context.Context, owner int64, refs []Ref) error
	// Due returns up to limit sagas of owner whose NextRunAt has passed, and
	// those it has owned without a change for longer than idle.
	Due(ctx context.Context, owner int64, idle time.Duration, limit int) ([]Ref, error)
	// Overdue returns up to limit sagas of any owner whose deadline of the current
	// phase has passed and that are not flagged yet, in the order of Deadline, after
	// the given one. Paging on from the last one ensures that sagas which cannot be
	// flagged never hide the others.
	Overdue(ctx context.Context, after Deadline, limit int) ([]Deadline, error)
	// Stuck counts sagas that no node will ever look at again (invariant I1); it must
	// always be zero. Live counts unfinished sagas by state.
	Stuck(ctx context.Context) (stuck int, live map[State]int, err error)
	// Neglected returns a page of sagas that make no progress, in the order of their
	// ids. Suspended sagas and those that need attention already are not included. next
	// is the After of the next page, zero when this is the last. Sagas that cannot be
	// read are left out, so that a page before the last may be short or empty.
	Neglected(ctx context.Context, q NeglectedQuery) (page []Stalled, next Ref, err error)
	// Node returns the node behind an owner. known is false when the store no longer
	// has it.
	Node(ctx context.Context, owner int64) (n Node, known bool, err error)
}

// Incarnation is a node from one registration to the next.
type Incarnation struct {
	Process    string // as given to Register
	LeaseUntil time.Time
}

// Deadline is the deadline of a saga's current phase. Deadlines are ordered by time and
// then by Ref; the zero Deadline precedes all others.
type Deadline struct {
	At time.Time
	Ref
}

// NeglectedQuery asks for sagas that make no progress: nothing has changed for
// longer than Idle since they were due, or the call in flight has failed at least
// Failures times.
type NeglectedQuery struct {
	Idle     time.Duration
	Failures int
	After    Ref // only sagas after it (Ref.Compare)
	Limit    int
}

// Stalled is a saga that makes no progress, and why: one of StuckReasons.
type Stalled struct {
	Saga   Saga
	Reason string
}

// Node is the holder of a lease.
type Node struct {
	Name       string
	LeaseUntil time.Time // database clock
	Alive      bool      // the lease has not ended
}
