package participant

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"
)

// Report tells Skald how a deferred call has ended.
type Report struct {
	h              *Handler
	key, url, body string
}

// outcome is how the work ended: the word that the report uses, and the answer to later repeats. If
// it has no status, repeats call the function.
type outcome struct {
	result string
	final  kept
	why    string // JSON, for an outcome without an answer
}

// report builds the report of an outcome.
func (h *Handler) report(key string, p *pending, o outcome) (*Report, error) {
	members := map[string]any{"result": o.result}
	switch {
	case o.result != "done":
		members["error"] = json.RawMessage(or(o.why, o.final.Body))
	case p.Action == Execute && o.final.Body != "":
		members["output"] = json.RawMessage(o.final.Body)
	}
	body, err := encode(members)
	return &Report{h: h, key: key, url: p.Callback, body: body}, err
}

const (
	reportAttempts = 20 // over about eight minutes
	firstPause     = 500 * time.Millisecond
	longestPause   = 30 * time.Second
	longestAsked   = 5 * time.Minute // longest Retry-After that is honored
	reportTimeout  = 15 * time.Second
	longestAnswer  = 64 << 10 // how much of an answer to a report is read
)

// Send posts the report to the newest callback, and retries while another attempt can succeed. Call
// it after the commit. It returns nil when Skald has the report, and also when the report came too
// late to matter. An error loses nothing: Skald repeats the call when it has waited long enough,
// and gets the answer then.
func (r *Report) Send(ctx context.Context) (err error) {
	for n := range reportAttempts {
		var asked time.Duration
		var over bool
		if asked, over, err = r.h.post(ctx, r.url, r.body); over {
			break
		}
		if n+1 == reportAttempts || !sleep(ctx, pause(n, asked)) {
			break
		}
	}
	if err != nil {
		r.h.cfg.Log.Warn("a report was not delivered", slog.String("key", r.key), slog.Any("error", err))
		return fmt.Errorf("participant: the report of %s was not delivered: %w", r.key, err)
	}
	return nil
}

// pause is the delay before the attempt that follows attempt n, which counts from 0. A Retry-After
// (asked) takes precedence; -1 means that there was none.
func pause(n int, asked time.Duration) time.Duration {
	if asked >= 0 {
		return min(asked, longestAsked)
	}
	own := min(firstPause<<min(n, 10), longestPause)
	return own - rand.N(own/2) //nolint:gosec // the random number only spreads load
}

func sleep(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// errTooLate is the answer to a report that no longer changes anything.
var errTooLate = errors.New("participant: Skald no longer waits for this call")

// post sends one report. over means that another attempt would be useless. asked is the
// Retry-After, or -1 without one.
func (h *Handler) post(ctx context.Context, to, body string) (asked time.Duration, over bool, err error) {
	err = h.posted(ctx, to, body, &asked)
	var status answered
	switch {
	case err == nil, errors.Is(err, errTooLate):
		return asked, true, nil
	case errors.As(err, &status):
		code := int(status)
		again := code >= 500 || code == http.StatusRequestTimeout || code == http.StatusTooEarly ||
			code == http.StatusTooManyRequests
		return asked, !again, err
	}
	return asked, ctx.Err() != nil, err
}

// answered is the error for an answer that is not 2xx.
type answered int

func (a answered) Error() string { return "answered with " + strconv.Itoa(int(a)) }

func (h *Handler) posted(ctx context.Context, to, body string, asked *time.Duration) error {
	*asked = -1
	ctx, cancel := context.WithTimeout(ctx, reportTimeout)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, to, strings.NewReader(body))
	if err != nil {
		return err
	}
	req.Header.Set("Content-Type", "application/json")
	res, err := h.client.Do(req)
	if of := (*url.Error)(nil); errors.As(err, &of) {
		return of.Err // without the URL, whose token must not appear in logs
	} else if err != nil {
		return err
	}
	defer func() { _ = res.Body.Close() }()
	_, _ = io.CopyN(io.Discard, res.Body, longestAnswer) // so that the connection can be used again
	*asked = retryAfter(res.Header.Get("Retry-After"), h.cfg.Now())
	switch {
	case res.StatusCode < 300:
		return nil
	case res.StatusCode == http.StatusConflict:
		return errTooLate
	}
	return answered(res.StatusCode)
}

func retryAfter(value string, now time.Time) time.Duration {
	if seconds, err := strconv.Atoi(value); err == nil && seconds >= 0 {
		return time.Duration(min(seconds, int(longestAsked.Seconds()))) * time.Second
	}
	if at, err := http.ParseTime(value); err == nil {
		return max(at.Sub(now), 0)
	}
	return -1
}

// Progress is how far the work has progressed.
type Progress struct {
	Percent int    // up to 100; 0 leaves it unchanged
	Message string // for operators; Skald keeps the first 1,000 characters; "" leaves it unchanged
}

// Heartbeat tells Skald that the work of a deferred call is still in progress, which restarts the
// wait. It is sent once: after an error, the next heartbeat may succeed. ErrCompensated and
// ErrNotPending mean that the work is no longer wanted.
func (h *Handler) Heartbeat(ctx context.Context, key string, p Progress) error {
	id, err := h.cfg.Store.named(ctx, nil, key)
	if err != nil {
		return err
	}
	s, err := h.cfg.Store.look(ctx, id)
	if err != nil {
		return err
	}
	known, err := s.pending(key)
	if err != nil {
		return err
	}
	members := map[string]any{"result": "heartbeat"}
	progress := map[string]any{} // members that are left out stay unchanged
	if p.Percent > 0 {
		progress["percent"] = min(p.Percent, 100)
	}
	if p.Message != "" {
		progress["message"] = p.Message
	}
	if len(progress) > 0 {
		members["progress"] = progress
	}
	body, err := encode(members)
	if err != nil {
		return err
	}
	var asked time.Duration
	return h.posted(ctx, known.Later.Callback, body, &asked)
}
