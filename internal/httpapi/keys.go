package httpapi

import (
	"context"
	"crypto/rand"
	"errors"
	"net/http"
	"time"

	"github.com/google/uuid"

	"github.com/skald-saga/skald/api"
	"github.com/skald-saga/skald/internal/access"
	"github.com/skald-saga/skald/internal/fault"
	"github.com/skald-saga/skald/internal/saga"
)

// scopeOf is the tenant whose keys a request may see; nil: all keys.
func scopeOf(req *request) *uuid.UUID {
	if req.who.AnyTenant {
		return nil
	}
	return &req.tenant.ID
}

// CreateAPIKey makes a key and shows it, this once.
func (s *keyHandlers) CreateAPIKey(ctx context.Context, in api.CreateAPIKeyRequestObject) (api.Response, error) {
	req := requestOf(ctx)
	want, err := keyRequestOf(req, in.Body)
	if err != nil {
		return nil, err
	}
	ctx, cancel := s.promised(ctx)
	defer cancel()
	for {
		var chance [access.EntropyBytes]byte
		if _, err := rand.Read(chance[:]); err != nil {
			return nil, err
		}
		key, token, err := access.Issue(want, req.who, s.NewID(), chance, s.now())
		if err == nil {
			err = s.Keys.Create(acting(ctx, in.Body.Reason), key)
		}
		switch {
		case errors.Is(err, access.ErrPrefixTaken): // one in 2^40; chance will not do it again
			continue
		case err != nil:
			return nil, err
		}
		return answer{
			status: http.StatusCreated, location: "/api/v1/api-keys/" + key.ID.String(), secret: true,
			body: api.CreatedAPIKey{Key: string(token), APIKey: toAPIKey(&key, key.CreatedAt)},
		}, nil
	}
}

// keyRequestOf reads which key is wanted. Fault: Invalid.
func keyRequestOf(req *request, b *api.APIKeyInput) (access.Request, error) {
	want := access.Request{Name: b.Name, Role: access.Role(b.Role)}
	if b.ExpiresAt != nil {
		at := b.ExpiresAt.UTC().Truncate(time.Microsecond)
		want.ExpiresAt = &at
	}
	tenant := req.tenant
	details := b.TenantRegion != nil || b.TenantMajor != nil || b.TenantMinor != nil
	if b.TenantID != nil && (*b.TenantID != tenant.ID || details) {
		tenant = saga.Tenant{ID: *b.TenantID, Region: text(b.TenantRegion), Major: number(b.TenantMajor), Minor: number(b.TenantMinor)}
	}
	anyTenant := b.AnyTenant != nil && *b.AnyTenant
	switch {
	case anyTenant && b.TenantID != nil:
		return want, schemaFault(fault.Field{Pointer: "/tenant_id", Code: "excluded", Message: "cannot be combined with any_tenant"})
	case details && b.TenantID == nil:
		return want, schemaFault(fault.Field{Pointer: "/tenant_id", Code: "required", Message: "is required with the tenant's region or versions"})
	case !anyTenant:
		want.Tenant = &tenant
	}
	return want, nil
}

func number(n *int32) int {
	if n == nil {
		return 0
	}
	return int(*n)
}

// ListAPIKeys answers a page of keys, newest first.
func (s *keyHandlers) ListAPIKeys(ctx context.Context, in api.ListAPIKeysRequestObject) (api.Response, error) {
	ctx, cancel := s.bounded(ctx)
	defer cancel()
	req := requestOf(ctx)
	p := in.Params
	paging, err := s.pagingOf(req.list("active", "tenant_id"), p.Page, p.PageSize, p.Cursor, p.Include)
	if err != nil {
		return nil, err
	}
	scope := scopeOf(req)
	switch {
	case p.TenantID == nil:
	case scope == nil:
		scope = p.TenantID
	case *scope != *p.TenantID:
		return nil, fault.New(fault.Forbidden, access.CodeTenantMismatch, "the credential belongs to a tenant, and tenant_id names another one")
	}
	now := s.now()
	f := access.Filter{Active: p.Active, Now: now, Limit: paging.size, Offset: paging.offset(), Total: paging.total}
	if paging.page == 0 {
		if len(paging.after) != len(f.After) {
			return nil, badCursor()
		}
		f.After = uuid.UUID(paging.after)
	}
	page, err := s.Keys.List(ctx, scope, f)
	if err != nil {
		return nil, err
	}
	out := api.APIKeyList{APIKeys: make([]api.APIKey, len(page.Keys))}
	for i := range page.Keys {
		out.APIKeys[i] = toAPIKey(&page.Keys[i], now)
	}
	out.Pagination = paging.answer(page.More, page.Total, func() []byte {
		last := page.Keys[len(page.Keys)-1].ID
		return last[:]
	})
	return answer{status: http.StatusOK, body: out}, nil
}

// GetAPIKey answers what is kept of a key.
func (s *keyHandlers) GetAPIKey(ctx context.Context, in api.GetAPIKeyRequestObject) (api.Response, error) {
	ctx, cancel := s.bounded(ctx)
	defer cancel()
	key, err := s.Keys.Get(ctx, scopeOf(requestOf(ctx)), in.KeyID)
	if err != nil {
		return nil, err
	}
	return answer{status: http.StatusOK, body: toAPIKey(&key, s.now())}, nil
}

// RevokeAPIKey ends a key for good.
func (s *keyHandlers) RevokeAPIKey(ctx context.Context, in api.RevokeAPIKeyRequestObject) (api.Response, error) {
	ctx, cancel := s.promised(ctx)
	defer cancel()
	req := requestOf(ctx)
	if err := saysWhy(text(reasonIn(in.Body)), "a revoked key cannot be restored, so the audit trail must say why"); err != nil {
		return nil, err
	}
	key, err := s.Keys.Revoke(acting(ctx, reasonIn(in.Body)), scopeOf(req), in.KeyID, req.principal, s.now())
	if err != nil {
		return nil, err
	}
	return answer{status: http.StatusOK, body: toAPIKey(&key, s.now())}, nil
}

func toAPIKey(k *access.Key, now time.Time) api.APIKey {
	out := api.APIKey{
		ID: k.ID, Name: k.Name, Prefix: k.Prefix, Role: api.Role(k.Role), AnyTenant: k.Tenant == nil, Active: k.Active(now),
		CreatedBy: k.CreatedBy, CreatedAt: k.CreatedAt, ExpiresAt: k.ExpiresAt, RevokedAt: k.RevokedAt, LastUsedAt: k.LastUsedAt,
	}
	if k.Tenant != nil {
		t := *k.Tenant
		out.TenantID, out.TenantRegion, out.TenantMajor, out.TenantMinor = &t.ID, &t.Region, &t.Major, &t.Minor
	}
	if k.RevokedAt != nil {
		out.RevokedBy = &k.RevokedBy
	}
	return out
}

// WhoAmI answers what the credential stands for.
func (s *keyHandlers) WhoAmI(ctx context.Context, _ api.WhoAmIRequestObject) (api.Response, error) {
	req := requestOf(ctx)
	who := req.who
	out := api.CallerIdentity{
		Subject: who.Subject, Permissions: []string{}, AnyTenant: who.AnyTenant, Development: s.Development,
		TenantID: req.tenant.ID, TenantRegion: req.tenant.Region, TenantMajor: req.tenant.Major, TenantMinor: req.tenant.Minor,
	}
	for _, p := range who.Role.Permissions() {
		out.Permissions = append(out.Permissions, string(p))
	}
	if who.Role.Valid() {
		role := api.Role(who.Role)
		out.Role = &role
	}
	if who.KeyID != uuid.Nil {
		out.KeyID = &who.KeyID
	}
	return answer{status: http.StatusOK, body: out}, nil
}
