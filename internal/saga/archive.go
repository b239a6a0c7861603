package saga

import (
	"context"
	"time"

	"github.com/google/uuid"

	"github.com/skald-saga/skald/internal/idempotency"
	"github.com/skald-saga/skald/internal/page"
)

// Archive is the part of a store that moves ended sagas out of the live tables and keeps them
// readable (decision 0019). No method of Store returns an archived saga until it is restored, but
// its id and its idempotency keys stay taken. Each method lists its faults; any other error is an
// outage. Implementations are safe for concurrent use, including by several nodes.
type Archive interface {
	// ArchiveExpired moves up to limit sagas that e selects and returns their number, which is 0
	// when nothing is left to do. The move is durable on return. A saga and its step logs move in
	// one transaction. Sagas that are locked, by a writer or by another caller of this method, are
	// skipped.
	ArchiveExpired(ctx context.Context, e Expiry, limit int) (int, error)
	// CountExpired counts the sagas that ArchiveExpired would move, by workflow name and tenant. It
	// counts at most maxEach of either kind per workflow, for at most 1000 workflows. Workflows
	// without such sagas are omitted.
	CountExpired(ctx context.Context, e Expiry, maxEach int) ([]Expired, error)
	// GetArchived returns an archived saga with its step logs in the order of Store.StepLogs,
	// from one snapshot. Fault: NotFound.
	GetArchived(ctx context.Context, tenant, id uuid.UUID, want Logs) (Archived, error)
	// ListArchived is like Store.List but for the archive, with the same filters and order.
	ListArchived(ctx context.Context, tenant uuid.UUID, f Filter) (page.Of[Archived], error)
	// Restore makes an archived saga live again exactly as it was, durably on return; its retention
	// period starts over. Faults: NotFound if the tenant's archive has no such saga (it may be
	// live); Conflict with idempotency.CodeUsed if r.Key is taken.
	Restore(ctx context.Context, r Restoration) error
}

// Retention is how long ended sagas stay live. A field that is zero or negative means forever.
type Retention struct {
	Completed time.Duration // for sagas that completed
	Failed    time.Duration // for sagas that ended in any other state
}

// Expiry selects sagas that ended longer ago than their retention, which is that of the latest
// version of their workflow, or Default if that version sets none. Sagas that need attention are
// never selected. The retention of a restored saga counts from its restore.
type Expiry struct {
	Tenant  uuid.UUID // Nil means all tenants
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
	Failed       int // those that ended in any other state
}

// Archived is a saga in the archive.
type Archived struct {
	Loaded
	ArchivedAt time.Time
}

// Restoration is a request to restore an archived saga.
type Restoration struct {
	TenantID uuid.UUID
	SagaID   uuid.UUID
	Event    AuditEvent       // from Saga.Restored; stored with the saga
	Key      *idempotency.Key // nil means none
}

// RestoreRule is the only verb that an archived saga accepts; live sagas do not accept it.
var RestoreRule = VerbRule{Verb: "restore", Needs: Admin, Description: "restore the saga and its step logs from the archive"}

// ArchivedActions lists the operator verbs that an archived saga accepts.
func ArchivedActions() []string { return []string{string(RestoreRule.Verb)} }
