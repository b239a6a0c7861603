package app

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/skald-saga/skald/internal/config"
	"github.com/skald-saga/skald/internal/ops/metrics"
	"github.com/skald-saga/skald/internal/postgres"
	"github.com/skald-saga/skald/internal/secret/credentials"
	"github.com/skald-saga/skald/internal/secret/vault"
)

// logins is the source of database logins: the settings, a password file, or Vault.
type logins struct {
	credentials.Source
	log   *slog.Logger
	lease *vault.Dynamic // nil unless Vault creates the login
	end   func(context.Context) error

	stop context.CancelFunc
	runs sync.WaitGroup

	mu    sync.Mutex
	state metrics.Logins // guarded by mu
}

// openLogins returns the source that cfg selects, with a freshly read login, which it renews until
// close.
func openLogins(ctx context.Context, cfg config.Config, log *slog.Logger) (*logins, error) {
	l := &logins{Source: credentials.Fixed{}, log: log}
	work, stop := context.WithCancel(context.WithoutCancel(ctx))
	l.stop = stop
	var err error
	switch d, v := cfg.Database, cfg.Vault; {
	case v.DynamicPath != "":
		l.lease, err = vault.NewDynamic(ctx, l.vault(v), v.DynamicPath)
		if err == nil {
			l.Source, l.end = l.lease, l.lease.Close
			l.runs.Go(func() { l.lease.Run(work) })
		}
	case v.StaticPath != "":
		var s *vault.Static
		if s, err = vault.NewStatic(ctx, l.vault(v), v.StaticPath, v.UsernameKey, v.PasswordKey); err == nil {
			l.Source, l.end = s, s.Close
			l.observe(nil, time.Time{})
		}
	case d.PasswordFile != "":
		l.Source, err = credentials.NewFile(d.PasswordFile, "", func(err error) {
			if l.observe(err, time.Time{}); err != nil {
				log.Warn("the password file is unusable; the current password stays in use", slog.Any("error", err))
			}
		})
		if err == nil {
			l.observe(nil, time.Time{})
		}
	}
	if err != nil {
		stop()
		return nil, fmt.Errorf("read the database login: %w", err)
	}
	return l, nil
}

func (l *logins) vault(v config.Vault) vault.Config {
	cfg := vaultOf(v)
	cfg.Observe, cfg.Log = l.observe, l.log
	return cfg
}

// vaultOf returns how to reach Vault and sign in to it.
func vaultOf(v config.Vault) vault.Config {
	return vault.Config{
		Address: v.Address, Namespace: v.Namespace, CACert: v.CACert, Timeout: v.Timeout,
		Method: vault.Method(v.AuthMethod), Mount: v.AuthMount, Token: string(v.Token), TokenFile: v.TokenFile,
		RoleID:       v.RoleID,
		SecretID:     string(v.SecretID),
		SecretIDFile: v.SecretIDFile,
		Role:         v.KubernetesRole,
		JWTFile:      v.JWTFile,
	}
}

func (l *logins) observe(err error, until time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if err != nil {
		l.state.Failed++
	} else {
		l.state.Renewed++
		l.state.LastSuccess = time.Now()
	}
	l.state.ValidUntil = until
}

// report updates the metrics with the state of the login, if it can change.
func (l *logins) report(m *metrics.Metrics) {
	if _, fixed := l.Source.(credentials.Fixed); fixed {
		return
	}
	m.WatchLogins(func() metrics.Logins {
		l.mu.Lock()
		defer l.mu.Unlock()
		return l.state
	})
}

// lifetime returns how long a connection may be used, which is well below the lifetime of its
// login; 0 means no limit.
func (l *logins) lifetime(configured time.Duration) time.Duration {
	if l.lease == nil {
		return configured
	}
	if half := l.lease.TTL() / 2; configured == 0 || half < configured {
		return half
	}
	return configured
}

// changed registers f, which is called after the login has changed.
func (l *logins) changed(f func()) {
	if l.lease != nil {
		l.lease.OnChange(f)
	}
}

// close stops renewing the login. Call it after all connections have been closed.
func (l *logins) close() {
	l.stop()
	l.runs.Wait()
	if l.end == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
	defer cancel()
	if err := l.end(ctx); err != nil { // if this fails, the login expires later
		l.log.Warn("cannot revoke the Vault token", slog.Any("error", err))
	}
}

// DSN returns the address of the configured database with a currently valid login. The private
// database, if used, must have been started.
func DSN(ctx context.Context, cfg config.Config, log *slog.Logger) (string, error) {
	l, err := openLogins(ctx, cfg, log)
	if err != nil {
		return "", err
	}
	l.end = nil // the login must outlive this function
	defer l.close()
	return l.dsn(ctx, cfg.Database)
}

// RequireOwnSessions returns nil if each connection to dsn has its own PostgreSQL session, which
// the lock of a migration requires.
func RequireOwnSessions(ctx context.Context, cfg config.Config, dsn string) error {
	return postgres.RequireOwnSessions(ctx, postgres.Config{DSN: dsn, IOTimeout: cfg.Database.IOTimeout,
		Application: cfg.App.Name})
}

func (l *logins) dsn(ctx context.Context, d config.Database) (string, error) {
	login, err := l.Login(ctx, credentials.Login{})
	return d.DSNAs(login.User, config.Secret(login.Password)), err
}
