package saga

import (
	"context"
	"time"

	"github.com/google/uuid"

	"github.com/skald-saga/skald/internal/rest/page"
)

// Created says what became of one NewSaga of a batch.
type Created int

// Results of Store.Create.
const (
	Stored      Created = iota + 1 // durable; TimeoutAt is filled in
	Replayed                       // the idempotency key was used before for the same request
	KeyReused                      // ... for another request
	IDTaken                        // the tenant has a saga of this id, live or archived
	NotCurrent                     // Floating, and a newer workflow version exists
	NotRunnable                    // the workflow does not exist or is disabled
	Unstorable                     // the database refuses its content
	// KeyActive: a saga of the workflow with this business key has not ended;
	// NewSaga.Join makes it that saga instead, and its idempotency key stands
	// for that one from then on.
	KeyActive
	Joined
)

// CreateResult is the answer for one NewSaga.
type CreateResult struct {
	Created Created
	Saga    Saga      // when Stored
	Prior   uuid.UUID // the saga that stands instead, when Replayed, KeyActive or Joined
}

// Store keeps sagas. Every method that takes a tenant sees only its rows;
// rows of others do not exist for it (fault NotFound). Faults are as stated;
// any other error is an outage, and the outcome of a write is then unknown.
// Implementations are safe for concurrent use.
type Store interface {
	// Create stores new sagas, each with its idempotency key, durably on
	// return. One saga's refusal does not touch the others. A batch must not
	// name one saga (Ref) twice.
	Create(ctx context.Context, batch []NewSaga) ([]CreateResult, error)
	// Commit writes each change if its precondition (version and epoch) still
	// holds, durably on return. Per change: nil, or a fault: Conflict with
	// CodeStale when the row moved on or, with Change.Key, CodeKeyUsed when the
	// key is taken; Invalid with CodeUnstorable when the database refuses its
	// content; Conflict with CodeBusinessKey when it would reopen a saga whose
	// business key another one has now. Nothing of such a change is written, and the others are not
	// touched by it. A batch must not name one saga twice.
	Commit(ctx context.Context, batch []Change) ([]error, error)
	// Load returns sagas with their step logs, whoever's they are: for the
	// engine. Unknown ones are left out; the order is not defined.
	Load(ctx context.Context, refs []Ref) ([]Loaded, error)
	// Get returns one saga. Fault: NotFound.
	Get(ctx context.Context, tenant, id uuid.UUID) (Saga, error)
	// List returns a page, newest first (created_at, id descending).
	List(ctx context.Context, tenant uuid.UUID, f Filter) (page.Of[Saga], error)
	// StepLogs returns a saga's logs ordered by step index, start and attempt
	// (seed 1). An unknown saga has none.
	StepLogs(ctx context.Context, tenant, id uuid.UUID) ([]StepLog, error)
	// Key returns what an idempotency key stands for: KeyNew, KeySame with the
	// saga, or KeyOther when it was used with another hash.
	Key(ctx context.Context, k IdempotencyKey) (KeyState, uuid.UUID, error)
}

// KeyState is what is known about an idempotency key.
type KeyState int

// Key states.
const (
	KeyNew KeyState = iota
	KeySame
	KeyOther
)

// Loaded is a saga with its step logs.
type Loaded struct {
	Saga Saga
	Logs []StepLog
}

// Ownership is who drives what: nodes hold one lease row each, sagas name
// their owner (DESIGN.md section 4.4). Lease ends are computed and compared by
// the store's clock, so that node clocks cannot steal a lease.
type Ownership interface {
	// Former returns the incarnation of a node whose lease has not ended, and
	// found is false when there is none.
	Former(ctx context.Context, node string) (f Incarnation, found bool, err error)
	// Register takes a lease for a node and ends those of its earlier
	// incarnations, whose sagas become free for takeover at once. process says
	// which process it is ("" when that is not known). Returns the incarnation
	// that sagas name as LeaseOwner.
	Register(ctx context.Context, node, process string, ttl time.Duration) (int64, error)
	// Renew prolongs the lease. False: it is lost and can never be renewed.
	Renew(ctx context.Context, owner int64, ttl time.Duration) (bool, error)
	// Resign ends the lease at once.
	Resign(ctx context.Context, owner int64) error
	// Claim makes owner the owner of up to limit sagas that wait unowned and
	// are due, or whose owner's lease has ended (LeaseEpoch+1, Attempt as the
	// next call must bear it, Uncertain when the dead owner may have sent it).
	// Steps recorded RUNNING by the dead owner are closed as FAILED. Tenants take
	// turns: those of one claim have equal shares of it, each its oldest sagas,
	// and the next claim begins with the tenant after the last one. A tenant with
	// few sagas leaves some of its share, so fewer than limit do not mean that
	// nothing is left; none does.
	Claim(ctx context.Context, owner int64, limit int) ([]Loaded, error)
	// Release gives up those of refs that owner drives, so that anybody may claim
	// them when they are due. No call of theirs may be in flight.
	Release(ctx context.Context, owner int64, refs []Ref) error
	// Due returns up to limit sagas of owner whose NextRunAt has passed, and
	// those it has owned without a change for longer than idle.
	Due(ctx context.Context, owner int64, idle time.Duration, limit int) ([]Ref, error)
	// Overdue returns up to limit sagas whose deadline of the present phase has
	// passed and that are not flagged yet, whoever owns them: in the order of
	// Deadline, those after the given one. The last of a page gives the next page,
	// so that sagas that cannot be flagged never hide the others.
	Overdue(ctx context.Context, after Deadline, limit int) ([]Deadline, error)
	// Stuck counts sagas nobody will ever look at again (invariant I1): always
	// zero. Live counts unfinished sagas by state.
	Stuck(ctx context.Context) (stuck int, live map[State]int, err error)
	// Neglected returns a page of sagas that make no progress, in the order of
	// their ids. Suspended ones, and those that need attention already, are not
	// among them. next is what to ask with as After for the next page, uuid.Nil
	// when this is the last: sagas that cannot be read are left out, so that a
	// page may be short, or empty, before the last.
	Neglected(ctx context.Context, q NeglectedQuery) (page []Stalled, next Ref, err error)
	// Node tells who an owner is. known: false when the store has forgotten it.
	Node(ctx context.Context, owner int64) (n Node, known bool, err error)
}

// Incarnation is a node from one registration to the next.
type Incarnation struct {
	Process    string // as given to Register
	LeaseUntil time.Time
}

// Deadline is the deadline of a saga's present phase: sagas are overdue in the
// order of their deadlines, those of one moment in that of their refs. The zero
// Deadline is before all others.
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

// Stalled is a saga that makes no progress, and why: ReasonUnowned and so on.
type Stalled struct {
	Saga   Saga
	Reason string
}

// Reasons of Stalled, which become Saga.AttentionReason.
const (
	ReasonUnowned  = "nobody_drives_it" // due, and no node has taken it
	ReasonNoAnswer = "no_answer"        // its call has been in flight for long
	ReasonFailing  = "keeps_failing"    // it is retried again and again
)

// Node is the holder of a lease.
type Node struct {
	Name       string
	LeaseUntil time.Time // database clock
	Alive      bool      // the lease has not ended
}
