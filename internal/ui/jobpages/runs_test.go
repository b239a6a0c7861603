package jobpages_test

import (
	"net/url"
	"strings"
	"testing"

	"github.com/skald-saga/skald/internal/test/patience"
	"github.com/skald-saga/skald/internal/test/uitest"
)

// worker registers a worker that takes whatever it is given from a queue.
func worker(t *testing.T, s *uitest.Server, queue string) string {
	t.Helper()
	status, doc := s.Call(t, "POST", "/workers", map[string]any{
		"name": hostile, "node": hostile, "sdk": "test", "queues": []string{queue}, "max_runs": 5,
	})
	if status != 201 {
		t.Fatalf("register: %d %v", status, doc)
	}
	return doc["worker_id"].(string)
}

// claims returns a started run from its queue, and the fencing token for calls about it.
func claims(t *testing.T, s *uitest.Server, worker string) (id string, fence map[string]any) {
	t.Helper()
	status, doc := s.Call(t, "POST", "/workers/"+worker+"/claim", map[string]any{
		"slots": 1, "wait_ms": 30000, "start": true,
	})
	runs, _ := doc["runs"].([]any)
	if status != 200 || len(runs) != 1 {
		t.Fatalf("claim: %d %v", status, doc)
	}
	r := runs[0].(map[string]any)
	return r["run_id"].(string), map[string]any{
		"worker_id": worker, "attempt": r["attempt"], "lease_token": r["lease_token"], "leader_epoch": r["leader_epoch"],
	}
}

func with(fence map[string]any, more ...any) map[string]any {
	out := map[string]any{}
	for name, value := range fence {
		out[name] = value
	}
	for i := 0; i < len(more); i += 2 {
		out[more[i].(string)] = more[i+1]
	}
	return out
}

// TestARunIsFollowedAndActedOnFromItsPages goes through the life of a run: waiting, with a worker, failed, rerun.
func TestARunIsFollowedAndActedOnFromItsPages(t *testing.T) {
	s := uitest.Start(t)
	call := func(want int, method, path string, body any) map[string]any {
		t.Helper()
		status, doc := s.Call(t, method, path, body)
		if status != want {
			t.Fatalf("%s %s: %d %v", method, path, status, doc)
		}
		return doc
	}
	call(201, "POST", "/job-definitions", map[string]any{
		"name": "import", "type": "manual", "command_name": "import", "queue": "rows",
		"default_args": map[string]any{"text": hostile},
	})
	start := func() string {
		return call(201, "POST", "/job-definitions/import/runs", map[string]any{"correlation_id": hostile})["id"].(string)
	}
	id := start()
	reads(t, s, "/ui/runs/"+id, "It has been waiting for a", "/actions/cancel", "created")
	w := worker(t, s, "rows")
	got, fence := claims(t, s, w)
	if got != id {
		t.Fatalf("claimed %s, want %s", got, id)
	}
	call(200, "POST", "/job-runs/"+id+"/progress", with(fence, "percent", 40, "message", hostile))
	call(200, "POST", "/job-runs/"+id+"/logs", with(fence, "seq", 0, "chunk",
		"\x1b[32mgreen\x1b[0m "+hostile+"\n"+strings.Repeat("row\n", 300), "stream", "stdout"))
	page := reads(t, s, "/ui/runs/"+id, "40.0 %", "The last 200 lines. The download also has the earlier lines (101)", "/actions/reassign", "in progress")
	if strings.Contains(page, "\x1b") {
		t.Error("the log has sequences of a terminal")
	}
	reads(t, s, "/ui/runs/"+id+"?tab=data", "alert(1)")
	reassign := "/ui/runs/" + id + "/actions/reassign"
	form := uitest.Form(reads(t, s, reassign, "RUNNING"))
	form.Set("reason", "its host hangs")
	if status, page, _ := s.Post(t, reassign, form); status != 409 || !strings.Contains(page, "force") {
		t.Errorf("a running run is reassigned without force: %d\n%s", status, page)
	}
	call(200, "POST", "/job-runs/"+id+"/fail", with(fence, "error", map[string]any{
		"code": "DISK_FULL", "message": hostile, "stack": hostile, "retryable": false,
	}))
	failed := reads(t, s, "/ui/runs/"+id, "DISK_FULL", "not retryable", "stack trace")
	if n := strings.Count(failed, "DISK_FULL"); n != 1 {
		t.Errorf("the page of a failed run says its error %d times", n)
	}
	_, attempts := s.Call(t, "GET", "/job-runs/"+id+"/attempts", nil)
	token := attempts["attempts"].([]any)[0].(map[string]any)["fencing_token"].(string)
	reads(t, s, "/ui/runs/"+id+"?tab=decisions", "started", "assigned", "failed", ">Fence</th>",
		`data-label="Fence"><code>`+token+"</code></td>", "/logs?format=text&amp;attempt=1")
	blocked(t, s)
	reads(t, s, "/ui/runs/"+id+"?tab=json", "DISK_FULL")
	reads(t, s, "/ui/runs/"+id+"/actions/rerun", `placeholder="{&#34;text&#34;:`, "It is due now")
	again := posts(t, s, "/ui/runs/"+id+"/actions/rerun", "reason", "there is room now")
	reads(t, s, again+"?tab=retries", id)

	reads(t, s, "/ui/runs?error_code=DISK_FULL", "1 run", "DISK_FULL")
	reads(t, s, "/ui/runs?state=FAILED&state=TIMED_OUT&finished_from=-1h", "import", `name="state" value="TIMED_OUT"`)
	for query, want := range map[string][2]bool{ // whether they can be canceled, and run again
		"state=FAILED": {false, true}, "state=PENDING&state=RUNNING": {true, false}, "state=FAILED&state=PENDING": {true, true},
		"": {true, true},
	} {
		page := reads(t, s, "/ui/runs?"+query, "Runs")
		if query == "state=FAILED" &&
			(strings.Contains(page, "Cancel selected") || !strings.Contains(page, "Rerun selected")) {
			t.Errorf("runs that have ended can be canceled, or not run again\n%s", page)
		}
		got := [2]bool{strings.Contains(page, "Cancel all that match"), strings.Contains(page, "Rerun all that match")}
		if got != want {
			t.Errorf("runs with %q: actions on all are offered %v, want %v", query, got, want)
		}
	}
	reads(t, s, "/ui/runs?correlation_id="+url.QueryEscape(hostile[:1])+"*", ", by correlation", "import",
		"filter.correlation_id_prefix="+url.QueryEscape(hostile[:1]))
	reads(t, s, "/ui/runs?queue=none", "No runs match these filters")
	if status, page := s.Get(t, "/ui/runs?no_such_filter=1"); status != 400 || !strings.Contains(page, "no_such_filter") {
		t.Errorf("an unknown filter: %d\n%s", status, page)
	}

	other := start()
	many := "/ui/runs/selected?action=cancel&run=" + strings.TrimPrefix(again, "/ui/runs/") + "&run=" + id
	form = uitest.Form(reads(t, s, many, "not possible in this state",
		"The state changes from pending to canceled.", "possible for <code>1</code> of these runs"))
	form.Set("reason", "not today")
	status, page, _ := s.Post(t, many, form)
	if status != 200 || strings.Count(page, "accepted") != 1 || strings.Count(page, ">refused") != 1 {
		t.Errorf("an action on two runs: %d\n%s", status, page)
	}
	if status, _ := s.Get(t, "/ui/runs/selected?action=cancel"); status != 400 {
		t.Errorf("nothing selected: %d", status)
	}
	bulk := "/ui/run-bulks/new?action=cancel&filter.definition=import&filter.states=PENDING"
	reads(t, s, bulk, "<code>1</code> run matches",
		"The state of 1 run changes from <code>pending</code> to <code>canceled</code>.")
	const dead = `value="act" disabled>Start`
	reads(t, s, "/ui/run-bulks/new", dead, "Choose what to do.")
	reads(t, s, "/ui/run-bulks/new?action=rerun", dead, "Choose which runs")
	if page := reads(t, s, "/ui/run-bulks/new?action=rerun&all=true", "match"); strings.Contains(page, dead) {
		t.Errorf("all runs are meant, and the form cannot be sent\n%s", page)
	}
	form = uitest.Form(reads(t, s, "/ui/run-bulks/new?action=cancel"))
	form.Set("reason", "all of them?")
	form.Set("do", "act")
	if status, page, _ := s.Post(t, "/ui/run-bulks/new", form); status != 400 || !strings.Contains(page, "Not complete") {
		t.Errorf("a bulk operation on nothing in particular: %d\n%s", status, page)
	}
	for _, typed := range []string{"filter.triggers=schedule", "filter.triggers=TIME", "filter.states=failed"} {
		reads(t, s, "/ui/run-bulks/new?action=rerun&"+typed, "What it would do")
	}
	to := posts(t, s, bulk, "action", "cancel", "filter.definition", "import", "filter.states", "PENDING",
		"reason", hostile)
	reads(t, s, to, "runs checked", "accepted, ", "Accepted means that the run was asked to end", "PENDING")
	reads(t, s, "/ui/run-bulks", strings.TrimPrefix(to, "/ui/run-bulks/"))
	reads(t, s, "/ui/runs/"+other)
}

// blocked checks that the second of two runs that must not overlap states which run it waits for.
func blocked(t *testing.T, s *uitest.Server) {
	t.Helper()
	if status, doc := s.Call(t, "POST", "/job-definitions", map[string]any{
		"name": "serial", "type": "manual", "command_name": "serial", "queue": "serial", "concurrency_policy": "queue",
	}); status != 201 {
		t.Fatalf("define: %d %v", status, doc)
	}
	var runs []string
	for range 2 {
		_, doc := s.Call(t, "POST", "/job-definitions/serial/runs", map[string]any{})
		runs = append(runs, doc["id"].(string))
	}
	if first, _ := claims(t, s, worker(t, s, "serial")); first != runs[0] {
		t.Fatalf("claimed %s, want %s", first, runs[0])
	}
	patience.Until(t, "the second run says what it waits for", func() bool {
		_, page := s.Get(t, "/ui/runs/"+runs[1])
		return strings.Contains(page, `Waiting for <a href="/ui/runs/`+runs[0])
	})
}
