package jobapi_test

import (
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/google/uuid"

	"github.com/skald-saga/skald/api/client"
)

const queues = "/api/v1/job-queues"

// TestAHeldQueueHandsOutNothing checks that waiting runs keep their order, that runs held by
// workers continue, and that no run is assigned before a person releases the queue.
func TestAHeldQueueHandsOutNothing(t *testing.T) {
	t.Parallel()
	e := newJobEdge(t)
	e.define("report", "")
	send := func(verb, body string, header ...string) (q client.JobQueue) {
		t.Helper()
		r := e.Send("POST", queues+"/default/"+verb, body, header...)
		if r.Into(&q); r.Status != http.StatusOK {
			t.Fatalf("%s: %d %s", verb, r.Status, r.Body)
		}
		return q
	}
	e.run("report", `{}`)
	_, taken := e.claim(1, true)
	if len(taken) != 1 {
		t.Fatalf("%d runs were claimed of an open queue", len(taken))
	}
	if q := send("hold?dry_run=true", `{"reason":"maintenance"}`); q.State != "HELD" || q.Version != 0 ||
		q.Changes == nil {
		t.Errorf("the dry run: %+v", q)
	}
	if q := send("hold", `{"reason":"maintenance."}`); q.State != "HELD" || q.Version != 1 || q.HeldBy == nil ||
		q.Since == nil || *q.Reason != "maintenance." {
		t.Errorf("held: %+v", q)
	}
	if q := send("hold", `{"reason":"maintenance."}`); q.Version != 1 {
		t.Errorf("held again: version %d", q.Version)
	}
	var want []uuid.UUID
	for _, priority := range []string{"1", "3", "2"} {
		want = append(want, e.run("report", `{"priority":`+priority+`}`).ID)
	}
	want = []uuid.UUID{want[1], want[2], want[0]}
	if _, offers := e.claim(10, true); len(offers) != 0 {
		t.Errorf("%d runs were handed out of a held queue", len(offers))
	}
	var x client.JobRunExplanation
	e.Send("GET", jobRuns+"/"+want[0].String()+"/explain", "").Reads(http.StatusOK, &x)
	if x.WaitsFor != "queue" || !strings.Contains(x.Summary, `Its queue "default" has been held since`) ||
		!strings.Contains(x.Summary, ": maintenance. The run keeps its place") {
		t.Errorf("explained: %s, %s", x.WaitsFor, x.Summary)
	}
	e.finish(&taken[0], nil) // a run held by a worker continues
	var q client.JobQueue
	e.Send("GET", queues+"/default", "").Reads(http.StatusOK, &q)
	if *q.Waiting != 3 || *q.Running != 0 || q.WaitingIsCapped != nil {
		t.Errorf("counted: %d wait, %d run", *q.Waiting, *q.Running)
	}
	var list client.JobQueueList
	e.Send("GET", queues+"?state=HELD", "").Reads(http.StatusOK, &list)
	if len(list.Queues) != 1 || list.Queues[0].Name != "default" {
		t.Errorf("listed: %+v", list.Queues)
	}
	if r := e.Send("POST", queues+"/default/release", "", "If-Match", `"0"`); r.Status != http.StatusPreconditionFailed {
		t.Errorf("a release of another version: %d", r.Status)
	}
	if q := send("release", `{"reason":"done"}`); q.State != "OPEN" || q.Version != 2 || q.HeldBy != nil ||
		q.Reason != nil {
		t.Errorf("released: %+v", q)
	}
	_, offers := e.claim(10, true)
	var got []uuid.UUID
	for i := range offers {
		got = append(got, offers[i].ID)
	}
	if !slices.Equal(got, want) {
		t.Errorf("handed out %v, want %v", got, want)
	}
}
