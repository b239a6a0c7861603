package jobrun

import (
	"cmp"
	"context"
	"time"

	"github.com/google/uuid"

	"github.com/skald-saga/skald/internal/audit/operator"
	"github.com/skald-saga/skald/internal/page"
)

// QueueState is whether the runs of a queue are handed out.
type QueueState string

// States of queues.
const (
	QueueOpen QueueState = "OPEN"
	QueueHeld QueueState = "HELD" // by a person, until a person releases it
)

// QueueStates lists them.
var QueueStates = []QueueState{QueueOpen, QueueHeld}

// RunQueue is a queue of job runs. It exists as soon as something uses its name.
type RunQueue struct {
	TenantID uuid.UUID
	Name     string
	State    QueueState
	Since    *time.Time // nil: it was never held
	Reason   string
	HeldBy   string // the subject of the person who holds it; "": it is not held
	Version  int64  // 0: it was never held
}

// Hold returns the queue held by a person, named by the subject, as its next version; changed is false if it is held by
// the same person for the same reason.
func (q RunQueue) Hold(by, reason string, now time.Time) (after RunQueue, changed bool) {
	by = cmp.Or(by, "a person")
	if q.State == QueueHeld && q.HeldBy == by && q.Reason == reason {
		return q, false
	}
	if q.State != QueueHeld {
		q.Since = &now
	}
	q.State, q.HeldBy, q.Reason = QueueHeld, by, reason
	q.Version++
	return q, true
}

// Release returns the queue open, as its next version; changed is false if it is open.
func (q RunQueue) Release(now time.Time) (after RunQueue, changed bool) {
	if q.State == QueueOpen {
		return q, false
	}
	q.State, q.Since, q.HeldBy, q.Reason = QueueOpen, &now, "", ""
	q.Version++
	return q, true
}

// Audited returns the value whose hash the audit trail records.
func (q *RunQueue) Audited() any {
	return map[string]any{"name": q.Name, "state": q.State, "reason": q.Reason, "held_by": q.HeldBy, "version": q.Version}
}

// QueueCount counts the runs of a queue, each up to QueueMost; Capped: more wait.
type QueueCount struct {
	Waiting, Running int
	Capped           bool
}

// QueueMost is up to how many runs of a queue are counted.
const QueueMost = 1000

// Queues stores which queues people hold.
type Queues interface {
	// Queue returns a queue, also one that nothing uses.
	Queue(ctx context.Context, tenant uuid.UUID, name string) (RunQueue, error)
	// ListQueues returns a page of the queues that are held, named by definitions, or served by active workers,
	// in the order of their names. If state is "", it returns queues in any state.
	ListQueues(ctx context.Context, tenant uuid.UUID, state QueueState, p page.Request[string]) (page.Of[RunQueue], error)
	// PutQueue stores q if the stored version is q.Version-1. Fault: Precondition CodeStale.
	PutQueue(ctx context.Context, q RunQueue, by operator.Action) error
	// CountQueue counts its runs that are due and wait, and those that workers have.
	CountQueue(ctx context.Context, tenant uuid.UUID, name string) (QueueCount, error)
}
