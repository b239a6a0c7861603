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

// DefinitionFilter selects definitions; zero fields do not restrict the selection.
type DefinitionFilter struct {
	Name    string // exact, or with one * at its end
	Type    Type
	Enabled *bool
	Paused  *bool
	Label   string // name=value
	Command string
	BuiltIn *bool

	// ByName sorts by name instead of the time of creation; a page then begins after AfterName.
	ByName    bool
	Ascending bool
	AfterName string
}

// Definitions stores job definitions for their users. A tenant sees only its own definitions; for
// others the fault is NotFound. Any error other than the faults named here is an outage, after
// which the outcome of a write is unknown.
type Definitions interface {
	// Create stores a new definition with its first spec version. Fault: Conflict
	// (CodeNameTaken).
	Create(ctx context.Context, d Definition, by operator.Action) error
	// Definition returns the definition with an id or name. Fault: NotFound.
	Definition(ctx context.Context, tenant uuid.UUID, idOrName string) (Definition, error)
	ListDefinitions(ctx context.Context, tenant uuid.UUID, f DefinitionFilter, p page.ByTime) (page.Of[Definition], error)
	// Change stores a definition if the stored version is d.Version-1, and also its spec if
	// d.SpecVersion has grown. The next slot of a resumed or changed definition is d.NextDueAt.
	// Faults: NotFound, Stale, CodeNameTaken.
	Change(ctx context.Context, d Definition, by operator.Action) error
	// Delete marks a definition as deleted if its version is d.Version. If it has unfinished runs,
	// the fault is Conflict (CodeActiveRuns), unless force is set; with force, they are canceled or
	// their workers are asked to stop.
	Delete(ctx context.Context, d Definition, force bool, by operator.Action) error
	// Versions returns the versions of the definition's spec, newest first, at most 200.
	Versions(ctx context.Context, tenant, id uuid.UUID) ([]SpecVersion, error)
}

// Filter selects runs; zero fields do not restrict the selection. Bulks store it as JSON.
type Filter struct {
	States       []State   `json:"states,omitempty"`
	Triggers     []Trigger `json:"triggers,omitempty"`
	DefinitionID uuid.UUID `json:"definition_id,omitzero"`
	WorkerID     uuid.UUID `json:"worker_id,omitzero"`
	Queue        string    `json:"queue,omitempty"`
	// ConcurrencyKey, combined with States, finds the run that holds a key.
	ConcurrencyKey string `json:"concurrency_key,omitempty"`
	Label          string `json:"label,omitempty"` // name=value
	CorrelationID  string `json:"correlation_id,omitempty"`
	// CorrelationPrefix is how the correlation id begins. It has no wildcards.
	CorrelationPrefix string `json:"correlation_id_prefix,omitempty"`

	SagaID        uuid.UUID `json:"saga_id,omitzero"`
	RootRunID     uuid.UUID `json:"root_run_id,omitzero"`
	BackfillID    uuid.UUID `json:"backfill_id,omitzero"`
	ErrorCode     string    `json:"error_code,omitempty"`
	ScheduledFrom time.Time `json:"scheduled_from,omitzero"` // inclusive
	ScheduledTo   time.Time `json:"scheduled_to,omitzero"`   // exclusive
	CreatedFrom   time.Time `json:"created_from,omitzero"`
	CreatedTo     time.Time `json:"created_to,omitzero"`
	FinishedFrom  time.Time `json:"finished_from,omitzero"`
	FinishedTo    time.Time `json:"finished_to,omitzero"`
	LateByMS      int64     `json:"late_by_ms,omitempty"` // the run started, or still waits, this long after its slot
	// GaveUp selects runs that failed or timed out, have no retry or rerun, and do not belong to a
	// saga; false selects all others.
	GaveUp *bool `json:"gave_up,omitempty"`

	// Sort is the field by which a list is sorted, before the id. Ascending is the direction.
	// AfterKey is the text at the position after which a page begins, if Sort is a text.
	Sort      Sort   `json:"-"`
	Ascending bool   `json:"-"`
	AfterKey  string `json:"-"`
}

// Sort is the field by which a list of runs is sorted: a time, or a text in the order of its bytes
// followed by the time of creation. A list contains only runs in which that field is set.
type Sort string

// These are the sort fields of lists.
const (
	ByCreation    Sort = ""
	BySlot        Sort = "scheduled_for"
	ByEnd         Sort = "finished_at"
	ByCorrelation Sort = "correlation_id"
)

// OfText reports whether the list is sorted by a text.
func (s Sort) OfText() bool { return s == ByCorrelation }

// Place returns the position of a run in a list.
func (s Sort) Place(r *Run) page.KeyTimeID {
	at := page.KeyTimeID{TimeID: r.Place()}
	switch {
	case s == BySlot:
		at.At = r.ScheduledFor
	case s == ByEnd && r.FinishedAt != nil:
		at.At = *r.FinishedAt
	case s == ByCorrelation:
		at.Key = r.CorrelationID
	}
	return at
}

// SortOfPrefix is the required sort field of a list whose filter has a prefix: the runs that a
// prefix finds are adjacent only in the order of that text. ByCreation means that the filter has no
// prefix, so the list can be sorted by any field.
func (f *Filter) SortOfPrefix() Sort {
	if f.CorrelationPrefix != "" {
		return ByCorrelation
	}
	return ByCreation
}

// Runs stores job runs for operators. A tenant sees only its own runs.
type Runs interface {
	// Create stores a run and its action. If a run with the same idempotency key exists, Create
	// returns that run, and created is false. The fault is Conflict (CodeForbidden) if the run's
	// policy is forbid, its trigger is MANUAL, and another run with its concurrency key has not
	// ended; the detail names that run.
	Create(ctx context.Context, r Run, by operator.Action) (stored Run, created bool, err error)
	// MayCreate returns nil, or the fault that Create would currently return because of another
	// run. It stores nothing.
	MayCreate(ctx context.Context, r *Run) error
	// Run returns the run with an id. Fault: NotFound.
	Run(ctx context.Context, tenant, id uuid.UUID) (Run, error)
	ListRuns(ctx context.Context, tenant uuid.UUID, f Filter, p page.ByTime) (page.Of[Run], error)
	// Slots returns the results of slots of schedules, in chronological order.
	Slots(ctx context.Context, tenant uuid.UUID, q SlotQuery) ([]SlotRun, error)
	// RecentEnds returns how the last runs of each definition ended, newest first: the most
	// recently created runs, at most each of them per definition.
	RecentEnds(ctx context.Context, tenant uuid.UUID, definitions []uuid.UUID, each int) ([]RunEnd, error)
	// Attempts returns the attempts of a run, oldest first, including the current one.
	Attempts(ctx context.Context, tenant, id uuid.UUID) ([]Attempt, error)
	// Events returns the events of a run, oldest first, including those that its row and its
	// attempts imply. It returns at most 1000.
	Events(ctx context.Context, tenant, id uuid.UUID) ([]HistoryEvent, error)
	// Cancel ends a run that no worker holds or that has not been started. It asks the worker of a
	// RUNNING run to stop (CancelRequestedAt); with force it fences the worker and ends the run.
	// Fault: Conflict if the run has ended.
	Cancel(ctx context.Context, tenant, id uuid.UUID, force bool, by operator.Action) (Run, error)
	// Reassign takes a run from its worker. An ASSIGNED run becomes ORPHANED, without a token and
	// claimable immediately; for a RUNNING run, force is required. This does not count as a loss.
	// For an ORPHANED run, Reassign ends the wait. Fault: Conflict.
	Reassign(ctx context.Context, tenant, id uuid.UUID, force bool, by operator.Action) (Run, error)
	// Logs returns up to limit chunks starting at a position, including those of later attempts, in
	// order. It returns none if the log was offloaded.
	Logs(ctx context.Context, tenant, id uuid.UUID, from LogPosition, limit int) ([]LogChunk, error)
	// LogTail returns the last position from which the chunks before end contain at least that many
	// bytes, without splitting a chunk. For a shorter log it returns the start. Attempt 0 means all
	// attempts, and stream "" means all streams.
	LogTail(
		ctx context.Context, tenant, id uuid.UUID, attempt int, end LogPosition, bytes int, stream string,
	) (LogPosition, error)
}

// SlotQuery selects slots of schedules that have a run.
type SlotQuery struct {
	Definitions []uuid.UUID
	From, To    time.Time // exclusive
	Each        int       // maximum per definition; the earliest ones are returned
}

// SlotRun is a slot of a schedule and its run.
type SlotRun struct {
	DefinitionID uuid.UUID
	RunID        uuid.UUID
	At           time.Time
	State        State
	Reason       string // why it was skipped
	Withdrawn    bool   // withdrawn; the slot gets another run if it returns to the schedule
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

// LogEnd is a position after every chunk.
var LogEnd = LogPosition{math.MaxInt32, math.MaxInt32}

// Before reports whether a chunk at p precedes a chunk at q.
func (p LogPosition) Before(q LogPosition) bool {
	return p.Attempt < q.Attempt || p.Attempt == q.Attempt && p.Seq < q.Seq
}

// LogChunk is a part of a run's log.
type LogChunk struct {
	LogPosition
	At     time.Time // when it was stored, by the database's clock
	Stream string    // stdout, stderr or a name that the worker chose, at most 10 characters
	Body   []byte    // at most MaxLogChunk
}

// ClaimRequest is a worker's request for runs.
type ClaimRequest struct {
	TenantID uuid.UUID
	WorkerID uuid.UUID
	Slots    int      // 1..MaxClaim
	Queues   []string // nil: all queues for which the worker is registered; others are ignored
	ClaimID  string   // "" or at most 100 characters: a repeated claim returns the same runs
	Start    bool     // the runs become RUNNING immediately, for workers that do not call start
}

// Offer is a claimed run.
type Offer struct {
	Run
	LastCheckpoint json.RawMessage
	// Left is the remaining time of the lease after a repeated claim, by the database's clock; 0
	// means the full lease.
	Left time.Duration
}

// FencingToken is what a worker passes to other systems: "<epoch>.<seq>". It grows with every
// assignment of a concurrency key.
func (r *Run) FencingToken() string { return fencingToken(r.LeaderEpoch, r.FencingSeq) }

// Result is a worker's report of how a run ended. The run succeeded if Error is nil.
type Result struct {
	TenantID  uuid.UUID
	RunID     uuid.UUID
	Fence     Fence
	Value     json.RawMessage
	Error     *Error
	TimedOut  bool // with Error: the run becomes TIMED_OUT instead of FAILED
	ExitCode  *int
	Resources Resources
	Emit      []Emitted
}

// Emitted is an object that a run creates when it succeeds, in the same transaction: an event, or a
// run of another definition.
type Emitted struct {
	Event *NewEvent
	Run   *NextRun
}

// NextRun is a follow-up run that a run requests.
type NextRun struct {
	Definition   string          `json:"definition"` // id or name
	Args         json.RawMessage `json:"args,omitempty"`
	ScheduledFor *time.Time      `json:"scheduled_for,omitempty"`
	Key          string          `json:"idempotency_key,omitempty"` // "": its index in the list
}

// Done is the result of a worker's report on a run, or of a start.
type Done struct {
	// Run is the current run. After a start or a success without consequences, it contains only the
	// fields that the call contains or has changed: ids, fence, state, version, the lease of a
	// start, times, result, exit code and resources.
	Run      Run
	Replayed bool      // the call had already been applied
	RetryID  uuid.UUID // the run that retries it; zero: none
	RetryAt  *time.Time
	LetterID uuid.UUID // its dead letter; zero: none
	Err      error     // the fault of this report: see Judge
}

// Exchange is what a worker reports and requests in one call. All results come from this worker,
// and its claim starts the runs.
type Exchange struct {
	Results []Result
	Claim   ClaimRequest
}

// Exchanged is the answer to an Exchange.
type Exchanged struct {
	Done   []Done // one for each result, in the same order
	Offers []Offer
}

// Work is the interface for workers (jobrun.md 5b). All times are the database's. The workers of a
// tenant get only its runs. Refusals are faults with the codes that Judge returns.
type Work interface {
	// Register stores a worker that is starting under a new id (W1).
	Register(ctx context.Context, w WorkerProcess) error
	// Heartbeat renews the leases whose fences match and ends doubts about their runs, in one
	// statement (W2). A seq lower than the last one does not change the worker. Fault: Gone
	// (CodeWorkerGone) if the worker is detached or unknown.
	Heartbeat(
		ctx context.Context, tenant, worker uuid.UUID, seq int64, load float64, beats []Beat,
	) (WorkerProcess, []Lease, error)
	// Alive stores empty heartbeats for workers whose last heartbeat is older than fresh, and
	// revives LOST workers. It returns the state of each worker, except DETACHED and unknown ones.
	Alive(
		ctx context.Context, tenant uuid.UUID, workers []uuid.UUID, fresh time.Duration,
	) (map[uuid.UUID]WorkerState, error)
	// Claim assigns runs to an ACTIVE worker with a recent heartbeat, under the current epoch (W3).
	// The assignment is durable on return only with Start. If a crash undoes any other assignment,
	// its token is unknown and the worker's start is refused (J-26). Claim assigns no runs to a
	// draining worker, or if there is no leader. Fault: Gone.
	Claim(ctx context.Context, a ClaimRequest) ([]Offer, error)
	// ClaimEach is Claim for several workers in one statement; each worker claims once, from one
	// queue. A worker that gets no runs may still get some from Claim, which also returns the
	// reason.
	ClaimEach(ctx context.Context, asks []ClaimRequest) ([][]Offer, error)
	// Exchange combines Finish and then ClaimEach with Start for several workers, in one
	// transaction if all results are successes without consequences. A result is durable before a
	// run is assigned to its worker, and no run is assigned if a result could not be stored.
	Exchange(ctx context.Context, all []Exchange) ([]Exchanged, error)
	// Start makes runs RUNNING (W4, J-25) and returns one Done for each, in order.
	Start(ctx context.Context, tenant uuid.UUID, fences []RunFence) ([]Done, error)
	// Progress stores a worker's report and renews the lease (W5).
	Progress(ctx context.Context, tenant uuid.UUID, b Beat) (Run, error)
	// AppendLog stores a chunk; repeating the call changes nothing (W6). next is the number that
	// follows the highest stored one. Fault: CodeLogGap if a different chunk already has the
	// number.
	AppendLog(ctx context.Context, tenant, run uuid.UUID, f Fence, c LogChunk) (next int, err error)
	// Finish ends runs as their workers report (W7, W8), with all consequences in the same
	// transaction, and returns one Done for each, in order.
	Finish(ctx context.Context, results []Result) ([]Done, error)
	// Release returns a run, which becomes ORPHANED and claimable immediately. It does not charge a
	// budget (W9), unless the run's lease was lost. It is also Replayed if the run had already been
	// taken from the worker. The store fills in the settings in how.
	Release(ctx context.Context, tenant, run uuid.UUID, f Fence, how Released) (Done, error)
	// AckCancel ends a run whose cancel was requested (W10).
	AckCancel(ctx context.Context, tenant, run uuid.UUID, f Fence) (Done, error)
	// Confirm ends the doubt about a run before the deadline (W11).
	Confirm(ctx context.Context, tenant, run uuid.UUID, f Fence) (Run, error)
}

// ShownToken is a fencing token and the run for which it was issued, or uuid.Nil if the caller does
// not name the run.
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
	CheckedAt time.Time // by the database's clock
}

// FencingToken returns the token in the form that workers receive.
func (f *KeyFence) FencingToken() string { return fencingToken(f.Epoch, f.Seq) }

// Fences stores the fencing tokens that were checked. A tenant sees only its own.
type Fences interface {
	// CheckFence stores the newest token that was checked for key, and reports whether the given
	// token is at least as new. Fault: Invalid (CodeFenceNotIssued) for a newer token that no run
	// of the tenant holds or, if the caller names the run, that this run has never had. Such a
	// token is not stored.
	CheckFence(ctx context.Context, tenant uuid.UUID, key string, token ShownToken) (ok bool, err error)
	// ListFences returns a page of fences, ordered by key, without a total.
	ListFences(ctx context.Context, tenant uuid.UUID, p page.Request[string]) (page.Of[KeyFence], error)
	// Fence returns the fence of a key. Fault: NotFound.
	Fence(ctx context.Context, tenant uuid.UUID, key string) (KeyFence, error)
	// ResetFence deletes a fence, so that the next token is accepted, whatever its age. did returns
	// the action that is stored with the deletion. Fault: NotFound.
	ResetFence(ctx context.Context, tenant uuid.UUID, key string, did func(KeyFence) operator.Action) (KeyFence, error)
}

// RunFence identifies a run and its holder.
type RunFence struct {
	RunID uuid.UUID
	Fence Fence
}

// Workers stores workers for operators.
type Workers interface {
	Worker(ctx context.Context, tenant, id uuid.UUID) (WorkerProcess, error)
	ListWorkers(ctx context.Context, tenant uuid.UUID, states []WorkerState, p page.ByTime) (page.Of[WorkerProcess], error)
	// Move drains, undrains, detaches or undetaches a worker (to DRAINING, ACTIVE, DETACHED or
	// LOST). The runs of a DETACHED worker are in doubt immediately, and its process must register
	// again. Faults: NotFound, Conflict.
	Move(ctx context.Context, tenant, id uuid.UUID, to WorkerState, by operator.Action) (WorkerProcess, error)
}
