// Package identity authenticates requests. It checks credentials (API keys against their store,
// JWTs against the keys of their issuer) by the rules of package access, and caches the results for
// a few seconds, so that most requests need no database call.
package identity

import (
	"context"
	"crypto/sha256"
	"errors"
	"log/slog"
	"strings"
	"sync"
	"time"

	"github.com/google/uuid"

	"github.com/skald-saga/skald/internal/access"
	"github.com/skald-saga/skald/internal/fault"
	"github.com/skald-saga/skald/internal/principal"
)

// cacheFor is how long a result is cached, counted from before the look-up. It ensures that a
// revoked key is rejected on all nodes within 5 s, including the duration of the last look-up.
const cacheFor = 4 * time.Second

// maxCached bounds the cached results of each kind. Clients without credentials can fill the map of
// rejected credentials with arbitrary values; the map of accepted ones contains only issued
// credentials.
const maxCached = 10_000

// maxCredential is a length in bytes that is far above the length of any token that an issuer
// creates.
const maxCredential = 8 << 10

// ticketBegin is the prefix of tickets. A ticket is a credential for one request to this process
// within a few seconds, by a person whom the issuer has just signed in and who is about to get a
// session. It never leaves the process.
const ticketBegin = "skald_ticket_"

// Config configures a Checker. Fields are required unless a comment says otherwise.
type Config struct {
	Keys     access.Store
	Sessions access.Sessions
	// JWT configures which tokens are accepted; nil means none.
	JWT *JWT
	// Now is the clock for expiry times.
	Now func() time.Time
	Log *slog.Logger
}

// Checker authenticates credentials. It is safe for concurrent use.
type Checker struct {
	keys     access.Store
	sessions access.Sessions
	tokens   *tokens // nil: JWTs are not accepted
	now      func() time.Time
	log      *slog.Logger

	mu       sync.RWMutex
	accepted map[digest]found        // guarded by mu
	refused  map[digest]found        // guarded by mu
	used     map[uuid.UUID]time.Time // guarded by mu; uses of keys that Run has not recorded yet
	recorded map[uuid.UUID]time.Time // used only by Run; when it last recorded a use of a key
	lastUsed map[uuid.UUID]time.Time // guarded by mu; the same for sessions
	tickets  map[digest]found        // guarded by mu; see ticket

	// asking ensures that simultaneous requests with the same credential look it up only once; all
	// but the first find the cached result.
	asking [16]chan struct{}
}

type digest = [sha256.Size]byte

// New returns a Checker. Its Run method records the uses of keys.
func New(cfg Config) *Checker {
	c := &Checker{
		keys: cfg.Keys, sessions: cfg.Sessions, now: cfg.Now, log: cfg.Log,
		accepted: map[digest]found{}, refused: map[digest]found{}, used: map[uuid.UUID]time.Time{},
		recorded: map[uuid.UUID]time.Time{}, lastUsed: map[uuid.UUID]time.Time{}, tickets: map[digest]found{},
	}
	if cfg.JWT != nil {
		c.tokens = newTokens(*cfg.JWT, newKeySet(*cfg.JWT, cfg.Log), cfg.Now)
	}
	for i := range c.asking {
		c.asking[i] = make(chan struct{}, 1)
	}
	return c
}

// Identify returns the caller that an API key or JWT identifies. Fault: Unauthenticated with
// principal.CodeInvalid, which does not reveal the reason to the client; its cause is for the log.
// Any other error is an outage: the credential was not checked.
func (c *Checker) Identify(ctx context.Context, credential string) (principal.Principal, error) {
	if len(credential) > maxCredential {
		return principal.Principal{}, refuse(errTooLong)
	}
	id := sha256.Sum256([]byte(credential))
	if strings.HasPrefix(credential, ticketBegin) {
		return c.takeTicket(id)
	}
	if f, ok := c.cached(id); ok {
		return c.result(f)
	}
	turn := c.asking[id[0]%16]
	select {
	case turn <- struct{}{}:
		defer func() { <-turn }()
	case <-ctx.Done():
		return principal.Principal{}, ctx.Err()
	}
	if f, ok := c.cached(id); ok { // another request has looked it up in the meantime
		return c.result(f)
	}
	asked := time.Now()
	f, err := c.ask(ctx, credential)
	if err != nil {
		return principal.Principal{}, err
	}
	f.until = asked.Add(cacheFor)
	c.remember(id, f)
	return c.result(f)
}

var (
	errTooLong = errors.New("the credential is too long")
	errForm    = errors.New("the credential is neither an API key nor a JWT")
	errNoJWT   = errors.New("JWTs are not configured")
	errExpired = errors.New("the credential has expired")
)

func refuse(why error) error {
	return fault.New(fault.Unauthenticated, principal.CodeInvalid, "the credential is not valid here").Because(why)
}

func (c *Checker) result(f found) (principal.Principal, error) {
	switch {
	case f.wrong != nil:
		return principal.Principal{}, refuse(f.wrong)
	case !f.expires.IsZero() && !c.now().Before(f.expires):
		return principal.Principal{}, refuse(errExpired)
	}
	return f.who, nil
}

func (c *Checker) cached(id digest) (found, bool) {
	c.mu.RLock()
	f, ok := c.accepted[id]
	if !ok {
		f, ok = c.refused[id]
	}
	c.mu.RUnlock()
	return f, ok && time.Now().Before(f.until)
}

func (c *Checker) remember(id digest, f found) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.accepted, id)
	delete(c.refused, id)
	into := c.accepted
	if f.wrong != nil {
		into = c.refused
	}
	if len(into) >= maxCached {
		clear(into) // this is rare, and valid entries return with their next request
	}
	into[id] = f
	if f.who.KeyID != uuid.Nil {
		c.used[f.who.KeyID] = c.now()
	}
	if f.who.SessionID != uuid.Nil {
		c.lastUsed[f.who.SessionID] = c.now()
	}
}

// ask looks up a credential. An error is an outage.
func (c *Checker) ask(ctx context.Context, credential string) (found, error) {
	if token, ok := access.ParseToken(credential); ok {
		return c.askKey(ctx, token)
	}
	if token, ok := access.ParseSessionToken(credential); ok {
		return c.askSession(ctx, token)
	}
	switch {
	case strings.Count(credential, ".") != 2:
		return found{wrong: errForm}, nil
	case c.tokens == nil:
		return found{wrong: errNoJWT}, nil
	}
	return c.tokens.check(ctx, credential)
}

func (c *Checker) askKey(ctx context.Context, token access.Token) (found, error) {
	k, err := c.keys.Find(ctx, token.Prefix())
	if fault.KindOf(err) == fault.NotFound {
		return found{wrong: access.ErrKeyUnknown}, nil
	}
	if err != nil {
		return found{}, err
	}
	if wrong := k.Check(token, c.now()); wrong != nil {
		return found{wrong: wrong}, nil
	}
	f := found{who: k.Principal()}
	if k.ExpiresAt != nil {
		f.expires = *k.ExpiresAt
	}
	return f, nil
}

// askSession looks up a session and the key with which it was opened, because the session has the
// key's current rights.
func (c *Checker) askSession(ctx context.Context, token access.SessionToken) (found, error) {
	s, err := c.sessions.Find(ctx, token.Hash())
	if fault.KindOf(err) == fault.NotFound {
		return found{wrong: access.ErrSessionEnded}, nil
	}
	if err != nil {
		return found{}, err
	}
	f := found{who: s.Principal(), expires: s.Ends()}
	switch now := c.now(); {
	case !now.Before(f.expires):
		return found{wrong: access.ErrSessionEnded}, nil
	case s.KeyID == nil:
		return f, nil
	}
	k, err := c.keys.Get(ctx, nil, *s.KeyID)
	switch {
	case fault.KindOf(err) == fault.NotFound:
		return found{wrong: access.ErrKeyUnknown}, nil
	case err != nil:
		return found{}, err
	case !k.Active(c.now()):
		return found{wrong: access.ErrKeyRevoked}, nil
	}
	f.who = k.Principal()
	f.who.SessionID = s.ID
	if k.ExpiresAt != nil && k.ExpiresAt.Before(f.expires) {
		f.expires = *k.ExpiresAt
	}
	return f, nil
}

// Forget drops a session from the cache, so that its next request looks it up again.
func (c *Checker) Forget(session uuid.UUID) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for id, f := range c.accepted {
		if f.who.SessionID == session {
			delete(c.accepted, id)
		}
	}
	delete(c.lastUsed, session)
}

// Run records the uses of keys and sessions until ctx ends, and once more at the end. It records
// the first use of each key within soon, so that a key in use is not shown as never used, and later
// uses once a minute. Uses that cannot be recorded because of a crash or a final outage are lost;
// the times only help operators to find unused keys.
func (c *Checker) Run(ctx context.Context) {
	tick := time.NewTicker(soon)
	defer tick.Stop()
	last := c.now()
	for {
		select {
		case <-tick.C:
			c.recordKeys(ctx, false)
			if now := c.now(); now.Sub(last) >= access.UsedEvery {
				last = now
				c.recordSessions(ctx)
			}
		case <-ctx.Done():
			final, cancel := context.WithTimeout(context.WithoutCancel(ctx), 2*time.Second)
			defer cancel()
			c.recordSessions(final)
			c.recordKeys(final, true)
			return
		}
	}
}

// soon is the delay until the first use of a key is recorded.
const soon = 2 * time.Second

// due takes the keys whose use is to be recorded now: either all of them, or only those without a
// recorded use in the last minute.
func (c *Checker) due(all bool) map[uuid.UUID]time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.recorded) >= maxCached {
		clear(c.recorded)
	}
	due := map[uuid.UUID]time.Time{}
	for id, at := range c.used {
		if all || at.Sub(c.recorded[id]) >= access.UsedEvery {
			due[id], c.recorded[id] = at, at
			delete(c.used, id)
		}
	}
	return due
}

func (c *Checker) recordKeys(ctx context.Context, all bool) {
	due := c.due(all)
	if len(due) == 0 {
		return
	}
	if err := c.keys.Used(ctx, due); err != nil {
		c.log.WarnContext(ctx, "cannot record when API keys were last used", slog.Int("keys", len(due)),
			slog.Any("error", err))
	}
}

func (c *Checker) recordSessions(ctx context.Context) {
	c.mu.Lock()
	used := c.lastUsed
	c.lastUsed = map[uuid.UUID]time.Time{}
	c.mu.Unlock()
	if err := c.sessions.Used(ctx, used, c.now()); err != nil {
		c.log.WarnContext(ctx, "cannot record when sessions were last used; those in use may end early",
			slog.Int("sessions", len(used)), slog.Any("error", err))
	}
}
