// Package participant makes the external call of a saga step over HTTP and turns the answer
// into an outcome.
//
// A call is exactly one attempt. The rules depend on whether anything was sent at all, and whether
// an earlier transmission may have been applied. net/http's client reports neither: it silently
// repeats a request that carries an Idempotency-Key when a kept-alive connection breaks (trap X45).
// This package repeats it as well, but only once, and reports that it did. It writes HTTP/1.1
// requests to its own connections: one write, one answer. This needs only two fifths of the CPU
// time, because it avoids net/http's two goroutines per connection. The call is the most expensive
// thing Skald does: with net/http, a saga costs the server a quarter more (decision 0012). Answers
// are still parsed by net/http.
//
// Files, each on top of those before it: conn, text, outcome, target, idle, secrets, participant, request,
// rules, report, written.
package participant

import (
	"context"
	"crypto/tls"
	"encoding/binary"
	"errors"
	"log/slog"
	"math/rand/v2"
	"net"
	"time"

	"github.com/skald-saga/skald/internal/egress"
	"github.com/skald-saga/skald/internal/retry"
	"github.com/skald-saga/skald/internal/saga"
	"github.com/skald-saga/skald/internal/saga/callback"
	"github.com/skald-saga/skald/internal/saga/callback/reported"
	"github.com/skald-saga/skald/internal/saga/secrets"
)

// Config configures a Client. The zero value of every field can be used.
type Config struct {
	// Policy decides which addresses participants may have. nil means the zero Policy, which does
	// not allow loopback.
	Policy *egress.Policy
	// TLS returns the current configuration for https participants. It returns the same pointer
	// until the configuration changes. nil means the system's roots and TLS 1.2 or later. The
	// Client sets ServerName and NextProtos. A call after a change never uses a connection from
	// before the change.
	TLS func() *tls.Config
	// SigningKeys returns the current signing keys, each of which adds a signature to every
	// request; nil means that requests are not signed.
	SigningKeys func() [][]byte
	// Secrets are the values that replace the placeholders in calls. nil means that there are none.
	Secrets *secrets.Bound
	// Hidden is called when the answer to a call contained a secret, which was replaced. It may be
	// nil.
	Hidden func(call *saga.Call)
	// Callback returns the URL to which the outcome of an attempt can be reported, or "" if there
	// is none. nil means always "".
	Callback func(reported.Attempt) string
	// Version is part of the User-Agent, "skald/VERSION"; "" means "dev".
	Version string
	// MaxResponseBytes limits the body of an answer, both as received and as canonical
	// JSON; 0 means 1 MiB.
	MaxResponseBytes int64
	// MaxJSONDepth limits the nesting of an answer; 0 means strictjson's default.
	MaxJSONDepth int
	// MaxIdlePerHost is how many connections to one host and port are kept open between calls. If
	// it is lower than the number of concurrent calls, connections are constantly opened and
	// closed. 0 means 512.
	MaxIdlePerHost int
	// IdleTimeout is how long an unused connection is kept. 0 means 60 s.
	IdleTimeout time.Duration
	// DialTimeout limits the DNS lookup and the TCP connect within the call's timeout. 0 means 10
	// s.
	DialTimeout time.Duration
	// Now is the clock for the times of outcomes and for X-Saga-Deadline. nil means time.Now.
	// Timeouts use the monotonic clock.
	Now func() time.Time
	// NewSpanID returns the span id of one call for traceparent. It must not return zeros. nil
	// means random ids.
	NewSpanID func() [8]byte
	// Log receives a warning for each call that the egress policy denies or whose TLS handshake
	// fails. nil discards them.
	Log *slog.Logger
}

// Client calls participants. It is safe for concurrent use.
type Client struct {
	cfg     Config
	dial    func(ctx context.Context, network, address string) (net.Conn, error)
	agent   string // the User-Agent line
	targets targets
	idle    idlePool
}

// New returns a client. Close it to release its connections.
func New(cfg Config) *Client {
	if cfg.Policy == nil {
		cfg.Policy = &egress.Policy{}
	}
	if cfg.TLS == nil {
		fixed := &tls.Config{MinVersion: tls.VersionTLS12, ClientSessionCache: tls.NewLRUClientSessionCache(256)}
		cfg.TLS = func() *tls.Config { return fixed }
	}
	if cfg.Version == "" {
		cfg.Version = "dev"
	}
	if cfg.MaxResponseBytes <= 0 {
		cfg.MaxResponseBytes = 1 << 20
	}
	if cfg.MaxIdlePerHost <= 0 {
		cfg.MaxIdlePerHost = 512
	}
	if cfg.IdleTimeout <= 0 {
		cfg.IdleTimeout = time.Minute
	}
	if cfg.DialTimeout <= 0 {
		cfg.DialTimeout = 10 * time.Second
	}
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	if cfg.NewSpanID == nil {
		cfg.NewSpanID = randomSpanID
	}
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	if cfg.Callback == nil {
		cfg.Callback = func(reported.Attempt) string { return "" }
	}
	if cfg.Hidden == nil {
		cfg.Hidden = func(*saga.Call) {}
	}
	return &Client{
		cfg:   cfg,
		dial:  cfg.Policy.DialContext(cfg.DialTimeout),
		agent: "User-Agent: skald/" + cfg.Version + "\r\n",
		idle:  idlePool{perHost: cfg.MaxIdlePerHost, timeout: cfg.IdleTimeout},
	}
}

func randomSpanID() (id [8]byte) {
	binary.BigEndian.PutUint64(id[:], rand.Uint64()|1)
	return id
}

// Close closes the idle connections. Connections of calls in flight are closed when the calls end.
// Later calls still work, each over a new connection.
func (c *Client) Close() { c.idle.close() }

// defaultTimeout applies to a call without a timeout, so that every call ends.
const defaultTimeout = 30 * time.Second

// Call makes one attempt of the call and returns its outcome by the rules of
// requirements/invariants.md 3.7 and outcome.go. It returns within call.Timeout (0 means 30 s),
// including the time to connect, or soon after ctx ends. The outcome is Unknown unless it is
// certain that the participant acted on the request, or that it did not. call must come from a
// definition that package workflow has accepted. call.Body is not changed, and must not be changed
// while the outcome is in use.
func (c *Client) Call(ctx context.Context, call saga.Call) saga.Outcome {
	if call.Timeout <= 0 {
		call.Timeout = defaultTimeout
	}
	if call.Rules.Later() {
		call.Callback = c.cfg.Callback(callback.Of(&call))
	}
	started := c.now()
	o := c.attempt(ctx, &call, started)
	o.Request, o.Parts, o.StartedAt, o.EndedAt = call.Recorded(), call.Parts, started, c.now()
	if o.EndedAt.Before(started) { // the clock was set back
		o.EndedAt = started
	}
	return o
}

// now returns the time of the configured clock at PostgreSQL's precision.
func (c *Client) now() time.Time { return c.cfg.Now().UTC().Truncate(time.Microsecond) }

var errTransport = errors.New("the call is not an HTTP call")

// attempt makes the call over the transport that its definition specifies.
func (c *Client) attempt(ctx context.Context, call *saga.Call, started time.Time) saga.Outcome {
	if call.By.HTTP == nil {
		return neverSendable(CodeInvalidRequest, errTransport)
	}
	return c.attemptHTTP(ctx, call, started)
}

func (c *Client) attemptHTTP(ctx context.Context, call *saga.Call, started time.Time) saga.Outcome {
	var hide *secrets.Hider
	if c.cfg.Secrets != nil || call.By.HTTP.Secrets != nil {
		filled, of, err := c.withSecrets(ctx, call)
		if err != nil {
			return failure(saga.NotApplied, retry.Unavailable, CodeSecretUnavailable, "nothing was sent: "+err.Error())
		}
		call, hide = filled, of
	}
	if call.Rules.Later() && call.Callback == "" {
		return failure(saga.NotApplied, retry.Unavailable, CodeNoCallback, "nothing was sent: this node has no URL for "+
			"reports of the outcome; set server.public_url")
	}
	t, err := c.target(call)
	if err != nil {
		return neverSendable(CodeInvalidRequest, err)
	}
	head, err := c.appendHead(make([]byte, 0, usualRequest), t, call, started.Add(call.Timeout))
	if err != nil {
		return neverSendable(CodeInvalidRequest, err)
	}
	deadline := time.Now().Add(call.Timeout)
	o, again := c.send(ctx, call, t, head, hide, deadline, false)
	if again {
		sent := o.Verdict == saga.Unknown
		o, _ = c.send(ctx, call, t, head, hide, deadline, true)
		o.InDoubt = sent && o.Verdict != saga.Done
	}
	return o
}

// target returns the destination of a call. A URL that is specific to one call bypasses the cache,
// which it would only fill.
func (c *Client) target(call *saga.Call) (*target, error) {
	if call.Filled {
		return parseTarget(call.By.HTTP.URL)
	}
	return c.targets.of(call.By.HTTP.URL)
}

// send sends the request once and returns its outcome. fresh requires a new connection.
//
// again reports that a reused connection was closed before a byte of the answer arrived. Most
// likely the participant never saw the request, because participants close idle connections. The
// same bytes must then be sent once more over a new connection. That counts as the same attempt,
// with the same key.
func (c *Client) send(
	ctx context.Context, call *saga.Call, t *target, head []byte, hide *secrets.Hider, deadline time.Time, fresh bool,
) (o saga.Outcome, again bool) {
	cn, err := c.connection(ctx, t, deadline, fresh)
	if err != nil {
		c.warn(ctx, call, err)
		return notConnected(ctx, err), false
	}
	fresh = !cn.answered
	stop := context.AfterFunc(ctx, cn.abort)
	a, sent, err := cn.exchange(head, call.Body, c.cfg.MaxResponseBytes)
	// Once abort has started, it may touch the connection at any later moment.
	if stop() && err == nil && a.reusable {
		c.idle.put(t.key, cn)
	} else {
		cn.Close()
	}
	again = err != nil && !fresh && !cn.heard && ctx.Err() == nil && !timedOut(err)
	switch {
	case err != nil && !sent:
		return nothingSent(ctx, err), again
	case err != nil && fresh && ctx.Err() == nil && egress.RefusedUs(err):
		err = &handshakeError{err}
		c.warn(ctx, call, err)
		return notConnected(ctx, err), false
	case err != nil:
		return noAnswer(ctx, err), again
	}
	if hide == nil {
		return c.outcome(call, a), false
	}
	found := c.hidden(&a, hide)
	o = c.outcome(call, a)
	if hideIn(&o, hide) || found {
		c.cfg.Hidden(call)
	}
	return o, false
}

// outcome translates an answer into an outcome.
func (c *Client) outcome(call *saga.Call, a answer) saga.Outcome {
	if call.Rules != nil {
		return c.judged(call.Rules, a)
	}
	return c.answered(a)
}

// warn logs what the outcome must not contain because users see it: which address was denied, and
// what is wrong with a certificate.
func (c *Client) warn(ctx context.Context, call *saga.Call, err error) {
	var denied *egress.Denied
	var handshake *handshakeError
	message := "egress denied"
	if !errors.As(err, &denied) {
		if !errors.As(err, &handshake) {
			return
		}
		message = "tls handshake failed"
	}
	c.cfg.Log.WarnContext(ctx, message, slog.String("saga_id", call.SagaID.String()),
		slog.String("step", call.Step), slog.Any("error", err))
}

// kept returns an idle connection to t, or nil if there is none or fresh is set.
func (c *Client) kept(t *target, fresh bool) *conn {
	if fresh {
		return nil
	}
	return c.idle.get(t.key)
}

// connection returns an idle connection to t that is still open, or a new one, with its deadline
// set. If it fails, nothing of the request has been sent. fresh requires a new connection.
func (c *Client) connection(ctx context.Context, t *target, deadline time.Time, fresh bool) (*conn, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	var secure *tls.Config
	if t.tls {
		secure = c.cfg.TLS()
	}
	for cn := c.kept(t, fresh); cn != nil; cn = c.kept(t, fresh) {
		// The deadline is set first: that of the previous call may have passed, and then quiet
		// could not read.
		if cn.secure == secure && cn.SetDeadline(deadline) == nil && cn.quiet() {
			return cn, nil
		}
		cn.Close()
	}
	ctx, cancel := context.WithDeadline(ctx, deadline)
	defer cancel()
	tcp, err := c.dial(ctx, "tcp", t.address)
	if err != nil {
		return nil, err
	}
	cn := newConn(tcp)
	if t.tls {
		cfg := secure.Clone()
		cfg.ServerName, cfg.NextProtos = t.host, []string{"http/1.1"}
		over := tls.Client(tcp, cfg)
		if err := over.HandshakeContext(ctx); err != nil {
			tcp.Close()
			return nil, &handshakeError{err}
		}
		cn.Conn, cn.secure = over, secure
	}
	return cn, cn.SetDeadline(deadline)
}
