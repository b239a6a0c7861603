package egress

import (
	"bytes"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptrace"
	"sync/atomic"
	"time"

	"golang.org/x/net/http2"
)

// Client makes requests with net/http over connections that the policy allows. It follows no
// redirects, uses no proxy, and uses the TLS configuration that is current when a connection is
// opened.
type Client struct {
	current atomic.Pointer[generation]
	tls     func() *tls.Config
	make    func(*tls.Config) *generation
	timeout time.Duration
}

// generation holds the connections of one configuration.
type generation struct {
	tls   *tls.Config
	kept  *http.Transport
	fresh *http.Transport // opens a connection for each request
}

// NewClient returns a client whose requests time out after timeout (0: never), and which keeps
// perHost idle connections per host. secure returns the current TLS configuration, always as the
// same pointer until it changes; nil means the system's authorities and no client certificate.
func (p *Policy) NewClient(timeout time.Duration, perHost int, secure func() *tls.Config) *Client {
	if secure == nil {
		fixed := &tls.Config{MinVersion: tls.VersionTLS12}
		secure = func() *tls.Config { return fixed }
	}
	return &Client{tls: secure, timeout: timeout, make: func(c *tls.Config) *generation {
		kept := &http.Transport{
			Proxy:               nil, // a proxy's connections would bypass the policy
			DialContext:         p.DialContext(timeout),
			TLSClientConfig:     c.Clone(),
			TLSHandshakeTimeout: timeout,
			MaxIdleConnsPerHost: perHost, MaxIdleConns: 256, IdleConnTimeout: time.Minute,
			MaxResponseHeaderBytes: 64 << 10,
			DisableCompression:     true,
			ForceAttemptHTTP2:      true,
		}
		fresh := kept.Clone()
		fresh.DisableKeepAlives = true
		return &generation{c, kept, fresh}
	}}
}

// Send makes the request r with body, which replaces r's own. After a change of the configuration,
// it opens a new connection; requests in flight finish on the old connections.
//
// A server may close an idle connection just as a request is sent over it. So if a reused
// connection fails before any byte of an answer, and not because of a timeout, Send repeats the
// same bytes over a new connection, once and within the same timeout, as for calls to participants
// (decision 0012). repeated reports this: regardless of the result of the second transmission, the
// first may have arrived.
func (c *Client) Send(r *http.Request, body []byte) (res *http.Response, repeated bool, err error) {
	began, use := time.Now(), c.generation()
	var lost func(error) bool
	send := func(over *http.Transport, timeout time.Duration) (*http.Response, error) {
		again := r.Clone(r.Context())
		again.Body, again.ContentLength = io.NopCloser(bytes.NewReader(body)), int64(len(body))
		if len(body) == 0 {
			again.Body = http.NoBody
		}
		again.GetBody = nil // otherwise net/http silently repeats requests that it considers idempotent (trap X45)
		again, lost = watched(again)
		client := http.Client{
			Transport: over, Timeout: timeout,
			// A redirect could lead to a URL that was never allowed.
			CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		}
		return client.Do(again)
	}
	res, err = send(use.kept, c.timeout)
	if err == nil || r.Context().Err() != nil || !lost(err) {
		return res, false, err
	}
	left := c.timeout
	if left > 0 {
		left = max(left-time.Since(began), time.Millisecond)
	}
	res, err = send(use.fresh, left)
	return res, true, err
}

// watched returns r with a trace of its connection. lost reports whether the error of r means
// that a reused connection ended before a byte of an answer.
func watched(r *http.Request) (traced *http.Request, lost func(error) bool) {
	var reused, answered atomic.Bool
	ctx := httptrace.WithClientTrace(r.Context(), &httptrace.ClientTrace{
		GotConn:              func(c httptrace.GotConnInfo) { reused.Store(c.Reused) },
		GotFirstResponseByte: func() { answered.Store(true) },
	})
	return r.WithContext(ctx), func(err error) bool {
		var timed net.Error
		var stream http2.StreamError // this counts as an answer: the connection works
		return reused.Load() && !answered.Load() && !errors.As(err, &stream) && !(errors.As(err, &timed) && timed.Timeout())
	}
}

// generation returns the connections of the current configuration.
func (c *Client) generation() *generation {
	secure, used := c.tls(), c.current.Load()
	if used != nil && used.tls == secure {
		return used
	}
	next := c.make(secure)
	if !c.current.CompareAndSwap(used, next) {
		return c.current.Load() // another request has already replaced it
	}
	if used != nil {
		used.kept.CloseIdleConnections()
	}
	return next
}

// Close closes idle connections.
func (c *Client) Close() {
	if used := c.current.Load(); used != nil {
		used.kept.CloseIdleConnections()
	}
}
