package dlq

import (
	"encoding/json"
	"time"

	"github.com/google/uuid"

	"github.com/skald-saga/skald/internal/page"
)

// RedriveAction is what a redrive does to each letter.
type RedriveAction string

// Actions of redrives.
const (
	BulkRetry   RedriveAction = "retry"
	BulkDiscard RedriveAction = "discard"
	BulkResolve RedriveAction = "resolve"
	BulkRequeue RedriveAction = "requeue"
	BulkDelete  RedriveAction = "delete"
)

// RedriveActions is every action.
var RedriveActions = []RedriveAction{BulkRetry, BulkDiscard, BulkResolve, BulkRequeue, BulkDelete}

// Order is the order in which a redrive takes its letters.
type Order string

// Orders.
const (
	Oldest Order = "oldest"
	// PerKey drives the letters of one key one after the other, each only when
	// the one before was acknowledged; a failure skips the rest of the key.
	PerKey Order = "per_key"
)

// Canary is the first part of a redrive, watched before the rest follows.
type Canary struct {
	Count          int     `json:"count"`            // letters, at least 1
	WatchSeconds   int     `json:"watch_seconds"`    // how long bounces are waited for
	MaxBounceRatio float64 `json:"max_bounce_ratio"` // more than this, of those done, halts; 0: any bounce
}

// StopOn is when a redrive halts; zero members never do.
type StopOn struct {
	Failures     int64   `json:"failures,omitempty"`
	FailureRatio float64 `json:"failure_ratio,omitempty"` // of at least 20 that were tried
}

// Pauses maps the names of targets to the time until which they have asked not to be called.
type Pauses map[string]time.Time

// next returns the paused target that may be called again first, "" if there is none.
func (p Pauses) next(now time.Time) (name string, until time.Time) {
	for n, at := range p {
		if now.Before(at) && (name == "" || at.Before(until)) {
			name, until = n, at
		}
	}
	return name, until
}

// Redrive is a bulk operation on letters, a resource with progress.
type Redrive struct {
	ID       uuid.UUID
	TenantID uuid.UUID
	Version  int64

	Action RedriveAction
	State  RedriveState
	// Unreadable: the stored request is damaged. The redrive does nothing and can only be
	// canceled.
	Unreadable bool
	// A redrive canceled after a halt keeps it, so that a later reader sees why it had
	// stopped. Resuming clears it; LastHalt stays.
	HaltReason string
	IDs        []uuid.UUID     // the letters that it applies to: these,
	Filter     *Filter         // or those it covers that match this when it begins
	Query      json.RawMessage // the filter as requested, for display
	Max        int64           // at most this many; 0: all

	Rate         float64 // letters per second, over all nodes; more than 0
	Concurrency  int     // of ToHTTP, per node
	Order        Order
	Target       *Target         // nil: each letter's own
	Transform    json.RawMessage // JSON Patch of every payload; nil: none
	Force        bool            // DEAD letters are retried too
	Canary       *Canary
	StopOn       StopOn
	ScheduledFor *time.Time
	IncludeLater bool          // it also covers letters that arrive before it starts
	Snapshot     page.Snapshot // which letters it covers; "": as CoveredBefore says
	Expected     *int64        // number of letters when it was requested; nil: they were not counted
	HaltsAbove   *int64        // it halts if there are more letters than this; nil: no limit
	Approval     bool          // it was requested with approval_required
	RequestHash  []byte        // of the request whose Idempotency-Key made the id; nil: none
	Reason       string
	Actor        string
	ApprovedBy   string

	// What people called them then.
	ActorName, ApprovedByName string

	Gathered bool  // Matched is final
	Matched  int64 // letters it found
	Done     int64
	Failed   int64
	Skipped  int64 // their status had changed, or their key was blocked
	Bounced  int64 // of Done: those that came back

	// Letters that have reached targets. Sent: the target answered. MaybeSent: unknown, because
	// the node died or no answer came. Repeated: sent again after that.
	Sent      int64
	MaybeSent int64
	Repeated  int64

	// DoneBefore and FailedBefore are the counts when it was resumed after a halt;
	// StopOn counts from there.
	DoneBefore   int64
	FailedBefore int64
	Halts        int
	LastHalt     string // HaltReason of the last halt, kept when it is resumed; "": it never halted
	LastHaltedAt *time.Time

	ProgressAt  *time.Time // when a letter was last done, failed or skipped
	WaitingFor  string     // what a node is waiting for, as reported at WaitingAt
	WaitingAt   *time.Time
	Pauses      Pauses // its letters for these targets wait
	LastError   string // of the last send that failed
	LastErrorAt *time.Time

	CreatedAt time.Time
	StartedAt *time.Time
	WatchedAt *time.Time // the canary is done, and being watched since then
	CanaryOK  bool       // the canary has passed
	EndedAt   *time.Time
	UpdatedAt time.Time
}

// Place is the redrive's position in a list.
func (r *Redrive) Place() page.TimeID { return page.TimeID{At: r.CreatedAt, ID: r.ID} }

// Left is how many letters it has not processed yet.
func (r *Redrive) Left() int64 { return max(0, r.Matched-r.Done-r.Failed-r.Skipped) }

// NeverSent is how many letters certainly never left for their target.
func (r *Redrive) NeverSent() int64 {
	if r.Action != BulkRetry {
		return 0
	}
	return max(0, r.Matched-r.Sent-r.MaybeSent)
}

// watched returns the canary that has not passed yet, nil if there is none.
func (r *Redrive) watched() *Canary {
	if r.CanaryOK {
		return nil
	}
	return r.Canary
}

// RedriveState is the state of a redrive.
type RedriveState string

// States of redrives.
const (
	RedrivePending   RedriveState = "PENDING"           // its letters are being gathered, or its start time has not come
	AwaitingApproval RedriveState = "AWAITING_APPROVAL" // another person must approve it
	RedriveRunning   RedriveState = "RUNNING"
	RedrivePaused    RedriveState = "PAUSED"
	RedriveHalted    RedriveState = "HALTED" // it halted automatically: see HaltReason
	RedriveCompleted RedriveState = "COMPLETED"
	RedriveCanceled  RedriveState = "CANCELED"
)
