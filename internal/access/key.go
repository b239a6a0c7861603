package access

import (
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base32"
	"encoding/base64"
	"errors"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/google/uuid"

	"github.com/skald-saga/skald/internal/fault"
	"github.com/skald-saga/skald/internal/principal"
	"github.com/skald-saga/skald/internal/tenant"
)

// An API key has the form skald_PREFIX_SECRET. The prefix is public and identifies the key in lists
// and logs; the secret consists of 256 random bits.
const (
	keyBegin     = "skald_"
	prefixBytes  = 5                   // 8 characters of base32
	secretBytes  = 32                  // 43 characters of base64url
	prefixLength = prefixBytes * 8 / 5 // 8
	keyLength    = len(keyBegin) + 8 + 1 + 43
	// EntropyBytes is the number of random bytes that NewToken needs.
	EntropyBytes = prefixBytes + secretBytes
)

var prefixEncoding = base32.NewEncoding("abcdefghijklmnopqrstuvwxyz234567").WithPadding(base32.NoPadding)

// Token is the text of an API key, and thus the secret itself. It is shown once, to the caller that
// creates the key, and is not stored.
type Token string

// NewToken creates a token from random bytes, which must be cryptographically secure.
func NewToken(chance [EntropyBytes]byte) Token {
	return Token(keyBegin + prefixEncoding.EncodeToString(chance[:prefixBytes]) + "_" +
		base64.RawURLEncoding.EncodeToString(chance[prefixBytes:]))
}

// ParseToken reports whether s has the form of an API key.
func ParseToken(s string) (Token, bool) {
	if len(s) != keyLength || !strings.HasPrefix(s, keyBegin) || s[len(keyBegin)+prefixLength] != '_' {
		return "", false
	}
	t := Token(s)
	// The lengths are checked because both decoders ignore line ends.
	prefix, errPrefix := prefixEncoding.DecodeString(t.Prefix())
	secret, errSecret := base64.RawURLEncoding.Strict().DecodeString(s[len(keyBegin)+prefixLength+1:])
	return t, errPrefix == nil && errSecret == nil && len(prefix) == prefixBytes && len(secret) == secretBytes
}

// Prefix returns the public part of the token.
func (t Token) Prefix() string { return string(t[len(keyBegin) : len(keyBegin)+prefixLength]) }

// Hash returns the stored hash of the token. A plain hash suffices: 256 random bits cannot be
// guessed, so a slow hash would not add protection.
func (t Token) Hash() []byte {
	sum := sha256.Sum256([]byte(t))
	return sum[:]
}

// Key is a stored API key.
type Key struct {
	ID   uuid.UUID // UUIDv7, which determines the order of lists, newest first
	Name string
	// Only Prefix and Hash of the token are stored.
	Prefix string
	Hash   []byte
	Role   principal.Role
	// Queues lists the queues that workers with the key may serve; empty means all queues of the
	// tenant. It is used only for the role worker.
	Queues []string
	// Tenant is the tenant to which the key is bound. Nil means any tenant, which only the keys of
	// admins may have.
	Tenant     *tenant.Tenant
	CreatedBy  string // a Principal's Subject
	CreatedAt  time.Time
	ExpiresAt  *time.Time // nil: never
	RevokedAt  *time.Time // nil: not revoked
	RevokedBy  string
	LastUsedAt *time.Time // with a precision of about a minute; nil: never
}

// Active reports whether the key is valid at now.
func (k *Key) Active(now time.Time) bool {
	return k.RevokedAt == nil && (k.ExpiresAt == nil || now.Before(*k.ExpiresAt))
}

// Revoked returns the key as revoked by the subject by at a given time. A key that was already
// revoked keeps its first revocation.
func (k Key) Revoked(by string, at time.Time) Key {
	if k.RevokedAt == nil {
		k.RevokedAt, k.RevokedBy = &at, by
	}
	return k
}

// Audited returns the value whose hash the audit trail records for a key: the key without the
// secret and the time of its last use.
func (k *Key) Audited() any {
	out := map[string]any{
		"id": k.ID, "name": k.Name, "prefix": k.Prefix, "role": k.Role, "any_tenant": k.Tenant == nil,
		"created_by": k.CreatedBy,
		"created_at": k.CreatedAt,
		"expires_at": k.ExpiresAt,
		"revoked_at": k.RevokedAt,
		"revoked_by": k.RevokedBy,
	}
	if len(k.Queues) > 0 { // so that the digest of other keys stays the same as in older versions
		out["queues"] = k.Queues
	}
	if t := k.Tenant; t != nil {
		out["tenant_id"], out["tenant_region"], out["tenant_major"], out["tenant_minor"] = t.ID, t.Region, t.Major, t.Minor
	}
	return out
}

// These are the reasons why a token is invalid. They are only logged; clients do not learn them.
var (
	ErrKeyUnknown = errors.New("no such API key")
	ErrKeyRevoked = errors.New("the API key is revoked")
	ErrKeyExpired = errors.New("the API key has expired")
)

// Check returns nil if t is the token of k and k is valid at now. Its duration does not reveal how
// much of the token is correct.
func (k *Key) Check(t Token, now time.Time) error {
	switch {
	case subtle.ConstantTimeCompare(k.Hash, t.Hash()) != 1:
		return ErrKeyUnknown
	case k.RevokedAt != nil:
		return ErrKeyRevoked
	case !k.Active(now):
		return ErrKeyExpired
	}
	return nil
}

// Principal returns the caller that uses the key. Keys with the same name and tenant have the same
// subject, so that one key can replace another without a change of identity.
func (k *Key) Principal() principal.Principal {
	p := principal.Principal{Subject: "key:" + k.Name, Role: k.Role, KeyID: k.ID, Queues: k.Queues}
	if k.Tenant == nil {
		p.Subject, p.AnyTenant = "key:*:"+k.Name, true
	} else {
		p.Tenant = *k.Tenant
	}
	return p
}

// Request contains the parameters of a new key.
type Request struct {
	Name      string
	Role      principal.Role
	Queues    []string       // of workers; nil: all. An empty list is refused, as it would also mean all.
	Tenant    *tenant.Tenant // nil: any
	ExpiresAt *time.Time     // nil: never
}

// Issue creates the key that by requests, and its token; it stores nothing. It reports all mistakes
// at once. by.Tenant is the tenant of the request, as TenantFor returned it. Faults: Invalid;
// Forbidden if by may not create keys for that tenant. The caller must check whether by may create
// keys at all.
func Issue(r Request, by principal.Principal, id uuid.UUID, chance [EntropyBytes]byte, now time.Time) (Key, Token,
	error) {
	t := NewToken(chance)
	k, err := IssueFor(t, r, by, id, now)
	return k, t, err
}

// IssueFor is Issue for a token that already exists.
func IssueFor(t Token, r Request, by principal.Principal, id uuid.UUID, now time.Time) (Key, error) {
	var fields fault.Mistakes
	if !validName(r.Name) {
		fields.Add("/name", "pattern", "must have 1 to 100 letters, digits and . _ @ -")
	}
	switch {
	case !r.Role.Valid():
		fields.Add("/role", "enum", "must be worker, auditor, operator or admin")
	case r.Tenant == nil && r.Role != principal.Admin:
		fields.Add("/any_tenant", "excluded", "is for the role admin only")
	}
	switch {
	case r.Queues == nil:
	case r.Role != principal.Worker:
		fields.Add("/queues", "excluded", "is for the role worker only")
	case !validQueues(r.Queues):
		fields.Add("/queues", "invalid", "must be 1 to 100 names of 1 to 100 characters")
	}
	if r.Tenant != nil && !validTenant(*r.Tenant) {
		fields.Add(
			"/tenant_id",
			"invalid",
			"must not be all zeros, its region at most 32 characters, its versions 0 to 65535",
		)
	}
	if r.ExpiresAt != nil && (!r.ExpiresAt.After(now) || r.ExpiresAt.Year() > 9999) {
		fields.Add("/expires_at", "invalid", "must be in the future, before the year 10000")
	}
	if fields != nil {
		return Key{}, fault.New(fault.Invalid, CodeKeyRefused, "%s %s", fields[0].Pointer, fields[0].Message).With(fields...)
	}
	if !by.AnyTenant && (r.Tenant == nil || *r.Tenant != by.Tenant) {
		return Key{}, fault.New(
			fault.Forbidden,
			principal.CodeTenantMismatch,
			"the credential belongs to a tenant and can create keys for that tenant only",
		)
	}
	k := Key{
		ID: id, Name: r.Name, Prefix: t.Prefix(), Hash: t.Hash(), Role: r.Role,
		Queues: slices.Compact(slices.Sorted(slices.Values(r.Queues))), Tenant: r.Tenant,
		CreatedBy: by.Subject, CreatedAt: now, ExpiresAt: r.ExpiresAt,
	}
	return k, nil
}

func validQueues(names []string) bool {
	return 1 <= len(names) && len(names) <= 100 && !slices.ContainsFunc(names, func(q string) bool {
		return q == "" || utf8.RuneCountInString(q) > 100
	})
}

func validTenant(t tenant.Tenant) bool {
	return t.ID != uuid.Nil && len([]rune(t.Region)) <= 32 && 0 <= t.Major && t.Major <= 65535 && 0 <= t.Minor &&
		t.Minor <= 65535
}

// KeyNotFound returns the fault for a key that does not exist or is hidden from the caller.
func KeyNotFound(id uuid.UUID) error {
	return fault.New(fault.NotFound, CodeKeyNotFound, "there is no API key %s", id)
}
