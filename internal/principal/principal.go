// Package principal defines the callers of requests and their rights: roles, their permissions, and
// the tenant of a request. It is pure. Package access/identity derives principals from credentials,
// and package httpapi enforces the decisions.
package principal

import (
	"slices"
	"strings"

	"github.com/google/uuid"

	"github.com/skald-saga/skald/internal/fault"
	"github.com/skald-saga/skald/internal/tenant"
)

// Permission has the form area:verb, as in the contract's x-permission.
type Permission string

// These are the permissions. Within an area, each verb is separate: jobs:write does not include
// jobs:read, but roles have both.
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
	JobsWork       Permission = "jobs:work" // the calls of a worker: claim runs and report them
	JobsWrite      Permission = "jobs:write"
	JobsAdmin      Permission = "jobs:admin"
	PayloadsRead   Permission = "payloads:read" // the content of sagas, in addition to their existence
	AccessAdmin    Permission = "access:admin"  // API keys
)

// Role is a named set of permissions. The zero value holds none.
type Role string

// These are the roles. Worker and Auditor have no permission in common. Operator has all
// permissions of both, and Admin has all permissions of Operator.
const (
	Worker   Role = "worker"   // executes runs, and sees only its own
	Auditor  Role = "auditor"  // sees what happens, but no payloads
	Operator Role = "operator" // runs sagas
	Admin    Role = "admin"    // everything
)

// Roles lists all roles. If a token contains several, the last one in this list applies.
var Roles = []Role{Worker, Auditor, Operator, Admin}

// These are the sets of roles that have a permission.
var (
	workers   = []Role{Worker, Operator, Admin}
	readers   = []Role{Auditor, Operator, Admin}
	operators = []Role{Operator, Admin}
	admins    = []Role{Admin}
)

// grants is the only definition of roles. It lists, for each permission, the roles that have it.
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

// Known reports whether p exists.
func (p Permission) Known() bool {
	for _, g := range grants {
		if g.permission == p {
			return true
		}
	}
	return false
}

// Valid reports whether r is one of Roles.
func (r Role) Valid() bool { return slices.Contains(Roles, r) }

// Allows reports whether r has p. It returns false if either does not exist.
func (r Role) Allows(p Permission) bool {
	for _, g := range grants {
		if g.permission == p {
			return slices.Contains(g.roles, r)
		}
	}
	return false
}

// Permissions lists the permissions of r, in the order of the table; it is never nil.
func (r Role) Permissions() []Permission {
	out := []Permission{}
	for _, g := range grants {
		if r.Allows(g.permission) {
			out = append(out, g.permission)
		}
	}
	return out
}

// HasName reports whether the credentials of a subject may have a Name, which only those of an
// identity provider can.
func HasName(subject string) bool { return strings.HasPrefix(subject, "jwt:") }

// Principal is the caller of a request, as proved by its credential. It is a value: none of its
// content may be changed in place.
type Principal struct {
	// Subject identifies the caller in audit records and as the prefix of Idempotency-Keys; 1 to
	// 255 characters. Subjects of different kinds never collide: key:NAME, key:*:NAME (a key for
	// all tenants), jwt:SUB, anonymous.
	Subject string
	// Name is the issuer's name for a person. It is text for display, which the person may be able
	// to choose, and does not affect any decision. "" means unknown.
	Name string
	Role Role
	// Tenant is the tenant of the credential. If its ID is zero, the credential has no tenant, and
	// the configured default applies.
	Tenant tenant.Tenant
	// AnyTenant allows requests to choose their tenant.
	AnyTenant bool
	KeyID     uuid.UUID // of the API key; zero for other credentials
	SessionID uuid.UUID // of the browser's session; zero for other credentials
	Queues    []string  // queues that its workers may serve; empty: all
}

// RequireQueues returns nil if workers of the principal may serve all of queues. Fault: Forbidden.
func (p *Principal) RequireQueues(queues []string) error {
	if len(p.Queues) == 0 {
		return nil
	}
	for _, q := range queues {
		if !slices.Contains(p.Queues, q) {
			return fault.New(fault.Forbidden, CodeForbidden, "the API key does not allow this worker's queue %q", q)
		}
	}
	return nil
}

// Anonymous is the caller of every request in development mode.
var Anonymous = Principal{Subject: "anonymous", Role: Admin, AnyTenant: true}

// Require returns nil if the principal has the permission p. Fault: Forbidden.
func (p *Principal) Require(permission Permission) error {
	if p.Role.Allows(permission) {
		return nil
	}
	role := "has no role"
	if p.Role.Valid() {
		role = "is " + string(p.Role)
	}
	return fault.New(fault.Forbidden, CodeForbidden, "this requires the permission %s; the credential %s", permission, role)
}

// Choice contains the tenant headers of a request. Nil fields were not sent.
type Choice struct {
	ID     *uuid.UUID
	Region *string // at most 32 characters
	Major  *int    // 0..65535
	Minor  *int    // 0..65535
}

// TenantFor returns the tenant of a request. It is the credential's tenant, or fallback if the
// credential has none, and choice overrides it if the credential allows that. A chosen tenant has a
// region and versions only if the choice specifies them. Fault: Forbidden if the choice differs
// from the tenant to which the credential is bound. (Seed 4; DESIGN.md section 3.)
func (p *Principal) TenantFor(choice Choice, fallback tenant.Tenant) (tenant.Tenant, error) {
	t := p.Tenant
	if t.ID == uuid.Nil || t == (tenant.Tenant{ID: fallback.ID}) {
		t = fallback
	}
	if choice == (Choice{}) {
		return t, nil
	}
	chosen := t
	if choice.ID != nil && *choice.ID != t.ID {
		chosen = tenant.Tenant{ID: *choice.ID}
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
			"the credential belongs to a tenant, but the X-Tenant headers name another one",
		)
	}
	return chosen, nil
}
