// Package access is the rulebook of who may do what: permissions and the roles
// that hold them, API keys, and the tenant a request is made for. It decides;
// it keeps nothing and knows neither clock nor chance. Package identity checks
// credentials by it, package httpapi enforces what it says.
package access

import (
	"slices"
	"strings"

	"github.com/google/uuid"

	"github.com/skald-saga/skald/internal/fault"
	"github.com/skald-saga/skald/internal/saga"
)

// Codes of problems.
const (
	CodeRequired       = "AUTH_REQUIRED"        // no credential
	CodeInvalid        = "AUTH_INVALID"         // one that does not count, for whatever reason
	CodeForbidden      = "AUTH_FORBIDDEN"       // a permission is missing
	CodeTenantMismatch = "AUTH_TENANT_MISMATCH" // the credential belongs to another tenant
	CodeKeyNotFound    = "AUTH_KEY_NOT_FOUND"   // no API key of this id
	CodeKeyRefused     = "AUTH_KEY_REFUSED"     // what was asked of a new API key is impossible
)

// Permission is area:verb, as the contract's x-permission names it.
type Permission string

// Permissions. Within an area each verb stands for itself: who may write may
// read only because roles that hold the one hold the other.
const (
	SagasRead      Permission = "sagas:read"
	SagasWrite     Permission = "sagas:write"
	SagasAdmin     Permission = "sagas:admin"
	WorkflowsRead  Permission = "workflows:read"
	WorkflowsWrite Permission = "workflows:write"
	WorkflowsAdmin Permission = "workflows:admin"
	DLQRead        Permission = "dlq:read"
	DLQWrite       Permission = "dlq:write"
	DLQAdmin       Permission = "dlq:admin"
	JobsRead       Permission = "jobs:read"
	JobsWork       Permission = "jobs:work" // what a worker does: claim runs, and say of those what becomes of them
	JobsWrite      Permission = "jobs:write"
	JobsAdmin      Permission = "jobs:admin"
	PayloadsRead   Permission = "payloads:read" // what sagas carry, and not only that they exist
	AccessAdmin    Permission = "access:admin"  // API keys
)

// Role is a named set of permissions. The zero value holds none.
type Role string

// Roles. Worker and Auditor hold nothing in common; Operator holds all of both,
// and Admin all of Operator.
const (
	Worker   Role = "worker"   // does runs, and sees nothing but those that it holds
	Auditor  Role = "auditor"  // sees what happens, not what is in it
	Operator Role = "operator" // runs sagas
	Admin    Role = "admin"    // everything
)

// Roles is every role. Of several that a token names the last one here counts.
var Roles = []Role{Worker, Auditor, Operator, Admin}

// Who holds a permission.
var (
	workers   = []Role{Worker, Operator, Admin}
	readers   = []Role{Auditor, Operator, Admin}
	operators = []Role{Operator, Admin}
	admins    = []Role{Admin}
)

// grants is the whole truth about roles: for each permission those that hold it.
var grants = []struct {
	permission Permission
	roles      []Role
}{
	{JobsWork, workers},
	{SagasRead, readers}, {WorkflowsRead, readers}, {DLQRead, readers}, {JobsRead, readers},
	{
		SagasWrite,
		operators,
	}, {WorkflowsWrite, operators}, {DLQWrite, operators}, {JobsWrite, operators}, {PayloadsRead, operators},
	{SagasAdmin, admins}, {WorkflowsAdmin, admins}, {DLQAdmin, admins}, {JobsAdmin, admins}, {AccessAdmin, admins},
}

// Known tells whether p is a permission at all.
func (p Permission) Known() bool {
	for _, g := range grants {
		if g.permission == p {
			return true
		}
	}
	return false
}

// Valid tells whether r is one of Roles.
func (r Role) Valid() bool { return slices.Contains(Roles, r) }

// Allows tells whether r holds p. A role or permission that does not exist
// allows nothing.
func (r Role) Allows(p Permission) bool {
	for _, g := range grants {
		if g.permission == p {
			return slices.Contains(g.roles, r)
		}
	}
	return false
}

// Permissions lists what r holds, in the order of the table; never nil.
func (r Role) Permissions() []Permission {
	out := []Permission{}
	for _, g := range grants {
		if r.Allows(g.permission) {
			out = append(out, g.permission)
		}
	}
	return out
}

// Principal is who makes a request, as its credential proves. It is a value:
// nothing in it may be changed in place.
type Principal struct {
	// Subject names who it is in audit records and in front of Idempotency-Keys;
	// 1 to 255 characters. Names of different kinds never collide: key:NAME,
	// key:*:NAME (a key for any tenant), jwt:SUB, anonymous.
	Subject string
	Role    Role
	// Tenant is the one the credential belongs to; with a zero ID none is named,
	// and that means the configured default.
	Tenant saga.Tenant
	// AnyTenant lets requests choose their tenant.
	AnyTenant bool
	KeyID     uuid.UUID // of the API key; zero when it was something else
}

// Anonymous is everybody in development mode.
var Anonymous = Principal{Subject: "anonymous", Role: Admin, AnyTenant: true}

// Require returns nil when the principal holds p. Fault: Forbidden.
func (p *Principal) Require(permission Permission) error {
	if p.Role.Allows(permission) {
		return nil
	}
	role := "has no role"
	if p.Role.Valid() {
		role = "is " + string(p.Role)
	}
	return fault.New(fault.Forbidden, CodeForbidden, "this needs the permission %s; the credential %s", permission, role)
}

// Choice is what the tenant headers of a request say; nil fields were not sent.
type Choice struct {
	ID     *uuid.UUID
	Region *string // at most 32 characters
	Major  *int    // 0..65535
	Minor  *int    // 0..65535
}

// TenantFor returns the tenant of a request: the credential's, or fallback
// when it names none, and what choice says where the credential allows that.
// A chosen tenant begins without region and versions: those of another one
// are not its own. Fault: Forbidden when the choice differs from what the
// credential is bound to. (Seed 4; DESIGN.md section 3.)
func (p *Principal) TenantFor(choice Choice, fallback saga.Tenant) (saga.Tenant, error) {
	t := p.Tenant
	if t.ID == uuid.Nil || t == (saga.Tenant{ID: fallback.ID}) {
		t = fallback
	}
	if choice == (Choice{}) {
		return t, nil
	}
	chosen := t
	if choice.ID != nil && *choice.ID != t.ID {
		chosen = saga.Tenant{ID: *choice.ID}
	}
	if choice.Region != nil {
		chosen.Region = *choice.Region
	}
	if choice.Major != nil {
		chosen.Major = *choice.Major
	}
	if choice.Minor != nil {
		chosen.Minor = *choice.Minor
	}
	if chosen != t && !p.AnyTenant {
		return t, fault.New(
			fault.Forbidden,
			CodeTenantMismatch,
			"the credential belongs to a tenant, and the X-Tenant headers name another one",
		)
	}
	return chosen, nil
}

// validName tells whether s can name a key: it becomes part of subjects, whose
// parts are separated by colons.
func validName(s string) bool {
	return s != "" && len(s) <= maxName && strings.IndexFunc(s, func(r rune) bool {
		return !('a' <= r && r <= 'z' || 'A' <= r && r <= 'Z' || '0' <= r && r <= '9' || strings.ContainsRune("._@-", r))
	}) < 0
}

const maxName = 100
