// Package dlqapi is the HTTP edge of the dead-letter queue: letters, their groups and
// topics, policies, exports and imports, and bulk redrives.
//
// Files, each on top of those before it: mask, convert, push, letters, filter,
// redrives_convert, handlers, record, groups, redrives_read, actions, carry, export,
// import, list, policies, redrives, redrives_change, retry, topics.
package dlqapi

import (
	"context"

	"github.com/getkin/kin-openapi/openapi3"
	"github.com/google/uuid"

	"github.com/skald-saga/skald/api"
	"github.com/skald-saga/skald/internal/audit/operator"
	"github.com/skald-saga/skald/internal/audit/trail"
	"github.com/skald-saga/skald/internal/dlq"
	"github.com/skald-saga/skald/internal/httpkit"
)

// DeadLetters configures the operations on the dead-letter queue. Every field is required.
type DeadLetters struct {
	Letters  dlq.Letters
	Redrives dlq.Redrives
	Overview dlq.Overview
	Actions  operator.Log // the audit trail, except for the actions of sagas
	// VerifyActions verifies at most limit seals of the audit trail, starting at a sequence number.
	VerifyActions func(ctx context.Context, tenant uuid.UUID, from int64, limit int) (trail.Verification, error)
	RedriveLimits dlq.RedriveLimits
	// WakeRedrives makes this node's loops look for redrives immediately.
	WakeRedrives func()
	// PolicyOf returns the policy that applies to a topic: its own policy, the tenant's default, or
	// the one in the configuration.
	PolicyOf func(ctx context.Context, tenant uuid.UUID, topic string) (dlq.Policy, error)
	// Drive retries one letter immediately and returns the stored result. The status RETRYING means
	// that the target reports its result later. A failed retry is not an error. Faults: NotFound;
	// Conflict; Precondition CodeStale; Invalid CodeTarget; Unavailable CodeNoKafka.
	Drive func(context.Context, dlq.Claim) (dlq.Finish, error)
	// MayDrive returns the fault with which Drive would currently reject a claim, without claiming
	// anything. It cannot predict the target's response.
	MayDrive func(context.Context, dlq.Claim) error
	// Routes are the targets that this server can reach with its present configuration.
	Routes dlq.Routes
	// UndoneByHand tells the saga that is waiting for a letter that its step was compensated
	// manually. The saga's commit resolves the letter, which is returned.
	UndoneByHand func(context.Context, dlq.Letter, operator.By) (dlq.Letter, error)
}

// Complete reports whether every field is set.
func (d *DeadLetters) Complete() bool {
	return d.Redrives != nil && d.Overview != nil && d.Actions != nil && d.RedriveLimits.MaxRate > 0 &&
		d.WakeRedrives != nil &&
		d.Letters != nil && d.PolicyOf != nil && d.Drive != nil && d.MayDrive != nil &&
		d.Routes.Forbidden != nil && d.UndoneByHand != nil
}

// Handlers implements the operations on the dead-letter queue.
type Handlers struct {
	*httpkit.Kit
	DeadLetters
	// CheckEndpoint returns the reason why nothing could ever be sent to a URL, or "" if there is
	// none. The text is shown to the tenant.
	CheckEndpoint func(url string) (reason string)
	// LetterSchema is the schema of a pushed letter. It determines which texts of an imported
	// letter are cleaned.
	LetterSchema *openapi3.Schema
	// Gate returns the gate at which calls of a URL wait, or nil if they need not wait. A nil
	// function means that there are no gates.
	Gate func(tenant uuid.UUID, url string) *api.GateWait
}
