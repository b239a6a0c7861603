package workerapi_test

import (
	"testing"

	"github.com/google/uuid"

	"github.com/skald-saga/skald/api/client"
	"github.com/skald-saga/skald/internal/jobrun"
	"github.com/skald-saga/skald/internal/test/patience"
)

// claimed returns the response to a claim.
func (s *workerEdge) claimed(worker uuid.UUID, body string) (c client.ClaimedRuns) {
	s.T.Helper()
	r := s.Send("POST", workerPath(worker, "claim"), body)
	if r.Into(&c); r.Status != 200 {
		s.T.Fatalf("claim: %d %s", r.Status, r.Body)
	}
	return c
}

// silent makes the last heartbeat of a worker an hour old.
func (s *workerEdge) silent(worker uuid.UUID) {
	s.T.Helper()
	s.exec(`UPDATE jobs.workers SET heartbeat_at = now() - interval '1 hour' WHERE id = $1`, worker)
}

func TestAClaimThatWaitsKeepsItsWorkerAlive(t *testing.T) {
	t.Parallel()
	s := newWorkerEdge(t, long)
	s.exec(`INSERT INTO jobs.settings (name, value, updated_by, updated_at) VALUES ($1, '0.5', 'test', now()), ($2, '1.5', 'test', now())`, jobrun.HeartbeatInterval, jobrun.HeartbeatTTL)
	w, idle := s.Send("POST", "/api/v1/workers", `{"name":"w"}`), s.Send("POST", "/api/v1/workers", `{"name":"idle"}`)
	var waits, idles client.WorkerRegistration
	w.Into(&waits)
	idle.Into(&idles)
	s.waiting(t.Context(), waits.WorkerID)
	for range 2 { // repeatedly
		s.silent(waits.WorkerID)
		patience.Until(t, "the worker whose claim waits counts as alive", func() (fresh bool) {
			if err := s.raw.QueryRowContext(t.Context(), `SELECT heartbeat_at > now() - interval '30 minutes' FROM jobs.workers WHERE id = $1`, waits.WorkerID).Scan(&fresh); err != nil {
				t.Fatal(err)
			}
			return fresh
		})
	}
	s.silent(idles.WorkerID)
	if got := s.claimed(idles.WorkerID, `{"slots":1}`); got.State != "ACTIVE" {
		t.Errorf("the state of a worker that claims: %+v", got)
	}
}

func TestAClaimTellsTheStateOfItsWorker(t *testing.T) {
	t.Parallel()
	s := newWorkerEdge(t)
	lost := func(w uuid.UUID) {
		s.exec(`UPDATE jobs.workers SET state = 'LOST', lost_at = now(), heartbeat_at = now() - interval '1 hour' WHERE id = $1`, w)
	}
	w := s.worker("")
	lost(w)
	s.run(s.job)
	if got := s.claimed(w, `{"slots":1}`); got.State != "ACTIVE" || len(got.Runs) != 1 {
		t.Errorf("a worker that was lost and claims: %+v", got)
	}
	// This node has just received the worker's heartbeat, so it can learn only from the store that
	// the worker is lost.
	if r := s.Send("POST", workerPath(w, "heartbeat"), `{"seq":1}`); r.Status != 200 {
		t.Fatalf("heartbeat: %d %s", r.Status, r.Body)
	}
	lost(w)
	s.run(s.job)
	if got := s.claimed(w, `{"slots":1}`); got.State != "ACTIVE" || len(got.Runs) != 0 {
		t.Errorf("a worker that was lost a moment ago: %+v", got)
	}
	if got := s.claimed(w, `{"slots":1,"claim_id":"c"}`); got.State != "ACTIVE" || len(got.Runs) != 1 {
		t.Errorf("its next claim: %+v", got)
	}
	if r := s.Send("POST", workerPath(w, "drain"), ""); r.Status != 200 {
		t.Fatalf("drain: %d %s", r.Status, r.Body)
	}
	if got := s.claimed(w, `{"slots":1}`); got.State != "DRAINING" || len(got.Runs) != 0 {
		t.Errorf("a worker that drains: %+v", got)
	}
	if got := s.claimed(w, `{"slots":1,"claim_id":"c"}`); got.State != "DRAINING" || len(got.Runs) != 1 {
		t.Errorf("a claim that is repeated by a worker that drains: %+v", got)
	}
	lost(w)
	if got := s.claimed(w, `{"slots":1}`); got.State != "DRAINING" {
		t.Errorf("a worker that was lost while it drained: %+v", got)
	}
	if r := s.Send("POST", workerPath(w, "detach"), ""); r.Status != 200 {
		t.Fatalf("detach: %d %s", r.Status, r.Body)
	}
	s.Send("POST", workerPath(w, "claim"), `{"slots":1}`).Wants(410, "JOB_WORKER_GONE")
	s.Send("POST", workerPath(uuid.New(), "claim"), `{"slots":1}`).Wants(410, "JOB_WORKER_GONE")
}

func TestAHeartbeatTellsThatARunHasTimedOut(t *testing.T) {
	t.Parallel()
	s := newWorkerEdge(t)
	s.run(s.job)
	w := s.worker("")
	c := s.one(w, `,"start":true`)
	s.exec(`UPDATE jobs.job_runs SET state = 'TIMED_OUT', version = version + 1, finished_at = now() WHERE id = $1`, c.RunID) // as the leader does
	var h client.Heartbeat
	r := s.Send("POST", workerPath(w, "heartbeat"), `{"seq":1,"running":[`+item(c, "")+`]}`)
	r.Reads(200, &h)
	if len(h.Leases) != 1 || h.Leases[0].Ok || h.Leases[0].Reason == nil || *h.Leases[0].Reason != "TIMED_OUT" {
		t.Errorf("heartbeat: %s", r.Body)
	}
	s.call(w, c, "progress", "").Wants(409, "JOB_STATE_CONFLICT")
}
