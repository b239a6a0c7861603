// Package auditapi is the HTTP edge of the audit trail: the feed of saga events, at
// once or as a live stream, the record of operators' actions, and timelines.
package auditapi

import (
	"context"

	"github.com/google/uuid"

	"github.com/skald-saga/skald/internal/audit/operator"
	"github.com/skald-saga/skald/internal/audit/timeline"
	"github.com/skald-saga/skald/internal/rest"
	"github.com/skald-saga/skald/internal/saga"
)

// Verify checks a tenant's seals from a sequence number on, limit of them at most.
type Verify func(ctx context.Context, tenant uuid.UUID, from int64, limit int) (saga.Verification, error)

// Handlers are the operations on the audit trail: events of sagas, the record
// of operators' actions, and timelines. Fields are required unless said otherwise.
type Handlers struct {
	*rest.Kit
	Sagas saga.Store
	// Trail is the audit trail of sagas, Follow gives what is added to it, and
	// Verify checks its seals.
	Trail  saga.Trail
	Follow Follow
	Verify Verify
	// Actions is the record of what operators do, and VerifyActions checks its
	// seals. Optional: there is no record.
	Actions       operator.Log
	VerifyActions Verify
	// Timeline reads what happened under a correlation id; nil: 503.
	Timeline timeline.Store
}
