package jobpages_test

import (
	"strings"
	"testing"

	"github.com/skald-saga/skald/internal/test/uitest"
)

// TestWorkersAreDrainedAndDetachedFromTheirPages shows what a worker has before it is detached.
func TestWorkersAreDrainedAndDetachedFromTheirPages(t *testing.T) {
	s := uitest.Start(t)
	for _, queue := range []string{"rows", "gpu"} {
		if status, doc := s.Call(t, "POST", "/job-definitions", map[string]any{
			"name": "job-" + queue, "type": "manual", "command_name": "import", "queue": queue,
		}); status != 201 {
			t.Fatalf("%d %v", status, doc)
		}
	}
	s.Call(t, "POST", "/job-definitions/job-rows/runs", map[string]any{})
	w := worker(t, s, "rows")
	run, _ := claims(t, s, w)
	page := reads(t, s, "/ui/workers", "is the leader", "no active worker takes it", w)
	if strings.Index(page, "queue=gpu") > strings.Index(page, "queue=rows") {
		t.Error("a queue that nobody takes is not in front")
	}
	one := "/ui/workers/" + w
	page = reads(t, s, one, run, "/actions/drain", "/actions/detach", "for all commands")
	if strings.Contains(page, "/actions/undrain") {
		t.Error("a worker that is not draining can be undrained")
	}
	reads(t, s, one+"/actions/drain", "The state changes from <code>active</code> to <code>draining</code>.")
	posts(t, s, one+"/actions/drain", "reason", hostile)
	reads(t, s, one, "draining", "/actions/undrain", "Takes no new runs. Registered for runs of queue rows, for all commands.")
	posts(t, s, one+"/actions/undrain", "reason", "over")
	detach := one + "/actions/detach"
	form := uitest.Form(reads(t, s, detach, run, "in doubt immediately"))
	form.Set("reason", "its host is gone")
	if status, page, _ := s.Post(t, detach, form); status != 400 || !strings.Contains(page, "Not confirmed") {
		t.Errorf("it is detached without confirmation: %d\n%s", status, page)
	}
	posts(t, s, detach, "reason", "its host is gone", "confirm", w[len(w)-6:])
	reads(t, s, one, "detached", "/actions/undetach", "Reattach…")
	page = reads(t, s, one+"/actions/drain", "Possible now: reattach.", `<button class="first" disabled>Drain</button>`)
	if strings.Contains(page, "What it would do") || strings.Contains(page, `value="act"`) {
		t.Errorf("an action that the state forbids is offered\n%s", page)
	}
	reads(t, s, "/ui/workers?state=DETACHED", w)
	if status, _ := s.Get(t, "/ui/workers?state=NONE"); status != 400 {
		t.Errorf("an unknown state: %d", status)
	}
	if status, _ := s.Get(t, "/ui/workers/none"); status != 404 {
		t.Errorf("no such worker: %d", status)
	}
	posts(t, s, "/ui/jobs/events/publish", "event_type", "order.paid", "payload", `{"text": "<script>alert(1)</script>"}`,
		"correlation_id", hostile)
	reads(t, s, "/ui/jobs/events?event_type=order.paid", "order.paid", "alert(1)")
	reads(t, s, "/ui/jobs/events?event_type=none", "No events match these filters")
	_, leader := s.Call(t, "GET", "/scheduler/leader", nil)
	reads(t, s, "/ui/scheduler/step-down", "Type <code>")
	posts(t, s, "/ui/scheduler/step-down", "reason", "maintenance", "confirm", text(leader["epoch"]))
}

// TestAQueueSaysWhichWorkersTakeItsRuns checks that the queue is green only while an active worker
// takes its runs, and names those that no longer do.
func TestAQueueSaysWhichWorkersTakeItsRuns(t *testing.T) {
	s := uitest.Start(t)
	const green, amber = `class="box done"`, `class="box undo"`
	reads(t, s, "/ui/queues/rows", amber, "No active worker takes its runs.")
	w := worker(t, s, "rows")
	link := `<a href="/ui/workers/` + w + `">`
	reads(t, s, "/ui/queues/rows", green, "1 active worker takes its runs: "+link)
	for _, gone := range []struct{ action, says string }{
		{"drain", "is draining: it finishes its runs and takes no new ones."},
		{"detach", "is detached: it takes no runs unless it is reattached, or its process registers again."},
	} {
		if status, doc := s.Call(t, "POST", "/workers/"+w+"/"+gone.action, map[string]any{"reason": "gone"}); status != 200 {
			t.Fatalf("%s: %d %v", gone.action, status, doc)
		}
		page := reads(t, s, "/ui/queues/rows", amber, "No active worker takes its runs.", link, gone.says)
		if strings.Contains(page, green) {
			t.Errorf("a queue that no worker takes is green\n%s", page)
		}
	}
	worker(t, s, "rows")
	if page := reads(t, s, "/ui/queues/rows", green); strings.Contains(page, "is detached") {
		t.Errorf("a queue that a worker takes says who does not\n%s", page)
	}
}
