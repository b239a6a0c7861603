// Package vault gets the login for the database from HashiCorp Vault: either a static login from a
// key-value path (Static), or a login that Vault creates with a lease (Dynamic). Both implement
// credentials.Source. A Reader reads other secrets from key-value paths.
//
// No request ever waits for Vault. Its logins are kept in memory, and as long as PostgreSQL accepts
// them, Vault may be sealed, slow or down. A static login is read again when PostgreSQL rejects it.
// A login with a lease is renewed well before the lease ends. (Seed 1, Vault; invariants F62 and
// T16.)
package vault

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"strings"
	"time"

	"github.com/hashicorp/vault/api"
)

// Method is how Skald signs in to Vault.
type Method string

// These are the methods. A given token is used as it is and is renewed. A token file is maintained
// externally, for example by a Vault agent, which renews and replaces the token.
const (
	Token      Method = "token"
	TokenFile  Method = "token_file"
	AppRole    Method = "approle"
	Kubernetes Method = "kubernetes"
)

// Config describes how to reach Vault and how to sign in. Address and the fields of the method are
// required.
type Config struct {
	Address   string        // http:// or https://
	Namespace string        // namespace in Vault Enterprise; empty: none
	CACert    string        // file of CA certificates; empty: the system's
	Timeout   time.Duration // of one call, including retries; 0: 10 s

	Method       Method
	Mount        string // mount of the method; empty: its name
	Token        string // Token
	TokenFile    string // TokenFile
	RoleID       string // AppRole
	SecretID     string // AppRole; empty if SecretIDFile is set, or if the role needs none
	SecretIDFile string // AppRole; read at every sign-in
	Role         string // Kubernetes
	JWTFile      string // Kubernetes; read at every sign-in

	// Transport makes the HTTP calls; nil means a transport that trusts CACert.
	Transport http.RoundTripper
	// Observe is called after every attempt to get or renew credentials, with the error (nil on
	// success) and with the expiry of the current credentials (zero means unknown). It is optional.
	Observe func(err error, until time.Time)
	Log     *slog.Logger
}

// unlimited is the TTL of tokens that do not expire, such as a root token.
const unlimited = 100 * 365 * 24 * time.Hour

func newAPI(cfg Config) (*api.Client, error) {
	transport := cfg.Transport
	if transport == nil {
		t := http.DefaultTransport.(*http.Transport).Clone()
		t.TLSClientConfig = &tls.Config{MinVersion: tls.VersionTLS12}
		if cfg.CACert != "" {
			pem, err := os.ReadFile(cfg.CACert)
			if err != nil {
				return nil, fmt.Errorf("vault: read the CA certificates: %w", err)
			}
			t.TLSClientConfig.RootCAs = x509.NewCertPool()
			if !t.TLSClientConfig.RootCAs.AppendCertsFromPEM(pem) {
				return nil, fmt.Errorf("vault: %s contains no certificate", cfg.CACert)
			}
		}
		transport = t
	}
	client, err := api.NewClient(&api.Config{
		Address: cfg.Address,
		HttpClient: &http.Client{Transport: transport, CheckRedirect: func(*http.Request, []*http.Request) error {
			return http.ErrUseLastResponse // the Vault client follows one redirect, but never to http
		}},
		// The retries cover short failures, and a standby that has just become the active node.
		MaxRetries: 2, MinRetryWait: 100 * time.Millisecond, MaxRetryWait: time.Second,
	})
	if err != nil {
		return nil, fmt.Errorf("vault: %w", err)
	}
	client.ClearToken() // the client has read VAULT_TOKEN and VAULT_NAMESPACE
	client.ClearNamespace()
	if cfg.Namespace != "" {
		client.SetNamespace(cfg.Namespace)
	}
	return client, nil
}

// Error is a failed call to Vault. It contains none of the data that was sent.
type Error struct {
	Call   string // such as "read database/creds/app"
	Status int    // HTTP; 0: no response
	Detail string
}

// Error returns the failure on one line.
func (e *Error) Error() string {
	if e.Status == 0 {
		return fmt.Sprintf("vault: %s: %s", e.Call, e.Detail)
	}
	return fmt.Sprintf("vault: %s: %d %s: %s", e.Call, e.Status, http.StatusText(e.Status), e.Detail)
}

// maxDetail limits the quoted part of Vault's error message, in bytes.
const maxDetail = 300

// explain converts an error of the client to an *Error.
func explain(call string, err error) error {
	if err == nil {
		return nil
	}
	e := &Error{Call: call, Detail: err.Error()}
	var response *api.ResponseError
	if errors.As(err, &response) {
		e.Status, e.Detail = response.StatusCode, strings.Join(response.Errors, "; ")
		if response.RawError { // a page of a proxy
			e.Detail = "the response is not from Vault"
		}
	}
	if len(e.Detail) > maxDetail {
		e.Detail = e.Detail[:maxDetail] + "…"
	}
	return e
}

// statusOf returns the HTTP status of a failed call, or 0 if there was no response.
func statusOf(err error) int {
	var e *Error
	if errors.As(err, &e) {
		return e.Status
	}
	return 0
}

// text returns a string in a secret's data.
func text(data map[string]any, key string) string {
	s, _ := data[key].(string)
	return s
}

// unwrapped returns the data of a secret, which version 2 of the key-value engine wraps.
func unwrapped(data map[string]any) map[string]any {
	if inner, ok := data["data"].(map[string]any); ok {
		if _, ok := data["metadata"].(map[string]any); ok {
			return inner
		}
	}
	return data
}

// seconds reads a TTL in Vault's form. A missing TTL is unlimited.
func seconds(n int) time.Duration {
	if n <= 0 {
		return unlimited
	}
	return time.Duration(n) * time.Second
}

func logger(cfg Config) *slog.Logger {
	if cfg.Log == nil {
		return slog.New(slog.DiscardHandler)
	}
	return cfg.Log
}

// read is Logical.Read through s.
func (s *session) read(ctx context.Context, path string) (*api.Secret, error) {
	return s.do(ctx, "read "+path, func(ctx context.Context, c *api.Client) (*api.Secret, error) {
		secret, err := c.Logical().ReadWithContext(ctx, path)
		if err == nil && secret == nil { // a 404 without a message
			err = &api.ResponseError{StatusCode: http.StatusNotFound, Errors: []string{"the path has no secret"}}
		}
		return secret, err
	})
}
