package chaos

import (
	"context"
	"encoding/json"
	"net/http"
	"time"

	"github.com/google/uuid"
)

// granted is the response to a call that gets runs.
type granted struct {
	Waited int64 `json:"waited_ms"`
	Lease  int64 `json:"lease_ms"`
	Runs   []claimed
	// Results are an exchange's results for its outcomes.
	Results []struct {
		Status   int
		State    string
		Replayed bool
		Problem  struct{ Code string }
	}
}

// begin executes the runs in the response to a call that was sent at the given times.
func (w *jobWorker) begin(r *registration, got *granted, sent time.Time, since int64) {
	until := sent.Add(time.Duration(got.Waited+got.Lease) * time.Millisecond)
	for _, c := range got.Runs {
		x := newExecution(w, r, c, since, until)
		r.mu.Lock()
		r.held[x.fence()] = x
		r.mu.Unlock()
		r.work.Go(func() {
			x.live()
			r.mu.Lock()
			delete(r.held, x.fence())
			r.mu.Unlock()
		})
	}
}

// exchange reports how the run ended as one of the outcomes of an exchange, which also gets a run
// for the free slot. It converts the result to the response that the separate call would have
// returned.
func (x *execution) exchange(ctx context.Context, call string, more map[string]any, claim string) heard {
	outcome := map[string]any{
		"run_id":       x.run.ID,
		"attempt":      x.run.Attempt,
		"lease_token":  x.run.Token,
		"leader_epoch": x.run.Epoch,
	}
	for k, v := range more {
		outcome[k] = v
	}
	if call == "cancel-ack" {
		outcome["canceled"] = true
	}
	sent, since := time.Now(), monotonic()
	h := x.w.call(ctx, "/workers/"+x.r.id+"/exchange",
		map[string]any{"outcomes": []any{outcome}, "slots": 1, "claim_id": claim}, 1500*time.Millisecond)
	var got granted
	if !h.into(&got) {
		return h
	}
	if len(got.Results) != 1 {
		x.w.journal.write(entry{Kind: didMeet, Call: "exchange", Status: h.status, Text: string(h.body)})
		return heard{}
	}
	x.w.begin(x.r, &got, sent, since)
	one := got.Results[0]
	if one.Status != http.StatusOK && one.Status != http.StatusConflict {
		x.w.journal.write(entry{Kind: didMeet, Call: call, Status: one.Status, Text: string(h.body)})
	}
	text, err := json.Marshal(map[string]any{"state": one.State, "replayed": one.Replayed, "code": one.Problem.Code})
	if err != nil {
		return heard{}
	}
	return heard{status: one.Status, body: text}
}

// tell calls the operation that reports how the run ended.
func (x *execution) tell(ctx context.Context, call string, more map[string]any, claim uuid.UUID) heard {
	if x.w.cfg.Exchanges && call != "release" {
		return x.exchange(ctx, call, more, claim.String())
	}
	return x.w.call(ctx, "/job-runs/"+x.run.ID+"/"+call, x.body(more), 1500*time.Millisecond)
}
