package accessapi

import (
	"context"
	"crypto/rand"
	"net"
	"net/http"

	"github.com/google/uuid"

	"github.com/skald-saga/skald/api"
	"github.com/skald-saga/skald/internal/access"
	"github.com/skald-saga/skald/internal/httpkit"
	"github.com/skald-saga/skald/internal/httpkit/dryrun"
	"github.com/skald-saga/skald/internal/principal"
)

// CreateSession signs a browser in. The response sets its cookie.
func (s *Handlers) CreateSession(ctx context.Context, _ api.CreateSessionRequestObject) (api.Response, error) {
	req := httpkit.RequestOf(ctx)
	if s.Development {
		return nil, access.SessionRefused("development mode requires no credential, so there are no sessions")
	}
	var chance [32]byte
	if _, err := rand.Read(chance[:]); err != nil {
		return nil, err
	}
	address, _, err := net.SplitHostPort(req.Remote)
	if err != nil || len(address) > 64 {
		address = ""
	}
	token := access.NewSessionToken(chance)
	session, err := access.OpenSession(token, req.Who, address, s.NewID(), s.Now())
	if err != nil {
		return nil, err
	}
	ctx, cancel := s.Promised(ctx)
	defer cancel()
	if err := s.Sessions.Open(httpkit.WithActor(ctx, nil), session); err != nil {
		return nil, err
	}
	return httpkit.Answer{
		Status: http.StatusCreated, Location: "/api/v1/sessions/" + session.ID.String(), Secret: true,
		Cookie: cookieOf(req, string(token)), Body: toSession(&session, uuid.Nil),
	}, nil
}

// cookieOf returns the cookie of a session, which the browser drops when it is closed. With an
// empty token, the browser deletes it immediately.
func cookieOf(req *httpkit.Request, token string) string {
	c := http.Cookie{
		Name: access.SessionCookie, Value: token, Path: "/", Secure: true, HttpOnly: true, SameSite: http.SameSiteStrictMode,
	}
	if req.Plain {
		c.Name, c.Secure = access.PlainSessionCookie, false
	}
	if token == "" {
		c.MaxAge = -1
	}
	return c.String()
}

// ownerOf returns the subject whose sessions the caller may see and end; "" means all sessions.
func ownerOf(req *httpkit.Request) string {
	if req.Who.Role.Allows(principal.AccessAdmin) {
		return ""
	}
	return req.Principal
}

// ListSessions returns a page of sessions, newest first.
func (s *Handlers) ListSessions(ctx context.Context, in api.ListSessionsRequestObject) (api.Response, error) {
	ctx, cancel := s.Bounded(ctx)
	defer cancel()
	req, p := httpkit.RequestOf(ctx), in.Params
	asked, err := httpkit.PageOf(ctx, s.Cursors, httpkit.ByID, p.Page, p.PageSize, p.Cursor, p.Include)
	if err != nil {
		return nil, err
	}
	found, err := s.Sessions.List(ctx, scopeOf(req),
		access.SessionFilter{Subject: ownerOf(req), Now: s.Now(), Request: asked.Request})
	if err != nil {
		return nil, err
	}
	return httpkit.Answer{Status: http.StatusOK, Body: api.SessionList{
		Sessions: httpkit.Each(found.Items, func(x *access.Session) api.Session {
			return toSession(x, req.Who.SessionID)
		}),
		Pagination: httpkit.Pagination(asked, found, func(x *access.Session) uuid.UUID { return x.ID }),
	}}, nil
}

// GetCurrentSession returns the session with which the request was made.
func (s *Handlers) GetCurrentSession(ctx context.Context, _ api.GetCurrentSessionRequestObject) (api.Response, error) {
	ctx, cancel := s.Bounded(ctx)
	defer cancel()
	req := httpkit.RequestOf(ctx)
	if req.Who.SessionID == uuid.Nil {
		return nil, access.SessionNotFound()
	}
	x, err := s.Sessions.Get(ctx, scopeOf(req), req.Principal, req.Who.SessionID, s.Now())
	if err != nil {
		return nil, err
	}
	return httpkit.Answer{Status: http.StatusOK, Body: toSession(&x, x.ID)}, nil
}

// DeleteSession ends a session.
func (s *Handlers) DeleteSession(ctx context.Context, in api.DeleteSessionRequestObject) (api.Response, error) {
	ctx, cancel := s.Promised(ctx)
	defer cancel()
	req := httpkit.RequestOf(ctx)
	if httpkit.DryRun(ctx) {
		found, err := s.Sessions.Get(ctx, scopeOf(req), ownerOf(req), in.SessionID, s.Now())
		if err != nil {
			return nil, err
		}
		out := toSession(&found, req.Who.SessionID)
		out.Changes = httpkit.Planned(dryrun.List{{Member: "active", From: "true", To: "false"}})
		return httpkit.Answer{Status: http.StatusOK, Body: out}, nil
	}
	err := s.Sessions.End(httpkit.WithActor(ctx, in.Params.Reason), scopeOf(req), ownerOf(req), in.SessionID, s.Now())
	if err != nil {
		return nil, err
	}
	s.Forget(in.SessionID)
	out := httpkit.Answer{Status: http.StatusNoContent}
	if in.SessionID == req.Who.SessionID {
		out.Cookie = cookieOf(req, "")
	}
	return out, nil
}

func toSession(x *access.Session, current uuid.UUID) api.Session {
	out := api.Session{
		ID: x.ID, Subject: x.Subject, Name: httpkit.UnlessEmpty(x.Name), KeyID: x.KeyID, Current: x.ID == current,
		CreatedAt: x.CreatedAt, ExpiresAt: x.ExpiresAt, LastUsedAt: x.LastUsedAt,
	}
	if x.Role.Valid() {
		role := api.Role(x.Role)
		out.Role = &role
	}
	if x.Tenant != nil {
		out.TenantID = &x.Tenant.ID
	}
	if x.Address != "" {
		out.Address = &x.Address
	}
	return out
}
