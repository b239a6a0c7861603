package workerapi_test

import (
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/skald-saga/skald/api/client"
	"github.com/skald-saga/skald/internal/httpapi"
	"github.com/skald-saga/skald/internal/httpkit/ratelimit"
	"github.com/skald-saga/skald/internal/principal"
	"github.com/skald-saga/skald/internal/test/apitest"
	"github.com/skald-saga/skald/internal/test/patience"
)

// exchange sends an exchange with these outcomes and additional members.
func (s *workerEdge) exchange(worker uuid.UUID, more string, outcomes ...string) (out client.ExchangedRuns) {
	s.T.Helper()
	r := s.Send("POST", workerPath(worker, "exchange"), `{"outcomes":[`+strings.Join(outcomes, ",")+`]`+more+`}`)
	if r.Into(&out); r.Status != 200 || len(out.Results) != len(outcomes) || out.LeaseMS == 0 {
		s.T.Fatalf("exchange: %d %s", r.Status, r.Body)
	}
	return out
}

// statuses returns the statuses of the results of an exchange.
func statuses(x client.ExchangedRuns) (out []int) {
	for _, r := range x.Results {
		out = append(out, int(r.Status))
	}
	return out
}

// holding returns a worker that has started three runs.
func holding(t *testing.T) (s *workerEdge, worker uuid.UUID, held []client.ClaimedRun) {
	t.Helper()
	s = newWorkerEdge(t)
	worker = s.worker("")
	for range 3 {
		s.run(s.job)
	}
	return s, worker, s.claim(worker, `{"slots":3,"start":true}`)
}

func TestAReportIsAnsweredWithTheNextRun(t *testing.T) {
	t.Parallel()
	s := newWorkerEdge(t)
	w := s.worker("")
	s.run(s.job)
	held := s.claim(w, `{"slots":1,"start":true}`)[0]
	next := s.run(s.job)
	got := s.exchange(w, `,"slots":1,"claim_id":"x1"`, item(held, `,"result":{"pages":3},"exit_code":0`))
	if got.Results[0].Status != 200 || len(got.Runs) != 1 || got.Runs[0].RunID != next || s.state(next) != "RUNNING" ||
		s.state(held.RunID) != "SUCCEEDED" {
		t.Errorf("%+v", got)
	}
}

func TestOneCallReportsRunsAndStartsTheNext(t *testing.T) {
	t.Parallel()
	s, w, held := holding(t)
	next := []uuid.UUID{s.run(s.job), s.run(s.job)}
	outcomes := []string{
		item(held[0], `,"result":{"pages":3},"exit_code":0`), `5`, item(held[1], `,"error":{"code":"EXIT_1"},"exit_code":1`),
		item(held[2], `,"result":{"a":"\u0000"}`), item(held[2], `,"canceled":true,"exit_code":1`),
	}
	got := s.exchange(w, `,"slots":5,"claim_id":"x1"`, outcomes...)
	if want := []int{200, 422, 200, 400, 422}; !slices.Equal(statuses(got), want) || got.State != "ACTIVE" ||
		got.LeaseMS != 30_000 || got.Results[2].RetryRunID == nil {
		t.Errorf("statuses %v, want %v: %+v", statuses(got), want, got)
	}
	if len(got.Runs) != 2 || got.Runs[0].RunID != next[0] || got.Runs[1].RunID != next[1] ||
		got.Runs[0].State != "RUNNING" || s.state(next[1]) != "RUNNING" {
		t.Fatalf("got the runs %+v, want %v", got.Runs, next)
	}
	// The answer was lost.
	again := s.exchange(w, `,"slots":5,"claim_id":"x1"`, outcomes...)
	leases := func(x client.ExchangedRuns) (out []string) {
		for _, r := range x.Runs {
			out = append(out, r.LeaseToken.String())
		}
		return slices.Sorted(slices.Values(out))
	}
	if !slices.Equal(leases(again), leases(got)) || again.LeaseMS > 30_000 ||
		again.Results[0].Replayed == nil || *again.Results[2].RetryRunID != *got.Results[2].RetryRunID {
		t.Errorf("repeated: %+v", again)
	}
	// This covers a call with nothing to report, and a report on its own. There is no other run.
	if x := s.exchange(w, `,"slots":1`); len(x.Runs) != 0 {
		t.Errorf("nothing to report: %+v", x)
	}
	last := s.exchange(w, `,"slots":1`, item(got.Runs[0], ""), item(got.Runs[1], ""), item(got.Runs[1], ""))
	if want := []int{200, 200, 422}; !slices.Equal(statuses(last), want) || len(last.Runs) != 0 {
		t.Errorf("statuses %v, want %v, and %d runs", statuses(last), want, len(last.Runs))
	}
	for name, body := range map[string]string{
		"no outcomes": `{"slots":1}`, "no slots": `{"outcomes":[]}`, "none wanted": `{"outcomes":[],"slots":0}`,
		"too many": `{"outcomes":[],"slots":1001}`, "another member": `{"outcomes":[],"slots":1,"start":true}`,
	} {
		if r := s.Send("POST", workerPath(w, "exchange"), body); r.Status != 422 {
			t.Errorf("%s: %d %s", name, r.Status, r.Body)
		}
	}
}

// A cancel is acknowledged among other outcomes, in both calls that report many runs.
func TestACancelIsAcknowledgedInAReport(t *testing.T) {
	t.Parallel()
	s, w, held := holding(t)
	for _, c := range held[:2] {
		s.exec(`UPDATE jobs.job_runs SET cancel_requested_at = now() WHERE id = $1`, c.RunID)
	}
	got := s.exchange(w, `,"slots":1`, item(held[0], `,"canceled":true`), item(held[2], `,"canceled":true`))
	if want := []int{200, 409}; !slices.Equal(statuses(got), want) || s.state(held[0].RunID) != "CANCELED" ||
		got.Results[1].Problem.Code != "JOB_STATE_CONFLICT" {
		t.Errorf("%v, want %v: %+v", statuses(got), want, got.Results)
	}
	r := s.Send("POST", workerPath(w, "complete"),
		`{"runs":[`+item(held[2], "")+`,`+item(held[1], `,"canceled":true`)+`]}`)
	if r.Status != 200 || s.state(held[1].RunID) != "CANCELED" || s.state(held[2].RunID) != "SUCCEEDED" {
		t.Errorf("complete: %d %s", r.Status, r.Body)
	}
}

// Outcomes are stored before the wait for a run, and the lease of that run counts from its
// assignment.
func TestOutcomesAreStoredBeforeAnExchangeWaits(t *testing.T) {
	t.Parallel()
	s := newWorkerEdge(t, long)
	w := s.worker("")
	s.run(s.job)
	held := s.claim(w, `{"slots":1,"start":true}`)[0]
	answer := make(chan client.ExchangedRuns, 1)
	begun := time.Now()
	go func() { answer <- s.exchange(w, `,"slots":1,"wait_ms":30000`, item(held, "")) }()
	patience.Until(t, "the outcome is stored", func() bool { return s.state(held.RunID) == "SUCCEEDED" })
	for range s.work.claims {
		break // its first poll found nothing
	}
	next, waited := s.run(s.job), time.Since(begun)
	got := patience.Receive(t, "the next run", answer)
	if len(got.Runs) != 1 || got.Runs[0].RunID != next || got.Results[0].Status != 200 ||
		got.WaitedMS > time.Since(begun).Milliseconds() {
		t.Errorf("after %v: %+v", waited, got)
	}
	// A refusal is answered immediately.
	refused := s.exchange(w, `,"slots":1,"wait_ms":30000`, item(held, `,"error":{"code":"E"}`))
	if refused.Results[0].Problem.Code != "JOB_STATE_CONFLICT" || refused.WaitedMS > 20_000 {
		t.Errorf("%+v", refused)
	}
	if quick := s.exchange(w, `,"slots":1`, item(got.Runs[0], "")); quick.WaitedMS > 5000 || len(quick.Runs) != 0 {
		t.Errorf("without a wait: %+v", quick)
	}
}

// A worker that must not claim may still report, and learns its results.
func TestADetachedWorkerReportsAndGetsNothing(t *testing.T) {
	t.Parallel()
	s := newWorkerEdge(t)
	w := s.worker("")
	s.run(s.job)
	held := s.claim(w, `{"slots":1,"start":true}`)[0]
	waits := s.run(s.job)
	if r := s.Send("POST", workerPath(w, "detach"), ""); r.Status != 200 {
		t.Fatalf("detach: %d %s", r.Status, r.Body)
	}
	s.Send("POST", workerPath(w, "exchange"), `{"outcomes":[],"slots":1}`).Wants(http.StatusGone, "JOB_WORKER_GONE")
	got := s.exchange(w, `,"slots":1,"wait_ms":20000`, item(held, ""))
	if got.State != "DETACHED" || got.Results[0].Status != 200 || len(got.Runs) != 0 || s.state(waits) != "PENDING" {
		t.Errorf("%+v", got)
	}
	none := s.exchange(uuid.New(), `,"slots":1`, item(held, ""))
	if none.State != "DETACHED" || none.Results[0].Problem.Code != "JOB_FENCE_LOST" {
		t.Errorf("an unknown worker: %+v", none)
	}
}

func TestAnExchangeIsBoundToQueuesAsAClaimIs(t *testing.T) {
	t.Parallel()
	s := newWorkerEdge(t, apitest.Guarded, boundTo)
	w := s.worker(`,"queues":["a","b"]`, apitest.As("worker")...)
	const body = `{"outcomes":[],"slots":1}`
	s.Send("POST", workerPath(w, "exchange"), body, apitest.As("worker-a")...).
		Wants(http.StatusForbidden, principal.CodeForbidden)
	s.Send("POST", workerPath(w, "exchange"), body, apitest.As("auditor")...).
		Wants(http.StatusForbidden, principal.CodeForbidden)
}

// A worker that exceeds its rate limit may still report. Otherwise it would lose its runs.
func TestARateLimitKeepsAnExchangeOnlyFromItsRuns(t *testing.T) {
	t.Parallel()
	now := time.Unix(1e9, 0)
	s := newWorkerEdge(t, func(c *httpapi.Config) {
		c.Limiter = ratelimit.New(ratelimit.Limits{Key: 1}, func() time.Time { return now })
		c.Limited = func(string) {}
	})
	w := s.worker("")
	s.run(s.job)
	held := s.claim(w, `{"slots":1,"start":true}`)[0]
	waits := s.run(s.job)
	for range 5 {
		s.Send("POST", workerPath(w, "claim"), `{"slots":1,"queues":["none"]}`)
	}
	r := s.Send("POST", workerPath(w, "exchange"), `{"outcomes":[],"slots":1}`)
	r.Wants(http.StatusTooManyRequests, "REQ_RATE_LIMITED")
	if r.Header.Get("Retry-After") == "" {
		t.Error("no Retry-After")
	}
	got := s.exchange(w, `,"slots":1`, item(held, ""))
	if got.State != "ACTIVE" || got.Results[0].Status != 200 || len(got.Runs) != 0 || s.state(waits) != "PENDING" {
		t.Errorf("%+v", got)
	}
	now = now.Add(time.Minute)
	if got := s.exchange(w, `,"slots":1`); len(got.Runs) != 1 || got.Runs[0].RunID != waits {
		t.Errorf("below the limit: %+v", got)
	}
}
