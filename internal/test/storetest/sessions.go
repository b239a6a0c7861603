package storetest

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"

	"github.com/skald-saga/skald/internal/access"
	"github.com/skald-saga/skald/internal/fault"
	"github.com/skald-saga/skald/internal/principal"
	"github.com/skald-saga/skald/internal/tenant"
)

// Sessions tests access.Sessions on an empty store.
func Sessions(t *testing.T, store access.Sessions) {
	now := time.Now().UTC().Truncate(time.Microsecond)
	home := tenant.Tenant{ID: uuid.New(), Region: "eu", Major: 1, Minor: 2}
	open := func(n byte, who principal.Principal, at time.Time) access.Session {
		t.Helper()
		s, err := access.OpenSession(access.NewSessionToken([32]byte{n}), who, "127.0.0.1", uuid.Must(uuid.NewV7()), at)
		if err == nil {
			err = store.Open(t.Context(), s)
		}
		if err != nil {
			t.Fatalf("open session %d: %v", n, err)
		}
		return s
	}
	hour, life := now.Add(-access.SessionIdle), now.Add(-access.SessionLife)
	alice := open(1, principal.Principal{Subject: "jwt:alice", Role: principal.Operator, Tenant: home}, now)
	ops := open(2, principal.Principal{Subject: "key:*:ops", Role: principal.Admin, AnyTenant: true, KeyID: uuid.New()},
		now)
	nobody := open(3, principal.Principal{Subject: "jwt:nobody", Tenant: tenant.Tenant{ID: home.ID}}, now)
	idle := open(4, principal.Principal{Subject: "jwt:alice", Role: principal.Admin, Tenant: home}, hour)
	old := open(5, principal.Principal{Subject: "jwt:alice", Role: principal.Admin, Tenant: home}, life)

	for n, s := range map[byte]access.Session{1: alice, 2: ops, 3: nobody, 4: idle} {
		got, err := store.Find(t.Context(), access.NewSessionToken([32]byte{n}).Hash())
		if diff := cmp.Diff(s, got); err != nil || diff != "" {
			t.Errorf("session %d, %v (-opened +found):\n%s", n, err, diff)
		}
	}
	if _, err := store.Find(t.Context(), access.NewSessionToken([32]byte{9}).Hash()); fault.KindOf(err) != fault.NotFound {
		t.Errorf("an unknown session: %v", err)
	}
	listed := func(scope *uuid.UUID, subject string) (ids []uuid.UUID) {
		t.Helper()
		f := access.SessionFilter{Subject: subject, Now: now}
		f.Limit, f.Total = 10, true
		found, err := store.List(t.Context(), scope, f)
		for _, s := range found.Items {
			ids = append(ids, s.ID)
		}
		if err != nil || found.Total != int64(len(ids)) {
			t.Errorf("list: %d of %d, %v", len(ids), found.Total, err)
		}
		return ids
	}
	wants := func(what string, got []uuid.UUID, want ...uuid.UUID) {
		t.Helper()
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", what, diff)
		}
	}
	wants("all that live", listed(nil, ""), nobody.ID, ops.ID, alice.ID)
	wants("of a tenant", listed(&home.ID, ""), nobody.ID, alice.ID)
	wants("of a subject", listed(&home.ID, "jwt:alice"), alice.ID)

	got := func(scope *uuid.UUID, owner string, id uuid.UUID) (ids []uuid.UUID) {
		t.Helper()
		s, err := store.Get(t.Context(), scope, owner, id, now)
		if err == nil {
			return []uuid.UUID{s.ID}
		}
		if fault.KindOf(err) != fault.NotFound {
			t.Errorf("get: %v", err)
		}
		return nil
	}
	another := uuid.New()
	wants("one", got(nil, "", ops.ID), ops.ID)
	wants("one's own", got(&home.ID, "jwt:alice", alice.ID), alice.ID)
	wants("of another subject", got(&home.ID, "jwt:nobody", alice.ID))
	wants("of another tenant", got(&another, "", alice.ID))
	wants("of a key for all tenants, in one", got(&home.ID, "", ops.ID))
	wants("one that was idle for too long", got(nil, "", idle.ID))
	wants("one that has ended", got(nil, "", old.ID))
	wants("none", got(nil, "", uuid.New()))

	later := now.Add(time.Minute)
	used := map[uuid.UUID]time.Time{alice.ID: later, ops.ID: now.Add(-time.Hour), uuid.New(): later}
	if err := store.Used(t.Context(), used, now); err != nil {
		t.Fatal(err)
	}
	if got, err := store.Find(t.Context(), alice.Hash); err != nil || !got.LastUsedAt.Equal(later) {
		t.Errorf("after its use: %v %v", got.LastUsedAt, err)
	}
	if got, err := store.Find(t.Context(), ops.Hash); err != nil || !got.LastUsedAt.Equal(now) {
		t.Errorf("a use before the last one: %v %v", got.LastUsedAt, err)
	}
	for _, s := range []access.Session{idle, old} {
		if _, err := store.Find(t.Context(), s.Hash); fault.KindOf(err) != fault.NotFound {
			t.Errorf("a session that has ended stays: %v", err)
		}
	}

	other := uuid.New()
	for what, err := range map[string]error{
		"another tenant's":  store.End(t.Context(), &other, "", alice.ID, now),
		"another subject's": store.End(t.Context(), &home.ID, "jwt:bob", alice.ID, now),
		"of no tenant":      store.End(t.Context(), &home.ID, "", ops.ID, now),
		"unknown":           store.End(t.Context(), nil, "", uuid.New(), now),
	} {
		if fault.KindOf(err) != fault.NotFound {
			t.Errorf("ending a session that is %s: %v", what, err)
		}
	}
	for _, err := range []error{
		store.End(t.Context(), &home.ID, "jwt:alice", alice.ID, now), store.End(t.Context(), nil, "", ops.ID, now),
	} {
		if err != nil {
			t.Error(err)
		}
	}
	if err := store.End(t.Context(), nil, "", ops.ID, now); fault.KindOf(err) != fault.NotFound {
		t.Errorf("ended twice: %v", err)
	}
	wants("what is left", listed(nil, ""), nobody.ID)
}
