package systempages_test

import (
	"bufio"
	"cmp"
	"fmt"
	"html"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"testing"

	"github.com/skald-saga/skald/internal/test/patience"
	"github.com/skald-saga/skald/internal/test/uitest"
)

// TestTheOverviewNamesCauses fills a server with things that need attention, finds each of them,
// and follows its link.
func TestTheOverviewNamesCauses(t *testing.T) {
	s := uitest.Start(t)
	if status, page := s.Get(t, "/ui/"); status != 200 || !strings.Contains(page, "Nothing needs action") {
		t.Errorf("an empty server: %d\n%s", status, page)
	}
	made := func(method, path string, body any) map[string]any {
		t.Helper()
		status, doc := s.Call(t, method, path, body)
		if status/100 != 2 {
			t.Fatalf("%s %s: %d %v", method, path, status, doc)
		}
		return doc
	}
	step := func(name, action, undo string) map[string]any {
		return map[string]any{
			"name": name, "action": map[string]any{"http": map[string]any{"url": s.Participant + action}},
			"compensation": map[string]any{"http": map[string]any{"url": s.Participant + undo}},
		}
	}
	made("POST", "/workflows", map[string]any{
		"name": "order", "steps": []any{step("reserve", "/ok", "/503/undo"), step("charge", "/409/charge", "/ok")},
		"compensation_retry": map[string]any{"max_attempts": 1},
	})
	saga := made("POST", "/sagas", map[string]any{
		"workflow_name": "order", "business_key": hostile, "correlation_id": "c-7",
	})["saga_id"].(string)
	letter := made("POST", "/dlq/messages", map[string]any{
		"original_topic": "payments" + hostile, "error_message": "timeout " + hostile, "payload": map[string]any{"a": 1},
		"correlation_id": "c-7", "trace_id": "t-7", "target": map[string]any{"kind": "http", "url": s.Participant + "/ok"},
	})
	made("POST", "/job-definitions", map[string]any{
		"name": "nightly", "type": "manual", "command_name": "report", "queue": "gpu",
	})
	run := made("POST", "/job-definitions/nightly/runs", map[string]any{"correlation_id": "c-8"})["id"].(string)
	var page string
	patience.Until(t, "both causes are on the page", func() bool {
		_, page = s.Get(t, "/ui/")
		return strings.Contains(page, "1 saga of order: the compensation of reserve gave up (http_503)") &&
			strings.Contains(page, "Two things need action")
	})
	if !strings.Contains(page, `href="/ui/sagas/`+saga+`"`) || !strings.Contains(page, "<title>(2) Overview") ||
		!strings.Contains(page, "A new error in payments") {
		t.Errorf("the overview:\n%s", page)
	}
	_, groups := s.Call(t, "GET", "/dlq/groups?topic="+url.QueryEscape("payments"+hostile), nil)
	group := groups["groups"].([]any)[0].(map[string]any)["fingerprint"].(string)
	id := letter["id"].(string)
	for q, kinds := range map[string]string{
		saga: "saga", strings.ToUpper(saga): "saga", hostile: "saga", "c-7": "dead_letter saga", "t-7": "dead_letter",
		id: "dead_letter", group: "dead_letter_group", run: "job_run", "nightly": "job_definition", "order": "workflow",
		"payments" + hostile: "topic", "nothing": "", "c-*": "job_run saga", "c-": "job_run saga", "c-8": "job_run",
		"night": "job_definition", "ord*": "workflow", "payments<": "topic", hostile[:3]: "saga", "*": "", "night_": "",
	} {
		_, found := s.Call(t, "GET", "/search?q="+url.QueryEscape(q), nil)
		got := map[string]bool{}
		for _, h := range found["hits"].([]any) {
			hit := h.(map[string]any)
			got[hit["kind"].(string)] = true
			link := strings.TrimPrefix(hit["link"].(string), "/api/v1")
			if status, doc := s.Call(t, "GET", link, nil); status != 200 {
				t.Errorf("%s leads to %s: %d %v", q, link, status, doc)
			}
		}
		for _, k := range strings.Fields(kinds) {
			if !got[k] {
				t.Errorf("%s: found %v, want %s", q, got, kinds)
			}
		}
		if len(got) != len(strings.Fields(kinds)) {
			t.Errorf("%s: found %v, want %s", q, got, kinds)
		}
	}
	for q, want := range map[string]string{
		saga: `href="/ui/sagas/` + saga, s.URL + "/api/v1/sagas/" + saga + "/events?order=asc": `href="/ui/sagas/` + saga,
		"/ui/dlq/letters/" + id: `href="/ui/dlq/letters/` + id, "register": `href="/ui/register-workflow"`,
		hostile: `href="/ui/sagas/` + saga, "nothing like it": "Nothing matches or begins with this", "": `href="/ui/workers"`,
		strings.Repeat("a", 256): "REQ_INVALID_PARAMETER", "publish": `href="/ui/jobs/events/publish"`,
		s.URL + "/api/v1/job-runs/" + run + "/logs?format=text": `href="/ui/runs/` + run + `"><`,
		s.URL + "/skald/api/v1/sagas?status=failed":             `href="/ui/sagas?status=failed"`,
		s.URL + "/api/v1/dlq/archive/" + id:                     `href="/ui/dlq/letters/` + id + `"`,
		s.URL + "/ui/runs?queue=gpu":                            `href="/ui/runs?queue=gpu"`,
	} {
		_, found := s.Get(t, strings.TrimSuffix("/ui/search?q="+url.QueryEscape(q), "?q="))
		if !strings.Contains(found, want) {
			t.Errorf("go to %q: no %s in\n%s", q, want, found)
		}
		page += found
	}
	if strings.Contains(page, hostile) || strings.Contains(page, " style=") {
		t.Error("a page contains text of a client as markup, or an inline style")
	}
	_, all := s.Get(t, "/ui/search")
	_, all, _ = strings.Cut(all, `id="hits"`)
	all, _, _ = strings.Cut(all, "</main>")
	for _, link := range strings.Split(all, `href="`)[1:] {
		link, _, _ = strings.Cut(link, `"`)
		if status, page := s.Get(t, link); status != 200 {
			t.Errorf("%s is offered by name, and answers %d\n%s", link, status, page)
		}
	}
	follow(t, s, saga, id, run, group)
	made("POST", "/workflows", map[string]any{
		"name": "order", "steps": []any{step("reserve", "/ok", "/409/undo"), step("charge", "/409/charge", "/ok")},
	})
	made("POST", "/workflows", map[string]any{ // the third version, with the step at another place
		"name": "order", "compensation_retry": map[string]any{"max_attempts": 1},
		"steps": []any{step("greet", "/ok", "/ok"), step("reserve", "/ok", "/503/undo"),
			step("charge", "/409/charge", "/ok")},
	})
	for i, version := range []int{1, 2, 2, 3} { // with the first, three of one kind, and two of another
		of := map[string]any{"workflow_name": "order", "business_key": fmt.Sprint(i), "workflow_version": version}
		made("POST", "/sagas", of)
	}
	failingRuns(made)
	theButtonDoesWhatItSays(t, s)
}

// failingRuns checks four failed runs: two have the same cause, one has a different cause, and one
// was rerun.
func failingRuns(made func(method, path string, body any) map[string]any) {
	made("POST", "/job-definitions", map[string]any{
		"name": "rows", "type": "manual", "command_name": "rows", "queue": "rows", "concurrency_policy": "allow",
	})
	for range 4 {
		made("POST", "/job-definitions/rows/runs", map[string]any{})
	}
	w := made("POST", "/workers", map[string]any{"name": "w", "node": "n", "sdk": "test", "queues": []string{"rows"},
		"max_runs": 4})["worker_id"].(string)
	first := ""
	for i := range 4 {
		r := made("POST", "/workers/"+w+"/claim", map[string]any{"slots": 1, "wait_ms": 30000, "start": true})
		run := r["runs"].([]any)[0].(map[string]any)
		id := run["run_id"].(string)
		made("POST", "/job-runs/"+id+"/fail", map[string]any{
			"worker_id": w, "attempt": run["attempt"], "lease_token": run["lease_token"], "leader_epoch": run["leader_epoch"],
			"error": map[string]any{"code": []string{"BAD_FILE", "DISK_FULL"}[i/3], "message": "x", "retryable": false},
		})
		first = cmp.Or(first, id)
	}
	made("POST", "/job-runs/"+first+"/rerun", map[string]any{"reason": "again"})
}

// theButtonDoesWhatItSays checks that a cause of several sagas opens the form for the bulk
// operation that its button names, for exactly the sagas that it counts.
func theButtonDoesWhatItSays(t *testing.T, s *uitest.Server) {
	t.Helper()
	var page string
	patience.Until(t, "the causes are counted", func() bool {
		_, page = s.Get(t, "/ui/")
		return strings.Contains(page, "3 sagas of order: the compensation of reserve gave up (http_503)") &&
			strings.Contains(page, "2 sagas of order: the compensation of reserve gave up (http_409)") &&
			strings.Contains(page, "Job rows failed: 2 runs in the last 24 h (BAD_FILE)")
	})
	runs := regexp.MustCompile(`href="(/ui/run-bulks/new[^"]*)">Rerun 2 runs…`).FindAllStringSubmatch(page, -1)
	if len(runs) != 1 {
		t.Fatalf("%d buttons run two runs again:\n%s", len(runs), page)
	}
	_, form := s.Get(t, html.UnescapeString(runs[0][1]))
	preset := strings.Contains(form, `<option value="rerun" selected`)
	if matched := uitest.Form(form).Get("matched"); !preset || matched != "2" {
		t.Errorf("%s: running again is preset: %v, for %q runs\n%s", runs[0][1], preset, matched, form)
	}
	buttons := regexp.MustCompile(`href="(/ui/sagas/bulk/new[^"]*)">Resume ([23]) sagas…`).FindAllStringSubmatch(page, -1)
	if len(buttons) != 2 {
		t.Fatalf("%d buttons resume many sagas:\n%s", len(buttons), page)
	}
	for _, b := range buttons {
		_, form := s.Get(t, html.UnescapeString(b[1]))
		preset := strings.Contains(form, `<option value="resume-compensation" selected`)
		if matched := uitest.Form(form).Get("matched"); !preset || matched != b[2] {
			t.Errorf("%s: resuming %s is preset: %v, for %q sagas", b[1], b[2], preset, matched)
		}
	}
}

// follow opens a stream and expects a change of each kind.
func follow(t *testing.T, s *uitest.Server, saga, letter, run, group string) {
	t.Helper()
	req, err := http.NewRequestWithContext(patience.Context(t), http.MethodGet,
		fmt.Sprintf("%s/api/v1/watch?saga=%s&letter=%s&run=%s&group=%s", s.URL, saga, letter, run, group), http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	in := bufio.NewScanner(res.Body)
	next := func(event, want string) {
		t.Helper()
		for in.Scan() {
			if in.Text() == "event: "+event && in.Scan() && strings.Contains(in.Text(), want) {
				return
			}
		}
		t.Fatalf("the stream ended before %s %s: %v", event, want, in.Err())
	}
	next("saga", `"state":"failed"`)
	next("run", `"state":"PENDING"`)
	next("letter", `"state":"PENDING"`)
	next("group", `"state":"NEW"`)
	for _, change := range []struct{ method, path, body, event, want string }{
		{"POST", "/job-runs/" + run + "/cancel", "", "run", `"state":"CANCELED"`},
		{"POST", "/dlq/messages/" + letter + "/discard", "", "letter", `"state":"DEAD"`},
	} {
		if status, doc := s.Call(t, change.method, change.path, map[string]any{"reason": "test"}); status/100 != 2 {
			t.Fatalf("%s: %d %v", change.path, status, doc)
		}
		next(change.event, change.want)
	}
}

// TestTheMostUrgentCausesComeFirst checks that if there are very many causes, the page shows the
// first ones and the number of omitted ones, and shows all of them on request. Its heading counts
// all.
func TestTheMostUrgentCausesComeFirst(t *testing.T) {
	s := uitest.Start(t)
	var letters []any
	for n := range 30 {
		letters = append(letters, map[string]any{
			"original_topic": fmt.Sprintf("topic-%02d", n), "error_message": "timeout", "payload": map[string]any{},
			"target": map[string]any{"kind": "http", "url": s.Participant + "/ok"},
		})
	}
	s.Must(t, "POST", "/dlq/messages/batch", map[string]any{"messages": letters})
	shown := func(page string) int { return strings.Count(page, `<li class="cause"`) }
	patience.Until(t, "thirty causes are counted", func() bool {
		_, page := s.Get(t, "/ui/")
		return strings.Contains(page, "30 things need action") && shown(page) == 25 &&
			strings.Contains(page, `<a href="/ui/?causes=all">Show 5 less urgent ones</a>`) &&
			strings.Contains(page, `id="causes" data-less="5"`)
	})
	if _, page := s.Get(t, "/ui/?causes=all"); shown(page) != 30 || strings.Contains(page, "less urgent") {
		t.Errorf("%d of 30 causes:\n%s", shown(page), page)
	}
}
