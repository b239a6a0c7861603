package app

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/skald-saga/skald/internal/fault"
	"github.com/skald-saga/skald/internal/postgres"
	"github.com/skald-saga/skald/internal/principal"
	"github.com/skald-saga/skald/internal/ui"

	"github.com/google/uuid"

	"github.com/skald-saga/skald/internal/access"
	"github.com/skald-saga/skald/internal/access/accessdb"
	"github.com/skald-saga/skald/internal/access/identity"
	"github.com/skald-saga/skald/internal/audit/operator"
	"github.com/skald-saga/skald/internal/config"
	"github.com/skald-saga/skald/internal/page"
)

// checker returns the credential checker, or nil in development mode, which is refused regardless
// of the settings if other machines can reach the node.
func checker(
	ctx context.Context,
	cfg config.Config,
	keys access.Store,
	sessions access.Sessions,
	addr net.Addr,
	now func() time.Time,
	log *slog.Logger,
) (*identity.Checker, error) {
	if err := bootstrap(ctx, cfg, keys, now(), log); err != nil {
		return nil, err
	}
	if !cfg.AuthRequired() {
		if tcp, ok := addr.(*net.TCPAddr); !ok || !tcp.IP.IsLoopback() {
			return nil, fmt.Errorf("auth.mode: %s is not on loopback, so the API must require credentials", addr)
		}
		log.Warn(
			"development mode: the API requires no credentials, so anyone on this machine can do anything; set SKALD_AUTH_MODE=required to change that",
		)
		return nil, nil
	}
	c := identity.Config{Keys: keys, Sessions: sessions, Now: now, Log: log}
	if a := cfg.Auth; a.JWTIssuer != "" {
		jwt := jwtOf(a)
		c.JWT = &jwt
		return identity.New(c), nil
	}
	active := true
	found, err := keys.List(ctx, nil, access.Filter{Active: &active, Now: now(),
		Request: page.Request[uuid.UUID]{Limit: 1}})
	if err == nil && len(found.Items) == 0 {
		log.Warn(
			"the API is unusable: there is no API key and no JWT issuer; create a key with skald key create --name NAME --role admin --any-tenant",
		)
	}
	return identity.New(c), err
}

// bootstrap stores the configured admin key unless it already exists. If several nodes start at the
// same time, all of them try and one succeeds. A revoked key stays revoked.
func bootstrap(ctx context.Context, cfg config.Config, keys access.Store, now time.Time, log *slog.Logger) error {
	if cfg.Auth.BootstrapAdminKey == "" {
		return nil
	}
	token, ok := access.ParseToken(string(cfg.Auth.BootstrapAdminKey))
	if !ok {
		return errors.New("auth.bootstrap_admin_key is not an API key")
	}
	key, err := access.IssueFor(
		token,
		access.Request{Name: "bootstrap", Role: principal.Admin},
		principal.Principal{Subject: "configuration", AnyTenant: true},
		newID(),
		now,
	)
	if err != nil {
		return err
	}
	err = keys.Create(operator.As(ctx, operator.By{Actor: key.CreatedBy, Operation: "auth.bootstrap_admin_key"}), key)
	switch {
	case err == nil:
		log.Info("the bootstrap admin key was stored", slog.String("prefix", key.Prefix))
		return nil
	case !errors.Is(err, access.ErrPrefixTaken):
		return err
	}
	stored, err := keys.Find(ctx, key.Prefix)
	switch {
	case err != nil:
		return err
	case !bytes.Equal(stored.Hash, key.Hash):
		return fmt.Errorf("auth.bootstrap_admin_key: another API key has the prefix %s", key.Prefix)
	case !stored.Active(now):
		log.Warn("the bootstrap admin key is revoked and will not be accepted", slog.String("prefix", key.Prefix))
	}
	return nil
}

// WithKeys calls f with the API keys of the configured database, or, if none is configured, of the
// private database, which it starts for the duration of the call.
func WithKeys(ctx context.Context, cfg config.Config, log *slog.Logger, f func(access.Store) error) error {
	db, stop, err := openAlone(ctx, cfg, log)
	if err != nil {
		return err
	}
	defer stop()
	return f(accessdb.NewKeys(db))
}

// openAlone is openDatabase for commands, which do not need to know when the private database exits.
func openAlone(ctx context.Context, cfg config.Config, log *slog.Logger) (d *postgres.DB, stop func(), err error) {
	from, err := openLogins(ctx, cfg, log)
	if err != nil {
		return nil, nil, err
	}
	d, _, closeDB, err := openDatabase(ctx, &cfg, from, nil, log)
	if err != nil {
		from.close()
		return nil, nil, err
	}
	return d, func() { closeDB(); from.close() }, nil
}

// signOn returns the client of the identity provider through which people sign in; nil if none is
// configured.
func signOn(cfg config.Config, c *identity.Checker) *identity.Login {
	a := cfg.Auth
	if c == nil || a.OIDCClientID == "" {
		return nil
	}
	return identity.NewLogin(identity.SignOn{
		JWT: jwtOf(a), ClientID: a.OIDCClientID, ClientSecret: string(a.OIDCClientSecret), Scopes: a.OIDCScopes,
	}, c)
}

// jwtOf returns the settings that decide which of the issuer's tokens are accepted.
func jwtOf(a config.Auth) identity.JWT {
	return identity.JWT{
		Issuer: a.JWTIssuer, Audience: a.JWTAudience, JWKSURL: a.JWKSURL, Algorithms: a.JWTAlgorithms, Leeway: a.JWTLeeway,
		RoleClaim: a.JWTRoleClaim, TenantClaim: a.JWTTenantClaim, DefaultTenant: a.JWTDefaultTenant,
		NameClaim: a.JWTNameClaim, Roles: a.Roles(),
	}
}

// singleSignOn returns the sign-in for the pages, nil if none is configured.
func singleSignOn(cfg config.Config, login *identity.Login) *ui.SingleSignOn {
	if login == nil {
		return nil
	}
	docs := cmp.Or(cfg.Server.PublicURL, cfg.Server.BasePath) + "/docs/problems#"
	refusal := func(err error) error {
		f := fault.As(err)
		if f == nil {
			return err // nil, or an outage whose cause appears only in the log
		}
		out := &ui.Refusal{}
		out.Status, out.Code, out.Detail, out.Type = http.StatusUnauthorized, f.Code, f.Detail, docs+strings.ToLower(f.Code)
		out.Title = "Not signed in"
		if f.Kind == fault.Unavailable {
			out.Status, out.Title = http.StatusServiceUnavailable, "Identity provider unavailable"
		}
		return out
	}
	return &ui.SingleSignOn{
		Name: cfg.Auth.OIDCName, PublicURL: cfg.Server.PublicURL,
		Begin: func(ctx context.Context, redirect, next string) (string, string, error) {
			to, kept, err := login.Begin(ctx, redirect, next)
			return to, kept, refusal(err)
		},
		Finish: func(ctx context.Context, kept string, answer url.Values) (string, string, error) {
			credential, next, err := login.Finish(ctx, kept, answer)
			return credential, next, refusal(err)
		},
	}
}
