package participant

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"syscall"

	"github.com/skald-saga/skald/internal/egress"
	"github.com/skald-saga/skald/internal/retry"
	"github.com/skald-saga/skald/internal/saga"
	"github.com/skald-saga/skald/internal/saga/registry"
	"github.com/skald-saga/skald/internal/strictjson"
)

// Codes of outcomes. Further codes are "http_" followed by the status of an answer that is not a
// success, and "answer_" followed by the word of the rule that rejects an answer with a successful
// status (answer_refused, answer_not_applied, answer_unknown). A success has no code.
const (
	// Codes of calls of which nothing was sent.
	CodeInvalidRequest = "invalid_request" // no request can be built from the definition; not retried
	CodeEgressDenied   = "egress_denied"   // denied by the egress policy; not retried
	CodeDNSFailed      = "dns_failed"
	CodeDialFailed     = "dial_failed"
	CodeDialTimeout    = "dial_timeout"
	CodeTLSFailed      = "tls_failed"
	CodeNotSent        = "not_sent" // the connection broke before the first byte was sent
	// CodeSecretUnavailable: a secret of the request has no value on this node, or must not be sent
	// to its address.
	CodeSecretUnavailable = registry.CodeSecretUnavailable
	// CodeNoCallback: an answer may be deferred, and this node has no URL to which it can be
	// reported.
	CodeNoCallback = "callback_unavailable"

	// It is unknown whether the participant acted.
	CodeTimeout          = "timeout"
	CodeConnectionLost   = "connection_lost"    // reset or closed before the answer was complete
	CodeInvalidResponse  = "invalid_response"   // not HTTP, or a success whose body cannot be stored as JSON
	CodeResponseTooLarge = "response_too_large" // a success larger than Config.MaxResponseBytes

	// CodeAborted is the code of a call that its own context ended. The outcome is Unknown if
	// something had been sent, otherwise NotApplied.
	CodeAborted = "aborted"
)

func failure(v saga.Verdict, class retry.Class, code, message string) saga.Outcome {
	return saga.Outcome{Verdict: v, Class: class, Code: code, Message: cleaned(message)}
}

// neverSendable returns the outcome of a call that was not made and that no retry can ever make.
func neverSendable(code string, why error) saga.Outcome {
	return failure(saga.NotApplied, retry.Refused, code, "the call cannot be made: "+why.Error())
}

// notConnected returns the outcome if no connection could be established. Messages do not contain
// addresses, because clients see them.
func notConnected(ctx context.Context, err error) saga.Outcome {
	var denied *egress.Denied
	var dns *net.DNSError
	var tlsErr *handshakeError
	switch {
	case errors.As(err, &denied):
		return neverSendable(CodeEgressDenied, errors.New("the egress policy does not allow the participant's address"))
	case ctx.Err() != nil:
		return aborted(saga.NotApplied)
	case timedOut(err):
		return failure(saga.NotApplied, retry.Timeout, CodeDialTimeout, "no connection to the participant in time")
	case errors.As(err, &dns):
		return failure(saga.NotApplied, retry.Network, CodeDNSFailed, "the participant's host name could not be resolved")
	case errors.As(err, &tlsErr):
		return failure(saga.NotApplied, retry.Network, CodeTLSFailed, "no TLS connection to the participant"+handshake(err))
	}
	return failure(saga.NotApplied, retry.Network, CodeDialFailed, "no connection to the participant"+reason(err))
}

// nothingSent returns the outcome if a connection broke before it accepted a byte.
func nothingSent(ctx context.Context, err error) saga.Outcome {
	switch {
	case ctx.Err() != nil:
		return aborted(saga.NotApplied)
	case timedOut(err):
		return failure(saga.NotApplied, retry.Timeout, CodeNotSent, "the request could not be sent in time")
	}
	return failure(
		saga.NotApplied,
		retry.Network,
		CodeNotSent,
		"the connection broke before the request was sent"+reason(err),
	)
}

// noAnswer returns the outcome if all or part of the request was sent and no complete answer was
// received. The participant may have acted.
func noAnswer(ctx context.Context, err error) saga.Outcome {
	var network net.Error
	switch {
	case ctx.Err() != nil:
		return aborted(saga.Unknown)
	case timedOut(err):
		return failure(saga.Unknown, retry.Timeout, CodeTimeout, "no response in time")
	case errors.Is(err, errNotGzip):
		return failure(saga.Unknown, retry.BadResponse, CodeInvalidResponse, "the response cannot be used: "+err.Error())
	case errors.Is(err, errHeadTooLarge):
		return failure(saga.Unknown, retry.BadResponse, CodeResponseTooLarge, err.Error())
	case errors.As(err, &network), errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		return failure(
			saga.Unknown,
			retry.Network,
			CodeConnectionLost,
			"the connection broke before the complete response arrived"+reason(err),
		)
	}
	return failure(saga.Unknown, retry.BadResponse, CodeInvalidResponse, "the response is not valid HTTP")
}

func aborted(v saga.Verdict) saga.Outcome {
	return failure(v, retry.Network, CodeAborted, "this node abandoned the call")
}

func timedOut(err error) bool {
	var network net.Error
	return errors.Is(err, context.DeadlineExceeded) || errors.As(err, &network) && network.Timeout()
}

// reason returns the operating system's text for err, such as ": connection refused", or "".
func reason(err error) string {
	var errno syscall.Errno
	if errors.As(err, &errno) {
		return ": " + errno.Error()
	}
	return ""
}

// handshake returns what was wrong with a certificate, such as ": its certificate is for another
// name", or "".
func handshake(err error) string {
	if why := egress.Rejected(err); why != "" {
		return ": " + why
	}
	if egress.RefusedUs(err) {
		return ": it rejected Skald's client certificate, or requires one and got none"
	}
	return ""
}

// answered returns the outcome of an answer (requirements/invariants.md 3.7). The body of a success
// must be complete, because it becomes the step's output. The body of any other answer only
// explains the status, which alone decides.
func (c *Client) answered(a answer) saga.Outcome {
	code := "http_" + strconv.Itoa(a.status)
	switch s := a.status; {
	case a.tooLarge && a.success():
		return failure(saga.Unknown, retry.BadResponse, CodeResponseTooLarge,
			fmt.Sprintf("the response (status %d) is larger than %d bytes", s, c.cfg.MaxResponseBytes))
	case a.success():
		return c.done(a)
	case s == http.StatusTooEarly, s == http.StatusTooManyRequests:
		return c.unsuccessful(saga.NotApplied, retry.Unavailable, code, a)
	case s == http.StatusRequestTimeout,
		s == http.StatusBadGateway,
		s == http.StatusServiceUnavailable,
		s == http.StatusGatewayTimeout:
		return c.unsuccessful(saga.Unknown, retry.Unavailable, code, a)
	case s >= 400 && s < 500:
		return c.unsuccessful(saga.Refused, retry.Refused, code, a)
	case s >= 500 && s < 600:
		return c.unsuccessful(saga.Unknown, retry.ServerError, code, a)
	}
	return failure(
		saga.Unknown,
		retry.BadResponse,
		code,
		"the participant answered "+statusLine(a.status)+", which is neither a success nor a failure",
	)
}

// done returns the outcome of a 2xx answer: its body becomes the step's output, unless it cannot be
// stored.
func (c *Client) done(a answer) saga.Outcome {
	output, err := c.canonical(a.body)
	if err != nil {
		var bad *strictjson.Error
		if errors.As(err, &bad) && bad.Code == strictjson.CodeEmpty {
			return saga.Outcome{Verdict: saga.Done}
		}
		return failure(saga.Unknown, retry.BadResponse, CodeInvalidResponse, "the response cannot be used: "+err.Error())
	}
	if int64(len(output)) > c.cfg.MaxResponseBytes { // 1e399 has five bytes but stands for 400 digits
		return failure(saga.Unknown, retry.BadResponse, CodeResponseTooLarge,
			fmt.Sprintf("the JSON of the response is larger than %d bytes", c.cfg.MaxResponseBytes))
	}
	return saga.Outcome{Verdict: saga.Done, Output: output}
}

func (c *Client) unsuccessful(v saga.Verdict, class retry.Class, code string, a answer) saga.Outcome {
	o := saga.Outcome{Verdict: v, Class: class, Code: code}
	if retry.AsksToWait(a.status) {
		o.RetryAfter = retry.After(a.retryAfter, c.cfg.Now())
	}
	body, err := c.canonical(a.body)
	if !a.whole() || err == nil && int64(len(body)) > c.cfg.MaxResponseBytes {
		body, err = c.canonical(cut(a.body))
		if err != nil {
			body, err = []byte(nothingButCut), nil
		}
	}
	if err == nil && v == saga.Refused {
		o.Response = body
	}
	if strictjson.Mendable(err) { // the participant's description of the failure is text and is cleaned
		body, err = strictjson.Mended(nil, withoutMark(a.body), strictjson.Limits{MaxDepth: c.cfg.MaxJSONDepth},
			func([]string) bool { return true })
	}
	if err == nil {
		o.Message = messageIn(body)
		o.StackTrace, o.Cause = whyIn(body)
	}
	if o.Message == "" {
		o.Message = "the participant answered " + statusLine(a.status)
	}
	return o
}

func (c *Client) canonical(body []byte) ([]byte, error) {
	if body = withoutMark(body); len(body) == 0 { // avoids a parser error for the common empty answer
		return nil, &strictjson.Error{Code: strictjson.CodeEmpty}
	}
	return strictjson.Canonical(nil, body, strictjson.Limits{MaxDepth: c.cfg.MaxJSONDepth})
}

// withoutMark removes the byte order mark that some participants put before UTF-8.
func withoutMark(body []byte) []byte { return bytes.TrimPrefix(body, []byte("\ufeff")) }

func statusLine(status int) string {
	if text := http.StatusText(status); text != "" {
		return strconv.Itoa(status) + " " + text
	}
	return strconv.Itoa(status)
}

// handshakeError is a TLS handshake that failed; no request was sent.
type handshakeError struct{ error }

func (e *handshakeError) Unwrap() error { return e.error }
