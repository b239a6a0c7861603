package participant

import (
	"encoding/json"
	"fmt"
	"net/http"
	"time"

	"github.com/skald-saga/skald/internal/retry"
	"github.com/skald-saga/skald/internal/saga"
	"github.com/skald-saga/skald/internal/saga/callback/reported"
	"github.com/skald-saga/skald/internal/saga/simulate"
)

// Written is the transport of simulations. It builds requests as Call would send them, and reads
// answers as Call would read them, but sends nothing. Signatures are left out, because their keys
// are secret.
func (c *Client) Written() simulate.Transport {
	return simulate.Transport{Request: c.written, Outcome: c.read, Report: c.told}
}

// told returns the outcome of a simulated report.
func (c *Client) told(call saga.Call, result reported.Result, content json.RawMessage) (saga.Outcome, error) {
	return c.outcomeOf(&call, result, answer{status: http.StatusOK, header: http.Header{}, body: content})
}

// unknownBase replaces the base URL of an unknown participant in simulations. No host has such a
// name.
const unknownBase = "http://participant.invalid"

// unknownCallback replaces the callback URL of an attempt in simulations.
const unknownCallback = "https://skald.invalid/api/v1/step-callbacks/TOKEN"

func (c *Client) written(call saga.Call, at time.Time) (simulate.Request, error) {
	if call.By.HTTP == nil {
		return simulate.Request{}, errTransport
	}
	to := call.By.HTTP.URL
	if to == "" { // it names a participant whose address is unknown
		to = unknownBase + call.By.HTTP.Path
	}
	t, err := parseTarget(to)
	if err != nil {
		return simulate.Request{}, fmt.Errorf("%s: %w", call.Step, err)
	}
	if call.Rules.Later() {
		call.Callback = unknownCallback
	}
	head, err := c.appendHead(nil, t, &call, at.Add(call.Timeout))
	if err != nil {
		return simulate.Request{}, fmt.Errorf("%s: %w", call.Step, err)
	}
	method := call.By.HTTP.Method
	if method == "" {
		method = http.MethodPost
	}
	return simulate.Request{Method: method, URL: call.By.HTTP.Address(), Head: string(head), Body: call.Body}, nil
}

// read returns the outcome of a simulated answer.
func (c *Client) read(call saga.Call, a simulate.Answer) saga.Outcome {
	switch a.Fault {
	case "timeout":
		return failure(saga.Unknown, retry.Timeout, CodeTimeout, "no response in time")
	case "connection_lost":
		return failure(saga.Unknown, retry.Network, CodeConnectionLost, "the connection broke before the complete response arrived")
	case "invalid_response":
		return failure(saga.Unknown, retry.BadResponse, CodeInvalidResponse, "the response is not valid HTTP")
	case "dial_failed":
		return failure(saga.NotApplied, retry.Network, CodeDialFailed, "no connection to the participant")
	}
	header := http.Header{}
	for name, value := range a.Headers {
		header.Set(name, value)
	}
	said := answer{status: a.Status, header: header, retryAfter: header.Get("Retry-After"), body: a.Body}
	if call.Rules != nil {
		return c.judged(call.Rules, said)
	}
	return c.answered(said)
}
