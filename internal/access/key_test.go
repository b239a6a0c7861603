package access_test

import (
	"bytes"
	"crypto/rand"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"

	"github.com/skald-saga/skald/internal/access"
	"github.com/skald-saga/skald/internal/fault"
	"github.com/skald-saga/skald/internal/principal"
	"github.com/skald-saga/skald/internal/tenant"
)

var (
	noon = time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)
	home = tenant.Tenant{ID: uuid.MustParse("00000000-0000-0000-0000-00000000000a"), Region: "eu"}
	root = principal.Principal{Subject: "key:*:root", Role: principal.Admin, AnyTenant: true}
)

func chance(t *testing.T) (c [access.EntropyBytes]byte) {
	t.Helper()
	if _, err := rand.Read(c[:]); err != nil {
		t.Fatal(err)
	}
	return c
}

func TestTokenHasOneFormAndCanBeParsed(t *testing.T) {
	if got, want := access.NewToken([access.EntropyBytes]byte{}), "skald_aaaaaaaa_"+strings.Repeat("A", 43); string(
		got,
	) != want {
		t.Errorf("the token of zeros is %s, want %s", got, want)
	}
	token := access.NewToken(chance(t))
	if len(token) != 58 || len(token.Prefix()) != 8 || string(token)[6:14] != token.Prefix() {
		t.Errorf("%d characters, prefix %q", len(token), token.Prefix())
	}
	if got, ok := access.ParseToken(string(token)); !ok || got != token {
		t.Errorf("a token reads back as %q, %t", got, ok)
	}
	for name, bad := range map[string]string{
		"nothing":                   "",
		"a JWT":                     "eyJhbGciOiJFUzI1NiJ9.e30.c2ln",
		"another beginning":         "skalt" + string(token[5:]),
		"a prefix in capitals":      "skald_AAAAAAAA" + string(token[14:]),
		"another separator":         string(token[:14]) + "-" + string(token[15:]),
		"a character less":          string(token[:57]),
		"a character more":          string(token) + "A",
		"what is not base64":        string(token[:57]) + "!",
		"bits past the secret":      "skald_aaaaaaaa_" + strings.Repeat("A", 42) + "B",
		"a line end in the middle":  string(token[:56]) + "\nA",
		"the other base64 alphabet": "skald_aaaaaaaa_" + strings.Repeat("A", 42) + "+",
	} {
		if got, ok := access.ParseToken(bad); ok {
			t.Errorf("%s is taken for the token %q", name, got)
		}
	}
}

func TestStoredKeyDoesNotContainTheToken(t *testing.T) {
	key, token, err := access.Issue(
		access.Request{Name: "orders", Role: principal.Operator, Tenant: &home},
		root,
		uuid.New(),
		chance(t),
		noon,
	)
	if err != nil {
		t.Fatal(err)
	}
	secret := string(token[15:])
	if len(key.Hash) != 32 || bytes.Contains(key.Hash, []byte(secret)) ||
		strings.Contains(cmp.Diff(access.Key{}, key), secret) {
		t.Errorf("the key %+v holds its secret", key)
	}
}

func TestKeyIsValidWithItsTokenUntilItExpires(t *testing.T) {
	expires := noon.Add(time.Hour)
	key, token, err := access.Issue(
		access.Request{Name: "orders", Role: principal.Operator, Tenant: &home, ExpiresAt: &expires},
		root,
		uuid.New(),
		chance(t),
		noon,
	)
	if err != nil {
		t.Fatal(err)
	}
	revoked := key
	revoked.RevokedAt = &noon
	for _, tt := range []struct {
		name  string
		key   access.Key
		token access.Token
		at    time.Time
		want  error
	}{
		{"its token", key, token, noon, nil},
		{"the last moment", key, token, expires.Add(-time.Microsecond), nil},
		{"the end", key, token, expires, access.ErrKeyExpired},
		{"a revoked key", revoked, token, noon, access.ErrKeyRevoked},
		{"another token", key, access.NewToken(chance(t)), noon, access.ErrKeyUnknown},
		{"another token of a revoked key tells nothing", revoked, access.NewToken(chance(t)), noon, access.ErrKeyUnknown},
		{"a key without a hash", access.Key{}, token, noon, access.ErrKeyUnknown},
	} {
		if err := tt.key.Check(tt.token, tt.at); !errors.Is(err, tt.want) {
			t.Errorf("%s: %v, want %v", tt.name, err, tt.want)
		}
		if tt.token == token && tt.key.Name != "" && tt.key.Active(tt.at) != (tt.want == nil) {
			t.Errorf("%s: active %t", tt.name, tt.key.Active(tt.at))
		}
	}
}

func TestPrincipalOfAKey(t *testing.T) {
	id := uuid.New()
	bound := access.Key{ID: id, Name: "orders", Role: principal.Operator, Tenant: &home}
	free := access.Key{ID: id, Name: "orders", Role: principal.Admin}
	queues := access.Key{ID: id, Name: "reports", Role: principal.Worker, Tenant: &home, Queues: []string{"a"}}
	for _, tt := range []struct {
		key  access.Key
		want principal.Principal
	}{
		{bound, principal.Principal{Subject: "key:orders", Role: principal.Operator, Tenant: home, KeyID: id}},
		{queues, principal.Principal{Subject: "key:reports", Role: principal.Worker, Tenant: home, KeyID: id, Queues: []string{"a"}}},
		{free, principal.Principal{Subject: "key:*:orders", Role: principal.Admin, AnyTenant: true, KeyID: id}},
	} {
		if diff := cmp.Diff(tt.want, tt.key.Principal()); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
	}
}

func TestRulesOfNewKeys(t *testing.T) {
	other := tenant.Tenant{ID: uuid.MustParse("00000000-0000-0000-0000-00000000000b")}
	elsewhere := home
	elsewhere.Region = "us"
	past, far := noon, time.Date(10000, 1, 1, 0, 0, 0, 0, time.UTC)
	bound := principal.Principal{Subject: "key:boss", Role: principal.Admin, Tenant: home}
	good := access.Request{Name: "orders", Role: principal.Operator, Tenant: &home}
	worker := func(queues []string) func(*access.Request) {
		return func(r *access.Request) { r.Role, r.Queues = principal.Worker, queues }
	}
	for _, tt := range []struct {
		name   string
		by     principal.Principal
		change func(*access.Request)
		kind   fault.Kind
		fields string
	}{
		{"an operator of a tenant", root, func(*access.Request) {}, 0, ""},
		{"an admin of a tenant by one of that tenant", bound, func(r *access.Request) { r.Role = principal.Admin }, 0, ""},
		{"an admin of any tenant", root, func(r *access.Request) { r.Role, r.Tenant = principal.Admin, nil }, 0, ""},
		{"a key for all tenants by one bound to one", bound, func(r *access.Request) { r.Role, r.Tenant = principal.Admin, nil }, fault.Forbidden, ""},
		{"a key for another tenant", bound, func(r *access.Request) { r.Tenant = &other }, fault.Forbidden, ""},
		{"a key for another region", bound, func(r *access.Request) { r.Tenant = &elsewhere }, fault.Forbidden, ""},
		{"an operator of any tenant", root, func(r *access.Request) { r.Tenant = nil }, fault.Invalid, "/any_tenant"},
		{"no name", root, func(r *access.Request) { r.Name = "" }, fault.Invalid, "/name"},
		{"a name with a colon", root, func(r *access.Request) { r.Name = "*:root" }, fault.Invalid, "/name"},
		{"a long name", root, func(r *access.Request) { r.Name = strings.Repeat("a", 101) }, fault.Invalid, "/name"},
		{"no role", root, func(r *access.Request) { r.Role = "" }, fault.Invalid, "/role"},
		{"a tenant of zeros", root, func(r *access.Request) { r.Tenant = &tenant.Tenant{} }, fault.Invalid, "/tenant_id"},
		{"a version out of range", root, func(r *access.Request) { r.Tenant = &tenant.Tenant{ID: home.ID, Minor: 65536} }, fault.Invalid, "/tenant_id"},
		{"an end in the past", root, func(r *access.Request) { r.ExpiresAt = &past }, fault.Invalid, "/expires_at"},
		{"an end that no text can hold", root, func(r *access.Request) { r.ExpiresAt = &far }, fault.Invalid, "/expires_at"},
		{"a worker for queues", root, worker([]string{"b", "a", "b"}), 0, ""},
		{"a worker for no queue", root, worker([]string{}), fault.Invalid, "/queues"},
		{"a worker for a queue without a name", root, worker([]string{"a", ""}), fault.Invalid, "/queues"},
		{"a worker for a long name", root, worker([]string{strings.Repeat("ж", 101)}), fault.Invalid, "/queues"},
		{"a worker for the longest name", root, worker([]string{strings.Repeat("ж", 100)}), 0, ""},
		{"a worker for many queues", root, worker(strings.Split(strings.Repeat("a,", 100)+"a", ",")), fault.Invalid, "/queues"},
		{"an operator for queues", root, func(r *access.Request) { r.Queues = []string{"a"} }, fault.Invalid, "/queues"},
		{"everything wrong", root, func(r *access.Request) { *r = access.Request{Tenant: &tenant.Tenant{}, ExpiresAt: &past} }, fault.Invalid, "/name /role /tenant_id /expires_at"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r := good
			tt.change(&r)
			id := uuid.New()
			key, token, err := access.Issue(r, tt.by, id, chance(t), noon)
			if fault.KindOf(err) != tt.kind {
				t.Fatalf("error = %v, want kind %d", err, tt.kind)
			}
			if err != nil {
				var fields []string
				for _, f := range fault.As(err).Fields {
					fields = append(fields, f.Pointer)
				}
				if got := strings.Join(fields, " "); got != tt.fields {
					t.Errorf("mistakes in %q, want %q", got, tt.fields)
				}
				return
			}
			want := access.Key{
				ID:        id,
				Name:      r.Name,
				Prefix:    token.Prefix(),
				Hash:      token.Hash(),
				Role:      r.Role,
				Queues:    slices.Compact(slices.Sorted(slices.Values(r.Queues))),
				Tenant:    r.Tenant,
				CreatedBy: tt.by.Subject,
				CreatedAt: noon,
			}
			if diff := cmp.Diff(want, key); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}
