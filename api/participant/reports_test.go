package participant_test

import (
	"bytes"
	"cmp"
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/skald-saga/skald/api/participant"
	"github.com/skald-saga/skald/sdk/conformance"
)

// reports is Skald as seen by a participant that answers with Later.
type reports struct {
	url string
	mu  sync.Mutex
	got []conformance.Report // guarded by mu
}

func (r *reports) listen(t *testing.T) {
	server := httptest.NewServer(r)
	t.Cleanup(server.Close)
	r.url = server.URL
}

func (r *reports) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	got := conformance.Report{To: strings.TrimPrefix(req.URL.Path, "/")}
	body, err := io.ReadAll(req.Body)
	if err == nil {
		err = json.Unmarshal(body, &got)
	}
	if err != nil || req.Header.Get("Content-Type") != "application/json" {
		w.WriteHeader(http.StatusUnprocessableEntity)
		return
	}
	if got.Result != "heartbeat" {
		r.mu.Lock()
		r.got = append(r.got, got)
		r.mu.Unlock()
	}
	_, _ = io.WriteString(w, `{"result":"done","repeated":false}`)
}

// compare fails unless the reports are the wanted ones; nil accepts any.
func (r *reports) compare(t *testing.T, want []conformance.Report) {
	t.Helper()
	r.mu.Lock()
	defer r.mu.Unlock()
	same := func(a, b conformance.Report) bool {
		for name, value := range b.Error {
			if !bytes.Equal(a.Error[name], value) {
				return false
			}
		}
		return a.To == b.To && a.Result == b.Result && compact(a.Output) == compact(b.Output)
	}
	fit := len(want) == len(r.got)
	for _, one := range want {
		fit = fit && slices.ContainsFunc(r.got, func(got conformance.Report) bool { return same(got, one) })
	}
	if want != nil && !fit {
		t.Errorf("reports %+v; want %+v", r.got, want)
	}
}

func compact(text json.RawMessage) string {
	var b bytes.Buffer
	_ = json.Compact(&b, text)
	return b.String()
}

// end finishes the work of a call; it is called by an HTTP request.
func (r *runner) end(c conformance.Call) reply {
	status := r.finish(encoded(r.real(c.Key())), *c.Finish, !c.Lost)
	output, _ := finished(*c.Finish)
	body, err := json.Marshal(output)
	if err != nil {
		r.t.Error(err)
	}
	return reply{status: status, body: string(body)}
}

// finished is what a worker passes to Finish.
func finished(o conformance.Outcome) (output any, failure error) {
	switch {
	case o.Outcome == "refused":
		return nil, &participant.Refusal{Status: o.Status, Code: o.Code, Message: o.Message}
	case o.Outcome == "not_applied":
		return nil, &participant.NotApplied{After: time.Duration(o.RetryAfterMS) * time.Millisecond}
	case o.Outcome == "fail":
		return nil, errors.New("as scripted")
	case o.Returns == "nothing":
		return nil, nil
	case o.Output != nil:
		return o.Output, nil
	}
	return map[string]bool{"finished": true}, nil
}

// finish is a worker that finishes the work of a call; db is nil if the store is in memory.
func (b *business) finish(
	t *testing.T, h *participant.Handler, db *sql.DB, key string, o conformance.Outcome, sent bool,
) int {
	alive := h.Heartbeat(t.Context(), key, participant.Progress{Percent: 99})
	report, err := b.finished(t.Context(), h, db, key, o)
	unwanted := errors.Is(alive, participant.ErrCompensated) || errors.Is(alive, participant.ErrNotPending)
	switch {
	case alive != nil && !unwanted, unwanted && err == nil:
		t.Errorf("a heartbeat of %s: %v", key, alive)
		return http.StatusInternalServerError
	case errors.Is(err, participant.ErrCompensated):
		return http.StatusConflict
	case errors.Is(err, participant.ErrNotPending):
		return http.StatusNotFound
	case err != nil:
		t.Errorf("the end of %s: %v", key, err)
		return http.StatusInternalServerError
	}
	if sent {
		if err := report.Send(t.Context()); err != nil {
			t.Error(err)
		}
	}
	return http.StatusOK
}

func (b *business) finished(
	ctx context.Context, h *participant.Handler, db *sql.DB, key string, o conformance.Outcome,
) (*participant.Report, error) {
	output, failure := finished(o)
	if db == nil {
		report, err := h.Finish(ctx, nil, key, output, failure)
		if err == nil && failure == nil {
			b.mu.Lock()
			defer b.mu.Unlock()
			b.inMemory[key]++
		}
		return report, err
	}
	tx, err := db.BeginTx(ctx, nil)
	if err != nil {
		return nil, err
	}
	defer func() { _ = tx.Rollback() }() // no effect after a commit
	if failure == nil {
		if _, err := tx.ExecContext(ctx, cmp.Or(b.insert, insertEffect), key); err != nil {
			return nil, err
		}
	}
	report, err := h.Finish(ctx, tx, key, output, failure)
	if err != nil {
		return nil, err
	}
	return report, tx.Commit()
}
