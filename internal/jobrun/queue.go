package jobrun

import (
	"cmp"
	"context"
	"time"

	"github.com/google/uuid"

	"github.com/skald-saga/skald/internal/audit/operator"
	"github.com/skald-saga/skald/internal/page"
)

// QueueState determines whether the runs of a queue can be claimed.
type QueueState string

// States of queues.
const (
	QueueOpen QueueState = "OPEN"
	QueueHeld QueueState = "HELD" // until a person releases it
)

// QueueStates lists all states of queues.
var QueueStates = []QueueState{QueueOpen, QueueHeld}

// RunQueue is a queue of job runs. It exists as soon as anything uses its name.
type RunQueue struct {
	TenantID uuid.UUID
	Name     string
	State    QueueState
	Since    *time.Time // nil: never held
	Reason   string
	HeldBy   string // the subject of the person who holds it; "": it is not held
	Version  int64  // 0: never held
}

// Hold returns the queue as held by the person with the given subject, in its next version. changed
// is false if the same person already holds it for the same reason.
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

// Release returns the queue as open, in its next version. changed is false if it is already open.
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

// QueueCount counts the runs of a queue, each kind up to QueueMost. Capped reports that more runs
// wait.
type QueueCount struct {
	Waiting, Running int
	Capped           bool
}

// QueueMost is the maximum number of runs of a queue that are counted.
const QueueMost = 1000

// Queues stores which queues people hold.
type Queues interface {
	// Queue returns a queue, even if nothing uses it.
	Queue(ctx context.Context, tenant uuid.UUID, name string) (RunQueue, error)
	// ListQueues returns a page of the queues that are held, named by definitions, or served by
	// active workers, in the order of their names. If state is "", it returns queues in any state.
	ListQueues(ctx context.Context, tenant uuid.UUID, state QueueState, p page.Request[string]) (page.Of[RunQueue], error)
	// PutQueue stores q if the stored version is q.Version-1. Fault: Precondition CodeStale.
	PutQueue(ctx context.Context, q RunQueue, by operator.Action) error
	// CountQueue counts the queue's runs that are due and waiting, and those that workers hold.
	CountQueue(ctx context.Context, tenant uuid.UUID, name string) (QueueCount, error)
}
