package app_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/uuid"

	"github.com/skald-saga/skald/internal/test/patience"
)

// works registers a worker of the tenant.
func (of *twin) works() (worker string) {
	of.t.Helper()
	for _, job := range []string{"settle", "unsettle"} {
		of.does(
			"POST",
			"/job-definitions",
			fmt.Sprintf(`{"name":%q,"type":"manual","command_name":%[1]q,"retry":{"max_attempts":1}}`, job),
		)
	}
	of.does("POST", "/workflows", `{"name":"settled","steps":[
		{"name":"settle","type":"job","job":"settle","args":{"of":"${payload.of}"},"compensation":{"job":"unsettle","args":{"of":"${payload.of}"}}},
		{"name":"confirm","type":"job","job":"settle","args":{"of":"${payload.of}"},"compensation":"none"}]}`)
	return of.does("POST", "/workers", `{"name":"w","queues":["default"],"max_runs":10}`)["worker_id"].(string)
}

// claims waits for the tenant's next run and starts it.
func (of *twin) claims(worker, command string) map[string]any {
	of.t.Helper()
	var run map[string]any
	patience.Until(of.t, of.name+" gets a run of "+command, func() bool {
		runs, _ := of.does("POST", "/workers/"+worker+"/claim", `{"slots":5,"wait_ms":500,"start":true}`)["runs"].([]any)
		if len(runs) > 1 {
			of.t.Fatalf("%s has %d runs: %v", of.name, len(runs), runs)
		}
		if len(runs) == 1 {
			run = runs[0].(map[string]any)
		}
		return run != nil
	})
	if run["command"] != command || fmt.Sprint(run["args"]) != "map[of:"+of.name+"]" {
		of.t.Fatalf("%s has got %v", of.name, run)
	}
	return run
}

// ends reports the outcome of a run.
func (of *twin) ends(worker, verb, with string, run map[string]any) (status int) {
	of.t.Helper()
	status, _ = of.as(of.key, "POST", fmt.Sprintf("/api/v1/job-runs/%s/%s", run["run_id"], verb), fmt.Sprintf(
		`{"worker_id":%q,"attempt":%v,"lease_token":%q,"leader_epoch":%v,%s}`,
		worker,
		run["attempt"],
		run["lease_token"],
		run["leader_epoch"],
		with,
	))
	return status
}

// The runs of two sagas with the same id belong to their own tenants: neither worker gets or
// ends the other's, and neither saga is affected by it.
func TestTheRunsOfTwinsAreTheirOwn(t *testing.T) {
	t.Parallel()
	w := newTwins(t)
	workers := map[*twin]string{w.a: w.a.works(), w.b: w.b.works()}
	id := w.start("settled", inState("running"))
	runs := map[*twin]map[string]any{}
	for _, of := range []*twin{w.a, w.b} {
		runs[of] = of.claims(workers[of], "settle")
		if of.does("GET", "/job-runs?saga_id="+id, "")["pagination"].(map[string]any)["total_count"] != 1.0 {
			t.Errorf("%s sees more runs of the saga than its own", of.name)
		}
	}
	if runs[w.a]["run_id"] == runs[w.b]["run_id"] {
		t.Fatalf("both have the run %v", runs[w.a])
	}
	for of, run := range runs { // both may write to the same system
		if want := of.tenant.String() + "/saga:" + id + ":0:EXECUTE:1"; run["idempotency_key"] != want {
			t.Errorf("the key of the run of %s is %v, want %s", of.name, run["idempotency_key"], want)
		}
	}
	if status := w.b.ends(workers[w.b], "complete", `"result":{}`, runs[w.a]); status != 404 {
		t.Errorf("completing the other's run: %d", status)
	}
	if status := w.a.ends(workers[w.a], "complete", `"result":{"by":"alder"}`, runs[w.a]); status != 200 {
		t.Fatalf("complete: %d", status)
	}
	next := w.a.claims(workers[w.a], "settle") // its second step
	if doc := w.b.saga(id); doc["current_step"] != 0.0 || doc["state"] != "running" {
		t.Errorf("the other's saga has gone on: %v", doc)
	}
	if status := w.b.ends(workers[w.b], "complete", `"result":{"by":"birch"}`, runs[w.b]); status != 200 {
		t.Fatalf("complete: %d", status)
	}
	theirs := w.b.claims(workers[w.b], "settle")
	if status := w.a.ends(workers[w.a], "fail", `"error":{"code":"NO","retryable":false}`, next); status != 200 {
		t.Fatalf("fail: %d", status)
	}
	undo := w.a.claims(workers[w.a], "unsettle")
	if status := w.b.ends(workers[w.b], "complete", `"result":{"by":"birch"}`, theirs); status != 200 {
		t.Fatalf("complete: %d", status)
	}
	if done := w.b.until(id, inState("completed")); !strings.Contains(fmt.Sprint(done["result"]), "birch") ||
		strings.Contains(fmt.Sprint(done), "alder") {
		t.Errorf("the other's saga ended as %v", done)
	}
	if doc := w.a.saga(id); doc["state"] != "compensating" {
		t.Errorf("the saga that is being undone is %v", doc["state"])
	}
	if status := w.a.ends(workers[w.a], "complete", `"result":{}`, undo); status != 200 {
		t.Fatalf("complete the undo: %d", status)
	}
	if doc := w.a.until(id, inState("compensated")); strings.Contains(fmt.Sprint(doc), "birch") {
		t.Errorf("the saga has words of the other: %v", doc)
	}
}

// The dead letters of two sagas with the same id whose compensations gave up each continue
// their own saga.
func TestTheDeadLettersOfTwinsAreTheirOwn(t *testing.T) {
	t.Parallel()
	w := newTwins(t)
	for _, how := range []string{"resolve", "retry"} {
		id := w.start("strands", inState("failed"))
		letters := map[*twin]string{}
		for _, of := range []*twin{w.a, w.b} {
			letters[of], _ = of.saga(id)["dead_letter_id"].(string)
			list := of.does("GET", "/dlq/messages?saga_id="+id, "")["messages"].([]any)
			if len(list) != 1 || list[0].(map[string]any)["id"] != letters[of] {
				t.Fatalf("%s has the letters %v, and its saga waits for %s", of.name, list, letters[of])
			}
		}
		if letters[w.a] == letters[w.b] {
			t.Fatalf("both wait for %s", letters[w.a])
		}
		before, undos := w.b.saga(id), len(w.b.keys("/undo"))
		if how == "retry" {
			w.a.opens("/undo")
		}
		w.a.does("POST", "/dlq/messages/"+letters[w.a]+"/"+how, `{"reason":"repaired"}`)
		w.a.until(id, inState("compensated"))
		if doc := w.b.saga(id); doc["state"] != "failed" || doc["version"] != before["version"] ||
			doc["dead_letter_id"] != letters[w.b] {
			t.Errorf("%s of the one makes the other's saga %v", how, doc)
		}
		if n := len(w.b.keys("/undo")); n != undos {
			t.Errorf("the other's compensation is called %d times more", n-undos)
		}
		if doc := w.b.does("GET", "/dlq/messages/"+letters[w.b], ""); doc["status"] == "RESOLVED" {
			t.Errorf("%s of the one makes the other's letter %v", how, doc)
		}
		if status, doc := w.as(w.b.key, "POST", "/api/v1/dlq/messages/"+letters[w.a]+"/"+how,
			`{"reason":"mine?"}`); status != 404 {
			t.Errorf("%s of the other's letter: %d %v", how, status, doc)
		}
	}
}

// The form of the idempotency keys of a saga's calls is decided when it is created: neither a
// restart nor another default tenant changes it (decision 0047).
func TestKeysKeepTheirFormWhateverTheDefaultTenantIs(t *testing.T) {
	t.Parallel()
	w := newTwins(t)
	if err := w.stop(); err != nil {
		t.Fatal(err)
	}
	w.begin("second", w.a.tenant) // new sagas of this tenant get keys without the tenant
	id := w.start("waits", waitsAtTwo)
	before := map[*twin][]string{}
	for _, of := range []*twin{w.a, w.b} {
		before[of] = append(of.keys("/one"), of.keys("/two")...)
	}
	if want := []string{id + "/one/execute", id + "/two/execute"}; !slices.Equal(before[w.a], want) {
		t.Fatalf("the default tenant's keys are %q, want %q", before[w.a], want)
	}
	if want := []string{w.b.tenant.String() + "/" + id + "/one/execute", w.b.tenant.String() + "/" + id +
		"/two/execute"}; !slices.Equal(
		before[w.b],
		want,
	) {
		t.Fatalf("the other's keys are %q, want %q", before[w.b], want)
	}
	for i, tenant := range []uuid.UUID{w.a.tenant, w.b.tenant, uuid.New()} { // unchanged, the other tenant, neither
		if err := w.stop(); err != nil {
			t.Fatal(err)
		}
		w.begin(fmt.Sprint("restarted", i), tenant)
		for _, of := range []*twin{w.a, w.b} {
			calls := len(of.keys("/two"))
			of.does("POST", "/sagas/"+id+"/retry", `{}`)
			of.until(id, func(doc map[string]any) bool { return len(of.keys("/two")) > calls && waitsAtTwo(doc) })
			if keys := of.keys("/two"); keys[len(keys)-1] != before[of][1] {
				t.Errorf("the key of %s was %s, and is now %s", of.name, before[of][1], keys[len(keys)-1])
			}
		}
	}
	for _, of := range []*twin{w.a, w.b} {
		of.opens("/undo")
		of.does("POST", "/sagas/"+id+"/cancel", `{}`)
		of.until(id, inState("cancelled"))
		want := strings.Replace(before[of][0], "/one/execute", "/one/compensate", 1)
		if keys := of.keys("/undo"); !slices.Equal(keys, []string{want}) {
			t.Errorf("the keys of the compensation of %s are %q, want %q", of.name, keys, want)
		}
	}
}
