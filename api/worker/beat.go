package worker

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"time"
)

// maxNews limits the total size of the checkpoints in one heartbeat, in bytes. Checkpoints of other
// runs wait for the next heartbeat. The server accepts bodies of up to 16 MiB.
const maxNews = 8 << 20

// beatOnce sends one heartbeat. Renewing the leases takes precedence: if the server refuses what
// the runs report, the heartbeat is sent again without it.
func (s *session) beatOnce(ctx context.Context, seq int64) error {
	told, size := map[*held]news{}, 0
	s.each(func(h *held) {
		n := h.untold()
		if size += len(n.checkpoint); size > maxNews && size > len(n.checkpoint) {
			size -= len(n.checkpoint)
			n = news{}
		}
		told[h] = n
	})
	err := s.beatWith(ctx, seq, told)
	if !refusesContent(err) || !anyNews(told) {
		return err
	}
	s.log.Error("the server refused a heartbeat; sending it again without progress and checkpoints", slog.Any("error", err))
	for h, n := range told {
		h.knows(n) // sent again, it would be refused again
		told[h] = news{}
	}
	return s.beatWith(ctx, seq, told)
}

func anyNews(told map[*held]news) bool {
	for _, n := range told {
		if n.progress != nil || n.checkpoint != nil {
			return true
		}
	}
	return false
}

// beatWith sends a heartbeat with the given news of each run.
func (s *session) beatWith(ctx context.Context, seq int64, told map[*held]news) error {
	beats := make([]map[string]any, 0, len(told))
	asked := make(map[string]*held, len(told))
	for h, n := range told {
		asked[h.RunID] = h
		beats = append(beats, h.beat(n))
	}
	sent := time.Now()
	var answer beatAnswer
	err := s.w.api.post(
		ctx,
		max(s.interval, time.Second),
		s.path("heartbeat"),
		map[string]any{"seq": seq, "running": beats},
		&answer,
	)
	if err != nil {
		return err
	}
	if answer.HeartbeatIntervalMS > 0 {
		s.interval = time.Duration(answer.HeartbeatIntervalMS) * time.Millisecond // only this goroutine uses it
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, l := range answer.Leases {
		h := asked[l.RunID]
		switch {
		case h == nil || s.held[l.RunID] != h: // the run has ended
		case !l.OK:
			h.drop(errors.Join(ErrLost, &Refusal{Status: http.StatusConflict, Code: l.Reason}))
		default:
			h.renew(sent, time.Duration(answer.LeaseMS)*time.Millisecond)
			h.knows(told[h])
			if l.Problem != nil {
				s.log.Error("the server refused the progress or checkpoint of a run", slog.String("run_id", l.RunID),
					slog.Any("problem", l.Problem))
			}
			if l.CancelRequested {
				h.cancel(ErrCanceled)
			}
		}
	}
	return nil
}

// beat sends heartbeats until ctx ends. It runs in its own goroutine, so that busy handlers do not
// delay it. A detached worker keeps sending them while it drains: an operator may undo the
// detaching, and then the heartbeats renew its leases.
func (s *session) beat(ctx context.Context) {
	seq, detached := int64(0), false
	for pause := time.Duration(0); ; pause = s.interval {
		timer := time.NewTimer(pause)
		select {
		case <-ctx.Done():
			timer.Stop()
			return
		case <-timer.C:
		}
		seq++
		if err := s.beatOnce(ctx, seq); gone(err) {
			if !detached {
				s.log.Warn("the worker was detached; it will finish its runs and register again", slog.Any("error", err))
				s.end(ErrLost)
				s.confirm(ctx)
			}
			detached = true
		} else if err != nil && ctx.Err() == nil {
			s.log.Warn("heartbeat failed", slog.Any("error", err))
		}
	}
}

// confirm tells the server that the runs of the detached worker continue, and drops those
// that the server refuses. It does not extend the other leases.
func (s *session) confirm(ctx context.Context) {
	var doubted []*held
	s.each(func(h *held) { doubted = append(doubted, h) })
	for _, h := range doubted {
		err := s.w.api.post(ctx, 5*time.Second, "/api/v1/job-runs/"+h.RunID+"/confirm-continuation", h.of(s.id, nil), nil)
		if err != nil && !unknown(err) {
			h.drop(errors.Join(ErrLost, err))
		}
	}
}
