package participant

import (
	"encoding/hex"
	"errors"
	"strconv"
	"strings"
	"time"

	"golang.org/x/net/http/httpguts"

	"github.com/skald-saga/skald/api/webhooks"
	"github.com/skald-saga/skald/internal/saga"
)

const deadlineFormat = "2006-01-02T15:04:05.000Z07:00" // RFC 3339

var (
	errMethod = errors.New("the method is not POST, PUT, PATCH or DELETE")
	errHeader = errors.New("a header of the definition is not valid")
)

// appendHead appends the request line and the headers of call (DESIGN.md section 2), including the
// empty line before the body. Names that are not ASCII are percent-encoded in headers; the body
// contains them unchanged.
func (c *Client) appendHead(b []byte, t *target, call *saga.Call, deadline time.Time) ([]byte, error) {
	switch call.By.HTTP.Method {
	case "POST", "PUT", "PATCH", "DELETE":
		b = append(b, call.By.HTTP.Method...)
	case "":
		b = append(b, "POST"...)
	default:
		return b, errMethod
	}
	b = append(b, t.line...)
	accept, agent, state, baggage := false, false, false, false // whether the definition has its own
	for name, value := range call.By.HTTP.Headers {
		if !httpguts.ValidHeaderFieldName(name) || !httpguts.ValidHeaderFieldValue(value) {
			return b, errHeader
		}
		accept = accept || strings.EqualFold(name, "Accept")
		agent = agent || strings.EqualFold(name, "User-Agent")
		state = state || strings.EqualFold(name, "Tracestate")
		baggage = baggage || strings.EqualFold(name, "Baggage")
		b = append(b, name...)
		b = append(b, ": "...)
		b = append(b, value...)
		b = append(b, "\r\n"...)
	}
	if !accept {
		b = append(b, "Accept: application/json\r\n"...)
	}
	if !agent {
		b = append(b, c.agent...)
	}
	if call.ContentType == "" {
		b = append(b, "Content-Type: application/json\r\nContent-Length: "...)
	} else {
		b = append(append(b, "Content-Type: "...), call.ContentType...)
		b = append(b, "\r\nContent-Length: "...)
	}
	b = strconv.AppendInt(b, int64(len(call.Body)), 10)
	b = append(b, "\r\nIdempotency-Key: "...)
	id := len(b)
	b = appendEncoded(b, call.Key)
	if c.cfg.SigningKeys != nil {
		b = appendSignatures(b, c.cfg.SigningKeys(), string(b[id:]), deadline.Add(-call.Timeout), call.Body)
	}
	b = append(b, "\r\nX-Saga-Id: "...)
	b = append(b, call.SagaID.String()...)
	b = append(b, "\r\nX-Saga-Tenant: "...)
	b = append(b, call.Tenant.String()...)
	b = append(b, "\r\nX-Saga-Step: "...)
	b = appendEncoded(b, call.Step)
	if call.Action == saga.Compensate {
		b = append(b, "\r\nX-Saga-Action: compensate\r\nX-Saga-Attempt: "...)
	} else {
		b = append(b, "\r\nX-Saga-Action: execute\r\nX-Saga-Attempt: "...)
	}
	b = strconv.AppendInt(b, int64(call.Attempt), 10)
	b = append(b, "\r\nX-Saga-Fence: "...)
	b = strconv.AppendInt(b, call.Fence, 10)
	b = append(b, "\r\nX-Saga-Deadline: "...)
	b = deadline.AppendFormat(b, deadlineFormat)
	if call.Callback != "" {
		b = append(append(b, "\r\nX-Saga-Callback: "...), call.Callback...)
	}
	span := c.cfg.NewSpanID()
	b = append(b, "\r\ntraceparent: 00-"...)
	if validTraceID(call.Trace) {
		b = append(b, call.Trace...)
	} else { // derived from the saga's id: the same in every attempt of every step, and easy to find
		b = hex.AppendEncode(b, call.SagaID[:])
	}
	b = append(b, '-')
	b = hex.AppendEncode(b, span[:])
	b = append(b, "-01"...)
	if call.TraceState != "" && !state {
		b = append(append(b, "\r\ntracestate: "...), call.TraceState...)
	}
	if call.Baggage != "" && !baggage {
		b = append(append(b, "\r\nbaggage: "...), call.Baggage...)
	}
	return append(b, "\r\n\r\n"...), nil
}

// appendSignatures appends the time of this attempt and its signatures in the format of webhooks,
// both under Skald's names and under those of Standard Webhooks, whose libraries verify them
// unchanged. id is the Idempotency-Key as sent, so it is the same in every attempt.
func appendSignatures(b []byte, keys [][]byte, id string, at time.Time, body []byte) []byte {
	b = append(b, "\r\nX-Saga-Timestamp: "...)
	b = strconv.AppendInt(b, at.Unix(), 10)
	if len(keys) == 0 {
		return b
	}
	b = append(b, "\r\nX-Saga-Signature: "...)
	from := len(b)
	for i, key := range keys {
		if i > 0 {
			b = append(b, ' ')
		}
		b = append(b, webhooks.Sign(key, id, at, body)...)
	}
	to := len(b)
	b = append(b, "\r\nwebhook-id: "...)
	b = append(b, id...)
	b = append(b, "\r\nwebhook-timestamp: "...)
	b = strconv.AppendInt(b, at.Unix(), 10)
	b = append(b, "\r\nwebhook-signature: "...)
	return append(b, b[from:to]...)
}

// validTraceID follows W3C Trace Context: 32 lower-case hex digits, not all zero.
func validTraceID(s string) bool {
	zero := true
	for i := range len(s) {
		switch c := s[i]; {
		case c == '0':
		case c >= '1' && c <= '9', c >= 'a' && c <= 'f':
			zero = false
		default:
			return false
		}
	}
	return len(s) == 32 && !zero
}
