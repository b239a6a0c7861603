package httpapi

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/google/uuid"

	"github.com/skald-saga/skald/internal/access"
	"github.com/skald-saga/skald/internal/audit/auditapi"
	"github.com/skald-saga/skald/internal/audit/timeline"
	"github.com/skald-saga/skald/internal/audit/trail"
	"github.com/skald-saga/skald/internal/dlq/dlqapi"
	"github.com/skald-saga/skald/internal/event/webhook"
	"github.com/skald-saga/skald/internal/httpkit"
	"github.com/skald-saga/skald/internal/httpkit/ratelimit"
	"github.com/skald-saga/skald/internal/idempotency/claims"
	"github.com/skald-saga/skald/internal/longpoll"
	"github.com/skald-saga/skald/internal/ops/overview"
	"github.com/skald-saga/skald/internal/ops/storage"
	"github.com/skald-saga/skald/internal/principal"
	"github.com/skald-saga/skald/internal/saga/registry"
	"github.com/skald-saga/skald/internal/saga/sagaapi"
	"github.com/skald-saga/skald/internal/saga/secrets"
	"github.com/skald-saga/skald/internal/tenant"
)

// Version describes the running program.
type Version struct {
	Version, Commit, BuiltAt, Go string
}

// Readiness is what a ready node reports about itself.
type Readiness struct {
	SchemaVersion int      // version of the database schema; 0: no database
	Warnings      []string // problems outside this node
}

// Config configures the HTTP edge, grouped by subject. Fields are required unless their comment
// says otherwise.
type Config struct {
	Sagas    sagaapi.Sagas
	Trail    Trail
	Webhooks Webhooks
	Access   Access
	// Participants configures registered participants.
	Participants Participants
	// DeadLetters is the dead-letter queue. If nil, its operations return 503.
	DeadLetters *dlqapi.DeadLetters
	// Jobs is the job runs. If nil, their operations return 503.
	Jobs *Jobs
	// Overview reads the list of what needs a person. If nil, the store has only sagas, and the
	// overview is derived from their list.
	Overview overview.Store
	// Loops returns the background loops of this node. If nil, there are none.
	Loops func() []overview.Loop
	// Storage reports the sizes of the store's tables. If nil, the store has no tables.
	Storage func(context.Context) (storage.Storage, error)
	// Answers stores the responses of requests with an Idempotency-Key for operations that
	// create no resource with the key.
	Answers claims.Store
	// CursorKey signs cursors. It has at least 32 random bytes and must be the same on every node
	// and after every restart; otherwise the cursors that clients hold become invalid.
	CursorKey []byte
	Limits    httpkit.Limits
	// Docs is the prefix of /docs/problems in the types of problems, and the server of the published
	// contract; "": the root of this server.
	Docs string
	// Base is the prefix, a path or a URL, that a proxy adds to the paths of this server; the
	// member instance of problems begins with it. "" means that there is none.
	Base  string
	Now   func() time.Time
	NewID func() uuid.UUID
	// Ready returns the state of this node, with an error if it cannot serve. Both are public. If
	// nil, the node is always ready.
	Ready func(context.Context) (Readiness, error)
	// RequireIfMatch makes If-Match required for every operation that accepts it, except where the
	// contract marks it as optional.
	RequireIfMatch bool
	// ProbesOnly means that the process serves only health, readiness and version, but not the API.
	ProbesOnly bool
	// Stopping is closed when the server begins to stop: requests that wait for a saga to end are
	// then answered with its current state. If nil, a stop does not end these waits.
	Stopping <-chan struct{}
	// Ends is the board of waiting requests. If nil, ends are not announced, and waiting requests
	// poll every few seconds.
	Ends *longpoll.Board
	// Limiter limits requests; nil means no limits. Limited is called with the limit that a
	// rejected request exceeded. Optional.
	Limiter *ratelimit.Limiter
	Limited func(limit string)
	Version Version
	Log     *slog.Logger
}

// Trail configures the audit trail.
type Trail struct {
	Events trail.Trail
	// Follow streams new events. Verify checks at most limit of a tenant's seals, starting at a
	// sequence number.
	Follow auditapi.Follow
	Verify func(ctx context.Context, tenant uuid.UUID, from int64, limit int) (trail.Verification, error)
	// Streams is called with the number of open live streams of events whenever it changes.
	// Optional.
	Streams func(open int)
	// Timeline reads what happened under a correlation ID. If nil, the operation returns 503.
	Timeline timeline.Store
}

// Webhooks configures webhooks.
type Webhooks struct {
	Store      webhook.Store
	Deliveries webhook.Log
	// CheckEndpoint returns why deliveries can never be sent to a webhook's URL, or "" if they can.
	// The text is shown to the tenant.
	CheckEndpoint func(url string) (reason string)
}

// Participants configures registered participants.
type Participants struct {
	Store registry.Store
	Gates registry.Gates
	// Held returns the participant that a URL belongs to if its gate is not open, and nil otherwise
	// or if there is no such participant. If the field is nil, letters and webhooks wait at no
	// gate.
	Held func(tenant uuid.UUID, url string) *registry.Participant
	// Secrets are the secrets that participants may get. If nil, there are none.
	Secrets *secrets.Bound
	// Changed is called after each change to a participant.
	Changed func()
}

// Access configures authentication and authorization.
type Access struct {
	Keys access.Store
	// Identify returns the principal of a credential. It is called for every request. Fault:
	// Unauthenticated with principal.CodeInvalid.
	Identify func(ctx context.Context, credential string) (principal.Principal, error)
	// Sessions stores the sessions of browsers, and Forget drops an ended session from this node's cache. Forget is
	// nil if Identify does not cache.
	Sessions access.Sessions
	Forget   func(session uuid.UUID)
	// Development replaces Identify: no credential is required, and every caller is
	// principal.Anonymous.
	Development bool
	// Tenant is the tenant of requests whose credential does not name one.
	Tenant tenant.Tenant
}

func (c *Config) complete() error {
	switch t, w := &c.Trail, &c.Webhooks; {
	case !c.Sagas.Complete():
		return errors.New("Sagas needs Store, Workflows, Archive, Reports, Create, Commit and Engine")
	case t.Events == nil, t.Follow == nil, t.Verify == nil:
		return errors.New("Trail needs Events, Follow and Verify")
	case w.Store == nil, w.Deliveries == nil, w.CheckEndpoint == nil:
		return errors.New("every field of Webhooks is required")
	case c.Participants.Store == nil, c.Participants.Gates == nil, c.Participants.Changed == nil:
		return errors.New("every field of Participants is required")
	case c.Access.Keys == nil, c.Access.Sessions == nil:
		return errors.New("Access needs Keys and Sessions")
	case c.Access.Development == (c.Access.Identify != nil):
		return errors.New("Access needs either Identify or Development")
	case c.DeadLetters != nil && !c.DeadLetters.Complete():
		return errors.New("every field of DeadLetters is required")
	case c.Answers == nil, c.Now == nil, c.NewID == nil, c.Log == nil:
		return errors.New("Answers, Now, NewID and Log are required")
	case len(c.CursorKey) < 32:
		return errors.New("CursorKey needs at least 32 bytes")
	}
	if c.Jobs != nil {
		c.Jobs.complete()
	}
	if c.Overview == nil {
		c.Overview = overview.OfSagas{Sagas: c.Sagas.Store, Now: c.Now}
	}
	if c.Ends == nil {
		c.Ends = longpoll.New(longpoll.Config{})
	}
	if c.Loops == nil {
		c.Loops = func() []overview.Loop { return nil }
	}
	if c.Limited == nil {
		c.Limited = func(string) {}
	}
	if c.Trail.Streams == nil {
		c.Trail.Streams = func(int) {}
	}
	if c.Access.Forget == nil {
		c.Access.Forget = func(uuid.UUID) {}
	}
	c.Limits.Complete()
	return nil
}
