package vault_test

import (
	"bytes"
	"context"
	"log/slog"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/skald-saga/skald/internal/secret/credentials"
	"github.com/skald-saga/skald/internal/secret/vault"
	"github.com/skald-saga/skald/internal/secret/vault/vaulttest"
)

const creds = "database/creds/system-saga-rw"

// watch is a Dynamic that runs against a stand-in, with a clock that advances only when all
// goroutines wait.
type watch struct {
	*vault.Dynamic
	mu      sync.Mutex
	text    bytes.Buffer // guarded by mu: the log
	turns   int          // guarded by mu; number of times the login changed
	failed  int          // guarded by mu; number of failed attempts
	validTo time.Time    // guarded by mu
}

// Write makes watch the log's writer.
func (w *watch) Write(b []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.text.Write(b)
}

func (w *watch) changes() int         { w.mu.Lock(); defer w.mu.Unlock(); return w.turns }
func (w *watch) failures() int        { w.mu.Lock(); defer w.mu.Unlock(); return w.failed }
func (w *watch) until() time.Time     { w.mu.Lock(); defer w.mu.Unlock(); return w.validTo }
func (w *watch) logs() string         { w.mu.Lock(); defer w.mu.Unlock(); return w.text.String() }
func (w *watch) logged(s string) bool { return strings.Contains(w.logs(), s) }

// dynamic starts a Dynamic and stops it at the end of the test. The day begins immediately.
func dynamic(t *testing.T, v *vaulttest.Vault, cfg vault.Config) *watch {
	t.Helper()
	w := &watch{}
	cfg.Address, cfg.Transport = "http://vault.internal:8200", v
	if cfg.Method == "" {
		cfg.Method, cfg.Token = vault.Token, "root"
	}
	cfg.Log = slog.New(slog.NewTextHandler(w, nil))
	cfg.Observe = func(err error, until time.Time) {
		w.mu.Lock()
		defer w.mu.Unlock()
		if w.validTo = until; err != nil {
			w.failed++
		}
	}
	d, err := vault.NewDynamic(t.Context(), cfg, creds)
	if err != nil {
		t.Fatal(err)
	}
	w.Dynamic = d
	d.OnChange(func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.turns++
	})
	ctx, stop := context.WithCancel(t.Context())
	var run sync.WaitGroup
	run.Go(func() { d.Run(ctx) })
	t.Cleanup(func() {
		stop()
		run.Wait()
		if w.logged("canary") || w.logged("hvs.") {
			t.Errorf("the log shows a secret:\n%s", w.logs())
		}
	})
	return w
}

// user returns the user with which new connections sign in.
func (w *watch) user(t *testing.T) string {
	t.Helper()
	l, err := w.Login(t.Context(), credentials.Login{})
	if err != nil {
		t.Fatal(err)
	}
	if !w.Current(l) {
		t.Errorf("%v is given out and not current", l)
	}
	return l.User
}

// pass advances the clock by d and returns when all goroutines wait again.
func pass(d time.Duration) { time.Sleep(d); synctest.Wait() }

// day is the role of the seed: one day, and at most ten days.
var day = vaulttest.Role{TTL: 24 * time.Hour, MaxTTL: 240 * time.Hour}

func TestALeaseIsRenewedUntilItsLongestTimeAndThenReplaced(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		v := vaulttest.New()
		v.Role(creds, day)
		w := dynamic(t, v, vault.Config{})
		first := w.user(t)
		if w.TTL() != 24*time.Hour {
			t.Errorf("TTL = %v, want a day", w.TTL())
		}
		for hour := range 215 { // one day less than ten, so renewals suffice
			if pass(time.Hour); w.user(t) != first || !w.until().After(time.Now()) {
				t.Fatalf("after %d hours the user is %s until %v, want %s alive", hour, w.user(t), w.until(), first)
			}
		}
		pass(25 * time.Hour)
		if second := w.user(t); second == first || w.changes() != 1 {
			t.Errorf("at the lease's longest time the user is %s after %d changes, want a new one after 1", second, w.changes())
		}
		if v.Live() == 0 {
			t.Error("no lease is alive")
		}
		if w.failures() > 0 {
			t.Errorf("%d attempts failed", w.failures())
		}
	})
}

func TestALeaseThatCannotBeRenewedIsReplacedInTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		v := vaulttest.New()
		v.Role(creds, vaulttest.Role{TTL: time.Hour, MaxTTL: time.Hour})
		w := dynamic(t, v, vault.Config{})
		for n := 1; n <= 20; n++ {
			pass(20 * time.Minute)
			if v.Live() == 0 || !w.until().After(time.Now()) {
				t.Fatalf("after %d minutes no lease is alive", n*20)
			}
		}
		if w.changes() < 6 || w.changes() > 12 {
			t.Errorf("%d logins in 400 minutes, want one for each two thirds of an hour", w.changes())
		}
	})
}

// These are failures of Vault, each of which starts when a renewal is due and lasts for a given
// time.
func TestWhatHappensWhenVaultFails(t *testing.T) {
	status := func(path string, code int) func(*http.Request) int {
		return func(r *http.Request) int {
			if strings.Contains(r.URL.Path, path) {
				return code
			}
			return 0
		}
	}
	for _, tt := range []struct {
		name     string
		fail     func(*vaulttest.Vault)
		heal     time.Duration
		changes  int           // logins in addition to the first one, an hour after Vault has recovered
		warnings bool          // whether the log warns
		check    time.Duration // time at which the first login must still be in use; 0: never
	}{
		{"sealed for four hours", (*vaulttest.Vault).Seal, 4 * time.Hour, 0, true, 3 * time.Hour},
		{"away for four hours", func(v *vaulttest.Vault) { v.Fail(func(*http.Request) int { return -1 }) }, 4 * time.Hour, 0, true, 3 * time.Hour},
		{"sealed until after the lease", (*vaulttest.Vault).Seal, 30 * time.Hour, 1, true, 23 * time.Hour},
		{"it refuses to renew leases", func(v *vaulttest.Vault) { v.Fail(status("sys/leases", 403)) }, time.Hour, 1, false, 0},
		{"the lease was revoked", (*vaulttest.Vault).RevokeLeases, time.Hour, 1, false, 0},
		{"it answers 500", func(v *vaulttest.Vault) { v.Fail(func(*http.Request) int { return 500 }) }, time.Hour, 0, true, 0},
		{"it limits the rate", func(v *vaulttest.Vault) { v.Fail(func(*http.Request) int { return 429 }) }, time.Hour, 0, true, 0},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				v := vaulttest.New()
				v.Role(creds, day)
				w := dynamic(t, v, vault.Config{})
				first := w.user(t)
				pass(15 * time.Hour)
				tt.fail(v)
				if tt.check > 0 {
					time.AfterFunc(tt.check-15*time.Hour, func() {
						if w.user(t) != first {
							t.Errorf("after %v the user is another", tt.check)
						}
					})
				}
				pass(tt.heal)
				v.Unseal()
				pass(2 * time.Hour)
				if w.changes() != tt.changes || v.Live() == 0 || !w.until().After(time.Now()) {
					t.Errorf(
						"%d changes, %d leases alive, ours until %v; want %d changes and a lease",
						w.changes(),
						v.Live(),
						w.until(),
						tt.changes,
					)
				}
				if warned := w.logged("level=WARN"); warned != tt.warnings {
					t.Errorf("warned = %v, want %v:\n%s", warned, tt.warnings, w.logs())
				}
				if n := len(v.Requests()); n > int(tt.heal.Minutes())*10 {
					t.Errorf("%d requests in %v: Vault was flooded", n, tt.heal)
				}
			})
		})
	}
}

func TestARefusedLoginIsReplacedOnceForAllWhoMetIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		v := vaulttest.New()
		v.Role(creds, day)
		w := dynamic(t, v, vault.Config{})
		refused, err := w.Login(t.Context(), credentials.Login{})
		if err != nil {
			t.Fatal(err)
		}
		pass(time.Minute)
		var all sync.WaitGroup
		for range 20 {
			all.Go(func() {
				l, err := w.Login(t.Context(), refused)
				if err != nil || l == refused {
					t.Errorf("Login = %v, %v; want another one", l, err)
				}
			})
		}
		all.Wait()
		if w.changes() != 1 || w.Current(refused) {
			t.Errorf("%d changes, and the refused login is current: %v", w.changes(), w.Current(refused))
		}
		// A database that refuses everything must not cause a flood of requests to Vault.
		before := len(v.Requests())
		for range 100 {
			l, _ := w.Login(t.Context(), credentials.Login{})
			if _, err := w.Login(t.Context(), l); err != nil {
				t.Error(err)
			}
		}
		if n := len(v.Requests()) - before; n != 0 {
			t.Errorf("%d requests within a moment after the last", n)
		}
	})
}

func TestALoginDiesWithTheTokenThatMadeIt(t *testing.T) {
	approle := vault.Config{Method: vault.AppRole, RoleID: "skald", SecretID: "canary-secret-id"}
	method := vaulttest.Login{
		Want:   map[string]string{"role_id": "skald", "secret_id": "canary-secret-id"},
		TTL:    time.Hour,
		MaxTTL: 10 * time.Hour,
	}
	synctest.Test(t, func(t *testing.T) {
		v := vaulttest.New()
		v.Login("auth/approle/login", method)
		v.Role(creds, vaulttest.Role{TTL: 24 * time.Hour, MaxTTL: 720 * time.Hour})
		w := dynamic(t, v, approle)
		for n := range 100 {
			pass(30 * time.Minute)
			if v.Live() == 0 {
				t.Fatalf("after %d minutes no login is alive: the token was not renewed", n*30)
			}
		}
		if w.changes() < 4 || w.changes() > 7 {
			t.Errorf("%d changes in 50 hours with tokens of at most 10 hours, want about 5", w.changes())
		}
		// The token is revoked, and the login with it. The database is the first to report that.
		v.RevokeTokens()
		refused, _ := w.Login(t.Context(), credentials.Login{})
		if l, err := w.Login(t.Context(), refused); err != nil || l == refused || v.Live() != 1 {
			t.Errorf("after the revocation: %v, %v, %d alive; want a new login of a new token", l, err, v.Live())
		}
		if err := w.Close(t.Context()); err != nil || v.Live() != 0 {
			t.Errorf("Close = %v, %d logins alive; want none", err, v.Live())
		}
	})
}

func TestATokenThatIsGivenIsRenewed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		v := vaulttest.New()
		v.Token("hvs.given", time.Hour, 72*time.Hour)
		v.Role(creds, day)
		w := dynamic(t, v, vault.Config{Method: vault.Token, Token: "hvs.given"})
		for n := range 70 {
			if pass(time.Hour); v.Live() == 0 {
				t.Fatalf("after %d hours the token has died", n+1)
			}
		}
		if w.logged("level=WARN") {
			t.Errorf("warned too early:\n%s", w.logs())
		}
		pass(3 * time.Hour) // it reaches its maximum lifetime, which cannot be prevented
		if !w.logged("level=WARN") || len(v.Requests()) > 2000 {
			t.Errorf("%d requests; want a warning and patience:\n%s", len(v.Requests()), w.logs())
		}
	})
}
