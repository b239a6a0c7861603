package workerapi_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/skald-saga/skald/api/client"
	"github.com/skald-saga/skald/internal/httpapi"
	"github.com/skald-saga/skald/internal/jobrun"
	"github.com/skald-saga/skald/internal/test/apitest"
	"github.com/skald-saga/skald/internal/test/patience"
)

// waiting sends a claim for one run in the background and waits until its first poll is over. The
// response arrives on the channel.
func (s *workerEdge) waiting(ctx context.Context, worker uuid.UUID) <-chan []client.ClaimedRun {
	s.T.Helper()
	out := make(chan []client.ClaimedRun, 1)
	go func() {
		req, err := http.NewRequestWithContext(ctx, http.MethodPost, s.URL+workerPath(worker, "claim"),
			strings.NewReader(`{"slots":1,"wait_ms":30000}`))
		if err != nil {
			panic(err)
		}
		req.Header.Set("Content-Type", "application/json")
		res, err := http.DefaultClient.Do(req)
		if err != nil {
			close(out)
			return
		}
		defer res.Body.Close()
		var c client.ClaimedRuns
		if res.StatusCode != 200 || json.NewDecoder(res.Body).Decode(&c) != nil {
			close(out)
			return
		}
		out <- c.Runs
	}()
	for a := range s.work.claims {
		if a.WorkerID == worker {
			return out
		}
	}
	return out
}

func long(c *httpapi.Config) { c.Limits.MaxWait = 30 * time.Second }

func TestARunWakesOneOfThoseWhoWait(t *testing.T) {
	t.Parallel()
	s := newWorkerEdge(t, long)
	const crowd = 20
	var waiting []<-chan []client.ClaimedRun
	for range crowd {
		waiting = append(waiting, s.waiting(t.Context(), s.worker("")))
	}
	drained := len(s.work.claims)
	for range drained {
		<-s.work.claims
	}
	id := s.run(s.job)
	got := make(chan uuid.UUID, crowd)
	for _, w := range waiting {
		go func() {
			for _, r := range <-w {
				got <- r.RunID
			}
		}()
	}
	if first := patience.Receive(t, "somebody gets the run", got); first != id {
		t.Errorf("claimed %s, want %s", first, id)
	}
	// The hint wakes one claim, and a claim that was filled wakes two more. Each queue polls once a
	// second. Without these rules, all claims would poll at the same time.
	if n := len(s.work.claims); n >= crowd {
		t.Errorf("%d claims for one run", n)
	}
}

func TestEveryoneWhoWaitsGetsARunInTheEnd(t *testing.T) {
	t.Parallel()
	s := newWorkerEdge(t, long)
	const crowd = 12
	var all sync.WaitGroup
	got := make(chan uuid.UUID, crowd)
	for range crowd {
		w := s.waiting(t.Context(), s.worker(""))
		all.Go(func() {
			for _, r := range <-w {
				got <- r.RunID
			}
		})
	}
	for range crowd {
		s.run(s.job)
	}
	all.Wait()
	seen := map[uuid.UUID]bool{}
	for range crowd {
		seen[<-got] = true
	}
	if len(seen) != crowd {
		t.Errorf("%d runs for %d workers", len(seen), crowd)
	}
}

func TestAClaimEndsWithItsClientOrTheServer(t *testing.T) {
	t.Parallel()
	stopping := make(chan struct{})
	s := newWorkerEdge(t, long, func(c *httpapi.Config) { c.Stopping = stopping })
	ctx, leave := context.WithCancel(t.Context())
	w := s.worker("")
	left := s.waiting(ctx, w)
	leave()
	if _, open := <-left; open {
		t.Fatal("an answer for a client that left")
	}
	s.run(s.job) // it is not claimed, because the waiting claim has ended with its client
	stays := s.waiting(t.Context(), s.worker(`,"queues":["other"]`))
	close(stopping)
	if runs, open := <-stays; !open || len(runs) != 0 {
		t.Errorf("a server that stops answered %v", runs)
	}
}

func TestOnlySoManyClaimsWait(t *testing.T) {
	t.Parallel()
	s := newWorkerEdge(t, long, func(c *httpapi.Config) { c.Jobs.MaxWaiting = 1 })
	w := s.worker("")
	s.waiting(t.Context(), w)
	s.Send("POST", workerPath(w, "claim"), `{"slots":1,"wait_ms":1000}`).Wants(503, "SYS_UNAVAILABLE")
	if got := s.claim(w, `{"slots":1}`); len(got) != 0 {
		t.Errorf("%v", got)
	}
}

func TestBatchesAnswerForEach(t *testing.T) {
	t.Parallel()
	s := newWorkerEdge(t)
	const n = 5
	for range n {
		s.run(s.job)
	}
	w := s.worker("")
	runs := s.claim(w, `{"slots":10}`)
	if len(runs) != n {
		t.Fatalf("claimed %d", len(runs))
	}
	foreign := runs[3]
	foreign.LeaseToken = uuid.New()
	batch := func(call string, items ...string) client.RunResults {
		t.Helper()
		r := s.Send("POST", workerPath(w, call), `{"runs":[`+strings.Join(items, ",")+`]}`)
		var out client.RunResults
		if r.Into(&out); r.Status != 200 || len(out.Results) != len(items) {
			t.Fatalf("%s: %d %s", call, r.Status, r.Body)
		}
		return out
	}
	started := batch("start", item(runs[0], ""), item(runs[1], ""), item(runs[2], ""), item(foreign, ""))
	if *started.LeaseMS != 30_000 || started.Results[0].Status != 200 {
		t.Errorf("started: %+v", started)
	}
	lost := started.Results[3]
	if lost.Status != 409 || lost.Problem.Code != "JOB_FENCE_LOST" || lost.RunID == nil || *lost.RunID != foreign.RunID {
		t.Errorf("started with a foreign token: %+v", lost)
	}
	again := batch("start", item(runs[0], ""), item(runs[4], ""))
	if again.Results[0].Replayed == nil || again.Results[1].Replayed != nil {
		t.Errorf("again: %+v", again)
	}
	ended := batch("complete", item(runs[0], `,"result":{"a":"ü\"\\"},"exit_code":-1,"resources":{"peak_rss_bytes":5}`),
		item(runs[1], `,"error":{"code":"E","message":"no"}`), item(runs[2], `,"error":{"code":"T","retryable":false},"timed_out":true`), item(runs[3], ""))
	want := []string{"SUCCEEDED", "FAILED", "TIMED_OUT", ""}
	for i, r := range ended.Results {
		if i == 3 {
			if r.Status != 409 || r.Problem.Code != "JOB_NOT_STARTED" {
				t.Errorf("not started: %+v", r)
			}
			continue
		}
		if string(*r.State) != want[i] || (r.RetryRunID != nil) != (i == 1) || s.state(*r.RunID) != want[i] {
			t.Errorf("%d: %+v", i, r)
		}
	}
	if replayed := batch("complete", item(runs[0], `,"result":{"a":"ü\"\\"},"exit_code":-1`)); replayed.Results[0].Replayed == nil {
		t.Errorf("replayed: %+v", replayed)
	}
}

// Batches are refused exactly when the contract refuses them.
func TestBatchesKeepTheContract(t *testing.T) {
	t.Parallel()
	s := newWorkerEdge(t)
	w := s.worker("")
	schemas := apitest.OpenapiYAML(t).Components.Schemas
	ok := fmt.Sprintf(`"run_id":%q,"attempt":1,"lease_token":%q,"leader_epoch":1`, uuid.New(), uuid.New())
	var bodies []struct{ call, schema, body string }
	add := func(call, schema string, list ...string) {
		for _, b := range list {
			bodies = append(bodies, struct{ call, schema, body string }{call, schema, b})
		}
	}
	items := []string{
		`{` + ok + `}`, `{}`, `1`, `null`, `{"attempt":1}`, `{` + ok + `,"more":1}`,
		strings.Replace(`{`+ok+`}`, `"attempt":1`, `"attempt":0`, 1),
		strings.Replace(`{`+ok+`}`, `"attempt":1`, `"attempt":"1"`, 1), strings.Replace(`{`+ok+`}`, `"attempt":1`,
			`"attempt":1.5`, 1),
		strings.Replace(`{`+ok+`}`, `"attempt":1`, `"attempt":3000000000`, 1), strings.Replace(`{`+ok+`}`, `"leader_epoch":1`,
			`"leader_epoch":null`, 1),
		strings.Replace(`{`+ok+`}`, `-`, ``, 1), strings.Replace(`{`+ok+`}`, `"run_id":"`, `"run_id":"g`, 1),
	}
	for _, i := range items {
		add("start", "StartBatch", `{"runs":[`+i+`]}`)
		add("complete", "CompleteBatch", `{"runs":[`+i+`]}`)
		add("exchange", "ExchangeInput", `{"slots":1,"outcomes":[`+i+`]}`)
		add("heartbeat", "HeartbeatInput", `{"seq":1,"running":[`+i+`]}`)
	}
	for _, more := range []string{
		`"result":null`, `"result":[1,{"a":"\u0001"}]`, `"exit_code":1`, `"exit_code":"1"`, `"error":{}`,
		`"error":{"code":"E"}`, `"error":{"code":""}`, `"error":{"code":"E","x":1}`,
		`"error":5`, `"timed_out":1,"error":{"code":"E"}`, `"timed_out":true,"error":{"code":"E"}`, `"resources":{"peak_rss_bytes":-1}`, `"resources":{"cpu_seconds_total":1}`, `"resources":[]`,
		`"emit":[]`, `"emit":{}`, `"emit":[{"event":{"event_type":"e"}}]`, `"emit":[{"event":{}}]`, `"emit":[{"run":{"definition":"d","args":[1]}}]`,
		`"canceled":true`, `"canceled":1`,
	} {
		add("complete", "CompleteBatch", `{"runs":[{`+ok+`,`+more+`}]}`)
		add("exchange", "ExchangeInput", `{"slots":1,"outcomes":[{`+ok+`,`+more+`}]}`)
	}
	for _, more := range []string{
		`"progress":{"percent":101}`, `"progress":{"percent":5,"message":"x","counters":{"a":1}}`, `"progress":{"counters":{"a":"b"}}`, `"checkpoint":{"a":1}`, `"progress":{"x":1}`,
	} {
		add("heartbeat", "HeartbeatInput", `{"seq":1,"running":[{`+ok+`,`+more+`}]}`)
	}
	add("start", "StartBatch", `{}`, `[]`, `{"runs":[]}`, `{"runs":{}}`, `{"runs":[{`+ok+`}],"x":1}`,
		`{"runs":[`+strings.Repeat(`{},`, 1000)+`{}]}`)
	add("heartbeat", "HeartbeatInput", `{}`, `{"seq":0}`, `{"seq":2}`, `{"seq":3,"load":-1}`, `{"seq":4,"load":1e2,"running":[]}`, `{"seq":"1"}`,
		`{"seq":5,"running":null}`, `{"seq":6,"x":1}`)
	for _, b := range bodies {
		var v any
		if err := json.Unmarshal([]byte(b.body), &v); err != nil {
			t.Fatal(err)
		}
		fits := schemas[b.schema].Value.VisitJSON(v) == nil
		r := s.Send("POST", workerPath(w, b.call), b.body)
		refused := strings.Contains(string(r.Body), `"code":"REQ_`) // the call, an item or a member around the items
		if read := r.Status == 200 && !refused; read != fits {
			t.Errorf("%s %.200s: %d %s; the contract takes it: %t", b.call, b.body, r.Status, r.Body, fits)
		}
	}
}

func TestWorkersAreOfTheirTenantAndRole(t *testing.T) {
	t.Parallel()
	s := newWorkerEdge(t, apitest.Guarded)
	s.run(s.job)
	w := s.worker("", apitest.As("operator")...)
	c := s.claim(w, `{"slots":1,"start":true}`, apitest.As("operator")...)[0]
	theirs := s.worker("", apitest.As("foreign")...)
	if got := s.claim(theirs, `{"slots":5}`, apitest.As("foreign")...); len(got) != 0 {
		t.Errorf("another tenant's worker got %v", got)
	}
	for _, call := range []string{"start", "progress", "complete", "release", "cancel-ack", "confirm-continuation"} {
		s.call(w, c, call, "", apitest.As("foreign")...).Wants(404, "JOB_RUN_NOT_FOUND")
	}
	s.call(w, c, "fail", `,"error":{"code":"E"}`, apitest.As("foreign")...).Wants(404, "JOB_RUN_NOT_FOUND")
	s.call(w, c, "logs", `,"seq":0,"chunk":"x"`, apitest.As("foreign")...).Wants(404, "JOB_RUN_NOT_FOUND")
	s.Send("GET", runPath(c.RunID, "logs"), "", apitest.As("foreign")...).Wants(404, "JOB_RUN_NOT_FOUND")
	s.Send("GET", runPath(c.RunID, "logs"), "", apitest.As("auditor")...).Wants(403, "AUTH_FORBIDDEN")
	s.Send("POST", workerPath(w, "heartbeat"), `{"seq":1}`, apitest.As("foreign")...).Wants(410, "JOB_WORKER_GONE")
	s.Send("POST", workerPath(w, "claim"), `{"slots":1}`, apitest.As("foreign")...).Wants(410, "JOB_WORKER_GONE")
	s.Send("POST", workerPath(w, "claim"), `{"slots":1,"wait_ms":10}`, apitest.As("foreign")...).Wants(410,
		"JOB_WORKER_GONE")
	s.Send("GET", "/api/v1/workers/"+w.String(), "", apitest.As("foreign")...).Wants(404, "JOB_WORKER_NOT_FOUND")
	s.Send("POST", workerPath(w, "detach"), "", apitest.As("foreign")...).Wants(404, "JOB_WORKER_NOT_FOUND")
	s.Send("POST", workerPath(w, "claim"), `{"slots":1}`, apitest.As("auditor")...).Wants(403, "AUTH_FORBIDDEN")
	s.Send("POST", "/api/v1/workers", `{"name":"w","queues":["system"]}`, apitest.As("operator")...).Wants(422, "REQ_SCHEMA")
	if s.state(c.RunID) != "RUNNING" {
		t.Errorf("the run is %s", s.state(c.RunID))
	}
}

func TestDrainAndDetach(t *testing.T) {
	t.Parallel()
	s := newWorkerEdge(t)
	s.run(s.job)
	s.run(s.job)
	w := s.worker("")
	c := s.claim(w, `{"slots":1,"start":true}`)[0]
	if r := s.Send("POST", workerPath(w, "drain"), `{"reason":"deploy"}`); r.Status != 200 ||
		!strings.Contains(string(r.Body), `"DRAINING"`) {
		t.Fatalf("%d %s", r.Status, r.Body)
	}
	if got := s.claim(w, `{"slots":5}`); len(got) != 0 {
		t.Errorf("a worker that drains got %v", got)
	}
	var h client.Heartbeat
	s.Send("POST", workerPath(w, "heartbeat"), `{"seq":1,"running":[`+item(c, "")+`]}`).Into(&h)
	if h.State != "DRAINING" || !h.Leases[0].Ok {
		t.Errorf("heartbeat: %+v", h)
	}
	s.Send("POST", workerPath(w, "undrain"), "")
	if got := s.claim(w, `{"slots":5}`); len(got) != 1 {
		t.Errorf("after undrain it got %v", got)
	}
	if r := s.Send("POST", workerPath(w, "detach"), ""); r.Status != 200 ||
		!strings.Contains(string(r.Body), `"allowed_actions":["undetach"]`) {
		t.Fatalf("%d %s", r.Status, r.Body)
	}
	s.Send("POST", workerPath(w, "heartbeat"), `{"seq":2}`).Wants(410, "JOB_WORKER_GONE")
	s.Send("POST", workerPath(w, "claim"), `{"slots":1}`).Wants(410, "JOB_WORKER_GONE")
	s.Send("POST", workerPath(w, "undrain"), "").Wants(409, "JOB_STATE_CONFLICT")
	list := s.Send("GET", "/api/v1/workers?state=DETACHED&include=total", "")
	var page client.WorkerList
	if list.Into(&page); len(page.Workers) != 1 || page.Workers[0].WorkerID != w || page.Workers[0].DetachedAt == nil {
		t.Errorf("%s", list.Body)
	}
	if r := s.Send("POST", workerPath(w, "undetach"), `{"reason":"the wrong one"}`); r.Status != 200 ||
		!strings.Contains(string(r.Body), `"LOST"`) {
		t.Fatalf("%d %s", r.Status, r.Body)
	}
	s.Send("POST", workerPath(w, "heartbeat"), `{"seq":3,"running":[`+item(c, "")+`]}`).Into(&h)
	if h.State != "ACTIVE" || !h.Leases[0].Ok {
		t.Errorf("after undetach: %+v", h)
	}
	s.call(w, c, "complete", "").Ended("SUCCEEDED", false) // no other worker has it yet
}

func TestSettingsAndTheLeaderAreOfTheDeployment(t *testing.T) {
	t.Parallel()
	s := newWorkerEdge(t, apitest.Guarded)
	got := s.Send("GET", "/api/v1/settings", "", apitest.As("auditor")...)
	var all client.Settings
	if got.Into(&all); got.Status != 200 || len(all.Settings) != len(jobrun.SettingsList) ||
		got.Header.Get("ETag") != `"1"` {
		t.Fatalf("%d %s", got.Status, got.Body)
	}
	s.Send("GET", "/api/v1/settings", "", append(apitest.As("auditor"), "If-None-Match", `"1"`)...)
	const change = `{"values":{"run_lease_seconds":60},"reason":"slow jobs"}`
	s.Send("PATCH", "/api/v1/settings", change, apitest.As("admin")...).Wants(403, "AUTH_FORBIDDEN") // of a single tenant
	s.Send("PATCH", "/api/v1/settings", change, append(apitest.As("root"), "If-Match", `"7"`)...).Wants(412,
		"JOB_VERSION_CONFLICT")
	if r := s.Send("PATCH", "/api/v1/settings", change,
		append(apitest.As("root"), "If-Match", `"1"`)...); r.Status != 200 || r.Header.Get(
		"ETag") != `"2"` || !strings.Contains(string(r.Body), `"value":60`) {
		t.Fatalf("%d %s", r.Status, r.Body)
	}
	s.Send("PATCH", "/api/v1/settings", `{"values":{"run_lease_seconds":0}}`, apitest.As("root")...).Wants(422, "JOB_SETTING_INVALID")
	s.Send("PATCH", "/api/v1/settings", `{"values":{"colour":1}}`, apitest.As("root")...).Wants(422, "JOB_SETTING_INVALID")
	s.Send("PATCH", "/api/v1/settings", `{"values":{}}`, apitest.As("root")...).Wants(422, "REQ_SCHEMA")
	// who changes them and why is shown to no tenant
	for who, told := range map[string]bool{"auditor": false, "admin": false, "root": true} {
		r := s.Send("GET", "/api/v1/settings/history", "", apitest.As(who)...)
		body := string(r.Body)
		if r.Status != 200 || !strings.Contains(body, `"new_value":60`) || strings.Contains(body, "slow jobs") != told ||
			strings.Contains(body, "changed_by") != told {
			t.Errorf("the changes as %s sees them: %d %s", who, r.Status, r.Body)
		}
		if r := s.Send("GET", "/api/v1/settings", "", apitest.As(who)...); strings.Contains(string(r.Body),
			"updated_by") != told {
			t.Errorf("the settings as %s sees them: %d %s", who, r.Status, r.Body)
		}
	}
	for who, named := range map[string]bool{"auditor": false, "admin": false, "root": true} { // nodes serve all tenants
		r := s.Send("GET", "/api/v1/scheduler/leader", "", apitest.As(who)...)
		if r.Status != 200 || !strings.Contains(string(r.Body), `"alive":true`) ||
			strings.Contains(string(r.Body), `"node":`) != named {
			t.Errorf("the leader as %s sees it: %d %s", who, r.Status, r.Body)
		}
	}
	s.Send("POST", "/api/v1/scheduler/leader/step-down", "", apitest.As("admin")...).Wants(403, "AUTH_FORBIDDEN")
	r := s.Send("POST", "/api/v1/scheduler/leader/step-down", `{"reason":"test"}`, apitest.As("root")...)
	var leader client.SchedulerLeader
	if r.Into(&leader); r.Status != 200 || leader.Alive || leader.Epoch != s.term.Epoch {
		t.Errorf("%d %s", r.Status, r.Body)
	}
	apitest.WantsReason(t, s.Send("POST", "/api/v1/scheduler/leader/step-down", "", apitest.As("root")...))
	s.Send("POST", "/api/v1/scheduler/leader/step-down", `{"reason":"test"}`, apitest.As("root")...).Wants(409, "JOB_NO_LEADER")
	if r := s.Send("GET", "/api/v1/scheduler/leader", "", apitest.As("auditor")...); r.Status != 200 ||
		!strings.Contains(string(r.Body), `"alive":false`) {
		t.Errorf("%d %s", r.Status, r.Body)
	}
}
