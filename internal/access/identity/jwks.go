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

// How the issuer's keys are cached. oidc.RemoteKeySet keeps a key until another one is requested,
// so that a withdrawn one would be accepted forever, and fetches the keys for every token with a
// bad signature, so that anonymous clients could make it flood the issuer.
const (
	keysFresh   = 5 * time.Minute  // age at which they are fetched again
	keysUsable  = time.Hour        // age up to which they are used if fetching fails
	fetchPause  = 10 * time.Second // shortest interval between two fetches
	fetchWithin = 5 * time.Second
	maxKeySet   = 1 << 20 // bytes
)

// keySet is oidc.KeySet: the issuer's keys, fetched when needed.
type keySet struct {
	issuer, url string // url "": not yet discovered; guarded by fetching
	algorithms  []jose.SignatureAlgorithm
	client      *http.Client
	log         *slog.Logger
	fetching    chan struct{} // held during a fetch

	mu      sync.RWMutex
	keys    []jose.JSONWebKey // guarded by mu
	fetched time.Time         // guarded by mu: when the keys came; zero: never
	tried   time.Time         // guarded by mu: time of the last attempt
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

// outageKey is the context key of an error that is not the token's fault.
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

// candidates returns the keys that may have signed; none if the issuer has no such key.
func (s *keySet) candidates(ctx context.Context, kid, alg string) ([]jose.JSONWebKey, error) {
	keys, fetched, tried := s.present()
	fits := fitting(keys, kid, alg)
	age := time.Since(fetched)
	if !fetched.IsZero() && age < keysFresh && fits != nil {
		return fits, nil
	}
	if time.Since(tried) >= fetchPause {
		if fits != nil && age < keysUsable {
			select { // one request fetches them, the others do not wait
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

// fitting returns the keys with a kid ("": any) for signatures of alg.
func fitting(keys []jose.JSONWebKey, kid, alg string) []jose.JSONWebKey {
	var out []jose.JSONWebKey
	for _, k := range keys {
		if (kid == "" || k.KeyID == kid) && (k.Use == "" || k.Use == "sig") && (k.Algorithm == "" || k.Algorithm == alg) {
			out = append(out, k)
		}
	}
	return out
}

// fetch gets the keys. It continues when the request that started it ends, because
// others wait for the keys too.
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
		return nil, fmt.Errorf("the answer was %d", res.StatusCode)
	}
	body, err := io.ReadAll(io.LimitReader(res.Body, maxKeySet))
	if err != nil {
		return nil, err
	}
	return parseKeys(body)
}

// parseKeys reads a key set and skips entries that are not public keys of a supported type,
// which issuers publish as well.
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

// JWT configures which tokens are accepted, and the claims with their role and tenant. All
// fields are required unless a comment says otherwise.
type JWT struct {
	Issuer   string
	Audience string
	// JWKSURL is the URL of the issuer's keys; "": the one in the issuer's discovery
	// document.
	JWKSURL string
	// Algorithms are the accepted ones, of EdDSA, ES256 and RS256.
	Algorithms []string
	Leeway     time.Duration // for differing clocks; 0 to 60 s
	// RoleClaim and TenantClaim are names of claims, literal or a path separated by
	// dots.
	RoleClaim   string
	TenantClaim string
	// NameClaim has what the issuer calls a person, for people to read; optional.
	NameClaim string
	// Roles are the roles of the names in RoleClaim, such as groups of a provider; empty: the names
	// are roles.
	Roles map[string]principal.Role
	// DefaultTenant accepts tokens without a tenant, as belonging to none; by default they are
	// rejected. A claim that an issuer forgets must not give access to a tenant.
	DefaultTenant bool
	// Transport makes the requests for keys. Optional: the default one.
	Transport http.RoundTripper
}
