package measure

import (
	"context"
	"fmt"
	"net/http"
	"sync"
	"time"

	"github.com/google/uuid"
)

// claimedRun contains the part of a claimed run that a worker needs: its fence.
type claimedRun struct {
	RunID       string `json:"run_id"`
	Attempt     int    `json:"attempt"`
	LeaseToken  string `json:"lease_token"`
	LeaderEpoch int64  `json:"leader_epoch"`
}

// runEnd reports in a batch that a run has succeeded.
type runEnd struct {
	claimedRun
	Result map[string]any `json:"result"`
}

// oneCall is a call about one run.
type oneCall struct {
	WorkerID    string         `json:"worker_id"`
	Attempt     int            `json:"attempt"`
	LeaseToken  string         `json:"lease_token"`
	LeaderEpoch int64          `json:"leader_epoch"`
	Result      map[string]any `json:"result,omitempty"`
}

var result = map[string]any{"rows": 17, "ok": true}

// register registers a worker and returns its id.
func (r *jobsRun) register(ctx context.Context) (string, error) {
	var w struct {
		ID string `json:"worker_id"`
	}
	err := r.call(ctx, http.MethodPost, "/api/v1/workers", map[string]any{"name": "bench", "max_runs": 1000}, &w)
	return w.ID, err
}

// keepAlive sends heartbeats of a worker until ctx ends.
func (r *jobsRun) keepAlive(ctx context.Context, worker string) {
	for seq := 1; ctx.Err() == nil; seq++ {
		_ = r.call(
			ctx,
			http.MethodPost,
			"/api/v1/workers/"+worker+"/heartbeat",
			map[string]any{"seq": seq, "running": []any{}},
			nil,
		) // the next one repeats it
		pause(ctx, beatEvery)
	}
}

func (r *jobsRun) claim(ctx context.Context, worker string, slots int, wait time.Duration) ([]claimedRun, error) {
	var got struct {
		Runs []claimedRun `json:"runs"`
	}
	err := r.call(
		ctx,
		http.MethodPost,
		"/api/v1/workers/"+worker+"/claim",
		map[string]any{"slots": slots, "wait_ms": wait.Milliseconds()},
		&got,
	)
	return got.Runs, err
}

// all makes a call about many runs, and returns an error unless each succeeded.
func (r *jobsRun) all(ctx context.Context, worker, verb string, runs any, n int) error {
	var got struct {
		Results []struct {
			Status int `json:"status"`
		} `json:"results"`
	}
	if err := r.call(ctx, http.MethodPost, "/api/v1/workers/"+worker+"/"+verb, map[string]any{"runs": runs},
		&got); err != nil {
		return err
	}
	for _, one := range got.Results {
		if one.Status != http.StatusOK {
			return fmt.Errorf("%s: the response for one of %d runs has status %d", verb, n, one.Status)
		}
	}
	if len(got.Results) != n {
		return fmt.Errorf("%s: got %d results for %d runs", verb, len(got.Results), n)
	}
	return nil
}

// takeBatch claims, starts and completes up to 100 runs, and returns how many.
func (r *jobsRun) takeBatch(ctx context.Context, worker string) (int, error) {
	runs, err := r.claim(ctx, worker, runsOfClaim, 0)
	if err != nil || len(runs) == 0 {
		return 0, err
	}
	if err := r.all(ctx, worker, "start", runs, len(runs)); err != nil {
		return 0, err
	}
	ends := make([]runEnd, len(runs))
	for i := range runs {
		ends[i] = runEnd{runs[i], result}
	}
	return len(runs), r.all(ctx, worker, "complete", ends, len(ends))
}

// exchanging returns a function that makes one exchange of a worker: it reports the runs that the last
// one got, and gets as many as slots. It returns how many it reported.
func (r *jobsRun) exchanging(slots int) func(ctx context.Context, worker string) (int, error) {
	var mu sync.Mutex
	held := map[string][]claimedRun{}
	return func(ctx context.Context, worker string) (int, error) {
		mu.Lock()
		mine := held[worker]
		mu.Unlock()
		outcomes := make([]runEnd, len(mine))
		for i := range mine {
			outcomes[i] = runEnd{mine[i], result}
		}
		var got struct {
			Results []struct {
				Status int `json:"status"`
			} `json:"results"`
			Runs []claimedRun `json:"runs"`
		}
		body := map[string]any{"outcomes": outcomes, "slots": slots, "claim_id": uuid.NewString()}
		if err := r.call(ctx, http.MethodPost, "/api/v1/workers/"+worker+"/exchange", body, &got); err != nil {
			return 0, err
		}
		for _, one := range got.Results {
			if one.Status != http.StatusOK {
				return 0, fmt.Errorf("exchange: the response for one of %d runs has status %d", len(mine), one.Status)
			}
		}
		if len(got.Results) != len(mine) {
			return 0, fmt.Errorf("exchange: got %d results for %d runs", len(got.Results), len(mine))
		}
		mu.Lock()
		held[worker] = got.Runs
		mu.Unlock()
		return len(mine), nil
	}
}

// takeOne claims, starts and completes one run; false: there was none.
func (r *jobsRun) takeOne(ctx context.Context, worker string) (bool, error) {
	runs, err := r.claim(ctx, worker, 1, 0)
	if err != nil || len(runs) == 0 {
		return false, err
	}
	return true, r.finishOne(ctx, worker, &runs[0])
}

func (r *jobsRun) finishOne(ctx context.Context, worker string, c *claimedRun) error {
	body := oneCall{worker, c.Attempt, c.LeaseToken, c.LeaderEpoch, nil}
	if err := r.call(ctx, http.MethodPost, "/api/v1/job-runs/"+c.RunID+"/start", body, nil); err != nil {
		return err
	}
	body.Result = result
	return r.call(ctx, http.MethodPost, "/api/v1/job-runs/"+c.RunID+"/complete", body, nil)
}
