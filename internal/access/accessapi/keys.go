package accessapi

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
	"github.com/skald-saga/skald/internal/httpkit"
	"github.com/skald-saga/skald/internal/principal"
	"github.com/skald-saga/skald/internal/tenant"
)

// scopeOf returns the tenant whose keys the caller may manage; nil: all keys.
func scopeOf(req *httpkit.Request) *uuid.UUID {
	if req.Who.AnyTenant {
		return nil
	}
	return &req.Tenant.ID
}

// CreateAPIKey creates a key and returns its token, which is shown only in this response.
func (s *Handlers) CreateAPIKey(ctx context.Context, in api.CreateAPIKeyRequestObject) (api.Response, error) {
	req := httpkit.RequestOf(ctx)
	want := keyRequestOf(req, in.Body)
	ctx, cancel := s.Promised(ctx)
	defer cancel()
	for {
		var chance [access.EntropyBytes]byte
		if _, err := rand.Read(chance[:]); err != nil {
			return nil, err
		}
		key, token, err := access.Issue(want, req.Who, s.NewID(), chance, s.Now())
		if err == nil && httpkit.DryRun(ctx) {
			return wouldIssue(&key)
		}
		if err == nil {
			err = s.Keys.Create(httpkit.WithActor(ctx, in.Body.Reason), key)
		}
		switch {
		case errors.Is(err, access.ErrPrefixTaken): // the chance is 1 in 2^40; the next attempt uses another prefix
			continue
		case err != nil:
			return nil, err
		}
		return httpkit.Answer{
			Status: http.StatusCreated, Location: "/api/v1/api-keys/" + key.ID.String(), Secret: true,
			Body: api.CreatedAPIKey{Key: string(token), APIKey: toAPIKey(&key, key.CreatedAt)},
		}, nil
	}
}

// wouldIssue responds to a dry run with a new key. The reported changes are the members that differ
// from those of an empty key.
func wouldIssue(key *access.Key) (api.Response, error) {
	none := toAPIKey(key, key.CreatedAt)
	none.Name, none.Role, none.AnyTenant, none.Active = "", "", false, false
	none.TenantID, none.TenantRegion, none.TenantMajor, none.TenantMinor = nil, nil, nil, nil
	none.ExpiresAt, none.Queues = nil, nil
	return httpkit.Would(httpkit.Answer{Status: http.StatusOK, Body: none}, toAPIKey(key, key.CreatedAt), changesOfKey)
}

func changesOfKey(k *api.APIKey) **api.PlannedChanges { return &k.Changes }

// keyRequestOf reads the parameters of a new key.
func keyRequestOf(req *httpkit.Request, b *api.APIKeyInput) access.Request {
	want := access.Request{Name: b.Name, Role: principal.Role(b.Role), Queues: b.Queues}
	if b.ExpiresAt != nil {
		at := b.ExpiresAt.UTC().Truncate(time.Microsecond)
		want.ExpiresAt = &at
	}
	of := req.Tenant
	details := b.TenantRegion != nil || b.TenantMajor != nil || b.TenantMinor != nil
	if b.TenantID != nil && (*b.TenantID != of.ID || details) {
		of = tenant.Tenant{ID: *b.TenantID, Region: httpkit.Text(b.TenantRegion), Major: number(b.TenantMajor),
			Minor: number(b.TenantMinor)}
	}
	if b.AnyTenant == nil || !*b.AnyTenant {
		want.Tenant = &of
	}
	return want
}

func number(n *int32) int {
	if n == nil {
		return 0
	}
	return int(*n)
}

// ListAPIKeys returns a page of keys, newest first.
func (s *Handlers) ListAPIKeys(ctx context.Context, in api.ListAPIKeysRequestObject) (api.Response, error) {
	ctx, cancel := s.Bounded(ctx)
	defer cancel()
	req := httpkit.RequestOf(ctx)
	p := in.Params
	asked, err := httpkit.PageOf(ctx, s.Cursors, httpkit.ByID, p.Page, p.PageSize, p.Cursor, p.Include)
	if err != nil {
		return nil, err
	}
	scope := scopeOf(req)
	switch {
	case p.TenantID == nil:
	case scope == nil:
		scope = p.TenantID
	case *scope != *p.TenantID:
		return nil, fault.New(fault.Forbidden, principal.CodeTenantMismatch, "the credential is bound to a tenant, but tenant_id names a different one")
	}
	now := s.Now()
	found, err := s.Keys.List(ctx, scope, access.Filter{Active: p.Active, Now: now, Request: asked.Request})
	if err != nil {
		return nil, err
	}
	return httpkit.Answer{Status: http.StatusOK, Body: api.APIKeyList{
		APIKeys:    httpkit.Each(found.Items, func(k *access.Key) api.APIKey { return toAPIKey(k, now) }),
		Pagination: httpkit.Pagination(asked, found, func(k *access.Key) uuid.UUID { return k.ID }),
	}}, nil
}

// GetAPIKey returns a key without its token.
func (s *Handlers) GetAPIKey(ctx context.Context, in api.GetAPIKeyRequestObject) (api.Response, error) {
	ctx, cancel := s.Bounded(ctx)
	defer cancel()
	key, err := s.Keys.Get(ctx, scopeOf(httpkit.RequestOf(ctx)), in.KeyID)
	if err != nil {
		return nil, err
	}
	return httpkit.Answer{Status: http.StatusOK, Body: toAPIKey(&key, s.Now())}, nil
}

// RevokeAPIKey revokes a key.
func (s *Handlers) RevokeAPIKey(ctx context.Context, in api.RevokeAPIKeyRequestObject) (api.Response, error) {
	ctx, cancel := s.Promised(ctx)
	defer cancel()
	req := httpkit.RequestOf(ctx)
	if err := httpkit.RequireReason(httpkit.Text(httpkit.ReasonOf(in.Body)), "a revoked key cannot be restored, so the audit trail must say why"); err != nil {
		return nil, err
	}
	if httpkit.DryRun(ctx) {
		return s.wouldRevoke(ctx, in.KeyID)
	}
	key, err := s.Keys.Revoke(httpkit.WithActor(ctx, httpkit.ReasonOf(in.Body)), scopeOf(req), in.KeyID, req.Principal,
		s.Now())
	if err != nil {
		return nil, err
	}
	return httpkit.Answer{Status: http.StatusOK, Body: toAPIKey(&key, s.Now())}, nil
}

// wouldRevoke responds to a dry run with a key as it would be stored.
func (s *Handlers) wouldRevoke(ctx context.Context, id uuid.UUID) (api.Response, error) {
	req, now := httpkit.RequestOf(ctx), s.Now()
	before, err := s.Keys.Get(ctx, scopeOf(req), id)
	if err != nil {
		return nil, err
	}
	after := before.Revoked(req.Principal, now)
	is := httpkit.Answer{Status: http.StatusOK, Body: toAPIKey(&before, now)}
	return httpkit.Would(is, toAPIKey(&after, now), changesOfKey)
}

func toAPIKey(k *access.Key, now time.Time) api.APIKey {
	out := api.APIKey{
		ID: k.ID, Name: k.Name, Prefix: k.Prefix, Role: api.Role(k.Role), AnyTenant: k.Tenant == nil, Active: k.Active(now),
		CreatedBy: k.CreatedBy, CreatedAt: k.CreatedAt, ExpiresAt: k.ExpiresAt, RevokedAt: k.RevokedAt,
		LastUsedAt: k.LastUsedAt, Queues: k.Queues,
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

// WhoAmI returns the caller's identity.
func (s *Handlers) WhoAmI(ctx context.Context, _ api.WhoAmIRequestObject) (api.Response, error) {
	req := httpkit.RequestOf(ctx)
	who := req.Who
	out := api.CallerIdentity{
		Subject: who.Subject, Name: httpkit.UnlessEmpty(who.Name), Permissions: []string{}, AnyTenant: who.AnyTenant,
		Development: s.Development,
		TenantID:    req.Tenant.ID, TenantRegion: req.Tenant.Region, TenantMajor: req.Tenant.Major,
		TenantMinor: req.Tenant.Minor, Queues: who.Queues,
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
	if who.SessionID != uuid.Nil {
		out.SessionID = &who.SessionID
	}
	return httpkit.Answer{Status: http.StatusOK, Body: out}, nil
}
