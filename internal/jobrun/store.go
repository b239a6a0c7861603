package jobrun

import (
	"context"
	"encoding/json"
	"math"
	"time"

	"github.com/google/uuid"

	"github.com/skald-saga/skald/internal/audit/operator"
	"github.com/skald-saga/skald/internal/page"
)

// DefinitionFilter selects definitions; zero fields do not restrict.
type DefinitionFilter struct {
	Name    string // exact, or with one * at its end
	Type    Type
	Enabled *bool
	Paused  *bool
	Label   string // name=value
	Command string
	BuiltIn *bool
}

// Definitions is job definitions as their users see them. A tenant sees only its
// own (fault NotFound). Any other error than the stated faults is an outage, and
// the outcome of a write is then unknown.
type Definitions interface {
	// Create stores a new definition with its first spec version. Fault: Conflict
	// (CodeNameTaken).
	Create(ctx context.Context, d Definition, by operator.Action) error
	// Definition returns one by its id or name. Fault: NotFound.
	Definition(ctx context.Context, tenant uuid.UUID, idOrName string) (Definition, error)
	ListDefinitions(ctx context.Context, tenant uuid.UUID, f DefinitionFilter, p page.ByTime) (page.Of[Definition], error)
	// Change stores a definition if the stored version is d.Version-1, and its spec
	// when d.SpecVersion has grown. A resumed or changed definition's next slot is
	// d.NextDueAt. Faults: NotFound, Stale, CodeNameTaken.
	Change(ctx context.Context, d Definition, by operator.Action) error
	// Delete marks it deleted if the version is d.Version. With runs that have not
	// ended: Conflict (CodeActiveRuns), unless force; then they are canceled, or
	// asked to be.
	Delete(ctx context.Context, d Definition, force bool, by operator.Action) error
	// Versions returns the versions of its spec, newest first, at most 200.
	Versions(ctx context.Context, tenant, id uuid.UUID) ([]SpecVersion, error)
}

// Filter selects runs; zero fields do not restrict. JSON is how a bulk keeps it.
type Filter struct {
	States       []State   `json:"states,omitempty"`
	Triggers     []Trigger `json:"triggers,omitempty"`
	DefinitionID uuid.UUID `json:"definition_id,omitzero"`
	WorkerID     uuid.UUID `json:"worker_id,omitzero"`
	Queue        string    `json:"queue,omitempty"`
	// ConcurrencyKey finds who has a key, with States.
	ConcurrencyKey string    `json:"concurrency_key,omitempty"`
	Label          string    `json:"label,omitempty"` // name=value
	CorrelationID  string    `json:"correlation_id,omitempty"`
	SagaID         uuid.UUID `json:"saga_id,omitzero"`
	RootRunID      uuid.UUID `json:"root_run_id,omitzero"`
	BackfillID     uuid.UUID `json:"backfill_id,omitzero"`
	ErrorCode      string    `json:"error_code,omitempty"`
	ScheduledFrom  time.Time `json:"scheduled_from,omitzero"` // inclusive
	ScheduledTo    time.Time `json:"scheduled_to,omitzero"`   // exclusive
	CreatedFrom    time.Time `json:"created_from,omitzero"`
	CreatedTo      time.Time `json:"created_to,omitzero"`
	FinishedFrom   time.Time `json:"finished_from,omitzero"`
	FinishedTo     time.Time `json:"finished_to,omitzero"`
	LateByMS       int64     `json:"late_by_ms,omitempty"` // started, or still waiting, this long after its slot
}

// Runs is job runs as operators see them. A tenant sees only its own.
type Runs interface {
	// Create stores a run and its action. A run of that idempotency key is not
	// stored again: it is returned, and created is false. Fault: Conflict
	// (CodeForbidden) when its policy is forbid, its trigger MANUAL and another run
	// of its key has not ended; the detail names that run.
	Create(ctx context.Context, r Run, by operator.Action) (stored Run, created bool, err error)
	// Run returns one. Fault: NotFound.
	Run(ctx context.Context, tenant, id uuid.UUID) (Run, error)
	ListRuns(ctx context.Context, tenant uuid.UUID, f Filter, p page.ByTime) (page.Of[Run], error)
	// Slots returns what happened to slots of schedules, in order of time.
	Slots(ctx context.Context, tenant uuid.UUID, q SlotQuery) ([]SlotRun, error)
	// RecentEnds returns how the last runs of definitions ended, at most each of every definition: those created
	// last, newest first.
	RecentEnds(ctx context.Context, tenant uuid.UUID, definitions []uuid.UUID, each int) ([]RunEnd, error)
	// Attempts returns the attempts of a run, oldest first, the present one too.
	Attempts(ctx context.Context, tenant, id uuid.UUID) ([]Attempt, error)
	// Events returns the decisions about a run, oldest first, with those that its
	// row and its attempts tell; at most 1000.
	Events(ctx context.Context, tenant, id uuid.UUID) ([]HistoryEvent, error)
	// Cancel ends a run that is with no worker, or has not been started; of a RUNNING
	// one it asks the worker to stop (CancelRequestedAt), with force it fences the
	// worker and ends it. Fault: Conflict when it has ended.
	Cancel(ctx context.Context, tenant, id uuid.UUID, force bool, by operator.Action) (Run, error)
	// Reassign takes a run from its worker: ASSIGNED → ORPHANED, without a token,
	// claimable immediately; a RUNNING one only with force. It does not count as a
	// loss. For an ORPHANED run it ends the wait. Fault: Conflict.
	Reassign(ctx context.Context, tenant, id uuid.UUID, force bool, by operator.Action) (Run, error)
	// Logs returns up to limit chunks from that place on, those of later attempts
	// too, in order; none of a log that was offloaded.
	Logs(ctx context.Context, tenant, id uuid.UUID, from LogPosition, limit int) ([]LogChunk, error)
	// LogTail returns where the last bytes of those before end begin, in whole chunks, as many as it takes
	// to have that many; the start of the log if it is shorter. Attempt 0: all attempts; stream
	// "": all streams.
	LogTail(
		ctx context.Context, tenant, id uuid.UUID, attempt int, end LogPosition, bytes int, stream string,
	) (LogPosition, error)
}

// SlotQuery selects slots of schedules that have a run.
type SlotQuery struct {
	Definitions []uuid.UUID
	From, To    time.Time // To is not included
	Each        int       // how many of each definition, the earliest
}

// SlotRun is a slot of a schedule with what happened to it.
type SlotRun struct {
	DefinitionID uuid.UUID
	RunID        uuid.UUID
	At           time.Time
	State        State
	Reason       string // why it was skipped
	Withdrawn    bool   // the slot was withdrawn; it gets another run if the schedule has it again
}

// RunEnd is how a run of a definition ended.
type RunEnd struct {
	DefinitionID uuid.UUID
	RunID        uuid.UUID
	State        State
	At           time.Time
}

// LogPosition is the position of a chunk in a run's log.
type LogPosition struct {
	Attempt int
	Seq     int
}

// LogEnd is after every chunk.
var LogEnd = LogPosition{math.MaxInt32, math.MaxInt32}

// Before reports whether a chunk at p comes before one at q.
func (p LogPosition) Before(q LogPosition) bool {
	return p.Attempt < q.Attempt || p.Attempt == q.Attempt && p.Seq < q.Seq
}

// LogChunk is a piece of a run's log.
type LogChunk struct {
	LogPosition
	At     time.Time // when it was stored, database clock
	Stream string    // stdout, stderr or the worker's word, at most 10 characters
	Body   []byte    // at most MaxLogChunk
}

// ClaimRequest is a worker's wish for work.
type ClaimRequest struct {
	TenantID uuid.UUID
	WorkerID uuid.UUID
	Slots    int      // 1..MaxClaim
	Queues   []string // nil: those that it registered; others are not given
	ClaimID  string   // "" or at most 100 characters: a repetition gives the same runs again
	Start    bool     // they are RUNNING immediately: for workers that do not call start
}

// Offer is a claimed run.
type Offer struct {
	Run
	LastCheckpoint json.RawMessage
	// Left is the remaining lease after a repeated claim, by the database's clock; 0:
	// the full lease.
	Left time.Duration
}

// FencingToken is what a worker hands on to other systems: grows with every
// assignment of a concurrency key. "<epoch>.<seq>".
func (r *Run) FencingToken() string { return fencingToken(r.LeaderEpoch, r.FencingSeq) }

// Result is what a worker reports of a run: complete when Error is nil.
type Result struct {
	TenantID  uuid.UUID
	RunID     uuid.UUID
	Fence     Fence
	Value     json.RawMessage
	Error     *Error
	TimedOut  bool // with Error: TIMED_OUT instead of FAILED
	ExitCode  *int
	Resources Resources
	Emit      []Emitted
}

// Emitted is what a run leaves behind with its success, in the same transaction:
// an event, or a run of another definition.
type Emitted struct {
	Event *NewEvent
	Run   *NextRun
}

// NextRun is a run that a run wants to follow it.
type NextRun struct {
	Definition   string          `json:"definition"` // id or name
	Args         json.RawMessage `json:"args,omitempty"`
	ScheduledFor *time.Time      `json:"scheduled_for,omitempty"`
	Key          string          `json:"idempotency_key,omitempty"` // "": the place in the list
}

// Done is the result of a worker's report on a run, or of a start.
type Done struct {
	// Run is the run as it is now. After a start, or a success without consequences, it
	// has only what the call knew and changed: ids, fence, state, version, the lease of
	// a start, times, result, exit code and resources.
	Run      Run
	Replayed bool      // it was there before
	RetryID  uuid.UUID // the run that follows; zero: none
	RetryAt  *time.Time
	LetterID uuid.UUID // the dead letter; zero: none
	Err      error     // a fault of this one: see Judge
}

// Work is the worker's side (jobrun.md 5b). All times are the database's. A tenant's
// workers get only its runs. Refusals are faults, with the codes that Judge gives.
type Work interface {
	// Register stores a worker that starts, under a new id (W1).
	Register(ctx context.Context, w WorkerProcess) error
	// Heartbeat renews the leases whose fence is right and takes them out of doubt,
	// in one statement (W2). seq lower than the last one changes nothing of the
	// worker. Fault: Gone (CodeWorkerGone) when it is detached or unknown.
	Heartbeat(
		ctx context.Context, tenant, worker uuid.UUID, seq int64, load float64, beats []Beat,
	) (WorkerProcess, []Lease, error)
	// Alive stores heartbeats without content for workers whose last one is older than
	// fresh; a LOST worker is revived. It returns the state of each worker; DETACHED
	// and unknown ones are left out.
	Alive(
		ctx context.Context, tenant uuid.UUID, workers []uuid.UUID, fresh time.Duration,
	) (map[uuid.UUID]WorkerState, error)
	// Claim assigns runs to an ACTIVE worker with a fresh heartbeat, under the current
	// epoch (W3). Only with Start is the assignment durable on return: if a crash takes
	// back another one, its token is unknown and the worker's start is refused (J-26).
	// Without a leader, or for a draining worker, it assigns none. Fault: Gone.
	Claim(ctx context.Context, a ClaimRequest) ([]Offer, error)
	// ClaimEach is Claim for several different workers in one statement, each of which
	// names one queue and starts its runs itself. A worker that gets nothing may still
	// get something from Claim, which also returns the reason.
	ClaimEach(ctx context.Context, asks []ClaimRequest) ([][]Offer, error)
	// Start makes runs RUNNING (W4, J-25): one Done for each, in order.
	Start(ctx context.Context, tenant uuid.UUID, fences []RunFence) ([]Done, error)
	// Progress keeps what a worker tells, and renews the lease (W5).
	Progress(ctx context.Context, tenant uuid.UUID, b Beat) (Run, error)
	// AppendLog stores a chunk; the same again is nothing new (W6). next is the
	// number that follows the highest stored one. Fault: CodeLogGap when another
	// chunk has its number.
	AppendLog(ctx context.Context, tenant, run uuid.UUID, f Fence, c LogChunk) (next int, err error)
	// Finish ends runs as their workers report (W7, W8), with all that follows from
	// it in the same transaction: one Done for each, in order.
	Finish(ctx context.Context, results []Result) ([]Done, error)
	// Release gives a run back: ORPHANED, claimable immediately, no budget used (W9),
	// unless its lease was lost. It is also Replayed when the run was already taken from
	// the worker. The settings of how are those of the store.
	Release(ctx context.Context, tenant, run uuid.UUID, f Fence, how Released) (Done, error)
	// AckCancel ends a run that was asked to cancel (W10).
	AckCancel(ctx context.Context, tenant, run uuid.UUID, f Fence) (Done, error)
	// Confirm takes a run out of doubt before the deadline (W11).
	Confirm(ctx context.Context, tenant, run uuid.UUID, f Fence) (Run, error)
	// CheckFence remembers the newest token that key has shown, and reports whether this one is not
	// older. Fault: Invalid (CodeFenceNotIssued) for a newer one that no run of the tenant holds, or
	// was ever given if it names the run; that is not remembered.
	CheckFence(ctx context.Context, tenant uuid.UUID, key string, token ShownToken) (ok bool, err error)
}

// ShownToken is a fencing token, and the run to which it was given if the caller says so:
// uuid.Nil if not.
type ShownToken struct {
	Epoch, Seq int64
	Run        uuid.UUID
}

// KeyFence is the newest fencing token that was checked for a key.
type KeyFence struct {
	TenantID  uuid.UUID
	Key       string
	Epoch     int64
	Seq       int64
	CheckedAt time.Time // database clock
}

// FencingToken is the token as workers have it.
func (f *KeyFence) FencingToken() string { return fencingToken(f.Epoch, f.Seq) }

// Fences is what was checked for other systems, as operators see it. A tenant sees
// only its own.
type Fences interface {
	// ListFences returns them by key; they are not counted.
	ListFences(ctx context.Context, tenant uuid.UUID, p page.Request[string]) (page.Of[KeyFence], error)
	// Fence returns one. Fault: NotFound.
	Fence(ctx context.Context, tenant uuid.UUID, key string) (KeyFence, error)
	// ResetFence forgets one: the next token that is checked counts, however old. did
	// makes the action that is stored with it. Fault: NotFound.
	ResetFence(ctx context.Context, tenant uuid.UUID, key string, did func(KeyFence) operator.Action) (KeyFence, error)
}

// RunFence names a run and who holds it.
type RunFence struct {
	RunID uuid.UUID
	Fence Fence
}

// Workers is workers as operators see them.
type Workers interface {
	Worker(ctx context.Context, tenant, id uuid.UUID) (WorkerProcess, error)
	ListWorkers(ctx context.Context, tenant uuid.UUID, states []WorkerState, p page.ByTime) (page.Of[WorkerProcess], error)
	// Move drains, undrains, detaches or undetaches a worker (to DRAINING, ACTIVE, DETACHED,
	// LOST). The runs of a DETACHED one are in doubt immediately, and its process must
	// register again. Faults: NotFound, Conflict.
	Move(ctx context.Context, tenant, id uuid.UUID, to WorkerState, by operator.Action) (WorkerProcess, error)
}
