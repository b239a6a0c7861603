package httpkit

import (
	"cmp"
	"context"
	"net/url"
	"strings"

	"github.com/skald-saga/skald/api"
	"github.com/skald-saga/skald/internal/fault"
	"github.com/skald-saga/skald/internal/principal"
	"github.com/skald-saga/skald/internal/tenant"
)

// Request is information about a request in addition to its parameters.
type Request struct {
	ID        string
	Who       principal.Principal // the caller, for the tenant of this request; zero if no credential is required
	Tenant    tenant.Tenant
	Principal string // the subject of Who
	Operation string // operationId of the contract; "" before routing
	Remote    string // address and port of the peer
	Plain     bool   // plain HTTP on a loopback address, where cookies cannot be Secure
	Method    string
	Path      string // decoded
	Query     string // as sent
	Route     string // method and path template; "" before routing
	// Permission is the permission that the route requires; "" means none, or only a valid
	// credential.
	Permission principal.Permission
	Body       []byte // canonical JSON, or text as sent; nil: no body
	// Adjusted lists the pointers of texts in the body that were mended. Items are the results for
	// the items of its list (nil if all are valid), and Around is why members around the list were
	// dropped.
	Adjusted []string
	Items    []Judged
	Around   *fault.Error
	Raw      []byte // the body as sent, if items or members were removed from Body
	// Next is the cursor of the page after the one in the response; "" if the response is not a
	// page of a list or is the last page.
	Next string
	// Limited is set if a request is over its rate limit and must do only work that cannot wait; it
	// is the reason. nil means that the request is within its limit.
	Limited *fault.Error
}

type requestKey struct{}

// WithRequest returns a context for the handler of a request.
func WithRequest(ctx context.Context, r *Request) context.Context {
	return context.WithValue(ctx, requestKey{}, r)
}

// RequestOf returns the request that a handler is processing.
func RequestOf(ctx context.Context) *Request {
	return ctx.Value(requestKey{}).(*Request)
}

// List identifies the requested list: its path and all its filters.
func (r *Request) List() ListID { return NewListID(r.Tenant.ID, r.Path, r.Values()) }

// Values returns the query, which has already been checked.
func (r *Request) Values() url.Values {
	query, _ := url.ParseQuery(r.Query)
	return query
}

// ForDeployment returns nil if the caller may act on the whole deployment, that is, if the caller
// is an administrator whose credential is valid for all tenants. Fault: Forbidden.
func ForDeployment(ctx context.Context, what string) error {
	if RequestOf(ctx).Who.AnyTenant {
		return nil
	}
	return fault.New(fault.Forbidden, principal.CodeForbidden, "%s concerns all tenants: it requires a credential for all tenants", cmp.Or(what, "this"))
}

// RequireReason returns nil if there is a reason, which actions that cannot be undone require. The
// fault is the same as for a schema violation at /reason.
func RequireReason(reason, because string) error {
	if strings.TrimSpace(reason) == "" {
		return SchemaFault(fault.Field{Pointer: "/reason", Code: "required", Message: "is required: " + because})
	}
	return nil
}

// ReasonOf returns the reason in a body; nil means none.
func ReasonOf(b *api.ReasonInput) *string {
	if b == nil {
		return nil
	}
	return b.Reason
}

// MayFilterByContent returns nil if the caller may select items by their content; a caller who may
// not see a value must not be able to guess it. what names the filter. Fault: Forbidden.
func MayFilterByContent(ctx context.Context, what string) error {
	req := RequestOf(ctx)
	if err := req.Who.Require(principal.PayloadsRead); err != nil {
		return fault.New(fault.Forbidden, principal.CodeForbidden, "filtering by %s requires the permission %s", what, principal.PayloadsRead)
	}
	return nil
}
