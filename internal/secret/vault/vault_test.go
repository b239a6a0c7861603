package vault_test

import (
	"context"
	"encoding/pem"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/skald-saga/skald/internal/secret/credentials"
	"github.com/skald-saga/skald/internal/secret/vault"
	"github.com/skald-saga/skald/internal/secret/vault/vaulttest"
)

// The seed's path.
const static = "secret/data/k1s0/system/saga/database"

func TestAStaticLoginIsReadOverTLSByEveryMethod(t *testing.T) {
	v := vaulttest.New()
	v.Secret(static, map[string]any{"username": "app", "password": "canary-1"})
	v.Secret("kv1/saga", map[string]any{"pw": "canary-2"})
	v.Login(
		"auth/approle/login",
		vaulttest.Login{Want: map[string]string{"role_id": "r", "secret_id": "s"}, TTL: time.Hour, MaxTTL: time.Hour},
	)
	v.Login(
		"auth/k8s-eu/login",
		vaulttest.Login{Want: map[string]string{"role": "skald", "jwt": "eyJ"}, TTL: time.Hour, MaxTTL: time.Hour},
	)
	server := httptest.NewUnstartedServer(v)
	server.Config.ErrorLog = log.New(io.Discard, "", 0) // errors of the client that does not trust the server
	server.StartTLS()
	defer server.Close()
	dir := t.TempDir()
	file := func(name, content string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	ca := file("ca.pem", string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})))
	// Skald's settings apply, whatever the environment contains for Vault's own tools.
	t.Setenv("VAULT_TOKEN", "hvs.other")
	t.Setenv("VAULT_NAMESPACE", "other")

	for _, tt := range []struct {
		name  string
		cfg   vault.Config
		path  string
		key   string
		want  credentials.Login
		error string // part of it; "" when it works
	}{
		{"a token and version 2 of the engine", vault.Config{Method: vault.Token, Token: "root"}, static, "password", credentials.Login{User: "app", Password: "canary-1"}, ""},
		{"version 1, another key, no user", vault.Config{Method: vault.Token, Token: "root"}, "kv1/saga", "pw", credentials.Login{Password: "canary-2"}, ""},
		{"an agent's token file", vault.Config{Method: vault.TokenFile, TokenFile: file("token", "root\n")}, static, "password", credentials.Login{User: "app", Password: "canary-1"}, ""},
		{"AppRole with a secret_id file", vault.Config{Method: vault.AppRole, RoleID: "r", SecretIDFile: file("secret-id", "s\n")}, static, "password", credentials.Login{User: "app", Password: "canary-1"}, ""},
		{"Kubernetes at a mount of another name", vault.Config{Method: vault.Kubernetes, Mount: "k8s-eu", Role: "skald", JWTFile: file("jwt", "eyJ")}, static, "password", credentials.Login{User: "app", Password: "canary-1"}, ""},
		{"a wrong secret_id", vault.Config{Method: vault.AppRole, RoleID: "r", SecretID: "canary"}, static, "password", credentials.Login{}, "sign in at auth/approle: 400 Bad Request: invalid secret_id"},
		{"a token that is none", vault.Config{Method: vault.Token, Token: "canary"}, static, "password", credentials.Login{}, "read secret/data/k1s0/system/saga/database: 403 Forbidden"},
		{"a token with a line end inside", vault.Config{Method: vault.Token, Token: "can\nary"}, static, "password", credentials.Login{}, "vault: "},
		{"no token file", vault.Config{Method: vault.TokenFile, TokenFile: dir + "/none"}, static, "password", credentials.Login{}, "the token file cannot be read"},
		{"no JWT", vault.Config{Method: vault.Kubernetes, Role: "skald", JWTFile: dir + "/none"}, static, "password", credentials.Login{}, "the JWT file cannot be read"},
		{"nothing at the path", vault.Config{Method: vault.Token, Token: "root"}, "secret/data/none", "password", credentials.Login{}, "404"},
		{"no such key", vault.Config{Method: vault.Token, Token: "root"}, static, "pw", credentials.Login{}, `has no string at key "pw"`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			tt.cfg.Address, tt.cfg.CACert = server.URL, ca
			st, err := vault.NewStatic(t.Context(), tt.cfg, tt.path, "username", tt.key)
			if tt.error != "" {
				if err == nil || !strings.Contains(err.Error(), tt.error) || strings.Contains(err.Error(), "canary") {
					t.Fatalf("error = %v; want %q and no secret", err, tt.error)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if got, err := st.Login(t.Context(), credentials.Login{}); err != nil || got != tt.want {
				t.Errorf("Login = %v, %v; want %v", got, err, tt.want)
			}
			if err := st.Close(t.Context()); err != nil {
				t.Errorf("Close: %v", err)
			}
		})
	}
	t.Run("an unknown certificate", func(t *testing.T) {
		_, err := vault.NewStatic(
			t.Context(),
			vault.Config{Address: server.URL, Method: vault.Token, Token: "root"},
			static,
			"username",
			"password",
		)
		if err == nil || !strings.Contains(err.Error(), "certificate") {
			t.Errorf("error = %v; want one about the certificate", err)
		}
	})
}

func TestAStaticLoginIsReadAgainWhenItIsRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		v := vaulttest.New()
		v.Secret(static, map[string]any{"username": "app", "password": "old"})
		st, err := vault.NewStatic(
			t.Context(),
			vault.Config{Address: "http://vault", Transport: v, Method: vault.Token, Token: "root"},
			static,
			"username",
			"password",
		)
		if err != nil {
			t.Fatal(err)
		}
		old := credentials.Login{User: "app", Password: "old"}
		ask := func(refused credentials.Login, want string) {
			t.Helper()
			if l, err := st.Login(t.Context(), refused); err != nil || l.Password != want {
				t.Errorf("Login = %q, %v; want %q", l.Password, err, want)
			}
		}
		time.Sleep(time.Hour)
		v.Seal()
		ask(credentials.Login{}, "old") // Vault is not asked
		ask(old, "old")                 // Vault is asked, but cannot answer
		time.Sleep(time.Minute)
		v.Unseal()
		ask(old, "old") // the login has not changed in Vault either
		v.Secret(static, map[string]any{"username": "app", "password": "new"})
		ask(old, "old") // Vault was asked a moment ago
		time.Sleep(time.Minute)
		ask(old, "new")
		ask(old, "new") // by a connection that was slower
		if !st.Current(old) {
			t.Error("sessions of the old password are to be closed, though PostgreSQL lets them live")
		}
	})
}

func TestATokenFileIsReadAgainWhenItsTokenIsRefused(t *testing.T) {
	path := filepath.Join(t.TempDir(), "token")
	write := func(token string) {
		if err := os.WriteFile(path, []byte(token), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	synctest.Test(t, func(t *testing.T) {
		v := vaulttest.New()
		v.Token("first", time.Hour, time.Hour)
		v.Token("second", 24*time.Hour, 24*time.Hour)
		v.Secret(static, map[string]any{"password": "p"})
		write("first")
		st, err := vault.NewStatic(
			t.Context(),
			vault.Config{Address: "http://vault", Transport: v, Method: vault.TokenFile, TokenFile: path},
			static,
			"username",
			"password",
		)
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(2 * time.Hour)
		write("second")
		v.Secret(static, map[string]any{"password": "q"})
		if l, _ := st.Login(t.Context(), credentials.Login{Password: "p"}); l.Password != "q" {
			t.Errorf("password %q, want the one the second token may read; requests %v", l.Password, v.Requests())
		}
		if !slices.Contains(v.Requests(), "GET "+static+" 403") {
			t.Error("the first token was never refused: the test tests nothing")
		}
	})
}

func TestASlowVaultHoldsUpNobodyForLongerThanItsTimeout(t *testing.T) {
	v := vaulttest.New()
	v.Role(creds, vaulttest.Role{TTL: time.Hour, MaxTTL: time.Hour})
	synctest.Test(t, func(t *testing.T) {
		slow := func(r *http.Request) (*http.Response, error) {
			select {
			case <-time.After(time.Hour):
			case <-r.Context().Done():
			}
			return nil, context.Cause(r.Context())
		}
		began := time.Now()
		_, err := vault.NewDynamic(
			t.Context(),
			vault.Config{
				Address:   "http://vault",
				Transport: transport(slow),
				Timeout:   5 * time.Second,
				Method:    vault.Token,
				Token:     "root",
			},
			creds,
		)
		if err == nil || time.Since(began) != 5*time.Second {
			t.Errorf("after %v: %v; want an error after 5 s", time.Since(began), err)
		}
	})
}

type transport func(*http.Request) (*http.Response, error)

func (f transport) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }
