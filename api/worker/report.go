package worker

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"time"
)

// report is the result of a run that is being sent to the server.
type report struct {
	s    *session
	h    *held
	body json.RawMessage // an item of a batch
	done chan struct{}   // closed when the server knows it, or it was given up
}

const (
	maxBatch      = 500     // reports of one call
	maxBatchBytes = 8 << 20 // bytes of one call; a single report may be larger
)

// tellEnd reports to the server how a run ended, and returns when the server knows or
// the report was given up.
func (w *Worker) tellEnd(s *session, h *held, r *Run, result any, err, cause error) {
	call := func(what string, more map[string]any) {
		w.insist(s, h, "/api/v1/job-runs/"+h.RunID+"/"+what, h.of(s.id, more))
	}
	switch {
	case err != nil && errors.Is(cause, ErrCanceled):
		call("cancel-ack", nil)
		return
	case err != nil && (errors.Is(cause, ErrStopping) || errors.Is(cause, ErrLeaseOver)):
		call("release", map[string]any{"reason": clip(cause.Error(), 500)})
		return
	}
	body := map[string]any{
		"run_id":       h.RunID,
		"attempt":      h.Attempt,
		"lease_token":  h.LeaseToken,
		"leader_epoch": h.LeaderEpoch,
	}
	if err == nil {
		r.mu.Lock()
		if len(r.emit) > 0 {
			body["emit"] = r.emit
		}
		r.mu.Unlock()
		if result != nil {
			body["result"] = result
		}
		if _, e := json.Marshal(body); e != nil {
			err = &Failure{Code: "RESULT_NOT_JSON", Message: e.Error(), Permanent: true}
			delete(body, "result")
			delete(body, "emit")
		}
	}
	if err != nil {
		failure, exit := failureOf(err)
		body["error"] = failure
		if exit != nil {
			body["exit_code"] = *exit
		}
		if errors.Is(cause, ErrTimedOut) {
			body["timed_out"] = true
		}
	}
	doc, e := json.Marshal(body)
	if e != nil {
		s.log.Error("a result cannot be reported", slog.String("run_id", h.RunID), slog.Any("error", e))
		return
	}
	rep := &report{s, h, doc, make(chan struct{})}
	w.reports <- rep
	<-rep.done
}

// insist repeats a call until its outcome is known, the run is lost, or its lease has
// been over for Config.ReportFor.
func (w *Worker) insist(s *session, h *held, path string, body any) {
	for pause := newPause(); ; {
		err := w.api.post(context.Background(), 15*time.Second, path, body, nil)
		if err == nil || !unknown(err) {
			if err != nil {
				s.log.Debug("refused", slog.String("path", path), slog.Any("error", err))
			}
			return
		}
		s.log.Warn("reporting failed", slog.String("run_id", h.RunID), slog.Any("error", err))
		if h.isLost() || time.Since(h.leaseEnd()) > w.cfg.ReportFor {
			return
		}
		_ = pause.wait(context.Background())
	}
}

// report sends results until ctx ends: while one batch is being sent, the next one is
// collected.
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

// send sends a batch, in one call for each of its sessions, until its outcome is known
// or every run in it is lost.
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
		w.sendFor(now[0].s, now)
		batch = rest
	}
}

func (w *Worker) sendFor(s *session, batch []*report) {
	for pause := newPause(); len(batch) > 0; {
		items := make([]json.RawMessage, len(batch))
		for i, r := range batch {
			items[i] = r.body
		}
		var answer runResults
		err := w.api.post(context.Background(), 30*time.Second, s.path("complete"), map[string]any{"runs": items}, &answer)
		if err == nil && len(answer.Results) != len(batch) {
			err = fmt.Errorf("%d answers for %d results", len(answer.Results), len(batch))
		}
		switch {
		case err == nil:
			for i, r := range batch {
				if got := answer.Results[i]; got.Status != http.StatusOK {
					s.log.Warn("the result of a run was refused", slog.String("run_id", r.h.RunID), slog.Any("problem", got.Problem))
				}
				close(r.done)
			}
			return
		case !unknown(err) && len(batch) > 1: // one of them is the cause
			for i := range batch {
				w.sendFor(s, batch[i:i+1])
			}
			return
		case !unknown(err):
			w.failInstead(s, batch[0], err)
			return
		}
		s.log.Warn("reporting failed", slog.Any("error", err))
		batch = keep(batch, func(r *report) bool { return !r.h.isLost() && time.Since(r.h.leaseEnd()) < w.cfg.ReportFor })
		_ = pause.wait(context.Background())
	}
}

// failInstead reports a run as failed whose result the server refuses.
func (w *Worker) failInstead(s *session, r *report, refusal error) {
	defer close(r.done)
	s.log.Error("the server refused the result of a run; reporting a failure instead", slog.String("run_id", r.h.RunID), slog.Any("error", refusal))
	w.insist(s, r.h, "/api/v1/job-runs/"+r.h.RunID+"/fail", r.h.of(s.id, map[string]any{
		"error": map[string]any{"code": "RESULT_REFUSED", "message": clip(refusal.Error(), 8192), "retryable": false},
	}))
}

// keep returns the reports that still matter, and gives the others up.
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
