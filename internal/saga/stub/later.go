package stub

import (
	"context"
	"io"
	"net/http"
	"strings"
	"time"

	"github.com/skald-saga/skald/internal/loop"
)

// later maps the faults of calls that are answered later to their reports.
var later = map[string]string{
	"later":           done,
	"later-refuse":    refused,
	"later-never":     "",
	"later-twice":     done,
	"later-late":      "",
	"later-heartbeat": done,
}

// Bodies of reports.
const (
	done      = `{"result":"done","output":{"ok":true}}`
	undone    = `{"result":"done"}`
	refused   = `{"result":"refused","error":{"error":"refused on request"}}`
	heartbeat = `{"result":"heartbeat","progress":{"percent":50,"message":"half of it"}}`
)

// promise is a call that was answered later.
type promise struct {
	fault, callback string
	step            string
	undo            bool
}

// report returns the body of the report that is sent after a while, or "" if there is none.
func (p promise) report() string {
	if later[p.fault] == done {
		return p.success()
	}
	return later[p.fault]
}

// success returns the report of completed work. Only an action has an output.
func (p promise) success() string {
	if p.undo {
		return undone
	}
	return done
}

// maxBody is the largest body that Skald sends.
const maxBody = 16 << 20

// How a report that was not accepted is repeated, and how long each attempt may take.
const (
	reports       = 20
	betweenThem   = 500 * time.Millisecond
	reportTimeout = 10 * time.Second
)

// send posts a report, and repeats it while there is no answer or the answer asks for a repeat.
func send(to, body string) {
	for range reports {
		if status := post(to, body); status > 0 && status < 500 && status != http.StatusTooEarly &&
			status != http.StatusTooManyRequests {
			return
		}
		loop.Sleep(context.Background(), betweenThem)
	}
}

// post returns the status of the answer, or 0 if there was none.
func post(to, body string) int {
	ctx, cancel := context.WithTimeout(context.Background(), reportTimeout)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, to, strings.NewReader(body))
	if err != nil {
		return http.StatusBadRequest
	}
	req.Header.Set("Content-Type", "application/json")
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return 0
	}
	defer func() { _ = res.Body.Close() }()
	_, _ = io.Copy(io.Discard, io.LimitReader(res.Body, maxBody))
	return res.StatusCode
}
