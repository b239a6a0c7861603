// Package auditapi is the HTTP API of the audit trail: the feed of saga events, in pages or as a
// live stream, the actions of operators, and timelines.
package auditapi

import (
	"context"

	"github.com/google/uuid"

	"github.com/skald-saga/skald/internal/audit/operator"
	"github.com/skald-saga/skald/internal/audit/timeline"
	"github.com/skald-saga/skald/internal/audit/trail"
	"github.com/skald-saga/skald/internal/httpkit"
	"github.com/skald-saga/skald/internal/saga"
)

// Verify checks a tenant's seals from a sequence number on, at most limit of them.
type Verify func(ctx context.Context, tenant uuid.UUID, from int64, limit int) (trail.Verification, error)

// Handlers are the operations on the audit trail: events of sagas, the actions of operators, and
// timelines. Fields are required unless a comment says otherwise.
type Handlers struct {
	*httpkit.Kit
	Sagas   saga.Store
	Archive saga.Archive
	// Trail is the audit trail of sagas, Follow sends new events, and Verify checks the seals of
	// the trail.
	Trail  trail.Trail
	Follow Follow
	Verify Verify
	// Actions is the audit trail of operators, and VerifyActions checks its seals. They are
	// optional; nil means that there is no such trail.
	Actions       operator.Log
	VerifyActions Verify
	// Timeline returns the timeline of a correlation id. If it is nil, the response is 503.
	Timeline timeline.Store
}
