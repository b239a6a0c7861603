package identity

import (
	"cmp"
	"context"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"encoding/json"
	"errors"
	"log/slog"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/coreos/go-oidc/v3/oidc"
	"golang.org/x/oauth2"

	"github.com/skald-saga/skald/internal/access"
	"github.com/skald-saga/skald/internal/fault"
	"github.com/skald-saga/skald/internal/principal"
)

// These are the limits of a sign-in.
const (
	loginLife      = 10 * time.Minute // from Begin to Finish, while a person types a password
	exchangeWithin = 10 * time.Second
	maxNext        = 1500 // bytes; the cookie must stay below 4 KiB
)

// SignOn configures how people sign in at the issuer.
type SignOn struct {
	// JWT configures which claims of the issuer's ID tokens are used, as it does for other JWTs.
	// Its Audience is not used, because the audience of an ID token is the client.
	JWT
	ClientID, ClientSecret string
	Scopes                 []string // in addition to openid
}

// Login signs people in at the issuer, with the authorization code flow of OpenID Connect and PKCE.
// The browser keeps the state that is needed when the person returns. This state is signed, so that
// any node can finish a sign-in that another node began. Login is safe for concurrent use.
type Login struct {
	cfg     SignOn
	checker *Checker
	tokens  *tokens
	client  *http.Client
	issuer  *issuer
	now     func() time.Time
	log     *slog.Logger
}

// NewLogin returns a Login whose results c accepts.
func NewLogin(cfg SignOn, c *Checker) *Login {
	client := &http.Client{
		Transport: cfg.Transport, Timeout: exchangeWithin,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	forClient := cfg.JWT
	forClient.Audience = cfg.ClientID
	return &Login{
		cfg: cfg, checker: c, tokens: newTokens(forClient, newKeySet(cfg.JWT, c.log), c.now), client: client,
		issuer: newIssuerOf(cfg.Issuer, client), now: c.now, log: c.log,
	}
}

// kept is the state of a sign-in, which the browser keeps.
type kept struct {
	State    string `json:"s"`
	Nonce    string `json:"n"`
	Verifier string `json:"v"`
	Redirect string `json:"r"`
	Next     string `json:"t"`
	Until    int64  `json:"u"` // seconds since 1970
}

// Begin starts a sign-in that returns to redirect, a URL of this server, and then leads to next. It
// returns the issuer's URL to which the browser must go, and a text for Finish that only this
// browser may keep. Fault: Unavailable.
func (l *Login) Begin(ctx context.Context, redirect, next string) (to, keep string, err error) {
	config, err := l.config(ctx, redirect)
	if err != nil {
		return "", "", err
	}
	if len(next) > maxNext {
		next = ""
	}
	k := kept{
		State: rand.Text(), Nonce: rand.Text(), Verifier: oauth2.GenerateVerifier(), Redirect: redirect, Next: next,
		Until: l.now().Add(loginLife).Unix(),
	}
	return config.AuthCodeURL(k.State, oidc.Nonce(k.Nonce), oauth2.S256ChallengeOption(k.Verifier)), l.sign(k), nil
}

// Finish ends the sign-in whose state the browser has kept, using the issuer's answer, which is in
// the query string of the person's return. It returns a credential for one request and the path
// that was passed to Begin. Faults: Unauthenticated, Unavailable; their details are meant for the
// person.
func (l *Login) Finish(ctx context.Context, keep string, answer url.Values) (credential, next string, err error) {
	ctx, cancel := context.WithTimeout(ctx, exchangeWithin)
	defer cancel()
	k, ok := l.read(keep)
	switch state := answer["state"]; {
	case !ok:
		return "", "", refuseLogin("This sign-in was not started in this browser, or was started more than ten minutes ago. Start again.")
	case len(state) != 1 || subtle.ConstantTimeCompare([]byte(state[0]), []byte(k.State)) != 1:
		return "", "", refuseLogin("The response belongs to a different sign-in from the one that this browser started. Start again.")
	case answer.Has("iss") && answer.Get("iss") != l.cfg.Issuer:
		return "", "", refuseLogin("The response names an issuer other than %s.", l.cfg.Issuer)
	case answer.Has("error"):
		return "", "", refuseLogin("The identity provider did not sign you in: %s", said(answer.Get("error"),
			answer.Get("error_description")))
	case len(answer["code"]) != 1 || answer.Get("code") == "":
		return "", "", refuseLogin("The identity provider sent neither a code nor an error. Start again.")
	}
	config, err := l.config(ctx, k.Redirect)
	if err != nil {
		return "", "", err
	}
	token, err := config.Exchange(oidc.ClientContext(ctx, l.client), answer.Get("code"), oauth2.VerifierOption(k.Verifier))
	if err != nil {
		return "", "", l.notExchanged(ctx, err)
	}
	raw, _ := token.Extra("id_token").(string)
	if raw == "" || len(raw) > 64<<10 {
		return "", "", refuseLogin("The identity provider returned no ID token. Does the provider allow this client the scope openid?")
	}
	who, err := l.identified(ctx, raw, k.Nonce)
	if err != nil {
		return "", "", err
	}
	credential, err = l.checker.ticket(who)
	return credential, k.Next, err
}

// identified returns the person whom an ID token identifies.
func (l *Login) identified(ctx context.Context, raw, nonce string) (principal.Principal, error) {
	f, claims, err := l.tokens.claimed(ctx, raw)
	switch {
	case err != nil:
		return principal.Principal{}, l.unavailable(ctx, err)
	case f.wrong != nil:
		return principal.Principal{}, refuseLogin("The identity provider's ID token is not accepted here: %v.", f.wrong).
			Because(f.wrong)
	}
	said, _ := claims["nonce"].(string)
	party, named := claims["azp"]
	switch {
	case subtle.ConstantTimeCompare([]byte(said), []byte(nonce)) != 1:
		return principal.Principal{}, refuseLogin("The ID token belongs to a different sign-in. Start again.")
	case named && party != l.cfg.ClientID:
		return principal.Principal{}, refuseLogin("The ID token was issued for a client other than %s.", l.cfg.ClientID)
	case !f.who.Role.Valid():
		return principal.Principal{}, refuseLogin("The identity provider identifies you as %s, but gives you no role here: "+
			"the claim %s of the ID token has none of %s.", strings.TrimPrefix(f.who.Subject, "jwt:"), l.cfg.RoleClaim,
			strings.Join(roleNames(), ", "))
	}
	return f.who, nil
}

func roleNames() (all []string) {
	for _, r := range slices.Backward(principal.Roles) {
		all = append(all, string(r))
	}
	return all
}

// config returns the OAuth 2 configuration for one return address.
func (l *Login) config(ctx context.Context, redirect string) (*oauth2.Config, error) {
	endpoint, err := l.issuer.endpoint(ctx)
	if err != nil {
		return nil, l.unavailable(ctx, err)
	}
	return &oauth2.Config{
		ClientID: l.cfg.ClientID, ClientSecret: l.cfg.ClientSecret, Endpoint: endpoint, RedirectURL: redirect,
		Scopes: append([]string{oidc.ScopeOpenID}, slices.DeleteFunc(slices.Clone(l.cfg.Scopes),
			func(s string) bool { return s == oidc.ScopeOpenID })...),
	}, nil
}

// notExchanged returns the fault for a code for which the issuer returned no token.
func (l *Login) notExchanged(ctx context.Context, err error) error {
	var answered *oauth2.RetrieveError
	if !errors.As(err, &answered) || answered.Response == nil || answered.Response.StatusCode >= 500 {
		return l.unavailable(ctx, err)
	}
	l.log.WarnContext(ctx, "the identity provider returned no token for a code", slog.Int("status", answered.Response.StatusCode),
		slog.String("error", answered.ErrorCode), slog.String("description", answered.ErrorDescription))
	if answered.ErrorCode == "invalid_client" || answered.ErrorCode == "unauthorized_client" {
		return refuseLogin("The identity provider does not accept Skald as its client %s: %s", l.cfg.ClientID,
			said(answered.ErrorCode, answered.ErrorDescription))
	}
	return refuseLogin("The identity provider returned no token for this sign-in, which may have been used before: %s",
		said(cmp.Or(answered.ErrorCode, answered.Response.Status), answered.ErrorDescription))
}

func (l *Login) unavailable(ctx context.Context, err error) error {
	l.log.WarnContext(ctx, "sign-in is not possible: the identity provider's response is unusable",
		slog.String("issuer", l.cfg.Issuer), slog.Any("error", err))
	return fault.New(fault.Unavailable, access.CodeProviderDown,
		"The identity provider %s did not give a usable response. The server's log has the details. Try again, or use an API key.",
		l.cfg.Issuer).Because(err)
}

func refuseLogin(format string, args ...any) *fault.Error {
	return fault.New(fault.Unauthenticated, principal.CodeInvalid, format, args...)
}

// said returns an issuer's error message in a form that can be displayed: printable and shortened.
func said(code, description string) string {
	text := code
	if description != "" {
		text += ": " + description
	}
	text = strings.Map(func(r rune) rune {
		if !printable(string(r)) {
			return ' '
		}
		return r
	}, strings.ToValidUTF8(text, " "))
	if runes := []rune(text); len(runes) > 300 {
		text = string(runes[:300]) + "…"
	}
	return text
}

// sign returns k as signed text, which read accepts and which cannot be forged without the client's
// secret.
func (l *Login) sign(k kept) string {
	body, _ := json.Marshal(k) // it contains only strings and a number
	text := base64.RawURLEncoding.EncodeToString(body)
	return text + "." + base64.RawURLEncoding.EncodeToString(l.mac(text))
}

func (l *Login) read(text string) (k kept, ok bool) {
	body, mac, _ := strings.Cut(text, ".")
	sum, err := base64.RawURLEncoding.DecodeString(mac)
	if err != nil || !hmac.Equal(sum, l.mac(body)) {
		return kept{}, false
	}
	raw, err := base64.RawURLEncoding.DecodeString(body)
	ok = err == nil && json.Unmarshal(raw, &k) == nil && l.now().Unix() < k.Until
	return k, ok
}

// mac computes a MAC with a key that serves no other purpose and that all nodes can derive.
func (l *Login) mac(text string) []byte {
	key := hmac.New(sha256.New, []byte(l.cfg.ClientSecret))
	key.Write([]byte("skald: a sign-in that has begun"))
	sum := hmac.New(sha256.New, key.Sum(nil))
	sum.Write([]byte(text))
	return sum.Sum(nil)
}
