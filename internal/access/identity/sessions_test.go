package identity_test

import (
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/uuid"

	"github.com/skald-saga/skald/internal/access"
	"github.com/skald-saga/skald/internal/access/identity"
	"github.com/skald-saga/skald/internal/fault"
	"github.com/skald-saga/skald/internal/principal"
	"github.com/skald-saga/skald/internal/saga/memstore"
	"github.com/skald-saga/skald/internal/tenant"
)

func TestASessionHasTheRightsOfItsKeyAndEndsWithIt(t *testing.T) {
	store := memstore.New(time.Now)
	now := time.Now()
	clock := now
	check := func(token access.SessionToken) (principal.Principal, error) { // through a checker without a cache
		c := identity.New(identity.Config{
			Keys: store.Keys, Sessions: store.Sessions, Now: func() time.Time { return clock },
			Log: slog.New(slog.DiscardHandler),
		})
		return c.Identify(t.Context(), string(token))
	}
	tenant := tenant.Tenant{ID: uuid.New()}
	root := principal.Principal{Subject: "test", AnyTenant: true}
	expires := now.Add(3 * time.Hour)
	asked := access.Request{Name: "ops", Role: principal.Operator, Tenant: &tenant, ExpiresAt: &expires}
	key, _, err := access.Issue(asked, root, uuid.New(), [access.EntropyBytes]byte{1}, now)
	if err != nil {
		t.Fatal(err)
	}
	if err := store.Keys.Create(t.Context(), key); err != nil {
		t.Fatal(err)
	}
	open := func(n byte, who principal.Principal) (access.SessionToken, access.Session) {
		t.Helper()
		token := access.NewSessionToken([32]byte{n})
		s, err := access.OpenSession(token, who, "", uuid.New(), now)
		if err == nil {
			err = store.Sessions.Open(t.Context(), s)
		}
		if err != nil {
			t.Fatal(err)
		}
		return token, s
	}
	ofKey, s := open(1, key.Principal())
	ofJWT, other := open(2, principal.Principal{Subject: "jwt:alice", Role: principal.Auditor, Tenant: tenant})

	who, err := check(ofKey)
	if err != nil || who.Subject != "key:ops" || who.Role != principal.Operator || who.Tenant != tenant ||
		who.KeyID != key.ID || who.SessionID != s.ID {
		t.Errorf("a session of a key: %+v %v", who, err)
	}
	if who, err := check(ofJWT); err != nil || who.Subject != "jwt:alice" || who.SessionID != other.ID {
		t.Errorf("a session of a JWT: %+v %v", who, err)
	}
	refused := func(what string, token access.SessionToken) {
		t.Helper()
		if who, err := check(token); fault.KindOf(err) != fault.Unauthenticated {
			t.Errorf("%s: %+v %v", what, who, err)
		}
	}
	refused("an id that the server has not made", access.NewSessionToken([32]byte{66}))

	clock = now.Add(59 * time.Minute)
	if _, err := check(ofKey); err != nil {
		t.Errorf("just before it is idle: %v", err)
	}
	clock = now.Add(time.Hour)
	refused("an hour without use", ofKey)
	for hour := range 13 { // the session is used continuously
		clock = now.Add(time.Duration(hour) * time.Hour)
		at := map[uuid.UUID]time.Time{s.ID: clock, other.ID: clock}
		if err := store.Sessions.Used(t.Context(), at, now); err != nil {
			t.Fatal(err)
		}
		_, errKey := check(ofKey)
		_, errJWT := check(ofJWT)
		if (errKey == nil) != (hour < 3) || (errJWT == nil) != (hour < 12) {
			t.Errorf("after %d h: with a key for 3 h %v, with a JWT %v", hour, errKey, errJWT)
		}
	}

	clock = now.Add(time.Minute)
	if _, err := store.Keys.Revoke(t.Context(), nil, key.ID, "test", now); err != nil {
		t.Fatal(err)
	}
	refused("after its key is revoked", ofKey)
	if err := store.Sessions.End(t.Context(), nil, "", other.ID, now); err != nil {
		t.Fatal(err)
	}
	refused("after signing out", ofJWT)
}

func TestASessionThatHasEndedIsForgottenAtOnceHere(t *testing.T) {
	store := memstore.New(time.Now)
	c := identity.New(identity.Config{
		Keys: store.Keys, Sessions: store.Sessions, Now: time.Now, Log: slog.New(slog.DiscardHandler),
	})
	token := access.NewSessionToken([32]byte{1})
	s, err := access.OpenSession(token, principal.Principal{Subject: "jwt:a", Tenant: tenant.Tenant{ID: uuid.New()}}, "",
		uuid.New(), time.Now())
	if err == nil {
		err = store.Sessions.Open(t.Context(), s)
	}
	if err != nil {
		t.Fatal(err)
	}
	if _, err := c.Identify(t.Context(), string(token)); err != nil {
		t.Fatal(err)
	}
	if err := store.Sessions.End(t.Context(), nil, "", s.ID, time.Now()); err != nil {
		t.Fatal(err)
	}
	c.Forget(s.ID)
	if who, err := c.Identify(t.Context(), string(token)); err == nil {
		t.Errorf("signed out, and still %+v", who)
	}
}

// If a node is not notified because another node ended the session, it caches the session for less
// than five seconds.
func TestASessionThatHasEndedElsewhereIsRefusedWithinFiveSeconds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memstore.New(time.Now)
		c := identity.New(identity.Config{
			Keys: store.Keys, Sessions: store.Sessions, Now: time.Now, Log: slog.New(slog.DiscardHandler),
		})
		token := access.NewSessionToken([32]byte{1})
		s, err := access.OpenSession(token, principal.Principal{Subject: "jwt:a", Tenant: tenant.Tenant{ID: uuid.New()}}, "",
			uuid.New(), time.Now())
		if err == nil {
			err = store.Sessions.Open(t.Context(), s)
		}
		if err == nil {
			_, err = c.Identify(t.Context(), string(token))
		}
		if err == nil {
			err = store.Sessions.End(t.Context(), nil, "", s.ID, time.Now())
		}
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(5 * time.Second)
		if who, err := c.Identify(t.Context(), string(token)); err == nil {
			t.Errorf("five seconds after it has ended, the session is still %+v", who)
		}
	})
}
