package worker

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"errors"
	"net/http"
	"time"
)

// olderFor is how long the worker waits before it tries an exchange again with a server that does
// not support it. The server may have been upgraded by then.
const olderFor = time.Minute

// exchanges reports whether the server is believed to support the exchange, the call with which a
// worker reports results and gets runs at the same time.
func (w *Worker) exchanges() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.older.IsZero() || time.Since(w.older) > olderFor
}

// knowsExchange reports whether the server supports the exchange, judging by its answer.
func (w *Worker) knowsExchange(err error) bool {
	var r *Refusal
	if !errors.As(err, &r) || r.Code == "JOB_WORKER_NOT_FOUND" ||
		r.Status != http.StatusNotFound && r.Status != http.StatusMethodNotAllowed {
		return true
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.older = time.Now()
	return false
}

// sees returns the newest epoch that this process has seen, including the given one.
func (w *Worker) sees(epoch int64) int64 {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.epoch = max(w.epoch, epoch)
	return w.epoch
}

// exchanged is the answer to an exchange.
type exchanged struct {
	Results  []runResult `json:"results"`
	State    string      `json:"state"`
	WaitedMS int64       `json:"waited_ms"`
	LeaseMS  int64       `json:"lease_ms"`
	Runs     []claimed   `json:"runs"`
}

// request is a worker's exchange. It is repeated unchanged.
type request struct {
	Outcomes []json.RawMessage `json:"outcomes"`
	Slots    int               `json:"slots"`
	WaitMS   int64             `json:"wait_ms"`
	ClaimID  string            `json:"claim_id"`
}

// newID returns an id for a call that may be repeated.
func newID() string {
	id := make([]byte, 16)
	_, _ = rand.Read(id)
	return hex.EncodeToString(id)
}

// exchange makes one exchange at the path of a session, and returns the time at which it was sent.
func (w *Worker) exchange(
	ctx context.Context, within time.Duration, path string, r *request,
) (a exchanged, sent time.Time, err error) {
	sent = time.Now()
	err = w.api.post(ctx, within, path, r, &a)
	return a, sent, err
}
