package identity

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/coreos/go-oidc/v3/oidc"
	"github.com/go-jose/go-jose/v4"

	"github.com/skald-saga/skald/internal/principal"
)

// These values determine how the issuer's keys are cached. oidc.RemoteKeySet is unsuitable for two
// reasons. It keeps a key until another one is requested, so a withdrawn key would be accepted
// forever. It also fetches the keys for every token with a bad signature, so anonymous clients
// could make it flood the issuer.
const (
	keysFresh   = 5 * time.Minute  // age at which the keys are fetched again
	keysUsable  = time.Hour        // age up to which the keys are used if fetching fails
	fetchPause  = 10 * time.Second // shortest interval between two fetches
	fetchWithin = 5 * time.Second
	maxKeySet   = 1 << 20 // bytes
)

// keySet implements oidc.KeySet with the issuer's keys, which it fetches when needed.
type keySet struct {
	issuer, url string // url "": not yet discovered; guarded by fetching
	algorithms  []jose.SignatureAlgorithm
	client      *http.Client
	log         *slog.Logger
	fetching    chan struct{} // held during a fetch

	mu      sync.RWMutex
	keys    []jose.JSONWebKey // guarded by mu
	fetched time.Time         // guarded by mu; when the keys were fetched; zero: never
	tried   time.Time         // guarded by mu; time of the last attempt
}

func newKeySet(cfg JWT, log *slog.Logger) *keySet {
	s := &keySet{issuer: cfg.Issuer, url: cfg.JWKSURL, log: log, fetching: make(chan struct{}, 1), client: &http.Client{
		Transport:     cfg.Transport,
		Timeout:       fetchWithin,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}}
	for _, a := range cfg.Algorithms {
		s.algorithms = append(s.algorithms, jose.SignatureAlgorithm(a))
	}
	return s
}

var (
	errNoKeys  = errors.New("cannot fetch the JWT issuer's keys") // an outage
	errNoKey   = errors.New("the issuer has no key with the token's kid")
	errNotTrue = errors.New("the token's signature does not match its key")
)

// outageKey is the context key for an error that the token did not cause.
type outageKey struct{}

// VerifySignature implements oidc.KeySet.
func (s *keySet) VerifySignature(ctx context.Context, raw string) ([]byte, error) {
	jws, err := jose.ParseSignedCompact(raw, s.algorithms)
	if err != nil {
		return nil, fmt.Errorf("malformed token: %w", err)
	}
	kid, alg := jws.Signatures[0].Header.KeyID, jws.Signatures[0].Header.Algorithm
	keys, err := s.candidates(ctx, kid, alg)
	if err != nil {
		*ctx.Value(outageKey{}).(*error) = err
		return nil, err
	}
	for _, key := range keys {
		if payload, err := jws.Verify(&key); err == nil {
			return payload, nil
		}
	}
	if keys == nil {
		return nil, errNoKey
	}
	return nil, errNotTrue
}

// candidates returns the keys that may have created the signature, or none if the issuer has no
// such key.
func (s *keySet) candidates(ctx context.Context, kid, alg string) ([]jose.JSONWebKey, error) {
	keys, fetched, tried := s.present()
	fits := fitting(keys, kid, alg)
	age := time.Since(fetched)
	if !fetched.IsZero() && age < keysFresh && fits != nil {
		return fits, nil
	}
	if time.Since(tried) >= fetchPause {
		if fits != nil && age < keysUsable {
			select { // one request fetches the keys, and the others do not wait
			case s.fetching <- struct{}{}:
			default:
				return fits, nil
			}
		} else {
			select {
			case s.fetching <- struct{}{}:
			case <-ctx.Done():
				return nil, ctx.Err()
			}
		}
		if _, _, last := s.present(); last.Equal(tried) {
			s.fetch(ctx)
		}
		<-s.fetching
		keys, fetched, _ = s.present()
		age = time.Since(fetched)
	}
	if fetched.IsZero() || age >= keysUsable {
		return nil, errNoKeys
	}
	return fitting(keys, kid, alg), nil
}

func (s *keySet) present() (keys []jose.JSONWebKey, fetched, tried time.Time) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.keys, s.fetched, s.tried
}

// fitting returns the keys with the given kid ("" means any) for signatures of alg.
func fitting(keys []jose.JSONWebKey, kid, alg string) []jose.JSONWebKey {
	var out []jose.JSONWebKey
	for _, k := range keys {
		if (kid == "" || k.KeyID == kid) && (k.Use == "" || k.Use == "sig") && (k.Algorithm == "" || k.Algorithm == alg) {
			out = append(out, k)
		}
	}
	return out
}

// fetch fetches the keys. It continues when the request that started it ends, because other
// requests wait for the keys as well.
func (s *keySet) fetch(ctx context.Context) {
	ctx, cancel := context.WithTimeout(oidc.ClientContext(context.WithoutCancel(ctx), s.client), fetchWithin)
	defer cancel()
	keys, err := s.get(ctx)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.tried = time.Now()
	if err != nil {
		s.log.WarnContext(ctx, "the JWT issuer's keys could not be fetched", slog.Any("error", err))
		return
	}
	s.keys, s.fetched = keys, s.tried
}

func (s *keySet) get(ctx context.Context) ([]jose.JSONWebKey, error) {
	if s.url == "" {
		provider, err := oidc.NewProvider(ctx, s.issuer)
		if err != nil {
			return nil, err
		}
		var doc struct {
			URL string `json:"jwks_uri"`
		}
		if err := provider.Claims(&doc); err != nil || doc.URL == "" {
			return nil, fmt.Errorf("the issuer's discovery document has no jwks_uri: %w", err)
		}
		s.url = doc.URL
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, s.url, nil)
	if err != nil {
		return nil, err
	}
	res, err := s.client.Do(req)
	if err != nil {
		return nil, err
	}
	defer res.Body.Close()
	if res.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("the response status was %d", res.StatusCode)
	}
	body, err := io.ReadAll(io.LimitReader(res.Body, maxKeySet))
	if err != nil {
		return nil, err
	}
	return parseKeys(body)
}

// parseKeys reads a key set. It skips entries that are not public keys of a supported type, because
// issuers publish such entries as well.
func parseKeys(body []byte) ([]jose.JSONWebKey, error) {
	var set struct {
		Keys []json.RawMessage `json:"keys"`
	}
	if err := json.Unmarshal(body, &set); err != nil {
		return nil, fmt.Errorf("read the key set: %w", err)
	}
	var keys []jose.JSONWebKey
	for _, raw := range set.Keys {
		var k jose.JSONWebKey
		if k.UnmarshalJSON(raw) == nil && k.Valid() && k.IsPublic() {
			keys = append(keys, k)
		}
	}
	return slices.Clip(keys), nil
}

// JWT configures which tokens are accepted, and which of their claims contain the role and the
// tenant. All fields are required unless a comment says otherwise.
type JWT struct {
	Issuer   string
	Audience string
	// JWKSURL is the URL of the issuer's keys; "" means the URL in the issuer's discovery document.
	JWKSURL string
	// Algorithms lists the accepted algorithms, out of EdDSA, ES256 and RS256.
	Algorithms []string
	Leeway     time.Duration // tolerance for differing clocks; 0 to 60 s
	// RoleClaim and TenantClaim are names of claims, literal or a path separated by
	// dots.
	RoleClaim   string
	TenantClaim string
	// NameClaim is the claim with a person's name as known to the issuer, for display only. It is
	// optional.
	NameClaim string
	// Roles maps the names in RoleClaim, such as groups of a provider, to roles. If it is empty,
	// the names themselves are the roles.
	Roles map[string]principal.Role
	// DefaultTenant makes tokens without a tenant acceptable, as tokens that belong to none. By
	// default they are rejected, because a claim that an issuer forgets must not give access to a
	// tenant.
	DefaultTenant bool
	// Transport sends the requests for keys. It is optional; nil means the default transport.
	Transport http.RoundTripper
}
