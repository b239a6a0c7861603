package jobrun

import (
	"encoding/json"
	"time"

	"github.com/google/uuid"

	"github.com/skald-saga/skald/internal/dlq"
	"github.com/skald-saga/skald/internal/page"
	"github.com/skald-saga/skald/internal/strictjson/plaintext"
)

// Run is one execution of a definition (seed 5's JobRun, A-03).
type Run struct {
	ID             uuid.UUID
	TenantID       uuid.UUID
	DefinitionID   uuid.UUID
	DefinitionName string
	SpecVersion    int
	CommandName    string
	// ContentUnreadable reports that encrypted content of the run could not be decrypted and is
	// omitted. It is set only when a run is read for display.
	ContentUnreadable bool
	Version           int64 // J-03; grows with every transition, but not with renewals (S12)

	State   State
	Trigger Trigger
	// ScheduledFor is the slot, in UTC. For a run without a slot it is the time of the request
	// (S4). A retry or rerun has the value of the run that it repeats, because its worker does the
	// work of the same day.
	ScheduledFor time.Time
	AvailableAt  time.Time  // it is not assigned before this time
	AdmittedAt   *time.Time // when it became due and allowed by its policy, and thus claimable; nil: not yet

	Queue          string
	Priority       int
	RequiredLabels []string // name=value, sorted
	Labels         []string // name=value, sorted
	Args           json.RawMessage
	IdempotencyKey string // unique per tenant
	ConcurrencyKey string // "": any number at once
	Concurrency    Policy
	TimeoutMS      int64 // 0: no timeout

	Attempt      int // number of the attempt: grows with every assignment and never falls
	FailuresUsed int // charged to the failure budget of the whole chain of retries
	LossesUsed   int // charged to the loss budget of this row
	MaxLosses    int

	// These fields are the fence. They are zero until the first assignment.
	WorkerID       uuid.UUID
	AssignedAt     *time.Time
	LeaseToken     uuid.UUID
	LeaseExpiresAt *time.Time
	LeaderEpoch    int64
	FencingSeq     int64

	StartedAt         *time.Time
	FinishedAt        *time.Time
	Continuation      Continuation
	ConfirmStartedAt  *time.Time
	ConfirmDeadlineAt *time.Time
	CancelRequestedAt *time.Time
	CancelReason      string
	SkipReason        string // why it was SKIPPED; set only in lists
	Progress          *Progress
	Checkpoint        json.RawMessage // passed to the next attempt

	ExitCode  *int
	Result    json.RawMessage
	Error     *Error
	Resources Resources
	LogBytes  int64
	LogRef    string // "": its log is in the database
	LogSHA256 []byte

	RootRunID     uuid.UUID // the first run of its chain of retries, possibly itself
	RetryOfRunID  uuid.UUID // zero: none
	RetryNumber   int       // 0: not a retry
	SagaID        uuid.UUID
	SagaStep      int
	SagaAction    string // EXECUTE or COMPENSATE
	EventID       uuid.UUID
	LetterID      uuid.UUID // the dead letter that the run retries
	BackfillID    uuid.UUID
	CorrelationID string
	TraceID       string
	TraceState    string // W3C Trace Context; passed to its worker unchanged
	Baggage       string // W3C Baggage, likewise

	// InitiatedBy is the subject of the run's initiator: the principal that requested it, started
	// its saga, published its event, or last changed its definition. "" means Skald, or unknown.
	// InitiatedAs is the role whose permissions the run has; see Rights.
	InitiatedBy string
	InitiatedAs string

	CreatedAt, UpdatedAt time.Time
}

// Place returns the run's position in a list.
func (r *Run) Place() page.TimeID { return page.TimeID{At: r.CreatedAt, ID: r.ID} }

// Progress is what a worker reports while it executes a run.
type Progress struct {
	Percent  *float64           `json:"percent,omitempty"` // 0..100
	Message  string             `json:"message,omitempty"` // at most 1000 characters
	Counters map[string]float64 `json:"counters,omitempty"`
}

// Storable returns p with a message that can be stored. texts records whether the message was
// changed; at is the pointer of p in the request.
func (p Progress) Storable(at string, texts *plaintext.Members) *Progress {
	p.Message = texts.Storable(at+"/message", p.Message, plaintext.Characters(MaxProgress))
	return &p
}

// Error is why a run failed.
type Error struct {
	Code      string `json:"code"` // the worker's code, or one of Skald's (ErrLost …)
	Type      string `json:"type,omitempty"`
	Message   string `json:"message"`
	Stack     string `json:"stack,omitempty"`
	Retryable bool   `json:"retryable"` // false: another attempt would not help
}

// Storable returns e with texts that can be stored, as Progress.Storable does. The limits of the
// texts are those of a dead letter, because the error may become one.
func (e Error) Storable(at string, texts *plaintext.Members) *Error {
	e.Code = texts.Storable(at+"/code", e.Code, plaintext.Bytes(MaxErrorCode))
	e.Type = texts.Storable(at+"/type", e.Type, plaintext.Bytes(dlq.MaxWord))
	e.Message = texts.Storable(at+"/message", e.Message, plaintext.Bytes(dlq.MaxError))
	e.Stack = texts.Storable(at+"/stack", e.Stack, plaintext.Bytes(dlq.MaxStack))
	return &e
}

// These are the error codes that Skald sets.
const (
	ErrLost     = "LOST"      // its workers were lost too often (S7)
	ErrTimedOut = "TIMED_OUT" // the timeout was exceeded
)

// Resources are what an execution consumed, as measured by its worker. Nil means unknown.
type Resources struct {
	CPUSecondsTotal *float64
	PeakRSSBytes    *int64
	IOReadBytes     *int64
	IOWriteBytes    *int64
}

// Fence proves on every call that a worker still owns a run (jobrun.md 5b). The token decides. The
// other members are compared as well and make refusals easier to understand.
type Fence struct {
	WorkerID    uuid.UUID
	Attempt     int
	LeaseToken  uuid.UUID
	LeaderEpoch int64
}

// Fence returns the run's current fence; zero if no worker holds it.
func (r *Run) Fence() Fence {
	return Fence{WorkerID: r.WorkerID, Attempt: r.Attempt, LeaseToken: r.LeaseToken, LeaderEpoch: r.LeaderEpoch}
}

// Attempt is one assignment of a run and its result (S19).
type Attempt struct {
	Number     int
	Fence      Fence
	FencingSeq int64
	AssignedAt time.Time
	StartedAt  *time.Time
	EndedAt    *time.Time // nil: under way
	Outcome    string     // ORPHANED, RELEASED, REASSIGNED, a terminal state, or "" while under way
	Reason     string
}

// HistoryEvent is a decision about a run: who made it, under which epoch, and why.
type HistoryEvent struct {
	At       time.Time
	Kind     EventKind
	From, To State // equal or "": no transition
	Version  int64
	Attempt  int
	Epoch    int64     // 0: the leader did not make it
	WorkerID uuid.UUID // zero: none
	Actor    string    // subject of the credential; "": Skald
	Reason   string
}

// EventKind is the kind of a HistoryEvent.
type EventKind string

// Kinds of events.
const (
	WasCreated    EventKind = "created"
	WasAdmitted   EventKind = "admitted"
	WasHeldBack   EventKind = "held_back" // because of its concurrency policy
	WasSkipped    EventKind = "skipped"
	WasAssigned   EventKind = "assigned"
	WasStarted    EventKind = "started"
	WasDoubted    EventKind = "confirming"
	WasConfirmed  EventKind = "confirmed"
	WasOrphaned   EventKind = "orphaned"
	WasReleased   EventKind = "released"
	WasReassigned EventKind = "reassigned"
	WasCancelAsk  EventKind = "cancel_requested"
	WasCanceled   EventKind = "canceled"
	WasSucceeded  EventKind = "succeeded"
	WasFailed     EventKind = "failed"
	WasTimedOut   EventKind = "timed_out"
	WasRetried    EventKind = "retry_created"
	WasDeadLetter EventKind = "dead_lettered"
	WasRefused    EventKind = "refused" // a call with an outdated fence was refused (J3)
	WasOffloaded  EventKind = "log_offloaded"
)
