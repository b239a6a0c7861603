package workflow

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/skald-saga/skald/internal/fault"
	"github.com/skald-saga/skald/internal/page"
)

// NotFound is the fault of a workflow that does not exist for the tenant, or of a version that does
// not exist if ver is not 0.
func NotFound(name string, ver int) *fault.Error {
	if ver > 0 {
		return fault.New(fault.NotFound, CodeNotFound, "there is no version %d of workflow %q", ver, name)
	}
	return fault.New(fault.NotFound, CodeNotFound, "there is no workflow %q", name)
}

// Unreadable is the fault of a version whose stored definition is damaged; it wraps
// ErrUnreadable.
func Unreadable(name string, ver int) *fault.Error {
	return fault.New(fault.Conflict, CodeUnreadable,
		"the stored definition of workflow %q, version %d, is damaged: register the same definition again, or "+
			"restore its row from a backup", name, ver).Because(ErrUnreadable)
}

// ErrUnreadable reports that a stored definition is damaged. Lists return such definitions, marked
// as damaged; nothing else uses them.
var ErrUnreadable = errors.New("the stored workflow definition cannot be read")

// Registered is one version of a workflow together with the head of its name.
type Registered struct {
	TenantID   uuid.UUID
	Name       string
	Version    int // starts at 1, without gaps
	Definition *Definition
	Unreadable bool // the stored definition is damaged; Definition has no steps
	CreatedAt  time.Time
	Inline     bool // created for sagas with inline steps; not listed

	Latest    int   // the newest version, which a saga without a version uses
	Enabled   bool  // whether the name accepts new sagas
	Revision  int64 // the ETag of the name: grows with every new version, enable and disable
	UpdatedAt time.Time
}

// Hash identifies the content of a definition: definitions with equal content have equal hashes.
func (d *Definition) Hash() []byte {
	b, err := json.Marshal(d)
	if err != nil {
		panic("workflow: a definition is not JSON: " + err.Error())
	}
	sum := sha256.Sum256(b)
	return sum[:]
}

// Store stores definitions. Versions are immutable. Its faults are NotFound with CodeNotFound,
// Precondition with CodeStale, and Unreadable for a damaged version that must be read. Any other
// error is an outage.
type Store interface {
	// Register stores a definition as the next version of its name; it is durable when Register
	// returns. If a version with the same content exists, Register returns that version and false,
	// and stores the definition again if the stored one is damaged.
	Register(ctx context.Context, tenant uuid.UUID, d *Definition, inline bool, now time.Time) (Registered, bool, error)
	// Get returns a version; 0 means the latest. With Unreadable, it also returns the other fields.
	Get(ctx context.Context, tenant uuid.UUID, name string, version int) (Registered, error)
	// List returns the latest version of each name, ordered by name, without inline ones.
	List(ctx context.Context, tenant uuid.UUID, f Filter) (page.Of[Registered], error)
	// Versions returns a page of a name's versions, newest first.
	Versions(ctx context.Context, tenant uuid.UUID, name string, p page.Request[int]) (page.Of[Registered], error)
	// SetEnabled enables or disables a name and returns the latest version. revision is the one
	// from If-Match, or 0 if the client gave none.
	SetEnabled(
		ctx context.Context,
		tenant uuid.UUID,
		name string,
		enabled bool,
		revision int64,
		now time.Time,
	) (Registered, error)
}

// Filter selects a page of workflows.
type Filter struct {
	Name                 string // exact, or a prefix followed by *; "" means any
	Enabled              *bool
	page.Request[string] // names after this one
}

// Matches reports whether the filter selects a workflow.
func (f *Filter) Matches(name string, enabled bool) bool {
	prefix, is := strings.CutSuffix(f.Name, "*")
	return (f.Name == "" || name == f.Name || is && strings.HasPrefix(name, prefix)) &&
		(f.Enabled == nil || *f.Enabled == enabled)
}
