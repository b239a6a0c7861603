package jobapi_test

import (
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"

	"github.com/skald-saga/skald/api/client"
	"github.com/skald-saga/skald/internal/jobrun"
	"github.com/skald-saga/skald/internal/test/apitest"
)

func (e *jobEdge) list(query string) client.JobRunList {
	e.T.Helper()
	r := e.Send("GET", jobRuns+"?"+query, "")
	if r.Status != http.StatusOK {
		e.T.Fatalf("%s: %d %s", query, r.Status, r.Body)
	}
	var l client.JobRunList
	r.Into(&l)
	return l
}

func TestRunsAreListedByEachFilter(t *testing.T) {
	t.Parallel()
	e := newJobEdge(t)
	job, other := e.define("job", `"queue":"slow","labels":{"team":"red"}`), e.define("other", "")
	plain := e.run("job", "")
	labeled := e.run("job", `{"labels":{"x":"a=b"},"correlation_id":"c 1"}`)
	failed := e.run("other", "")
	// The rerun has the same slot, but is late only if it starts long after it was requested.
	e.db.SQL().ExecContext(t.Context(), `UPDATE jobs.job_runs SET scheduled_for = scheduled_for - interval '3 hours' WHERE id = $1`, failed.ID) //nolint:errcheck // the checks below show its effect
	worker, offers := e.claim(1, true)
	e.finish(&offers[0], &jobrun.Error{Code: "BOOM", Message: "x"})
	again := e.Send("POST", jobRuns+"/"+failed.ID.String()+"/rerun", "").Run(201)
	_, offers = e.claim(1, true)
	late := e.run("other", "")
	e.db.SQL().ExecContext(t.Context(), `UPDATE jobs.job_runs SET scheduled_for = scheduled_for - interval '90 minutes', available_at = available_at - interval '90 minutes' WHERE id = $1`, late.ID) //nolint:errcheck // the checks below show its effect
	started := e.run("other", "")
	_, two := e.claim(2, true)
	e.db.SQL().ExecContext(t.Context(), `UPDATE jobs.job_runs SET scheduled_for = started_at - interval '30 minutes' WHERE id = $1`, started.ID) //nolint:errcheck // the checks below show its effect
	if len(two) != 2 || offers[0].ID != again.ID {
		t.Fatalf("claimed %d and %d", len(offers), len(two))
	}
	saga, backfill := uuid.New(), uuid.New()
	e.db.SQL().ExecContext(t.Context(), `UPDATE jobs.job_runs SET saga_id = $1, saga_step = 1, backfill_id = $2 WHERE id = $3`, saga, backfill, plain.ID) //nolint:errcheck // the checks below show its effect
	name := map[uuid.UUID]string{plain.ID: "plain", labeled.ID: "labeled", failed.ID: "failed", again.ID: "again",
		late.ID: "late", started.ID: "started"}
	at := func(t time.Time) string { return url.QueryEscape(t.Format(time.RFC3339Nano)) }
	for query, want := range map[string]string{
		"":                           "started late again failed labeled plain",
		"state=PENDING":              "labeled plain",
		"state=FAILED&state=RUNNING": "started late again failed",
		"state=RUNNING&queue=slow":   "",
		"trigger=MANUAL&queue=slow":  "labeled plain",
		"trigger=TIME":               "",
		"definition=job":             "labeled plain",
		"definition=" + other.ID.String() + "&state=FAILED":           "failed",
		"worker=" + worker.String():                                   "failed",
		"worker=" + two[0].WorkerID.String():                          "started late",
		"label=x%3Da%3Db":                                             "labeled",
		"label=team%3Dred":                                            "labeled plain",
		"label=team%3Dblue":                                           "",
		"correlation_id=c+1":                                          "labeled",
		"saga_id=" + saga.String():                                    "plain",
		"backfill_id=" + backfill.String():                            "plain",
		"root_run_id=" + failed.ID.String():                           "again failed",
		"error_code=BOOM":                                             "failed",
		"created_from=" + at(again.CreatedAt):                         "started late again",
		"created_to=" + at(failed.CreatedAt):                          "labeled plain",
		"finished_from=" + at(failed.CreatedAt):                       "failed",
		"finished_to=" + at(plain.CreatedAt):                          "",
		"scheduled_to=" + at(plain.ScheduledFor):                      "started late again failed",
		"scheduled_from=" + at(again.ScheduledFor) + "&state=RUNNING": "started late again",
		"gave_up=true":                                                "",
		"gave_up=false":                                               "started late again failed labeled plain",
		"late_by_min=20":                                              "started late failed",
		"late_by_min=60":                                              "late failed",
		"late_by_min=60&worker=" + two[0].WorkerID.String() + "&state=RUNNING&state=FAILED": "late",
	} {
		l := e.list(query)
		var got []string
		for _, r := range l.JobRuns {
			got = append(got, name[r.ID])
		}
		if strings.Join(got, " ") != want || *l.Pagination.TotalCount != int64(len(got)) {
			t.Errorf("%q lists %v (%d), want %s", query, got, *l.Pagination.TotalCount, want)
		}
	}
	for _, query := range []string{"state=NEW", "worker=" + uuid.Nil.String(), "late_by_min=0", "label=x", "created_from=1969-01-01T00:00:00Z",
		"created_from=2026-02-02T00:00:00Z&created_to=2026-01-01T00:00:00Z",
		"scheduled_from=2026-02-02T00:00:00Z&scheduled_to=2026-01-01T00:00:00Z",
		"finished_from=2026-02-02T00:00:00Z&finished_to=2026-01-01T00:00:00Z"} {
		e.Send("GET", jobRuns+"?"+query, "").Wants(http.StatusBadRequest, "REQ_INVALID_PARAMETER")
	}
	if job.ID == other.ID {
		t.Error("two definitions have one id")
	}
}

func TestRunsArePagedByCursor(t *testing.T) {
	t.Parallel()
	e := newJobEdge(t)
	e.define("job", `"labels":{"a":"b"}`)
	made := map[uuid.UUID]bool{}
	for range 7 {
		made[e.run("job", `{"args":{"a":1}}`).ID] = true
	}
	first := e.list("page_size=3")
	if !first.Pagination.HasNext || *first.Pagination.TotalCount != 7 || first.JobRuns[0].Args != nil {
		t.Errorf("%+v", first.Pagination)
	}
	if full := e.list("view=full&page=3&page_size=3"); len(full.JobRuns) != 1 ||
		string(full.JobRuns[0].Args) != `{"a":1}` {
		t.Errorf("%+v", full)
	}
	seen, cursor := 0, ""
	for {
		l := e.list("label=a%3Db&page_size=3" + cursor)
		for _, r := range l.JobRuns {
			if !made[r.ID] {
				t.Errorf("run %s is listed twice", r.ID)
			}
			delete(made, r.ID)
			seen++
		}
		if !l.Pagination.HasNext {
			break
		}
		cursor = "&cursor=" + *l.Pagination.NextCursor
	}
	if seen != 7 {
		t.Errorf("%d runs listed, want 7", seen)
	}
}

// TestRunsAndDefinitionsAreWalkedInEveryOrder checks that paging returns each of them once while
// others are created and end.
func TestRunsAndDefinitionsAreWalkedInEveryOrder(t *testing.T) {
	t.Parallel()
	e := newJobEdge(t)
	names := []string{"b", "c", "a2", "a", "a10"}
	for _, name := range names {
		e.define(name, "")
	}
	before := map[uuid.UUID]client.JobRun{}
	for i := range 8 {
		e.run(names[i%3], "")
	}
	_, offers := e.claim(5, true)
	for i := range offers[:4] {
		e.finish(&offers[i], &jobrun.Error{Code: "BOOM", Message: "x"})
	}
	for _, r := range e.list("").JobRuns {
		before[r.ID] = r
	}
	for sort, at := range map[string]func(client.JobRun) *time.Time{
		"created_at":    func(r client.JobRun) *time.Time { return &r.CreatedAt },
		"scheduled_for": func(r client.JobRun) *time.Time { return &r.ScheduledFor },
		"finished_at":   func(r client.JobRun) *time.Time { return r.FinishedAt },
	} {
		for _, order := range []string{"asc", "desc"} {
			query, seen, has := "page_size=2&sort="+sort+"&order="+order, map[uuid.UUID]bool{}, 0
			for _, r := range before {
				if at(r) != nil {
					has++
				}
			}
			var last *time.Time
			for cursor := ""; ; {
				l := e.list(query + cursor)
				for _, r := range l.JobRuns {
					if last != nil && at(r).Compare(*last) == map[string]int{"asc": -1, "desc": 1}[order] || seen[r.ID] {
						t.Errorf("%s: %s at %s after %s, seen before: %t", query, r.ID, at(r), last, seen[r.ID])
					}
					if last = at(r); before[r.ID].ID == r.ID {
						has--
					}
					seen[r.ID] = true
				}
				if !l.Pagination.HasNext {
					break
				}
				cursor = "&cursor=" + *l.Pagination.NextCursor
				if len(seen) == 2 {
					e.run("b", "")
					_, offers := e.claim(1, true)
					e.finish(&offers[0], nil)
				}
			}
			if has > 0 {
				t.Errorf("%s: %d of those that were there before are missing", query, has)
			}
			for _, r := range e.list("page_size=100").JobRuns {
				before[r.ID] = r
			}
		}
	}
	for query, want := range map[string]string{
		"": "a10 a a2 c b", "order=asc": "b c a2 a a10", "sort=created_at&order=desc": "a10 a a2 c b",
		"sort=name": "a a10 a2 b c", "sort=name&name=a*&order=desc": "a2 a10 a",
	} {
		var got []string
		for cursor := ""; ; {
			var l client.JobDefinitionList
			e.Send("GET", "/api/v1/job-definitions?built_in=false&page_size=1&"+query+cursor, "").Into(&l)
			for _, d := range l.JobDefinitions {
				got = append(got, d.Name)
			}
			if !l.Pagination.HasNext {
				break
			}
			cursor = "&cursor=" + *l.Pagination.NextCursor
		}
		if strings.Join(got, " ") != want {
			t.Errorf("%s: %s, want %s", query, got, want)
		}
	}
	for _, query := range []string{jobRuns + "?sort=name", jobRuns + "?order=up", jobRuns + "?sort=finished_at&cursor=" +
		*e.list("page_size=1&sort=scheduled_for").Pagination.NextCursor, "/api/v1/job-definitions?sort=state"} {
		e.Send("GET", query, "").Wants(http.StatusBadRequest, "REQ_INVALID_PARAMETER")
	}
}

func TestASchedulePreviewNamesClockChanges(t *testing.T) {
	t.Parallel()
	e := newJobEdge(t)
	preview := func(body string) client.TickList {
		t.Helper()
		r := e.Send("POST", "/api/v1/schedules/preview", body)
		var l client.TickList
		if r.Into(&l); r.Status != http.StatusOK {
			t.Fatalf("%d %s", r.Status, r.Body)
		}
		return l
	}
	l := preview(`{"schedule":{"type":"daily_at","value":"02:30","timezone":"Europe/Berlin"},"from":"2027-03-27T12:00:00Z","count":2}`)
	want := client.TickList{Timezone: "Europe/Berlin", Omitted: []client.Tick{}, Ticks: []client.Tick{
		{At: time.Date(2027, 3, 28, 1, 0, 0, 0, time.UTC), LocalTime: "2027-03-28T02:30:00", Note: new(client.TickNote("moved_gap"))},
		{At: time.Date(2027, 3, 29, 0, 30, 0, 0, time.UTC), LocalTime: "2027-03-29T02:30:00"},
	}}
	if diff := cmp.Diff(want, l); diff != "" {
		t.Errorf("in spring (-want +got):\n%s", diff)
	}
	l = preview(`{"schedule":{"type":"daily_at","value":"02:30","timezone":"Europe/Berlin","dst_overlap":"both"},"from":"2027-10-30T12:00:00Z","count":3}`)
	if len(l.Ticks) != 3 || l.Ticks[1].Note == nil || *l.Ticks[1].Note != "repeated" ||
		l.Ticks[1].At.Sub(l.Ticks[0].At) != time.Hour {
		t.Errorf("%+v", l)
	}
	p := e.Send("POST", "/api/v1/schedules/preview", `{"schedule":{"type":"cron","value":"* * *"}}`).Wants(http.StatusUnprocessableEntity, "JOB_INVALID")
	if p.Errors[0].Pointer != "/schedule/value" {
		t.Errorf("%+v", p.Errors)
	}
	l = preview(`{"schedule":{"type":"daily_at","value":"02:30","timezone":"Europe/Berlin","dst_gap":"skip"},"from":"2027-03-27T12:00:00Z","count":2}`)
	if len(l.Ticks) != 2 || !l.Ticks[0].At.Equal(time.Date(2027, 3, 29, 0, 30, 0, 0, time.UTC)) || len(l.Omitted) != 1 ||
		*l.Omitted[0].Note != "skipped_gap" {
		t.Errorf("what is left out is not a tick: %+v", l)
	}
	l = preview(`{"schedule":{"type":"cron","value":"@daily"},"from":"2027-01-01T00:00:00Z","count":1}`)
	if len(l.Ticks) != 1 || !l.Ticks[0].At.Equal(time.Date(2027, 1, 1, 0, 0, 0, 0, time.UTC)) || len(l.Omitted) != 0 {
		t.Errorf("from is at or after: %+v", l)
	}
	e.hourly("job", "")
	e.define("by-hand", "")
	var next client.TickList
	if e.Send("GET", definitions+"/job/next-runs?count=3&from=2027-01-01T00:00:00Z", "").Into(&next); len(next.Ticks) != 3 ||
		!next.Ticks[0].At.Equal(time.Date(2027, 1, 1, 0, 0, 0, 0, time.UTC)) {
		t.Errorf("%+v", next)
	}
	if e.Send("GET", definitions+"/by-hand/next-runs", "").Into(&next); len(next.Ticks) != 0 {
		t.Errorf("a job without a schedule is due at %+v", next)
	}
}

func TestARunExplainsWhatItWaitsFor(t *testing.T) {
	t.Parallel()
	e := newJobEdge(t)
	e.define("job", "")
	e.define("one", `"concurrency_policy":"queue"`)
	e.define("gpu", `"required_labels":{"gpu":"yes"}`)
	explain := func(r client.JobRun) client.JobRunExplanation {
		t.Helper()
		var x client.JobRunExplanation
		e.Send("GET", jobRuns+"/"+r.ID.String()+"/explain", "").Into(&x)
		return x
	}
	expect := func(r client.JobRun, waits, says string) client.JobRunExplanation {
		t.Helper()
		x := explain(r)
		if string(x.WaitsFor) != waits || !strings.Contains(x.Summary, says) {
			t.Errorf("waits for %s: %s; want %s: %s", x.WaitsFor, x.Summary, waits, says)
		}
		return x
	}
	later := e.run("job", `{"scheduled_for":"2100-01-01T00:00:00Z"}`)
	if x := expect(later, "slot", "2100-01-01"); x.Until == nil || len(x.Decisions) != 1 ||
		x.Decisions[0].Kind != "created" || *x.LeaderEpoch != 1 {
		t.Errorf("%+v", x)
	}
	run := e.run("job", "")
	expect(run, "worker", `No active worker takes runs from queue "default"`)
	e.claim(0, false)
	expect(run, "turn", "workers that can run it: 1")
	gpu := e.run("gpu", "")
	expect(gpu, "worker", "gpu=yes")
	e.db.SQL().ExecContext(t.Context(), `UPDATE jobs.leader SET expires_at = now() - interval '1 second'`) //nolint:errcheck // the checks below show its effect
	expect(run, "leader", "The scheduler has no leader")
	e.db.SQL().ExecContext(t.Context(), `UPDATE jobs.leader SET expires_at = now() + interval '1 hour'`) //nolint:errcheck // the checks below show its effect
	_, offers := e.claim(1, false)
	expect(run, "start", "must start the run")
	if _, err := e.work.Start(t.Context(), apitest.Tenant.ID,
		[]jobrun.RunFence{{RunID: offers[0].ID, Fence: offers[0].Fence()}}); err != nil {
		t.Fatal(err)
	}
	expect(run, "end", "attempt 1")
	e.Send("POST", jobRuns+"/"+run.ID.String()+"/cancel", "")
	expect(run, "cancel", "asked to stop")
	path := jobRuns + "/" + run.ID.String()
	known := e.Send("GET", path, "").Header.Get("ETag")
	if r := e.Send("GET", path, "", "If-None-Match", known); r.Status != http.StatusOK {
		t.Errorf("a run in progress, whose progress has no version: %d", r.Status)
	}
	e.finish(&offers[0], nil)
	expect(run, "nothing", "It succeeded at")
	if r := e.Send("GET", path, "", "If-None-Match", known); r.Status != http.StatusOK {
		t.Errorf("a run that has changed: %d", r.Status)
	}
	known = e.Send("GET", path, "").Header.Get("ETag")
	if r := e.Send("GET", path, "", "If-None-Match", known); r.Status != http.StatusNotModified || len(r.Body) > 0 {
		t.Errorf("a run that has ended: %d %s", r.Status, r.Body)
	}
	first, second := e.run("one", ""), e.run("one", "")
	expect(first, "turn", "has not admitted it")
	e.db.SQL().ExecContext(t.Context(), `UPDATE jobs.job_runs SET admitted_at = now() WHERE id = $1`, first.ID) //nolint:errcheck // the checks below show its effect
	e.claim(1, true)
	if x := expect(second, "key", first.ID.String()); *x.BlockingRunID != first.ID {
		t.Errorf("blocked by %v", x.BlockingRunID)
	}
}

func TestAListOfRunsOfNoDefinitionIsRefusedAndOfADeletedOneIsNot(t *testing.T) {
	t.Parallel()
	e := newJobEdge(t)
	d := e.define("job", "")
	r := e.run("job", "")
	for _, ref := range []string{"typo", uuid.NewString()} {
		if p := e.Send("GET", jobRuns+"?definition="+ref, "").Wants(http.StatusUnprocessableEntity,
			"JOB_DEFINITION_NOT_FOUND"); p.Errors[0].Parameter != "definition" {
			t.Errorf("%s: %+v", ref, p)
		}
	}
	e.Send("DELETE", definitions+"/job?force=true&reason=r", "").Definition(200)
	var l client.JobRunList
	if e.Send("GET", jobRuns+"?definition="+d.ID.String(), "").Into(&l); len(l.JobRuns) != 1 || l.JobRuns[0].ID != r.ID {
		t.Errorf("runs of a definition that was deleted: %+v", l)
	}
	full, basic := e.Send("GET", jobRuns+"/"+r.ID.String()+"?view=full", "").Run(200),
		e.Send("GET", jobRuns+"/"+r.ID.String()+"?view=basic", "").Run(200)
	if full.ID != r.ID || basic.ID != r.ID || basic.Args != nil {
		t.Errorf("by view: %+v and %+v", full, basic)
	}
	for format, media := range map[string]string{"text": "text/plain", "ndjson": "application/x-ndjson",
		"sse": "text/event-stream"} {
		got := e.Send("GET", jobRuns+"/"+r.ID.String()+"/logs?format="+format, "", "Accept", "application/x-ndjson")
		if got.Status != 200 || !strings.HasPrefix(got.Header.Get("Content-Type"), media) {
			t.Errorf("%s: %d %s", format, got.Status, got.Header.Get("Content-Type"))
		}
	}
}
