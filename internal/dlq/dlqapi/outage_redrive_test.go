package dlqapi_test

import (
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"

	"github.com/skald-saga/skald/api/client"
	"github.com/skald-saga/skald/internal/test/apitest"
)

// service is the target of letters after an outage. It counts the letters that it has accepted and
// rejected, by id.
type service struct {
	*httptest.Server
	mu      sync.Mutex
	down    bool
	taken   map[string]int
	refused map[string]int
}

func newService(t *testing.T) *service {
	t.Helper()
	s := &service{taken: map[string]int{}, refused: map[string]int{}}
	s.Server = httptest.NewServer(s)
	t.Cleanup(s.Close)
	return s
}

func (s *service) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	_, _ = io.Copy(io.Discard, r.Body)
	s.mu.Lock()
	defer s.mu.Unlock()
	id := r.Header.Get("X-Dlq-Message-Id")
	if s.down {
		s.refused[id]++
		w.WriteHeader(http.StatusServiceUnavailable)
		return
	}
	s.taken[id]++
}

func (s *service) set(down bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.down = down
}

// counts returns how often each letter was accepted and rejected.
func (s *service) counts() (taken, refused map[string]int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return maps.Clone(s.taken), maps.Clone(s.refused)
}

// once returns a count of one for each id.
func once(ids []uuid.UUID) map[string]int {
	out := map[string]int{}
	for _, id := range ids {
		out[id.String()] = 1
	}
	return out
}

func TestTwoThousandLettersOfAnOutageAreDrivenAgain(t *testing.T) {
	t.Parallel()
	e := newQueueEdge(t)
	target := newService(t)
	ids := e.Pushed("orders", target.URL, `{"n":%d}`, 2000)
	e.Pushed("refunds", target.URL, `{"n":%d}`, 3)

	var p client.RedrivePreview
	e.Send("POST", apitest.RedrivesPath, `{"action":"retry","filter":{"topic":"orders"},"dry_run":true}`).Into(&p)
	if p.Matched != 2000 || p.ByTopic["orders"] != 2000 || len(p.ByTopic) != 1 {
		t.Fatalf("dry run: %+v", p)
	}
	made := e.Bulk(`{"action":"retry","reason":"r","filter":{"topic":"orders"},"rate_per_second":100,"canary":{"count":20,"watch_seconds":1},"stop_on":{"failures":1}}`)
	path := apitest.RedrivesPath + "/" + made.ID.String()
	watched := e.Until(made.ID, "watching its canary", func(r client.Redrive) bool { return r.WatchedAt != nil })
	taken, _ := target.counts()
	want := watched
	want.Done, want.CanaryPassed, want.Matched, want.Gathered = 20, new(false), 2000, true
	if diff := cmp.Diff(want, watched); diff != "" || len(taken) != 20 {
		t.Errorf("with %d taken, the canary is watched in (-want +got):\n%s", len(taken), diff)
	}
	e.Until(made.ID, "past its canary", func(r client.Redrive) bool { return *r.CanaryPassed && r.Done > 20 })

	if r := e.Send("POST", path+"/pause", `{"reason":"look first"}`); r.Status != http.StatusOK {
		t.Fatalf("pause: %d %s", r.Status, r.Body)
	}
	var paused client.Redrive
	for {
		var items client.RedriveItemList
		e.Send("GET", path+"/items?state=TAKEN", "").Into(&items)
		if len(items.Items) == 0 {
			break
		}
	}
	e.Send("GET", path, "").Into(&paused)
	taken, _ = target.counts()
	want = paused
	want.State, want.Done, want.Eta = "PAUSED", int64(len(taken)), nil
	want.Left = 2000 - want.Done
	if diff := cmp.Diff(want, paused); diff != "" || paused.Left == 0 {
		t.Errorf("with %d taken, the redrive is (-want +got):\n%s", len(taken), diff)
	}
	if r := e.Send("PATCH", path, `{"rate_per_second":5000,"concurrency":16}`); r.Status != http.StatusOK {
		t.Fatalf("patch: %d %s", r.Status, r.Body)
	}
	if r := e.Send("POST", path+"/resume", ""); r.Status != http.StatusOK {
		t.Fatalf("resume: %d %s", r.Status, r.Body)
	}
	done := e.Until(made.ID, "completed", inState("COMPLETED"))
	if done.Done != 2000 || done.Failed+done.Skipped+done.Bounced+done.Left != 0 || done.EndedAt == nil ||
		done.RatePerSecond != 5000 {
		t.Errorf("in the end: %+v", done)
	}
	taken, refused := target.counts()
	if diff := cmp.Diff(once(ids), taken); diff != "" || len(refused) != 0 {
		t.Errorf("the target refused %d and took (-want +got):\n%.2000s", len(refused), diff)
	}
	got := map[string]int{}
	for next := path + "/items?page_size=200&state=DONE"; next != ""; {
		var items client.RedriveItemList
		e.Send("GET", next, "").Into(&items)
		for _, item := range items.Items {
			got[item.MessageID.String()]++
		}
		next = ""
		if items.Pagination.HasNext {
			next = path + "/items?page_size=200&state=DONE&cursor=" + *items.Pagination.NextCursor
		}
	}
	if diff := cmp.Diff(once(ids), got); diff != "" {
		t.Errorf("letters of the redrive (-want +got):\n%.2000s", diff)
	}
	var stats client.DeadLetterStats
	e.Send("GET", "/api/v1/statistics/dead-letters", "").Into(&stats)
	counted := []client.DeadLetterStat{{OriginalTopic: "orders", Status: "RESOLVED", Count: 2000},
		{OriginalTopic: "refunds", Status: "PENDING", Count: 3}}
	if diff := cmp.Diff(counted, stats.Stats); diff != "" {
		t.Errorf("stats (-want +got):\n%s", diff)
	}
}

func TestARedriveHaltsWhenTheOutageIsNotOver(t *testing.T) {
	t.Parallel()
	e := newQueueEdge(t)
	target := newService(t)
	target.set(true)
	ids := e.Pushed("orders", target.URL, `{"n":%d}`, 300)
	made := e.Bulk(`{"action":"retry","reason":"r","filter":{"topic":"orders"},"rate_per_second":100,"stop_on":{"failure_ratio":0.5}}`)
	path := apitest.RedrivesPath + "/" + made.ID.String()
	halted := e.Until(made.ID, "halted", inState("HALTED"))
	_, refused := target.counts()
	want := halted
	want.HaltReason, want.Done, want.EndedAt = new("failure_ratio"), 0, nil
	if diff := cmp.Diff(want, halted); diff != "" {
		t.Errorf("the redrive (-want +got):\n%s", diff)
	}
	if halted.Failed < 20 || len(refused) < 20 || halted.Left == 0 {
		t.Errorf("with %d refused, %d have failed and %d are left", len(refused), halted.Failed, halted.Left)
	}
	target.set(false)
	var r client.Redrive
	out := e.Send("POST", path+"/resume", `{"reason":"it is up again"}`)
	if out.Into(&r); out.Status != http.StatusOK || r.HaltReason != nil || r.StopOn.FailureRatio == nil ||
		r.Counted.Tried != 0 {
		t.Fatalf("resume: %d %s", out.Status, out.Body)
	}
	done := e.Until(made.ID, "completed", inState("COMPLETED"))
	taken, refused := target.counts()
	if done.Done+done.Failed != 300 || done.Done != int64(len(taken)) || done.Failed != int64(len(refused)) ||
		done.Skipped != 0 {
		t.Errorf("with %d taken and %d refused: %+v", len(taken), len(refused), done)
	}
	for id := range refused {
		if taken[id] != 0 {
			t.Errorf("letter %s was refused, and taken by the same redrive", id)
		}
	}
	// The rejected letters are waiting again.
	var all client.RetryAllResult
	out = e.Send("POST", "/api/v1/dlq/orders/retry-all?wait=60s", `{"rate_per_second":5000}`)
	if out.Into(&all); out.Status != http.StatusOK || all.RetriedCount != done.Failed ||
		all.Redrive.State != "COMPLETED" || !strings.Contains(all.Message, "COMPLETED") {
		t.Errorf("retry-all: %d %s", out.Status, out.Body)
	}
	taken, _ = target.counts()
	if diff := cmp.Diff(once(ids), taken); diff != "" {
		t.Errorf("in the end the target has (-want +got):\n%.2000s", diff)
	}
	// With nothing to do, it ends immediately.
	out = e.Send("POST", "/api/v1/dlq/orders/retry-all", "")
	if out.Into(&all); out.Status != http.StatusOK || all.RetriedCount != 0 {
		t.Errorf("retry-all again: %d %s", out.Status, out.Body)
	}
	out = e.Send("POST", "/api/v1/dlq/orders/retry-all?wait=0s", "")
	if out.Status != http.StatusAccepted || !strings.HasPrefix(out.Header.Get("Location"), apitest.RedrivesPath+"/") {
		t.Errorf("retry-all without waiting: %d %v %s", out.Status, out.Header, out.Body)
	}
}
