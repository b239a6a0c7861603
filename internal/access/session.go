package access

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/skald-saga/skald/internal/fault"
	"github.com/skald-saga/skald/internal/page"
	"github.com/skald-saga/skald/internal/principal"
	"github.com/skald-saga/skald/internal/tenant"
)

// These values limit the duration of a session.
const (
	SessionLife = 12 * time.Hour // from sign-in
	SessionIdle = time.Hour      // from its last use
)

// These are the names of the session's cookie. Browsers accept the first one only over TLS and only
// from this host. The second one is for plain HTTP on a loopback address.
const (
	SessionCookie      = "__Host-skald"
	PlainSessionCookie = "skald"
)

// SessionToken is the content of a session's cookie: 256 random bits.
type SessionToken string

const sessionBegin = "skald_session_"

// NewSessionToken creates a token from random bytes, which must be cryptographically secure.
func NewSessionToken(chance [32]byte) SessionToken {
	return SessionToken(sessionBegin + base64.RawURLEncoding.EncodeToString(chance[:]))
}

// ParseSessionToken reports whether s has the form of a session's token.
func ParseSessionToken(s string) (SessionToken, bool) {
	text, ok := strings.CutPrefix(s, sessionBegin)
	raw, err := base64.RawURLEncoding.Strict().DecodeString(text)
	return SessionToken(s), ok && err == nil && len(raw) == 32 && len(text) == 43
}

// Hash returns the hash of the token. Only the hash is stored.
func (t SessionToken) Hash() []byte {
	sum := sha256.Sum256([]byte(t))
	return sum[:]
}

// Session is a browser that is signed in. It does not include the credential with which it was
// opened: a session of an API key always has the key's current rights.
type Session struct {
	ID      uuid.UUID // UUIDv7, which determines the order of lists, newest first
	Hash    []byte
	Subject string         // a Principal's Subject
	Name    string         // a Principal's Name at sign-in
	Role    principal.Role // of a JWT, at sign-in
	KeyID   *uuid.UUID
	Tenant  *tenant.Tenant // nil: opened with a key for all tenants
	Address string         // of the client that signed in

	CreatedAt, ExpiresAt time.Time
	LastUsedAt           time.Time // with a precision of about a minute
}

// OpenSession creates a session for who; it stores nothing. who.Tenant is the tenant of the
// request. Fault: Conflict if who signed in with a session, because sessions could then be
// prolonged forever.
func OpenSession(t SessionToken, who principal.Principal, address string, id uuid.UUID, now time.Time) (Session,
	error) {
	if who.SessionID != uuid.Nil {
		return Session{}, SessionRefused("the request was made with a session: sign in with an API key or a JWT")
	}
	s := Session{
		ID: id, Hash: t.Hash(), Subject: who.Subject, Name: who.Name, Role: who.Role, Address: address,
		CreatedAt: now, ExpiresAt: now.Add(SessionLife), LastUsedAt: now,
	}
	if who.KeyID != uuid.Nil {
		s.KeyID = &who.KeyID
	}
	if !who.AnyTenant {
		s.Tenant = &who.Tenant
	}
	return s, nil
}

// Ends returns when the session ends unless it is used again.
func (s *Session) Ends() time.Time {
	if idle := s.LastUsedAt.Add(SessionIdle); idle.Before(s.ExpiresAt) {
		return idle
	}
	return s.ExpiresAt
}

// Principal returns the caller of a session that was opened with a JWT.
func (s *Session) Principal() principal.Principal {
	p := principal.Principal{Subject: s.Subject, Name: s.Name, Role: s.Role, SessionID: s.ID}
	if s.Tenant != nil {
		p.Tenant = *s.Tenant
	}
	return p
}

// Audited returns the value whose hash the audit trail records for a session.
func (s *Session) Audited() any {
	return map[string]any{
		"id": s.ID, "subject": s.Subject, "role": s.Role, "key_id": s.KeyID, "address": s.Address,
		"created_at": s.CreatedAt, "expires_at": s.ExpiresAt,
	}
}

// ErrSessionEnded is the reason why a session's token is not accepted; it is used in the log.
var ErrSessionEnded = errors.New("no such session, or it has ended")

// SessionNotFound returns the fault for a session that does not exist or is hidden from the caller.
func SessionNotFound() error {
	return fault.New(fault.NotFound, CodeSessionNotFound, "there is no such session, or it has ended")
}

// SessionRefused returns the fault for a credential with which no session can be opened.
func SessionRefused(why string) error {
	return fault.New(fault.Conflict, CodeSessionRefused, "%s", why)
}

// SessionFilter selects the sessions of a list: those that have not ended at Now and, unless
// Subject is empty, belong to Subject.
type SessionFilter struct {
	Subject                 string
	Now                     time.Time
	page.Request[uuid.UUID] // after an id
}

// Sessions stores sessions. It is safe for concurrent use. Errors that are not faults are outages.
// scope limits a call to the sessions of one tenant; nil means all. owner limits it to the sessions
// of one subject; "" means all.
type Sessions interface {
	// Open stores a session durably.
	Open(ctx context.Context, s Session) error
	// Find returns the session whose token has the given hash, whether or not the session has
	// ended. Fault: NotFound.
	Find(ctx context.Context, hash []byte) (Session, error)
	// Get returns the session with an id, if it belongs to owner ("" means any) and has not ended
	// at now. Fault: NotFound.
	Get(ctx context.Context, scope *uuid.UUID, owner string, id uuid.UUID, now time.Time) (Session, error)
	// List returns a page of sessions, newest first by id.
	List(ctx context.Context, scope *uuid.UUID, f SessionFilter) (page.Of[Session], error)
	// End removes a session durably. Fault: NotFound.
	End(ctx context.Context, scope *uuid.UUID, owner string, id uuid.UUID, at time.Time) error
	// Used stores when sessions were used, and removes those that have ended at now. It ignores
	// unknown ids.
	Used(ctx context.Context, at map[uuid.UUID]time.Time, now time.Time) error
}
