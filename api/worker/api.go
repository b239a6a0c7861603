package worker

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"
)

// client calls Skald's API.
type client struct {
	url        string
	credential string
	http       *http.Client
}

// Refusal is an error response from Skald.
type Refusal struct {
	Status int
	Code   string // see docs/problems.md
	Detail string
}

func (r *Refusal) Error() string { return fmt.Sprintf("%d %s: %s", r.Status, r.Code, r.Detail) }

// maxAnswer limits how many bytes of a response are read.
const maxAnswer = 64 << 20

// post makes one call. If the error is not a Refusal, or is one with status 429 or 5xx, the outcome
// of the call is unknown.
func (c *client) post(ctx context.Context, within time.Duration, path string, body, into any) error {
	doc, err := json.Marshal(body)
	if err != nil {
		return &Refusal{Code: "NOT_JSON", Detail: err.Error()}
	}
	ctx, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, c.url+path, bytes.NewReader(doc))
	if err != nil {
		return err
	}
	req.Header.Set("Content-Type", "application/json")
	if c.credential != "" {
		req.Header.Set("Authorization", "Bearer "+c.credential)
	}
	res, err := c.http.Do(req)
	if err != nil {
		return err
	}
	defer res.Body.Close()
	answer, err := io.ReadAll(io.LimitReader(res.Body, maxAnswer))
	if err != nil {
		return err
	}
	if res.StatusCode/100 != 2 {
		r := &Refusal{Status: res.StatusCode}
		var problem struct{ Code, Detail string }
		if json.Unmarshal(answer, &problem) == nil {
			r.Code, r.Detail = problem.Code, problem.Detail
		}
		return r
	}
	if into == nil {
		return nil
	}
	return json.Unmarshal(answer, into)
}

// unknown reports whether the outcome of a call is unknown, so that the same call must be repeated.
func unknown(err error) bool {
	var r *Refusal
	if !errors.As(err, &r) {
		return err != nil
	}
	return r.Status >= 500 || r.Status == http.StatusTooManyRequests || r.Status == http.StatusRequestTimeout
}

// refusesContent reports whether a call was refused because of its content, and not because of its
// caller or the run it concerns.
func refusesContent(err error) bool {
	var r *Refusal
	if !errors.As(err, &r) {
		return false
	}
	switch r.Status {
	case notSent, http.StatusBadRequest, http.StatusRequestEntityTooLarge, http.StatusUnprocessableEntity:
		return true
	}
	return false
}

// notSent stands for the status of a call whose body could not be encoded.
const notSent = 0

// gone reports whether the server no longer has the worker.
func gone(err error) bool {
	var r *Refusal
	return errors.As(err, &r) && r.Status == http.StatusGone
}

type registration struct {
	WorkerID            string `json:"worker_id"`
	HeartbeatIntervalMS int64  `json:"heartbeat_interval_ms"`
	MaxRuns             int    `json:"max_runs"`
}

// fence proves to the server that the run belongs to this worker.
type fence struct {
	RunID       string `json:"run_id"`
	Attempt     int    `json:"attempt"`
	LeaseToken  string `json:"lease_token"`
	LeaderEpoch int64  `json:"leader_epoch"`
}

// of returns the body of a call about the run: the fence and the given additional members.
func (f fence) of(worker string, more map[string]any) map[string]any {
	body := map[string]any{
		"worker_id":    worker,
		"attempt":      f.Attempt,
		"lease_token":  f.LeaseToken,
		"leader_epoch": f.LeaderEpoch,
	}
	for k, v := range more {
		body[k] = v
	}
	return body
}

type claimed struct {
	fence
	Definition     string          `json:"definition"`
	Command        string          `json:"command"`
	Args           json.RawMessage `json:"args"`
	FencingToken   string          `json:"fencing_token"`
	TimeoutMS      int64           `json:"timeout_ms"`
	ScheduledFor   time.Time       `json:"scheduled_for"`
	IdempotencyKey string          `json:"idempotency_key"`
	Checkpoint     json.RawMessage `json:"checkpoint"`
	CorrelationID  string          `json:"correlation_id"`
}

type problem struct {
	Code   string `json:"code"`
	Detail string `json:"detail"`
}

type runResults struct {
	LeaseMS int64       `json:"lease_ms"`
	Results []runResult `json:"results"`
}

type runResult struct {
	RunID           string   `json:"run_id"`
	Status          int      `json:"status"`
	CancelRequested bool     `json:"cancel_requested"`
	Problem         *problem `json:"problem"`
}

type beatAnswer struct {
	State               string `json:"state"`
	HeartbeatIntervalMS int64  `json:"heartbeat_interval_ms"`
	LeaseMS             int64  `json:"lease_ms"`
	Leases              []struct {
		RunID           string   `json:"run_id"`
		OK              bool     `json:"ok"`
		CancelRequested bool     `json:"cancel_requested"`
		Reason          string   `json:"reason"`
		Problem         *problem `json:"problem"`
	} `json:"leases"`
}
