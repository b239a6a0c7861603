package storetest

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"

	"github.com/skald-saga/skald/internal/access"
	"github.com/skald-saga/skald/internal/fault"
	"github.com/skald-saga/skald/internal/page"
	"github.com/skald-saga/skald/internal/principal"
	"github.com/skald-saga/skald/internal/tenant"
)

var keys = []contract{
	{"a key reads back completely, by its prefix and by its id", keyReadsBack},
	{"a prefix belongs to one key, even with concurrent creates", keyPrefixRace},
	{"a key of another tenant, or for all tenants, is not visible to a tenant", keyForeign},
	{"keys are listed newest first, in pages", keyList},
	{"the list can be limited to active or inactive keys", keyActive},
	{"a key is revoked once and permanently", keyRevoke},
	{"of twenty concurrent revocations of a key, one is recorded", keyRevokeRace},
	{"a use is recorded once a minute", keyUsed},
}

// apiKey returns a key of the fixture's tenant and its token.
func (f *fixture) apiKey(name string) (access.Key, access.Token) {
	id, more := uuid.New(), uuid.New() // random enough for a test
	var chance [access.EntropyBytes]byte
	copy(chance[:], slices.Concat(id[:], more[:], bytes.Repeat(id[8:], 2)))
	t := access.NewToken(chance)
	tenant := f.tenant
	return access.Key{
		ID: newID(), Name: name, Prefix: t.Prefix(), Hash: t.Hash(), Role: principal.Operator, Tenant: &tenant,
		CreatedBy: "jwt:alice", CreatedAt: f.now(),
	}, t
}

func (f *fixture) storedKey(name string) access.Key {
	f.t.Helper()
	k, _ := f.apiKey(name)
	f.storeKey(k)
	return k
}

func (f *fixture) storeKey(k access.Key) {
	f.t.Helper()
	if err := f.Keys.Create(f.t.Context(), k); err != nil {
		f.t.Fatalf("create key: %v", err)
	}
}

func keyReadsBack(f *fixture) {
	bound, token := f.apiKey("orders.eu_1@team-a")
	expires := f.now().Add(time.Hour)
	bound.ExpiresAt = &expires
	free, _ := f.apiKey("root")
	free.Role, free.Tenant = principal.Admin, nil
	plain, _ := f.apiKey("plain")
	plain.Role, plain.Tenant = principal.Auditor, &tenant.Tenant{ID: f.tenant.ID}
	worker, _ := f.apiKey("worker")
	worker.Role = principal.Worker
	some, _ := f.apiKey("worker-of-queues")
	some.Role, some.Queues = principal.Worker, []string{"a", `b,"{}\`, "NULL"}
	for _, k := range []access.Key{bound, free, plain, worker, some} {
		f.storeKey(k)
		byPrefix, err := f.Keys.Find(f.t.Context(), k.Prefix)
		if diff := cmp.Diff(k, byPrefix); diff != "" || err != nil {
			f.t.Errorf("%s by prefix, %v (-stored +read):\n%s", k.Name, err, diff)
		}
		byID, err := f.Keys.Get(f.t.Context(), nil, k.ID)
		if diff := cmp.Diff(k, byID); diff != "" || err != nil {
			f.t.Errorf("%s by id, %v (-stored +read):\n%s", k.Name, err, diff)
		}
	}
	if k, _ := f.Keys.Find(f.t.Context(), bound.Prefix); k.Check(token, f.now()) != nil {
		f.t.Error("the token does not match the stored key")
	}
	if _, err := f.Keys.Find(f.t.Context(), "aaaaaaaa"); fault.KindOf(err) != fault.NotFound {
		f.t.Errorf("an unknown prefix: %v, want NotFound", err)
	}
}

func keyPrefixRace(f *fixture) {
	var all sync.WaitGroup
	results := make([]error, 20)
	first, _ := f.apiKey("first")
	for i := range results {
		k, _ := f.apiKey(fmt.Sprint("k", i))
		k.Prefix = first.Prefix
		all.Go(func() { results[i] = f.Keys.Create(f.t.Context(), k) })
	}
	all.Wait()
	created := 0
	for _, err := range results {
		if err == nil {
			created++
		} else if !errors.Is(err, access.ErrPrefixTaken) {
			f.t.Errorf("another key of the prefix: %v, want ErrPrefixTaken", err)
		}
	}
	if created != 1 {
		f.t.Errorf("%d keys of one prefix were created, want 1", created)
	}
}

func keyForeign(f *fixture) {
	bound := f.storedKey("bound")
	free, _ := f.apiKey("free")
	free.Role, free.Tenant = principal.Admin, nil
	f.storeKey(free)
	other := newID()
	for _, tt := range []struct {
		name  string
		key   access.Key
		scope *uuid.UUID
		found bool
	}{
		{"its own tenant", bound, &f.tenant.ID, true},
		{"everybody", bound, nil, true},
		{"another tenant", bound, &other, false},
		{"a tenant looks for a key for any", free, &f.tenant.ID, false},
		{"everybody looks for a key for any", free, nil, true},
	} {
		_, errGet := f.Keys.Get(f.t.Context(), tt.scope, tt.key.ID)
		_, errRevoke := f.Keys.Revoke(f.t.Context(), tt.scope, tt.key.ID, "x", f.now())
		for what, err := range map[string]error{"get": errGet, "revoke": errRevoke} {
			if tt.found != (err == nil) || !tt.found && fault.KindOf(err) != fault.NotFound {
				f.t.Errorf("%s: %s: %v, want found %t", tt.name, what, err, tt.found)
			}
		}
		found, err := f.Keys.List(f.t.Context(), tt.scope, access.Filter{Request: page.Request[uuid.UUID]{Limit: 1000}})
		listed := slices.ContainsFunc(found.Items, func(k access.Key) bool { return k.ID == tt.key.ID })
		if err != nil || listed != tt.found {
			f.t.Errorf("%s: listed %t, %v", tt.name, listed, err)
		}
	}
}

func names(keys []access.Key) string {
	var out []string
	for _, k := range keys {
		out = append(out, k.Name)
	}
	return strings.Join(out, " ")
}

func keyList(f *fixture) {
	for i := range 5 {
		f.storedKey(fmt.Sprint("k", i))
	}
	list := func(filter access.Filter) page.Of[access.Key] {
		f.t.Helper()
		p, err := f.Keys.List(f.t.Context(), &f.tenant.ID, filter)
		if err != nil {
			f.t.Fatal(err)
		}
		return p
	}
	first := list(access.Filter{Request: page.Request[uuid.UUID]{Limit: 2, Total: true}})
	if names(first.Items) != "k4 k3" || !first.More || first.Total != 5 {
		f.t.Errorf("first page: %s, more %t, total %d", names(first.Items), first.More, first.Total)
	}
	second := list(access.Filter{Request: page.Request[uuid.UUID]{Limit: 3, After: &first.Items[1].ID}})
	if names(second.Items) != "k2 k1 k0" || second.More || second.Total != 0 {
		f.t.Errorf("after k3: %s, more %t, total %d", names(second.Items), second.More, second.Total)
	}
	fifth := access.Filter{Request: page.Request[uuid.UUID]{Limit: 2, Offset: 4, Total: true}}
	if p := list(fifth); names(p.Items) != "k0" || p.More || p.Total != 5 {
		f.t.Errorf("offset 4: %s, more %t, total %d", names(p.Items), p.More, p.Total)
	}
	if p := list(access.Filter{Request: page.Request[uuid.UUID]{Limit: 2, Offset: 9}}); len(p.Items) != 0 || p.More {
		f.t.Errorf("past the end: %s, more %t", names(p.Items), p.More)
	}
}

func keyActive(f *fixture) {
	now := f.now()
	for name, expires := range map[string]time.Duration{"expired": 0, "lives": time.Microsecond} {
		k, _ := f.apiKey(name)
		at := now.Add(expires)
		k.ExpiresAt = &at
		f.storeKey(k)
	}
	revoked := f.storedKey("revoked")
	if _, err := f.Keys.Revoke(f.t.Context(), nil, revoked.ID, "x", now); err != nil {
		f.t.Fatal(err)
	}
	f.storedKey("for-ever")
	for active, want := range map[bool][]string{true: {"for-ever", "lives"}, false: {"expired", "revoked"}} {
		p, err := f.Keys.List(f.t.Context(), &f.tenant.ID, access.Filter{Active: &active, Now: now,
			Request: page.Request[uuid.UUID]{Limit: 9, Total: true}})
		var got []string
		for _, k := range p.Items {
			got = append(got, k.Name)
			if k.Active(now) != active {
				f.t.Errorf("the rule disagrees about %s", k.Name)
			}
		}
		slices.Sort(got)
		if diff := cmp.Diff(want, got); diff != "" || err != nil || p.Total != 2 {
			f.t.Errorf("active %t: %v, total %d (-want +got):\n%s", active, err, p.Total, diff)
		}
	}
}

func keyRevoke(f *fixture) {
	k := f.storedKey("k")
	at := f.now()
	got, err := f.Keys.Revoke(f.t.Context(), &f.tenant.ID, k.ID, "jwt:bob", at)
	k.RevokedAt, k.RevokedBy = &at, "jwt:bob"
	if diff := cmp.Diff(k, got); diff != "" || err != nil {
		f.t.Fatalf("%v (-want +got):\n%s", err, diff)
	}
	again, err := f.Keys.Revoke(f.t.Context(), nil, k.ID, "jwt:carol", f.now())
	if diff := cmp.Diff(k, again); diff != "" || err != nil {
		f.t.Errorf("again, %v (-first time +second time):\n%s", err, diff)
	}
	if found, err := f.Keys.Find(f.t.Context(), k.Prefix); err != nil || found.RevokedAt == nil {
		f.t.Errorf("read by its prefix it was revoked at %v, %v", found.RevokedAt, err)
	}
}

func keyRevokeRace(f *fixture) {
	k := f.storedKey("k")
	var all sync.WaitGroup
	by := make([]string, 20)
	for i := range by {
		all.Go(func() {
			got, err := f.Keys.Revoke(f.t.Context(), nil, k.ID, fmt.Sprint("revoker ", i), f.now())
			if err != nil {
				f.t.Errorf("revoke: %v", err)
			}
			by[i] = got.RevokedBy
		})
	}
	all.Wait()
	if slices.Sort(by); by[0] != by[len(by)-1] {
		f.t.Errorf("they report that %v revoked it", slices.Compact(by))
	}
}

func keyUsed(f *fixture) {
	a, b := f.storedKey("a"), f.storedKey("b")
	first := f.now()
	used := func(at map[uuid.UUID]time.Time) {
		f.t.Helper()
		if err := f.Keys.Used(f.t.Context(), at); err != nil {
			f.t.Fatal(err)
		}
	}
	wants := func(when string, k access.Key, want *time.Time) {
		f.t.Helper()
		k.LastUsedAt = want
		got, err := f.Keys.Get(f.t.Context(), nil, k.ID)
		if diff := cmp.Diff(k, got); diff != "" || err != nil {
			f.t.Errorf("%s, %v (-want +got):\n%s", when, err, diff)
		}
	}
	used(map[uuid.UUID]time.Time{a.ID: first, newID(): first})
	wants("the first use", a, &first)
	wants("another key", b, nil)
	next := first.Add(access.UsedEvery)
	used(map[uuid.UUID]time.Time{a.ID: next.Add(-time.Microsecond), b.ID: next})
	wants("a use within the minute", a, &first)
	wants("another key's first use", b, &next)
	used(map[uuid.UUID]time.Time{a.ID: next})
	wants("a use after a minute", a, &next)
	used(map[uuid.UUID]time.Time{a.ID: first})
	wants("a use that is reported late", a, &next)
	used(nil)

	var all sync.WaitGroup // nodes that record uses of the same keys lock them in the same order
	for i := range 20 {
		all.Go(func() {
			at := next.Add(time.Duration(i+1) * time.Hour)
			if err := f.Keys.Used(f.t.Context(), map[uuid.UUID]time.Time{a.ID: at, b.ID: at}); err != nil {
				f.t.Errorf("concurrently: %v", err)
			}
		})
	}
	all.Wait()
	latest := next.Add(20 * time.Hour)
	wants("the latest of the uses reported at once", a, &latest)
	wants("the latest of the uses reported at once", b, &latest)
}
