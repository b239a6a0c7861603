package httpapi

import (
	"cmp"
	"context"
	"net/url"
	"strings"

	"github.com/skald-saga/skald/api"
	"github.com/skald-saga/skald/internal/access"
	"github.com/skald-saga/skald/internal/fault"
	"github.com/skald-saga/skald/internal/saga"
)

// request is what the edge knows of a request beside its parameters.
type request struct {
	id        string
	who       access.Principal // for the tenant of this request; zero where nobody need be known
	tenant    saga.Tenant
	principal string // the subject of who
	operation string // operationId of the contract; "" before routing
	remote    string // address and port of the peer
	method    string
	path      string // decoded
	query     string // as sent
	route     string // method and path template; "" before routing
	// permission is what the route needs; "": nothing, or only to be known.
	permission access.Permission
	body       []byte // canonical JSON, or text as sent; nil when there is none
}

type requestKey struct{}

// withRequest returns a context for the handler of a request.
func withRequest(ctx context.Context, r *request) context.Context {
	return context.WithValue(ctx, requestKey{}, r)
}

// requestOf returns the request a handler works on.
func requestOf(ctx context.Context) *request {
	return ctx.Value(requestKey{}).(*request)
}

// list identifies the list a request asks for.
func (r *request) list(filters ...string) listID {
	query, _ := url.ParseQuery(r.query) // checkQuery has parsed it before
	return newListID(r.tenant.ID, r.path, query, filters...)
}

// values is the query, which checkQuery has parsed before.
func (r *request) values() url.Values {
	query, _ := url.ParseQuery(r.query)
	return query
}

// forDeployment returns nil when the one who asks may do what concerns all
// tenants: an administrator whose credential is for any. Fault: Forbidden.
func forDeployment(ctx context.Context, what string) error {
	if requestOf(ctx).who.AnyTenant {
		return nil
	}
	return fault.New(fault.Forbidden, access.CodeForbidden, "%s concerns all tenants: it needs a credential for any tenant", cmp.Or(what, "this"))
}

// saysWhy returns nil when a reason is given for what cannot be undone. Fault: that
// of the schema, at /reason.
func saysWhy(reason, because string) error {
	if strings.TrimSpace(reason) == "" {
		return schemaFault(fault.Field{Pointer: "/reason", Code: "required", Message: "is required: " + because})
	}
	return nil
}

// reasonIn returns what a body says of why; nil: nothing.
func reasonIn(b *api.ReasonInput) *string {
	if b == nil {
		return nil
	}
	return b.Reason
}

// mayFilterByContent returns nil when the reader may ask for things by what is
// in them, which what names: who may not see a value may not guess it either.
// Fault: Forbidden.
func mayFilterByContent(ctx context.Context, what string) error {
	req := requestOf(ctx)
	if err := req.who.Require(access.PayloadsRead); err != nil {
		return fault.New(fault.Forbidden, access.CodeForbidden, "filtering by %s needs the permission %s", what, access.PayloadsRead)
	}
	return nil
}
