package identity

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/coreos/go-oidc/v3/oidc"
	"golang.org/x/oauth2"
)

const discoveryFresh = time.Hour // how long the issuer's endpoints are used before they are requested again

// issuer finds the endpoints of the issuer through its discovery document.
type issuer struct {
	url    string
	client *http.Client
	asking chan struct{} // held during a request

	mu    sync.Mutex
	known oauth2.Endpoint // guarded by mu
	err   error           // guarded by mu; error of the last attempt
	at    time.Time       // guarded by mu; time of the last attempt; zero: none
}

func newIssuerOf(url string, client *http.Client) *issuer {
	return &issuer{url: url, client: client, asking: make(chan struct{}, 1)}
}

// endpoint returns the issuer's endpoints. Anonymous clients can trigger it, so it queries the
// issuer once an hour, and after a failure at most every fetchPause.
func (i *issuer) endpoint(ctx context.Context) (oauth2.Endpoint, error) {
	if e, err, ok := i.last(); ok {
		return e, err
	}
	select {
	case i.asking <- struct{}{}:
		defer func() { <-i.asking }()
	case <-ctx.Done():
		return oauth2.Endpoint{}, ctx.Err()
	}
	if e, err, ok := i.last(); ok { // another request has fetched it in the meantime
		return e, err
	}
	asked, cancel := context.WithTimeout(oidc.ClientContext(context.WithoutCancel(ctx), i.client), fetchWithin)
	defer cancel()
	e, err := i.ask(asked)
	i.mu.Lock()
	defer i.mu.Unlock()
	i.known, i.err, i.at = e, err, time.Now()
	return e, err
}

func (i *issuer) last() (e oauth2.Endpoint, err error, ok bool) {
	i.mu.Lock()
	defer i.mu.Unlock()
	age := time.Since(i.at)
	return i.known, i.err, !i.at.IsZero() && (i.err == nil && age < discoveryFresh || i.err != nil && age < fetchPause)
}

func (i *issuer) ask(ctx context.Context) (oauth2.Endpoint, error) {
	provider, err := oidc.NewProvider(ctx, i.url)
	if err != nil {
		return oauth2.Endpoint{}, err
	}
	var doc struct {
		Methods []string `json:"token_endpoint_auth_methods_supported"`
	}
	if err := provider.Claims(&doc); err != nil {
		return oauth2.Endpoint{}, err
	}
	e := provider.Endpoint()
	if e.AuthURL == "" || e.TokenURL == "" {
		return oauth2.Endpoint{}, errors.New("the issuer's discovery document has no authorization_endpoint or token_endpoint")
	}
	e.AuthStyle = oauth2.AuthStyleInHeader // the default of OpenID Connect Discovery
	if doc.Methods != nil && !slices.Contains(doc.Methods, "client_secret_basic") {
		e.AuthStyle = oauth2.AuthStyleInParams
	}
	return e, nil
}
