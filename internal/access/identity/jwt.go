package identity

import (
	"context"
	"fmt"
	"time"

	"github.com/coreos/go-oidc/v3/oidc"
	"github.com/google/uuid"

	"github.com/skald-saga/skald/internal/principal"
)

// tokens checks JWTs.
type tokens struct {
	cfg      JWT
	now      func() time.Time
	verifier *oidc.IDTokenVerifier
}

func newTokens(cfg JWT, keys *keySet, now func() time.Time) *tokens {
	return &tokens{cfg: cfg, now: now, verifier: oidc.NewVerifier(cfg.Issuer, keys, &oidc.Config{
		ClientID: cfg.Audience, SupportedSigningAlgs: cfg.Algorithms,
		SkipExpiryCheck: true, // the verifier allows five minutes of leeway; see timely
	})}
}

// check returns the caller that a JWT identifies. An error is an outage: the issuer's keys could
// not be fetched.
func (t *tokens) check(ctx context.Context, raw string) (found, error) {
	found, _, err := t.claimed(ctx, raw)
	return found, err
}

// claimed is check, and additionally returns the claims of an accepted token.
func (t *tokens) claimed(ctx context.Context, raw string) (found, claims, error) {
	var outage error // the verifier would merge the outage into its error about the token
	token, err := t.verifier.Verify(context.WithValue(ctx, outageKey{}, &outage), raw)
	switch {
	case outage != nil:
		return found{}, nil, outage
	case err != nil:
		return found{wrong: err}, nil, nil
	}
	claims := claims{}
	if err := token.Claims(&claims); err != nil {
		return found{wrong: err}, nil, nil
	}
	if err := t.timely(token, claims); err != nil {
		return found{wrong: err}, nil, nil
	}
	who, err := t.principal(token.Subject, claims)
	return found{who: who, expires: token.Expiry.Add(t.cfg.Leeway), wrong: err}, claims, nil
}

// timely checks exp, which is required, and nbf and iat. All of them must be numbers (RFC 7519,
// NumericDate), although the verifier would also accept texts.
func (t *tokens) timely(token *oidc.IDToken, c claims) error {
	now := t.now()
	latest := float64(now.Add(t.cfg.Leeway).UnixMicro()) / 1e6
	for _, name := range []string{"exp", "nbf", "iat"} {
		v, found := c[name]
		at, number := v.(float64)
		switch {
		case !found && name != "exp":
		case !number:
			return fmt.Errorf("the token's %s is not a number", name)
		case name != "exp" && at > latest:
			return fmt.Errorf("the token's %s is in the future", name)
		}
	}
	if !now.Before(token.Expiry.Add(t.cfg.Leeway)) {
		return fmt.Errorf("the token expired at %v", token.Expiry)
	}
	return nil
}

// maxSubject leaves room for the prefix in principal.Principal.
const maxSubject = 200

func (t *tokens) principal(subject string, c claims) (principal.Principal, error) {
	if !printable(subject) || len(subject) > maxSubject {
		return principal.Principal{}, fmt.Errorf("the token's sub is not 1 to %d bytes of printable text", maxSubject)
	}
	tenant, err := c.tenant(t.cfg.TenantClaim)
	if err != nil {
		return principal.Principal{}, err
	}
	if tenant.ID == uuid.Nil && !t.cfg.DefaultTenant {
		return principal.Principal{}, fmt.Errorf(
			"the token has no %s; set auth.jwt_default_tenant to map such tokens to the default tenant",
			t.cfg.TenantClaim,
		)
	}
	return principal.Principal{
		Subject: "jwt:" + subject, Name: c.person(t.cfg.NameClaim),
		Role: c.role(t.cfg.RoleClaim, t.cfg.Roles), Tenant: tenant,
	}, nil
}

// found is the result of checking a credential.
type found struct {
	who     principal.Principal
	expires time.Time // zero: never
	wrong   error     // why the credential is rejected; nil: it is accepted
	until   time.Time // when the credential is checked again, with a monotonic reading
}
