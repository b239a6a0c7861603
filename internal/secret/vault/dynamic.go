package vault

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/hashicorp/vault/api"

	"github.com/skald-saga/skald/internal/loop"
	"github.com/skald-saga/skald/internal/secret/credentials"
)

// Dynamic is a login that Vault's database engine creates. Run renews its lease and replaces the
// login before its maximum lifetime ends.
type Dynamic struct {
	s       *session
	path    string
	turn    turn          // held by the caller that requests a new login
	renewed chan struct{} // capacity 1; makes Run recompute its next wake-up

	mu      sync.Mutex
	lease   lease     // guarded by mu
	asked   time.Time // guarded by mu; time of the last request for a new login
	changed func()    // guarded by mu; called after a new login has replaced another one
}

// lease is a login and its lifetime.
type lease struct {
	login     credentials.Login
	id        string
	renewable bool
	granted   time.Duration // full lifetime
	until     time.Time
	renewAt   time.Time
	token     int // number of the token that created the lease and with which it ends
}

// extend sets the lease's end. The lease is renewed after about two thirds of its duration, so that
// an unavailable Vault has the last third to recover. Jitter ensures that not all nodes renew in
// the same second.
func (l *lease) extend(until time.Time) {
	third := l.granted / 3
	l.until, l.renewAt = until, until.Add(-third-loop.Within(third/8))
}

// NewDynamic requests a login from path, such as database/creds/system-saga-rw. The lifetime of the
// login counts from before the call.
func NewDynamic(ctx context.Context, cfg Config, path string) (*Dynamic, error) {
	s, err := newSession(cfg)
	if err != nil {
		return nil, err
	}
	d := &Dynamic{s: s, path: path, turn: newTurn(), renewed: make(chan struct{}, 1)}
	if d.lease, err = d.fetch(ctx); err != nil {
		return nil, err
	}
	d.observe(nil)
	return d, nil
}

// OnChange registers f, which is called whenever a new login has replaced another one. The old
// login stays valid until its lease ends, unless it was revoked.
func (d *Dynamic) OnChange(f func()) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.changed = f
}

// TTL returns the full lifetime of a login. Connections should be replaced more often than that.
func (d *Dynamic) TTL() time.Duration { return d.now().granted }

// Login implements credentials.Source. It calls Vault only if a login was refused.
func (d *Dynamic) Login(ctx context.Context, refused credentials.Login) (credentials.Login, error) {
	if now := d.now(); refused != now.login {
		return now.login, nil
	}
	if err := d.replace(ctx, refused); err != nil && !errors.Is(err, errSoon) {
		d.s.cfg.Log.WarnContext(ctx, "the database rejects the login, but Vault still returns the same one", slog.Any("error", err))
	}
	return d.now().login, nil
}

// Current implements credentials.Source: connections with a replaced login are closed after
// their current use.
func (d *Dynamic) Current(l credentials.Login) bool { return l == d.now().login }

func (d *Dynamic) now() lease {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.lease
}

// Run keeps the login valid until ctx ends. It retries without limit. While Vault does not answer,
// the last login is used as long as PostgreSQL accepts it.
func (d *Dynamic) Run(ctx context.Context) {
	for failures := 0; ; {
		renewed := loop.Await(ctx, d.wait(failures), d.renewed)
		if ctx.Err() != nil {
			return
		}
		if renewed {
			failures = 0
			continue
		}
		err := d.keep(ctx)
		if ctx.Err() != nil {
			return
		}
		if err == nil {
			failures = 0
			continue
		}
		failures++
		until := d.now().until
		d.s.cfg.Log.Warn("the database login could not be renewed; the current one stays in use",
			slog.Any("error", err), slog.Time("valid_until", until), slog.Int("failures", failures))
	}
}

// wait returns how long Run sleeps: until a renewal is due or, after failures, with a backoff from
// a second to a minute.
func (d *Dynamic) wait(failures int) time.Duration {
	if failures > 0 {
		return loop.Jittered(min(time.Second<<min(failures-1, 6), time.Minute))
	}
	due := d.s.now().renewAt()
	if l := d.now(); l.renewAt.Before(due) {
		due = l.renewAt
	}
	return max(time.Until(due), 0)
}

// keep renews the token if that is due, and then renews or replaces the lease.
func (d *Dynamic) keep(ctx context.Context) error {
	// A token that cannot be renewed ends the login when the token expires. Until then, both remain
	// valid.
	token := d.s.renew(ctx)
	if token != nil {
		d.observe(token)
	}
	return errors.Join(token, d.keepLease(ctx))
}

func (d *Dynamic) keepLease(ctx context.Context) error {
	l := d.now()
	orphan := func() bool { return l.token != d.s.now().number }
	if !orphan() && time.Now().Before(l.renewAt) {
		return nil
	}
	if l.renewable && !orphan() && time.Now().Before(l.until) {
		enough, err := d.renew(ctx, l)
		switch {
		case err == nil && enough && !orphan():
			return nil
		case err == nil, orphan(): // the lease ends soon or has ended with its token
		case slices.Contains([]int{http.StatusBadRequest, http.StatusForbidden, http.StatusNotFound}, statusOf(err)):
			// The lease no longer exists or must not be renewed.
		case time.Until(l.until) > l.granted/6:
			return err // Vault is unavailable, but there is still time
		}
	}
	return d.replace(ctx, l.login)
}

// renew extends l and reports whether the extension was long enough. As the maximum lifetime of a
// lease approaches, Vault's extensions become shorter and shorter.
func (d *Dynamic) renew(ctx context.Context, l lease) (bool, error) {
	began := time.Now()
	secret, err := d.s.do(ctx, "renew the lease", func(ctx context.Context, c *api.Client) (*api.Secret, error) {
		return c.Sys().RenewWithContext(ctx, l.id, int(l.granted.Seconds()))
	})
	if err != nil {
		d.observe(err)
		return false, err
	}
	ttl := time.Duration(secret.LeaseDuration) * time.Second
	d.mu.Lock()
	if d.lease.id == l.id {
		d.lease.extend(began.Add(ttl))
	}
	d.mu.Unlock()
	d.observe(nil)
	return ttl >= l.granted/2, nil
}

var errSoon = errors.New("vault: a login was already requested a moment ago")

// replace gets a new login instead of old, unless another caller has just done so.
func (d *Dynamic) replace(ctx context.Context, old credentials.Login) error {
	if err := d.turn.take(ctx); err != nil {
		return err
	}
	defer d.turn.give()
	d.mu.Lock()
	soon := time.Since(d.asked) < pause
	d.mu.Unlock()
	if d.now().login != old {
		return nil
	}
	if soon {
		return errSoon
	}
	fresh, err := d.fetch(ctx)
	if err != nil {
		d.observe(err)
		return err
	}
	d.mu.Lock()
	d.lease = fresh
	changed := d.changed
	d.mu.Unlock()
	d.observe(nil)
	select {
	case d.renewed <- struct{}{}:
	default:
	}
	d.s.cfg.Log.Info("switched to a new database user",
		slog.String("user", fresh.login.User), slog.Time("valid_until", fresh.until))
	if changed != nil {
		changed()
	}
	return nil
}

func (d *Dynamic) fetch(ctx context.Context) (lease, error) {
	d.mu.Lock()
	d.asked = time.Now()
	d.mu.Unlock()
	began := time.Now()
	secret, err := d.s.read(ctx, d.path)
	if err != nil {
		return lease{}, err
	}
	l := lease{
		login: credentials.Login{User: text(secret.Data, "username"), Password: text(secret.Data, "password")},
		id:    secret.LeaseID, renewable: secret.Renewable && secret.LeaseID != "",
		granted: seconds(secret.LeaseDuration), token: d.s.now().number,
	}
	l.extend(began.Add(l.granted))
	if l.login.User == "" || l.login.Password == "" {
		return lease{}, fmt.Errorf(
			"vault: read %s: the answer has no username and password: is it a path such as database/creds/ROLE?",
			d.path,
		)
	}
	return l, nil
}

func (d *Dynamic) observe(err error) {
	if d.s.cfg.Observe != nil {
		d.s.cfg.Observe(err, d.now().until)
	}
}

// Close revokes the token if Skald requested it, and the login with it. Call it when all
// connections are closed.
func (d *Dynamic) Close(ctx context.Context) error { return d.s.end(ctx) }
