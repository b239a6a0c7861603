package saga

import (
	"context"
	"time"

	"github.com/google/uuid"

	"github.com/skald-saga/skald/internal/idempotency"
	"github.com/skald-saga/skald/internal/page"
)

// Created is the result of creating one NewSaga of a batch.
type Created int

// The results of Store.Create.
const (
	Stored      Created = iota + 1 // stored durably; TimeoutAt is filled in
	Replayed                       // the idempotency key was already used for the same request
	KeyReused                      // the idempotency key was already used for another request
	IDTaken                        // the tenant has a saga with this id, live or archived
	NotCurrent                     // Floating, and a newer workflow version exists
	NotRunnable                    // the workflow does not exist or is disabled
	Unstorable                     // the database cannot store the saga's content
	// KeyActive means that an unfinished saga of the workflow has this business key. With
	// NewSaga.Join the result is that saga (Joined), and the idempotency key refers to it from then
	// on.
	KeyActive
	Joined
)

// CreateResult is the result for one NewSaga.
type CreateResult struct {
	Created Created
	Saga    Saga      // when Stored
	Prior   uuid.UUID // the existing saga, if Replayed, KeyActive or Joined
}

// Store stores sagas. Every method that takes a tenant sees only that tenant's rows; for rows of
// other tenants it returns the fault NotFound. Each method lists its faults; any other error is an
// outage, after which the outcome of a write is unknown. Implementations are safe for concurrent
// use.
type Store interface {
	// Create stores new sagas, each with its idempotency key, durably on return. The refusal of one
	// saga does not affect the others. A batch must not contain the same saga (Ref) twice.
	Create(ctx context.Context, batch []NewSaga) ([]CreateResult, error)
	// Commit writes each change if its precondition (version and epoch) still holds, durably on
	// return. The result for each change is nil or a fault: Conflict with CodeStale if the row has
	// changed in the meantime; Conflict with idempotency.CodeUsed if Change.Key was already used;
	// Invalid with CodeUnstorable if the database cannot store its content; Conflict with
	// CodeBusinessKey if it would reopen a saga whose business key now belongs to another saga.
	// Nothing of a refused change is written, and the other changes are not affected. A batch must
	// not contain the same saga twice. In a change with StartsCompensation, Commit sets
	// After.CompensationTimeoutAt to the deadline that it has stored.
	Commit(ctx context.Context, batch []Change) ([]error, error)
	// Load returns sagas of any tenant with their step logs, for the engine. Unknown sagas are left
	// out, and the order is undefined.
	Load(ctx context.Context, refs []Ref) ([]Loaded, error)
	// Get returns one saga. Fault: NotFound.
	Get(ctx context.Context, tenant, id uuid.UUID) (Saga, error)
	// List returns a page, newest first (created_at, id descending).
	List(ctx context.Context, tenant uuid.UUID, f Filter) (page.Of[Saga], error)
	// StepLogs returns a saga's logs ordered by step index, start and attempt
	// (seed 1). An unknown saga has none.
	StepLogs(ctx context.Context, tenant, id uuid.UUID, want Logs) ([]StepLog, error)
	// Key looks up an idempotency key. It returns KeyNew, KeySame with the saga, or KeyOther if the
	// key was used with another hash.
	Key(ctx context.Context, k idempotency.Key) (KeyState, uuid.UUID, error)
}

// KeyState is the state of an idempotency key.
type KeyState int

// The key states.
const (
	KeyNew KeyState = iota
	KeySame
	KeyOther
)

// Logs selects which step logs are read, and which parts of them. The zero value means all logs in
// full.
type Logs struct {
	// Brief leaves out requests and responses, which may be megabytes for a saga with many
	// attempts. It keeps the responses of skipped attempts, because Rebuild checks whether they
	// have one, and the progress of running attempts.
	Brief bool
	// Explained is Brief for Explain. It includes at most the newest five errors, because Explain
	// shows no others and the available actions depend only on the newest failed attempt. Encrypted
	// content is read as well, so that the logs show whether it can be decrypted
	// (ContentUnreadable).
	Explained bool
	IDs       []uuid.UUID // empty means all
}

// Loaded is a saga with its step logs.
type Loaded struct {
	Saga Saga
	Logs []StepLog
}

// Ownership records which node drives which saga: every node has one lease row, and sagas name
// their owner (DESIGN.md section 4.4). The ends of leases are computed and compared by the store's
// clock, so that a node with a wrong clock cannot take a lease early.
type Ownership interface {
	// Former returns the incarnation of a node whose lease has not ended; found is false if there
	// is none.
	Former(ctx context.Context, node string) (f Incarnation, found bool, err error)
	// Register takes a lease of length ttl for a node and ends the leases of the node's earlier
	// incarnations, whose sagas may be taken over immediately. process identifies the process (""
	// if unknown). The result is the incarnation that sagas name as LeaseOwner.
	Register(ctx context.Context, node, process string, ttl time.Duration) (int64, error)
	// Renew extends the lease to ttl from now. It returns false if the lease is lost; it can then
	// never be renewed.
	Renew(ctx context.Context, owner int64, ttl time.Duration) (bool, error)
	// Resign ends the lease immediately.
	Resign(ctx context.Context, owner int64) error
	// Claim makes owner the owner of up to limit sagas that are unowned and due, or whose owner's
	// lease has ended. It increments LeaseEpoch, sets Attempt to the number of the next call, and
	// sets Uncertain if the dead owner may have sent a call. Steps that the dead owner recorded as
	// RUNNING are closed as FAILED. Tenants take turns: one claim is divided equally among its
	// tenants, oldest sagas first, and the next claim starts with the tenant after the last one. A
	// tenant may not use up its share, so a result of fewer than limit sagas does not mean that
	// none are left; a result of zero does.
	Claim(ctx context.Context, owner int64, limit int) ([]Loaded, error)
	// Release gives up the ownership of those of refs that owner drives, so that any node may claim
	// them when they are due. They must have no call in flight.
	Release(ctx context.Context, owner int64, refs []Ref) error
	// Due returns up to limit sagas of owner whose NextRunAt has passed or that have been owned
	// without a change for longer than idle.
	Due(ctx context.Context, owner int64, idle time.Duration, limit int) ([]Ref, error)
	// Overdue returns up to limit sagas of any owner that have missed the deadline of their current
	// phase and are not flagged yet. They are ordered by Deadline, starting after the given one.
	// Starting each page after the last saga of the previous page ensures that sagas which cannot
	// be flagged never hide the others.
	Overdue(ctx context.Context, after Deadline, limit int) ([]Deadline, error)
	// Stuck counts the sagas that no node will ever look at again (invariant I1); this must always
	// be zero. Live counts unfinished sagas by state.
	Stuck(ctx context.Context) (stuck int, live map[State]int, err error)
	// Neglected returns a page of sagas that make no progress, in the order of their ids. It leaves
	// out suspended sagas and those that already need attention. next is the After of the next
	// page, or zero if this is the last page. Sagas that cannot be read are left out, so a page
	// before the last may be short or empty.
	Neglected(ctx context.Context, q NeglectedQuery) (page []Stalled, next Ref, err error)
	// Node returns the node behind an owner. known is false if the store no longer has it.
	Node(ctx context.Context, owner int64) (n Node, known bool, err error)
}

// Incarnation is a node between one registration and the next.
type Incarnation struct {
	Process    string // as given to Register
	LeaseUntil time.Time
}

// Deadline is the deadline of a saga's current phase. Deadlines are ordered by time and then by
// Ref; the zero Deadline precedes all others.
type Deadline struct {
	At time.Time
	Ref
}

// NeglectedQuery selects sagas that make no progress: either nothing has changed for longer than
// Idle since they were due, or the call in flight has failed at least Failures times.
type NeglectedQuery struct {
	Idle     time.Duration
	Failures int
	After    Ref // only sagas after this one (Ref.Compare)
	Limit    int
}

// Stalled is a saga that makes no progress, and the reason, which is one of StuckReasons.
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
