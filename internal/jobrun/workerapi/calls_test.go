package workerapi_test

import (
	"bufio"
	"encoding/base64"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"

	"github.com/skald-saga/skald/api/client"
	"github.com/skald-saga/skald/internal/jobrun"
	"github.com/skald-saga/skald/internal/test/apitest"
)

func TestTheLifeOfARunByItsWorkersCalls(t *testing.T) {
	t.Parallel()
	s := newWorkerEdge(t)
	id := s.run(s.job, func(r *jobrun.Run) { r.TraceState, r.Baggage = "congo=t61", "a=1,b=2" })
	w := s.worker(`,"node":"h","pid":7,"sdk":"curl","version":"8","labels":{"zone":"a"},"max_runs":3`)
	c := s.one(w, `,"claim_id":"c1"`)
	want := c
	want.RunID, want.Definition, want.Command, want.Args = id, "report", "print", client.AnyJSON(`{"n":1}`)
	want.Attempt, want.State = 1, "ASSIGNED"
	want.Tracestate, want.Baggage = new("congo=t61"), new("a=1,b=2")
	if diff := cmp.Diff(want, c); diff != "" || c.FencingToken == "" {
		t.Fatalf("claimed with the token %q (-want +got):\n%s", c.FencingToken, diff)
	}
	if again := s.one(w, `,"claim_id":"c1"`); again.LeaseToken != c.LeaseToken {
		t.Errorf("the same claim again gave %+v", again)
	}
	s.exec(`UPDATE jobs.job_runs SET lease_expires_at = clock_timestamp() + interval '17 seconds' WHERE id = $1`, id)
	var later client.ClaimedRuns
	if s.Send("POST", workerPath(w, "claim"), `{"slots":10,"claim_id":"c1"}`).Into(&later); later.LeaseMS > 17_000 ||
		later.LeaseMS < 1000 {
		t.Errorf("of a lease with 17 s left the claim says %d ms", later.LeaseMS)
	}
	if other := s.claim(w, `{"slots":10,"claim_id":"c2"}`); len(other) != 0 {
		t.Errorf("another claim gave the same runs: %+v", other)
	}
	s.call(w, c, "complete", "").Wants(409, "JOB_NOT_STARTED")
	for i, replayed := range []bool{false, true} {
		r := s.call(w, c, "start", `,"version":2`)
		var started client.StartedRun
		r.Reads(http.StatusOK, &started)
		want := started
		want.State, want.LeaseMS = "RUNNING", 30_000
		if diff := cmp.Diff(want, started); diff != "" {
			t.Fatalf("start %d (-want +got):\n%s", i, diff)
		}
		if (started.Replayed != nil) != replayed || started.LeaseExpiresAt == nil {
			t.Fatalf("start %d: %s", i, r.Body)
		}
	}
	beat := s.Send("POST", workerPath(w, "heartbeat"), `{"seq":1,"load":0.5,"running":[`+item(c, `,"progress":{"percent":10,"message":"½"},"checkpoint":{"at":3}`)+`]}`)
	var h client.Heartbeat
	beat.Reads(http.StatusOK, &h)
	if h.State != "ACTIVE" || h.LeaseMS != 30_000 || len(h.Leases) != 1 {
		t.Fatalf("heartbeat: %s", beat.Body)
	}
	if l := h.Leases[0]; !l.Ok || l.LeaseExpiresAt == nil {
		t.Fatalf("heartbeat: %s", beat.Body)
	}
	progress := s.call(w, c, "progress", `,"percent":50,"message":"half","counters":{"rows":5},"checkpoint":{"at":5}`)
	var lease client.RunLease
	if progress.Into(&lease); progress.Status != 200 || lease.CancelRequested || lease.LeaseMS != 30_000 {
		t.Fatalf("progress: %d %s", progress.Status, progress.Body)
	}
	r := s.call(w, c, "confirm-continuation", "")
	var goesOn client.RunConfirmation
	if r.Into(&goesOn); r.Status != 200 || !goesOn.Continue {
		t.Errorf("confirm what nobody doubts: %d %s", r.Status, r.Body)
	}
	ended := s.call(w, c, "complete", `,"result":{"pages":3},"exit_code":0,"resources":{"cpu_seconds_total":1.5,"peak_rss_bytes":1000},
		"emit":[{"event":{"event_type":"report.done","payload":{"n":1}}}]`).Ended("SUCCEEDED", false)
	if ended.FinishedAt == nil || ended.RetryRunID != nil {
		t.Errorf("ended: %+v", ended)
	}
	s.call(w, c, "complete", `,"result":{"pages":3},"exit_code":0`).Ended("SUCCEEDED", true)
	s.call(w, c, "fail", `,"error":{"code":"E"}`).Wants(409, "JOB_STATE_CONFLICT")
	s.call(w, c, "start", "").Wants(409, "JOB_STATE_CONFLICT")
	s.call(w, c, "release", "").Wants(409, "JOB_STATE_CONFLICT")
	s.call(w, c, "cancel-ack", "").Wants(409, "JOB_STATE_CONFLICT")
	var events int
	if err := s.raw.QueryRowContext(t.Context(), `SELECT count(*) FROM jobs.events WHERE event_type = 'report.done' AND source_run_id = $1`, id).Scan(&events); err != nil || events != 1 {
		t.Errorf("%d events were emitted, %v", events, err)
	}
	found := s.Send("GET", "/api/v1/workers/"+w.String(), "")
	var worker client.Worker
	found.Into(&worker)
	shown := worker
	shown.Name, shown.Node, shown.Pid, shown.Labels = "w", new("h"), new(int64(7)), []string{"zone=a"}
	shown.Running, shown.MaxRuns, shown.Load = 1, 3, 0.5
	if diff := cmp.Diff(shown, worker); diff != "" {
		t.Errorf("the worker (-want +got):\n%s", diff)
	}
}

func TestAFailureIsTriedAgainAndThenGivenUp(t *testing.T) {
	t.Parallel()
	s := newWorkerEdge(t)
	s.run(s.job)
	w := s.worker("")
	c := s.one(w, `,"start":true`)
	if c.State != "RUNNING" {
		t.Fatalf("claimed %+v", c)
	}
	const failed = `,"error":{"code":"EXIT_1","type":"exit","message":"boom","stack":"at x","retryable":true},"exit_code":1`
	first := s.call(w, c, "fail", failed).Ended("FAILED", false)
	if first.RetryRunID == nil || first.RetryAt == nil {
		t.Fatalf("no retry: %+v", first)
	}
	again := s.call(w, c, "fail", failed).Ended("FAILED", true)
	if again.RetryRunID == nil || *again.RetryRunID != *first.RetryRunID {
		t.Errorf("repeated: %+v, want the retry of the first time", again)
	}
	s.call(w, c, "complete", "").Wants(409, "JOB_STATE_CONFLICT")
	if s.state(*first.RetryRunID) != "PENDING" {
		t.Errorf("the retry is %s", s.state(*first.RetryRunID))
	}
	s.exec(`UPDATE jobs.job_runs SET available_at = now(), admitted_at = now() WHERE id = $1`, *first.RetryRunID)
	c = s.one(w, `,"start":true`)
	last := s.call(w, c, "fail", `,"error":{"code":"TIMEOUT"},"timed_out":true`).Ended("TIMED_OUT", false)
	if last.RetryRunID != nil {
		t.Errorf("tried again although nothing is left: %+v", last)
	}
}

func TestWhatAWorkerIsToldWhoIsTooLate(t *testing.T) {
	t.Parallel()
	s := newWorkerEdge(t)
	s.run(s.job)
	a, b := s.worker(""), s.worker("")
	first := s.one(a, `,"start":true`)
	s.call(a, first, "release", `,"reason":"deploy"`).Ended("ORPHANED", false)
	s.call(a, first, "release", "").Ended("ORPHANED", true)
	s.call(a, first, "complete", "").Wants(409, "JOB_FENCE_LOST")
	second := s.one(b, `,"start":true`)
	if second.RunID != first.RunID || second.Attempt != 2 || second.LeaseToken == first.LeaseToken {
		t.Fatalf("the second attempt: %+v", second)
	}
	for _, call := range []string{"start", "progress", "complete", "release", "cancel-ack", "confirm-continuation"} {
		s.call(a, first, call, "").Wants(409, "JOB_FENCE_LOST")
		s.call(a, second, call, "").Wants(409, "JOB_FENCE_LOST") // the token of another worker
	}
	s.call(a, first, "fail", `,"error":{"code":"E"}`).Wants(409, "JOB_FENCE_LOST")
	s.call(a, first, "logs", `,"seq":0,"chunk":"x"`).Wants(409, "JOB_FENCE_LOST")
	stale := second
	stale.LeaderEpoch++
	s.call(b, stale, "complete", "").Wants(409, "JOB_STALE_EPOCH")
	s.call(b, second, "cancel-ack", "").Wants(409, "JOB_STATE_CONFLICT") // no cancel was requested
	s.exec(`UPDATE jobs.job_runs SET cancel_requested_at = now(), cancel_reason = 'enough' WHERE id = $1`, second.RunID)
	var lease client.RunLease
	if r := s.call(b, second, "progress", ""); r.Status != 200 {
		t.Fatalf("%d %s", r.Status, r.Body)
	} else if r.Into(&lease); !lease.CancelRequested || *lease.CancelReason != "enough" {
		t.Errorf("progress does not tell of the cancel: %s", r.Body)
	}
	var h client.Heartbeat
	s.Send("POST", workerPath(b, "heartbeat"), `{"seq":1,"running":[`+item(second, "")+`]}`).Into(&h)
	if len(h.Leases) != 1 || h.Leases[0].CancelRequested == nil {
		t.Errorf("the heartbeat does not tell of the cancel: %+v", h)
	}
	var goesOn client.RunConfirmation
	if s.call(b, second, "confirm-continuation", "").Into(&goesOn); goesOn.CancelRequested == nil {
		t.Errorf("the confirmation does not tell of the cancel: %+v", goesOn)
	}
	s.call(b, second, "cancel-ack", "").Ended("CANCELED", false)
	s.call(b, second, "cancel-ack", "").Ended("CANCELED", true)
	s.call(b, second, "complete", "").Wants(409, "JOB_CANCEL_WINS")
	s.call(b, second, "fail", `,"error":{"code":"E"}`).Wants(409, "JOB_CANCEL_WINS")
	nobody := second
	nobody.RunID = uuid.New()
	s.call(b, nobody, "complete", "").Wants(404, "JOB_RUN_NOT_FOUND")
}

func TestADoubtedRunIsConfirmed(t *testing.T) {
	t.Parallel()
	s := newWorkerEdge(t)
	s.run(s.job)
	w := s.worker("")
	c := s.one(w, `,"start":true`)
	s.exec(`UPDATE jobs.job_runs SET continuation_state = 'CONFIRMING', continuation_check_started_at = now(), continuation_check_deadline_at = now() + interval '1 minute',
		lease_expires_at = now() - interval '1 second' WHERE id = $1`, c.RunID)
	if r := s.call(w, c, "confirm-continuation", ""); r.Status != 200 {
		t.Fatalf("%d %s", r.Status, r.Body)
	}
	var doubt string
	if err := s.raw.QueryRowContext(t.Context(), `SELECT continuation_state FROM jobs.job_runs WHERE lease_expires_at > now() AND id = $1`, c.RunID).Scan(&doubt); err != nil || doubt != "NONE" {
		t.Errorf("%q, %v", doubt, err)
	}
}

func TestAReportIsRepeatedOnlyAsItWas(t *testing.T) {
	t.Parallel()
	s := newWorkerEdge(t)
	w := s.worker("")
	for _, tt := range []struct {
		name, call, report, state string
		same, other               []string
	}{
		{"a success", "complete", `,"result":{"a":1,"b":[1.50]},"exit_code":0`, "SUCCEEDED",
			[]string{`,"result": {"b": [1.50], "a": 1}, "exit_code": 0`},
			[]string{"", `,"result":{"a":2,"b":[1.50]},"exit_code":0`, `,"result":{"a":1,"b":[1.50]},"exit_code":1`,
				`,"result":{"a":1,"b":[1.50]}`}},
		{"a success without a result", "complete", "", "SUCCEEDED", []string{"", `,"result":null`},
			[]string{`,"result":{}`, `,"exit_code":0`}},
		{"a failure", "fail", `,"error":{"code":"E","message":"m\u0000"},"exit_code":1`, "FAILED",
			[]string{`,"error":{"code":"E","message":"m\u0000"},"exit_code":1`},
			[]string{`,"error":{"code":"F","message":"m\u0000"},"exit_code":1`, `,"error":{"code":"E","message":"n"},"exit_code":1`,
				`,"error":{"code":"E","message":"m\u0000"}`}},
	} {
		s.run(s.job)
		c := s.one(w, `,"start":true`)
		s.call(w, c, tt.call, tt.report).Ended(tt.state, false)
		for _, again := range tt.same {
			s.call(w, c, tt.call, again).Ended(tt.state, true)
		}
		for _, other := range tt.other {
			s.call(w, c, tt.call, other).Wants(409, "JOB_RESULT_CONFLICT")
			var batch client.RunResults
			s.Send("POST", workerPath(w, "complete"), `{"runs":[`+item(c, other)+`]}`).Reads(http.StatusOK, &batch)
			if p := batch.Results[0].Problem; tt.call == "complete" && (p == nil || p.Code != "JOB_RESULT_CONFLICT") {
				t.Errorf("%s, in a batch %s: %+v", tt.name, other, batch.Results[0])
			}
		}
		s.call(w, c, tt.call, tt.report).Ended(tt.state, true)
	}
}

func TestChunksOfALogComeOnce(t *testing.T) {
	t.Parallel()
	s := newWorkerEdge(t)
	s.run(s.job)
	w := s.worker("")
	c := s.one(w, `,"start":true`)
	put := func(more string) apitest.Reply { return s.call(w, c, "logs", more) }
	next := func(r apitest.Reply, want int32) {
		t.Helper()
		var l client.LogAppendResult
		if r.Into(&l); r.Status != 200 || l.NextSeq != want {
			t.Errorf("%d %s, want next_seq %d", r.Status, r.Body, want)
		}
	}
	next(put(`,"seq":0,"chunk":"one\n"`), 1)
	next(put(`,"seq":1,"chunk":"two\n","stream":"stderr"`), 2)
	next(put(`,"seq":0,"chunk":"one\n"`), 2)
	for _, bad := range []string{`,"seq":1,"chunk":"other\n","stream":"stderr"`, `,"seq":3,"chunk":"three\n"`, `,"seq":2147483647,"chunk":"x"`} {
		if p := put(bad).Wants(409, "JOB_LOG_CONFLICT"); !strings.Contains(p.Detail, "continue with chunk 2") {
			t.Errorf("%s: %s", bad, p.Detail)
		}
	}
	put(`,"seq":2`).Wants(422, "REQ_SCHEMA")
	put(`,"seq":2,"chunk":"a","chunk_base64":"YQ=="`).Wants(422, "REQ_SCHEMA")
	put(`,"seq":2,"chunk_base64":"!"`).Wants(422, "REQ_SCHEMA")
	big := base64.StdEncoding.EncodeToString([]byte(strings.Repeat("\xff", 262_145)))
	put(`,"seq":2,"chunk_base64":"`+big+`"`).Wants(422, "REQ_SCHEMA")
	s.call(w, c, "complete", "").Ended("SUCCEEDED", false)
	next(put(`,"seq":2,"chunk_base64":"/w=="`), 3) // the last lines are still accepted
	text := s.Send("GET", runPath(c.RunID, "logs"), "", "Accept", "text/plain")
	if string(text.Body) != "one\ntwo\n\xff" || text.Header.Get("Content-Type") != "text/plain; charset=utf-8" {
		t.Errorf("as text: %q %v", text.Body, text.Header)
	}
	lines := s.Send("GET", runPath(c.RunID, "logs")+"?attempt=1&after_seq=0", "")
	if got := strings.Split(strings.TrimSpace(string(lines.Body)), "\n"); len(got) != 2 ||
		!strings.Contains(got[0], `"chunk":"two\n"`) || !strings.Contains(got[1], `"chunk_base64":"/w=="`) {
		t.Errorf("as lines: %s", lines.Body)
	}
	if only := s.Send("GET", runPath(c.RunID, "logs")+"?stream=stderr", "", "Accept",
		"text/plain"); string(only.Body) != "two\n" {
		t.Errorf("stderr: %q", only.Body)
	}
	events := s.Send("GET", runPath(c.RunID, "logs")+"?follow=true", "", "Accept", "text/event-stream",
		"Last-Event-ID", "1.0")
	if body := string(events.Body); !strings.HasPrefix(body, "id: 1.1\nevent: log\ndata: {") ||
		strings.Count(body, "\nevent: log\n") != 2 {
		t.Errorf("as events: %q", body)
	}
	for query, want := range map[string]string{
		"tail_bytes=1": "\xff", "tail_bytes=2": "two\n\xff", "tail_bytes=6": "one\ntwo\n\xff",
		"tail_bytes=8000": "one\ntwo\n\xff",
		"before=1.2":      "one\ntwo\n", "before=1.2&tail_bytes=3": "two\n", "before=1.0": "",
		"tail_bytes=1&follow=true": "\xff",
		"tail_bytes=1&attempt=1":   "\xff", "tail_bytes=1&attempt=2": "", "before=1.1&stream=stderr": "",
		"tail_bytes=1&stream=stderr": "two\n",
	} {
		if got := s.Send("GET", runPath(c.RunID, "logs")+"?format=text&"+query, ""); string(got.Body) != want {
			t.Errorf("%s: %q, want %q", query, got.Body, want)
		}
	}
	for _, query := range []string{
		"after_seq=1", "attempt=1&after_seq=1&tail_bytes=1", "before=1.1&follow=true", "before=1", "before=1.1x", "before=0.1",
		"before=1.-1", "before=99999999999.1", "tail_bytes=0", "tail_bytes=8388609",
	} {
		s.Send("GET", runPath(c.RunID, "logs")+"?"+query, "").Wants(400, "REQ_INVALID_PARAMETER")
	}
	s.Send("GET", runPath(uuid.New(), "logs"), "").Wants(404, "JOB_RUN_NOT_FOUND")
}

func TestFencingTokensGoOneWay(t *testing.T) {
	t.Parallel()
	s := newWorkerEdge(t)
	s.run(s.job)
	c := s.one(s.worker(""), "")
	check := func(key, token string, want bool) {
		t.Helper()
		epoch, seq, _ := strings.Cut(token, ".")
		s.exec(fmt.Sprintf(`UPDATE jobs.job_runs SET leader_epoch = %s, fencing_seq = %s WHERE id = '%s'`, epoch, seq, c.RunID))
		r := s.Send("POST", "/api/v1/fences/"+key+"/check", `{"fencing_token":"`+token+`"}`)
		var f client.FenceCheck
		if r.Into(&f); r.Status != 200 || f.Ok != want || f.FencingToken != token {
			t.Errorf("%s %s: %d %s", key, token, r.Status, r.Body)
		}
	}
	check("ledger%2Feu", "1.5", true)
	check("ledger%2Feu", "1.5", true)
	check("ledger%2Feu", "1.4", false)
	check("ledger%2Feu", "2.1", true)
	check("ledger%2Feu", "1.9", false)
	check("other", "1.1", true)
	s.Send("POST", "/api/v1/fences/x/check", `{"fencing_token":"one"}`).Wants(422, "REQ_SCHEMA")
}

func TestALogIsFollowedToTheEndOfItsRun(t *testing.T) {
	t.Parallel()
	s := newWorkerEdge(t)
	s.run(s.job)
	w := s.worker("")
	c := s.one(w, `,"start":true`)
	s.call(w, c, "logs", `,"seq":0,"chunk":"one\n"`)
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, s.URL+runPath(c.RunID, "logs")+"?follow=true", nil)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Accept", "text/plain")
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	lines := bufio.NewReader(res.Body)
	for i, want := range []string{"one\n", "two\n", "three\n"} {
		if got, err := lines.ReadString('\n'); err != nil || got != want {
			t.Fatalf("%q, %v; want %q", got, err, want)
		}
		switch i {
		case 0:
			s.call(w, c, "logs", `,"seq":1,"chunk":"two\n"`)
		case 1:
			s.call(w, c, "logs", `,"seq":2,"chunk":"three\n"`)
			s.call(w, c, "complete", "").Ended("SUCCEEDED", false)
		}
	}
	if rest, err := io.ReadAll(lines); err != nil || len(rest) > 0 {
		t.Errorf("%q, %v", rest, err)
	}
}

func TestASuccessIsFollowedByTheRunsThatItWants(t *testing.T) {
	t.Parallel()
	s := newWorkerEdge(t)
	s.run(s.job)
	w := s.worker("")
	c := s.one(w, `,"start":true`)
	s.call(w, c, "complete", `,"emit":[{"run":{"definition":"report","args":{"n":2}}},{}]`).Wants(422, "REQ_SCHEMA")
	s.call(w, c, "complete", `,"emit":[{"run":{"definition":"report","args":{"n":2}}}]`).Ended("SUCCEEDED", false)
	if next := s.one(w, ""); string(next.Args) != `{"n":2}` {
		t.Errorf("the run that it wants: %+v", next)
	}
}
