package worker

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"time"

	"github.com/skald-saga/skald/internal/strictjson/plaintext"
)

// report is the result of a run on its way to the server.
type report struct {
	s       *session
	h       *held
	body    json.RawMessage // an item of a batch
	instead map[string]any  // what is reported instead if the server refuses body
	done    chan struct{}   // closed when the server has it, or it was abandoned
	passed  bool            // the run has lost its slot; valid once done is closed
}

const (
	maxBatch      = 500     // maximum number of reports per call
	maxBatchBytes = 8 << 20 // maximum size of a call in bytes; a single report may be larger
)

// tellEnd reports to the server how a run ended, and returns when the server has the report or it
// was abandoned. passed means that the run no longer owns its slot.
func (w *Worker) tellEnd(s *session, h *held, r *Run, result any, err, cause error) (passed bool) {
	call := func(what string, more map[string]any) error {
		return w.insist(s, h, "/api/v1/job-runs/"+h.RunID+"/"+what, h.of(s.id, more))
	}
	switch {
	case err != nil && errors.Is(cause, ErrCanceled):
		_ = call("cancel-ack", nil)
		return false
	case err != nil && (errors.Is(cause, ErrStopping) || errors.Is(cause, ErrLeaseOver)):
		more := map[string]any{"reason": plaintext.Text(cause.Error(), plaintext.Characters(maxReason))}
		if errors.Is(cause, ErrLeaseOver) {
			more["lease_lost"] = true
		}
		if refusesContent(call("release", more)) { // the server does not support lease_lost
			_ = call("release", nil)
		}
		return false
	}
	body := map[string]any{
		"run_id":       h.RunID,
		"attempt":      h.Attempt,
		"lease_token":  h.LeaseToken,
		"leader_epoch": h.LeaderEpoch,
	}
	var doc json.RawMessage
	if err == nil {
		if doc, err = r.outcome(result); err != nil {
			err = &Failure{Code: "RESULT_NOT_JSON", Message: err.Error(), Permanent: true}
		}
	}
	instead := map[string]any{}
	if err == nil {
		r.mu.Lock()
		if len(r.emit) > 0 {
			body["emit"] = r.emit
		}
		r.mu.Unlock()
		if doc != nil {
			body["result"] = doc
		}
		instead["error"] = map[string]any{"code": "RESULT_REFUSED", "message": refusedResult, "retryable": false}
	} else {
		timedOut, code := errors.Is(cause, ErrTimedOut), "ERROR"
		if timedOut {
			code = "TIMED_OUT"
		}
		failure, exit := failureOf(err, code)
		body["error"] = failure
		instead["error"] = map[string]any{"code": failure["code"], "message": refusedError, "retryable": failure["retryable"]}
		if exit != nil {
			body["exit_code"], instead["exit_code"] = *exit, *exit
		}
		if timedOut {
			body["timed_out"], instead["timed_out"] = true, true
		}
	}
	item, e := json.Marshal(body)
	if e != nil {
		s.log.Error("a result cannot be reported", slog.String("run_id", h.RunID), slog.Any("error", e))
		return false
	}
	rep := &report{s: s, h: h, body: item, instead: instead, done: make(chan struct{})}
	w.reports <- rep
	<-rep.done
	return rep.passed
}

// outcome returns the result of a handler that succeeded, or nil if it has none. The error says why
// the result or the run's emissions cannot be stored.
func (r *Run) outcome(result any) (json.RawMessage, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.unsaid != nil || result == nil {
		return nil, r.unsaid
	}
	return documentOf(result, maxResult)
}

// insist repeats a call until its outcome is known, the run is lost, or the run's lease ended more
// than Config.ReportFor ago.
func (w *Worker) insist(s *session, h *held, path string, body any) error {
	for pause := newPause(); ; {
		err := w.api.post(context.Background(), 15*time.Second, path, body, nil)
		if err == nil || !unknown(err) {
			if err != nil {
				s.log.Debug("refused", slog.String("path", path), slog.Any("error", err))
			}
			return err
		}
		s.log.Warn("reporting failed", slog.String("run_id", h.RunID), slog.Any("error", err))
		if h.isLost() || time.Since(h.leaseEnd()) > w.cfg.ReportFor {
			return err
		}
		_ = pause.wait(context.Background())
	}
}

// report sends results until ctx ends. While one batch is being sent, it collects the next one.
func (w *Worker) report(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case first := <-w.reports:
			batch, size := []*report{first}, len(first.body)
		gather:
			for len(batch) < maxBatch && size < maxBatchBytes {
				select {
				case next := <-w.reports:
					batch, size = append(batch, next), size+len(next.body)
				default:
					break gather
				}
			}
			w.send(batch)
		}
	}
}

// send sends a batch, in one call per session, until its outcome is known or all its runs are lost.
func (w *Worker) send(batch []*report) {
	for len(batch) > 0 {
		var now, rest []*report
		for _, r := range batch {
			if r.s == batch[0].s {
				now = append(now, r)
			} else {
				rest = append(rest, r)
			}
		}
		of := now[0].s
		if of.claiming.Err() == nil && w.exchanges() {
			now = w.pass(of, now)
		}
		w.sendFor(of, now)
		batch = rest
	}
}

// pass reports a batch of results and begins new runs in the slots of the finished ones, which
// belong to this call until it returns. It returns the results that must be reported without an
// exchange.
func (w *Worker) pass(s *session, batch []*report) (left []*report) {
	slots, begun := len(batch), 0
	defer func() { s.give(slots - begun) }()
	for _, r := range batch {
		r.passed = true
	}
	r := request{Slots: slots, ClaimID: newID()}
	for pause := newPause(); len(batch) > 0; {
		r.Outcomes = bodies(batch)
		a, sent, err := w.exchange(context.Background(), 30*time.Second, s.path("exchange"), &r)
		if err == nil && len(a.Results) != len(batch) {
			err = errWrongNumber(len(a.Results), len(batch))
		}
		switch {
		case err == nil:
			if a.State == "DETACHED" {
				s.end(ErrLost)
			}
			// Before the results are settled: that ends the last runs, for which a drain waits.
			if s.claiming.Err() == nil {
				begun = s.accept(&a, sent, slots)
			} else {
				s.releaseAll(a.Runs)
			}
			for i, r := range batch {
				w.settle(s, r, a.Results[i].Status, a.Results[i].Problem)
			}
			return nil
		case !unknown(err):
			w.knowsExchange(err)
			return batch
		}
		s.log.Warn("reporting failed", slog.Any("error", err))
		batch = w.still(batch)
		_ = pause.wait(context.Background())
	}
	return nil
}

// bodies returns the items of a batch.
func bodies(batch []*report) []json.RawMessage {
	items := make([]json.RawMessage, len(batch))
	for i, r := range batch {
		items[i] = r.body
	}
	return items
}

func errWrongNumber(answers, results int) error {
	return fmt.Errorf("%d answers for %d results", answers, results)
}

// still returns the reports that the server may still accept, and abandons the others.
func (w *Worker) still(batch []*report) []*report {
	return keep(batch, func(r *report) bool { return !r.h.isLost() && time.Since(r.h.leaseEnd()) < w.cfg.ReportFor })
}

func (w *Worker) sendFor(s *session, batch []*report) {
	for pause := newPause(); len(batch) > 0; {
		var answer runResults
		body := map[string]any{"runs": bodies(batch)}
		err := w.api.post(context.Background(), 30*time.Second, s.path("complete"), body, &answer)
		if err == nil && len(answer.Results) != len(batch) {
			err = errWrongNumber(len(answer.Results), len(batch))
		}
		switch {
		case err == nil:
			for i, r := range batch {
				w.settle(s, r, answer.Results[i].Status, answer.Results[i].Problem)
			}
			return
		case !unknown(err) && len(batch) > 1: // one of the reports is the cause
			for i := range batch {
				w.sendFor(s, batch[i:i+1])
			}
			return
		case !unknown(err):
			var refusal *Refusal
			errors.As(err, &refusal)
			w.settle(s, batch[0], refusal.Status, &problem{refusal.Code, refusal.Detail})
			return
		}
		s.log.Warn("reporting failed", slog.Any("error", err))
		batch = w.still(batch)
		_ = pause.wait(context.Background())
	}
}

// settle completes a report that was answered. If the report was refused because of its content, a
// failure that says less is sent instead: the run must end, and the text of a failure must not cost
// the run its retries. A run that is lost or has ended in another way is left alone.
func (w *Worker) settle(s *session, r *report, status int, p *problem) {
	defer close(r.done)
	switch {
	case status == http.StatusOK:
		return
	case p != nil && notOurs[p.Code]:
		s.log.Warn("the result of a run was refused", slog.String("run_id", r.h.RunID), slog.Any("problem", p))
		return
	}
	s.log.Error("the server refused the result of a run; reporting a failure instead",
		slog.String("run_id", r.h.RunID), slog.Int("status", status), slog.Any("problem", p))
	if why := r.instead["error"].(map[string]any); p != nil {
		said := fmt.Sprintf("%s: %d %s: %s", why["message"], status, p.Code, p.Detail)
		why["message"] = plaintext.Text(said, plaintext.Bytes(maxMessage))
	}
	_ = w.insist(s, r.h, "/api/v1/job-runs/"+r.h.RunID+"/fail", r.h.of(s.id, r.instead))
}

// notOurs contains the codes of the errors for a run that no longer belongs to this worker.
var notOurs = map[string]bool{
	"JOB_FENCE_LOST": true, "JOB_STALE_EPOCH": true, "JOB_CANCEL_WINS": true, "JOB_WORKER_GONE": true,
	"JOB_RUN_NOT_FOUND": true, "JOB_RESULT_CONFLICT": true,
}

const (
	refusedResult = "the server refused the result"
	refusedError  = "the server refused the text of the error"
)

// keep returns the reports that still matter, and abandons the others.
func keep(batch []*report, matters func(*report) bool) (out []*report) {
	for _, r := range batch {
		if matters(r) {
			out = append(out, r)
		} else {
			close(r.done)
		}
	}
	return out
}
