package saga

import (
	"context"
	"time"

	"github.com/google/uuid"

	"github.com/skald-saga/skald/internal/idempotency"
	"github.com/skald-saga/skald/internal/page"
)

// Archive is the part of a store that moves ended sagas out of the live tables and keeps them
// readable (decision 0019). No method of Store returns an archived saga until it is restored,
// but its id and its idempotency keys stay taken. Faults are as stated; any other error is an
// outage. Implementations are safe for concurrent use, including by several nodes.
type Archive interface {
	// ArchiveExpired moves up to limit sagas that e selects, durably on return, and
	// returns how many; 0 when there is nothing left to do. A saga and its step logs
	// move in one transaction. Sagas that are locked, by a writer or by another caller
	// of this method, are skipped.
	ArchiveExpired(ctx context.Context, e Expiry, limit int) (int, error)
	// CountExpired returns what ArchiveExpired would move, by workflow name and tenant: at most
	// maxEach of either kind per workflow, and at most 1000 workflows. Workflows without any
	// are omitted.
	CountExpired(ctx context.Context, e Expiry, maxEach int) ([]Expired, error)
	// GetArchived returns an archived saga with its step logs in the order of Store.StepLogs,
	// from one snapshot. Fault: NotFound.
	GetArchived(ctx context.Context, tenant, id uuid.UUID, want Logs) (Archived, error)
	// ListArchived is Store.List of the archive: the same filters and order.
	ListArchived(ctx context.Context, tenant uuid.UUID, f Filter) (page.Of[Archived], error)
	// Restore makes an archived saga live again exactly as it was, durable on return;
	// its retention starts over. Faults: NotFound when the tenant's archive has no such
	// saga (it may be live); Conflict with idempotency.CodeUsed when r.Key is taken.
	Restore(ctx context.Context, r Restoration) error
}

// Retention is how long ended sagas stay live. A field that is not above 0 means forever.
type Retention struct {
	Completed time.Duration // of those that completed
	Failed    time.Duration // of those that ended in any other way
}

// Expiry selects the sagas that have been live long enough after their end: longer than the
// retention of the latest version of their workflow, or than Default if that has none. Sagas
// that need attention are never selected. For a restored saga, the retention counts from its
// restore.
type Expiry struct {
	Tenant  uuid.UUID // Nil: of all tenants
	Default Retention
	// Before, unless zero, replaces every retention, including unlimited ones: sagas that ended
	// before it are selected.
	Before time.Time
}

// Expired counts the sagas of one workflow that may be archived.
type Expired struct {
	TenantID     uuid.UUID
	WorkflowName string
	Completed    int
	Failed       int // ended in any other way
}

// Archived is a saga in the archive.
type Archived struct {
	Loaded
	ArchivedAt time.Time
}

// Restoration is the request to restore an archived saga.
type Restoration struct {
	TenantID uuid.UUID
	SagaID   uuid.UUID
	Event    AuditEvent       // Saga.Restored; stored with it
	Key      *idempotency.Key // nil: none
}

// RestoreRule is the only verb that an archived saga accepts; live sagas do not accept it.
var RestoreRule = VerbRule{Verb: "restore", Needs: Admin, Description: "make it live again, with its step logs"}

// ArchivedActions lists the operator verbs that an archived saga accepts.
func ArchivedActions() []string { return []string{string(RestoreRule.Verb)} }
