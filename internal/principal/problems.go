package principal

import "github.com/skald-saga/skald/internal/fault"

// Problems are the problem types of identity and permission.
var Problems fault.Catalogue

// These are the codes of the problems. They are stable and part of the API.
var (
	CodeRequired = Problems.Add("AUTH_REQUIRED", "Credential required",
		"The request has no credential, and this operation needs one.", 401)
	CodeInvalid = Problems.Add("AUTH_INVALID", "Invalid credential",
		"The credential was not accepted: it is unknown, expired, revoked, malformed, or from another issuer or "+
			"audience. The server's log gives the reason under the request id.", 401)
	CodeForbidden = Problems.Add("AUTH_FORBIDDEN", "Permission denied",
		"The credential is valid but lacks the permission that `detail` names, or is a worker's key for other "+
			"queues. See docs/security.md for the roles.", 403)
	CodeTenantMismatch = Problems.Add("AUTH_TENANT_MISMATCH", "Wrong tenant",
		"The credential belongs to one tenant, but the X-Tenant headers or the requested resource name another.", 403)
)
