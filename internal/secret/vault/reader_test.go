package vault_test

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/skald-saga/skald/internal/secret/vault"
	"github.com/skald-saga/skald/internal/secret/vault/vaulttest"
)

// The token of a reader is renewed while it reads, and replaced at the end of its maximum lifetime.
func TestAReaderKeepsItsToken(t *testing.T) {
	for name, cfg := range map[string]vault.Config{
		"a token that is renewed":      {Method: vault.Token, Token: "given"},
		"a login that has to be again": {Method: vault.AppRole, RoleID: "r"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				v := vaulttest.New()
				v.Token("given", time.Hour, 100*time.Hour)
				v.Login("auth/approle/login", vaulttest.Login{
					Want: map[string]string{"role_id": "r"}, TTL: time.Hour, MaxTTL: 3 * time.Hour,
				})
				v.Secret("secret/data/card", map[string]any{"token": "t-1", "data": "other"})
				v.Secret("kv1/card", map[string]any{"token": "t-2"})
				cfg.Address, cfg.Transport = "http://vault", v
				r, err := vault.NewReader(cfg)
				if err != nil {
					t.Fatal(err)
				}
				ctx, stop := context.WithCancel(t.Context())
				go r.Run(ctx)
				for range 20 {
					for path, want := range map[string]string{"secret/data/card": "t-1", "kv1/card": "t-2"} {
						if data, err := r.Read(ctx, path); err != nil || data["token"] != want {
							t.Fatalf("%s: %v %v", path, data, err)
						}
					}
					time.Sleep(time.Hour)
				}
				renewed := false
				for _, request := range v.Requests() {
					renewed = renewed || strings.Contains(request, "renew-self 200")
					if strings.HasSuffix(request, " 403") {
						t.Errorf("a token was used after its end: %s", request)
					}
				}
				if !renewed {
					t.Errorf("the token was never renewed: %q", v.Requests())
				}
				stop()
				synctest.Wait()
				if err := r.Close(t.Context()); err != nil {
					t.Error(err)
				}
			})
		})
	}
}
