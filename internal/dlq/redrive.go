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

// RedriveActions lists all actions.
var RedriveActions = []RedriveAction{BulkRetry, BulkDiscard, BulkResolve, BulkRequeue, BulkDelete}

// Order is the order in which a redrive takes its letters.
type Order string

// Orders.
const (
	Oldest Order = "oldest"
	// PerKey drives the letters with the same key one after the other, each only after the previous
	// one was acknowledged. A failure skips the remaining letters with that key.
	PerKey Order = "per_key"
)

// Canary is the first part of a redrive, which is watched before the rest follows.
type Canary struct {
	Count          int     `json:"count"`            // number of letters, at least 1
	WatchSeconds   int     `json:"watch_seconds"`    // how long to wait for bounces
	MaxBounceRatio float64 `json:"max_bounce_ratio"` // halts if a larger share of those done bounces; 0: any bounce
}

// StopOn defines when a redrive halts. Zero members never cause a halt.
type StopOn struct {
	Failures     int64   `json:"failures,omitempty"`
	FailureRatio float64 `json:"failure_ratio,omitempty"` // share of the letters tried, if at least 20 were
}

// Pauses maps the names of targets to the time until which they have asked not to be called.
type Pauses map[string]time.Time

// next returns the paused target that may be called again first, or "" if there is none.
func (p Pauses) next(now time.Time) (name string, until time.Time) {
	for n, at := range p {
		if now.Before(at) && (name == "" || at.Before(until)) {
			name, until = n, at
		}
	}
	return name, until
}

// Redrive is a bulk operation on letters, exposed as a resource with progress.
type Redrive struct {
	ID       uuid.UUID
	TenantID uuid.UUID
	Version  int64

	Action RedriveAction
	State  RedriveState
	// Unreadable means that the stored request is damaged. The redrive does nothing and can only be
	// canceled.
	Unreadable bool
	// HaltReason is kept when a halted redrive is canceled, so that a later reader sees why it had
	// stopped. Resuming clears it, but LastHalt is kept.
	HaltReason string
	IDs        []uuid.UUID     // the letters that it applies to: either these,
	Filter     *Filter         // or the covered letters that match this filter when it begins
	Query      json.RawMessage // the filter as requested, for display
	Max        int64           // maximum number of letters; 0: all

	Rate         float64 // letters per second over all nodes; positive
	Concurrency  int     // for ToHTTP, per node
	Order        Order
	Target       *Target         // nil: each letter's own
	Transform    json.RawMessage // JSON Patch applied to every payload; nil: none
	Force        bool            // DEAD letters are also retried
	Canary       *Canary
	StopOn       StopOn
	ScheduledFor *time.Time
	IncludeLater bool          // it also covers letters that arrive before it starts
	Snapshot     page.Snapshot // determines which letters it covers; "": see CoveredBefore
	Expected     *int64        // number of letters at the time of the request; nil: not counted
	HaltsAbove   *int64        // it halts if there are more letters than this; nil: no limit
	Approval     bool          // it was requested with approval_required
	RequestHash  []byte        // of the request from whose Idempotency-Key the id is derived; nil: none
	Reason       string
	Actor        string
	ApprovedBy   string

	// Their display names at that time.
	ActorName, ApprovedByName string

	Gathered bool  // Matched is final
	Matched  int64 // number of letters found
	Done     int64
	Failed   int64
	Skipped  int64 // their status had changed, or their key was blocked
	Bounced  int64 // those of Done that came back

	// Letters that have reached targets. Sent: the target responded. MaybeSent: unknown, because
	// the node died or no response arrived. Repeated: sent again after that.
	Sent      int64
	MaybeSent int64
	Repeated  int64

	// DoneBefore and FailedBefore are the counts at the time it was resumed after a halt. StopOn
	// counts from there.
	DoneBefore   int64
	FailedBefore int64
	Halts        int
	LastHalt     string // HaltReason of the last halt, kept after resuming; "": it never halted
	LastHaltedAt *time.Time

	ProgressAt  *time.Time // when a letter was last done, failed or skipped
	WaitingFor  string     // what a node is waiting for, as reported at WaitingAt
	WaitingAt   *time.Time
	Pauses      Pauses // letters for these targets wait
	LastError   string // from the last send that failed
	LastErrorAt *time.Time

	CreatedAt time.Time
	StartedAt *time.Time
	WatchedAt *time.Time // when the canary was done; it has been watched since then
	CanaryOK  bool       // the canary has passed
	EndedAt   *time.Time
	UpdatedAt time.Time
}

// Place is the redrive's position in a list.
func (r *Redrive) Place() page.TimeID { return page.TimeID{At: r.CreatedAt, ID: r.ID} }

// Left is the number of letters that it has not processed yet.
func (r *Redrive) Left() int64 { return max(0, r.Matched-r.Done-r.Failed-r.Skipped) }

// NeverSent is the number of letters that were certainly never sent to their targets.
func (r *Redrive) NeverSent() int64 {
	if r.Action != BulkRetry {
		return 0
	}
	return max(0, r.Matched-r.Sent-r.MaybeSent)
}

// watched returns the canary if it has not passed yet, and nil otherwise.
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
	RedrivePending   RedriveState = "PENDING"           // gathering its letters, or not yet due to start
	AwaitingApproval RedriveState = "AWAITING_APPROVAL" // another person must approve it
	RedriveRunning   RedriveState = "RUNNING"
	RedrivePaused    RedriveState = "PAUSED"
	RedriveHalted    RedriveState = "HALTED" // it halted automatically; see HaltReason
	RedriveCompleted RedriveState = "COMPLETED"
	RedriveCanceled  RedriveState = "CANCELED"
)
