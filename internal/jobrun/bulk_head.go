package jobrun

import (
	"time"

	"github.com/google/uuid"

	"github.com/skald-saga/skald/internal/fault"
	"github.com/skald-saga/skald/internal/page"
)

// States of backfills and bulks.
const (
	BulkRunning   BulkState = "RUNNING"
	BulkCompleted BulkState = "COMPLETED" // everything was done, and of a backfill has ended
	BulkCanceled  BulkState = "CANCELED"
)

// BulkHead contains the common fields of backfills and bulks: both are created,
// progress in steps of the leader while RUNNING, and end once.
type BulkHead struct {
	ID        uuid.UUID
	TenantID  uuid.UUID
	Version   int64 // grows with every change that people see
	State     BulkState
	Reason    string
	Actor     string
	CreatedAt time.Time
	EndedAt   *time.Time
	// Unreadable: the stored filter is damaged. Nothing is done by it; it can be canceled.
	Unreadable bool
}

// Place is where it stands in a list.
func (b *BulkHead) Place() page.TimeID { return page.TimeID{At: b.CreatedAt, ID: b.ID} }

// Head is b itself, of a backfill or a bulk.
func (b *BulkHead) Head() *BulkHead { return b }

// End ends it.
func (b *BulkHead) End(as BulkState, at time.Time) {
	b.State, b.Version, b.EndedAt = as, b.Version+1, &at
}

func (b *BulkHead) cancel(what string, at time.Time) (changed bool, err error) {
	if b.State != BulkRunning {
		return false, fault.New(fault.Conflict, CodeConflict, "the %s is %s and cannot be canceled", what, b.State)
	}
	b.End(BulkCanceled, at)
	return true, nil
}

// BulkState is the state of a backfill or a bulk.
type BulkState string
