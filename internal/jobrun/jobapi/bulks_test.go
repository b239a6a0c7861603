package jobapi_test

import (
	"fmt"
	"net/http"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"

	"github.com/skald-saga/skald/api/client"
	"github.com/skald-saga/skald/internal/jobrun"
)

// sweep executes one round of the leader's work on backfills and bulks.
func (e *jobEdge) sweep() {
	e.T.Helper()
	for _, do := range []func() (jobrun.Swept, error){
		func() (jobrun.Swept, error) {
			return e.jobs.Bulks.Backfill(e.T.Context(), e.term, jobrun.Settings{}, 1000)
		},
		func() (jobrun.Swept, error) {
			return e.jobs.Bulks.Bulk(e.T.Context(), e.term, jobrun.Settings{}, 1000)
		},
	} {
		for more := true; more; {
			swept, err := do()
			if err != nil {
				e.T.Fatal(err)
			}
			more = swept.More
		}
	}
}

func (e *jobEdge) backfill(id uuid.UUID) client.Backfill {
	e.T.Helper()
	var b client.Backfill
	e.Send("GET", "/api/v1/backfills/"+id.String(), "").Into(&b)
	return b
}

// hourly defines an hourly job, and returns the last full hour.
func (e *jobEdge) hourly(name, more string) time.Time {
	e.T.Helper()
	if more != "" {
		more = "," + more
	}
	e.Send("POST", definitions, `{"name":"`+name+`","type":"time","command_name":"report","priority":3,"schedule":{"type":"hourly_at_minute","value":"0"}`+more+`}`).Definition(201)
	return time.Now().UTC().Truncate(time.Hour)
}

func span(from, to time.Time) string {
	return `"from":"` + from.Format(time.RFC3339) + `","to":"` + to.Format(time.RFC3339) + `"`
}

func TestABackfillRunsItsSlotsAFewAtATime(t *testing.T) {
	t.Parallel()
	e := newJobEdge(t)
	hour := e.hourly("job", "")
	path := definitions + "/job/backfills"
	ask := `{` + span(hour.Add(-5*time.Hour), hour) + `,"max_active":2,"reason":"a gap"`
	var preview client.BackfillPreview
	e.Send("POST", path, ask+`,"dry_run":true,"order":"newest"}`).Into(&preview)
	if preview.SlotsTotal != 5 || len(preview.Slots) != 5 || !preview.Slots[0].Runs ||
		!preview.Slots[0].At.Equal(hour.Add(-time.Hour)) {
		t.Errorf("it would run %+v", preview)
	}
	r := e.Send("POST", path, ask+"}", "Idempotency-Key", "k")
	var b client.Backfill
	if r.Into(&b); r.Status != http.StatusAccepted || b.State != "RUNNING" ||
		r.Header.Get("Location") != "/api/v1/backfills/"+b.ID.String() {
		t.Fatalf("%d %s", r.Status, r.Body)
	}
	if again := e.Send("POST", path, ask+"}", "Idempotency-Key", "k"); again.Status != http.StatusAccepted ||
		again.Header.Get("Idempotent-Replayed") != "true" {
		t.Errorf("again: %d %s", again.Status, again.Body)
	}
	e.Send("POST", path, `{`+span(hour.Add(-2*time.Hour), hour)+`}`, "Idempotency-Key",
		"k").Wants(http.StatusUnprocessableEntity, "REQ_IDEMPOTENCY_KEY_REUSED")
	var slots []time.Time
	for range 10 {
		e.sweep()
		_, offers := e.claim(10, true)
		if len(offers) > 2 {
			t.Fatalf("%d runs at once, want 2 at most", len(offers))
		}
		for i := range offers {
			if o := &offers[i]; o.Trigger != jobrun.ByBackfill || o.Priority >= 3 || o.BackfillID != b.ID {
				t.Errorf("a run is %s with priority %d", o.Trigger, o.Priority)
			}
			slots = append(slots, offers[i].ScheduledFor)
			e.finish(&offers[i], nil)
		}
		if b = e.backfill(b.ID); b.State != "RUNNING" {
			break
		}
	}
	wantEnd := b
	wantEnd.State, wantEnd.Created, wantEnd.Skipped, wantEnd.Active = "COMPLETED", 5, 0, new(int64(0))
	if diff := cmp.Diff(wantEnd, b); diff != "" || b.EndedAt == nil {
		t.Errorf("it ended at %v (-want +got):\n%s", b.EndedAt, diff)
	}
	if len(slots) != 5 || !slots[0].Equal(hour.Add(-5*time.Hour)) {
		t.Errorf("slots %v", slots)
	}
	e.Send("POST", "/api/v1/backfills/"+b.ID.String()+"/cancel", "").Wants(http.StatusConflict, "JOB_STATE_CONFLICT")
	var list client.BackfillList
	if e.Send("GET", path, "").Into(&list); len(list.Backfills) != 1 || *list.Pagination.TotalCount != 1 {
		t.Errorf("listed: %+v", list)
	}
}

func TestABackfillReprocessesOnlyWhatItSays(t *testing.T) {
	t.Parallel()
	e := newJobEdge(t)
	hour := e.hourly("job", `"retry":{"max_attempts":2,"initial_interval_ms":1}`)
	from := hour.Add(-4 * time.Hour)
	path, whole := definitions+"/job/backfills", span(from, hour)
	// The first slot succeeds, the second succeeds in its retry, the third fails, and the fourth
	// never runs.
	var b client.Backfill
	e.Send("POST", path, `{`+span(from, hour.Add(-time.Hour))+`,"max_active":1}`).Into(&b)
	for i, failures := range []int{0, 1, 2} {
		e.sweep()
		for n := 0; ; n++ {
			e.db.SQL().ExecContext(t.Context(), `UPDATE jobs.job_runs SET admitted_at = now(), available_at = now() WHERE state = 'PENDING'`) //nolint:errcheck // the checks below show its effect
			_, offers := e.claim(1, true)
			if len(offers) == 0 {
				break
			}
			var failure *jobrun.Error
			if n < failures {
				failure = &jobrun.Error{Code: "X", Message: "x", Retryable: true}
			}
			e.finish(&offers[0], failure)
			if i == 3 || n > 5 {
				t.Fatal("too many runs")
			}
		}
	}
	for reprocess, want := range map[string]string{"none": "false false false true", "failed": "false false true true",
		"completed": "true true true true"} {
		var p client.BackfillPreview
		e.Send("POST", path, `{`+whole+`,"dry_run":true,"reprocess":"`+reprocess+`"}`).Into(&p)
		got := ""
		for _, s := range p.Slots {
			got += fmt.Sprint(s.Runs, " ")
		}
		if got != want+" " {
			t.Errorf("%s runs %s, want %s", reprocess, got, want)
		}
	}
	e.Send("POST", path, `{`+whole+`,"reprocess":"failed"}`).Into(&b)
	e.sweep()
	if b = e.backfill(b.ID); b.Created != 2 || b.Skipped != 2 {
		t.Errorf("made %d, left out %d", b.Created, b.Skipped)
	}
	if b = func() (b client.Backfill) {
		e.Send("POST", "/api/v1/backfills/"+b.ID.String()+"/cancel", "").Into(&b)
		return b
	}(); b.State != "" && b.State != "CANCELED" {
		t.Errorf("canceled: %+v", b)
	}
}

func TestACanceledBackfillMakesNoMoreRuns(t *testing.T) {
	t.Parallel()
	e := newJobEdge(t)
	hour := e.hourly("job", `"concurrency_policy":"forbid"`)
	var b client.Backfill
	e.Send("POST", definitions+"/job/backfills", `{`+span(hour.Add(-9*time.Hour), hour)+`,"max_active":3,"order":"newest"}`).Into(&b)
	e.sweep()
	if n := e.ask(`SELECT count(*) FROM jobs.job_runs WHERE state = 'PENDING' AND concurrency_policy = 'queue' AND scheduled_for >= $1`, hour.Add(-3*time.Hour)); n != 3 {
		t.Errorf("%d runs wait for each other, want 3", n)
	}
	r := e.Send("POST", "/api/v1/backfills/"+b.ID.String()+"/cancel", `{"reason":"enough"}`)
	if r.Into(&b); r.Status != http.StatusOK || b.State != "CANCELED" {
		t.Errorf("%d %s", r.Status, r.Body)
	}
	e.sweep()
	if n := e.ask(`SELECT count(*) FROM jobs.job_runs WHERE state = 'CANCELED'`); n != 3 {
		t.Errorf("%d of its runs are canceled, want 3", n)
	}
	if n := e.ask(`SELECT count(*) FROM jobs.job_runs`); n != 3 {
		t.Errorf("%d runs, want no more than 3", n)
	}
	e.Send("GET", "/api/v1/backfills/"+uuid.NewString(), "").Wants(http.StatusNotFound, "JOB_BULK_NOT_FOUND")
}

func TestAnInvalidBackfillIsRefused(t *testing.T) {
	t.Parallel()
	e := newJobEdge(t)
	hour := e.hourly("job", "")
	e.define("by-hand", "")
	for body, pointer := range map[string]string{
		span(hour, hour.Add(-time.Hour)):                            "/to",
		span(hour, hour.Add(48*time.Hour)):                          "/to",
		span(hour.Add(-time.Hour*24*365*20), hour):                  "/from",
		span(hour, hour.Add(time.Minute*0)) + ``:                    "/to",
		`"from":"2026-01-01T00:00:00Z","to":"2026-01-01T00:00:00Z"`: "/to",
	} {
		if p := e.Send("POST", definitions+"/job/backfills", "{"+body+"}").Wants(http.StatusUnprocessableEntity,
			"JOB_INVALID"); p.Errors[0].Place() != pointer {
			t.Errorf("%s: %+v", body, p.Errors)
		}
	}
	e.Send("POST", definitions+"/by-hand/backfills", "{"+span(hour.Add(-time.Hour), hour)+
		"}").Wants(http.StatusUnprocessableEntity, "JOB_INVALID")
}

func TestABulkOperationAppliesToWhatItsFilterMatches(t *testing.T) {
	t.Parallel()
	e := newJobEdge(t)
	e.define("job", "")
	e.define("other", "")
	for range 130 {
		e.run("job", "")
	}
	spared := e.run("other", "")
	bulk := func(body string, header ...string) client.JobBulk {
		t.Helper()
		r := e.Send("POST", jobRuns+"/bulk", body, header...)
		var b client.JobBulk
		if r.Into(&b); r.Status != http.StatusAccepted {
			t.Fatalf("%d %s", r.Status, r.Body)
		}
		e.sweep()
		e.Send("GET", jobRuns+"/bulk/"+b.ID.String(), "").Into(&b)
		return b
	}
	var p client.JobBulkPreview
	e.Send("POST", jobRuns+"/bulk", `{"action":"cancel","filter":{"definition":"job"},"dry_run":true}`).Into(&p)
	if p.Matched != 130 {
		t.Errorf("it would cancel %d", p.Matched)
	}
	_, offers := e.claim(2, true)
	b := bulk(`{"action":"cancel","filter":{"definition":"job"},"reason":"a mistake"}`, "Idempotency-Key", "k")
	if b.State != "COMPLETED" || b.Matched != 130 || b.Done != 130 || b.EndedAt == nil {
		t.Errorf("it ended as %+v", b)
	}
	if n := e.ask(`SELECT count(*) FROM jobs.job_runs WHERE state = 'CANCELED'`); n != 128 {
		t.Errorf("%d canceled, want 128", n)
	}
	if n := e.ask(`SELECT count(*) FROM jobs.job_runs WHERE state = 'RUNNING' AND cancel_requested_at IS NOT NULL`); n != 2 {
		t.Errorf("%d asked to stop, want 2", n)
	}
	e.finish(&offers[0], &jobrun.Error{Code: "X", Message: "x"})
	e.finish(&offers[1], nil)
	b = bulk(`{"action":"rerun","filter":{"error_code":"X"}}`)
	if b.Done != 1 || e.ask(`SELECT count(*) FROM jobs.job_runs WHERE retry_of_run_id = $1`, offers[0].ID) != 1 {
		t.Errorf("run once more: %+v", b)
	}
	if r := e.Send("GET", jobRuns+"/"+spared.ID.String(), "").Run(200); r.State != "PENDING" {
		t.Errorf("another job's run is %s", r.State)
	}
	var first, second, none client.JobBulkList
	e.Send("GET", jobRuns+"/bulk?page_size=1&state=COMPLETED", "").Into(&first)
	if len(first.Bulks) != 1 || first.Bulks[0].ID != b.ID {
		t.Fatalf("the first page of bulks is %+v", first)
	}
	if p := first.Pagination; p.NextCursor == nil || p.TotalCount == nil || *p.TotalCount != 2 {
		t.Fatalf("the first page of bulks has %+v", p)
	}
	e.Send("GET", jobRuns+"/bulk?page_size=1&state=COMPLETED&cursor="+*first.Pagination.NextCursor, "").Into(&second)
	if len(second.Bulks) != 1 || second.Bulks[0].Action != "cancel" || second.Pagination.NextCursor != nil {
		t.Errorf("the second page of bulks is %+v", second)
	}
	e.Send("GET", jobRuns+"/bulk?page_size=1&cursor="+*first.Pagination.NextCursor, "").Wants(http.StatusBadRequest,
		"REQ_INVALID_PARAMETER")
	e.Send("GET", jobRuns+"/bulk?state=RUNNING", "").Into(&none)
	if len(none.Bulks) != 0 {
		t.Errorf("%d bulks are RUNNING", len(none.Bulks))
	}
	e.Send("POST", jobRuns+"/bulk/"+b.ID.String()+"/cancel", "").Wants(http.StatusConflict, "JOB_STATE_CONFLICT")
	e.Send("POST", jobRuns+"/bulk", `{"action":"cancel","filter":{"states":["FAILED"]}}`).Wants(http.StatusUnprocessableEntity, "JOB_INVALID")
	e.Send("POST", jobRuns+"/bulk", `{"action":"cancel","filter":{"definition":"nobody"}}`).Wants(http.StatusUnprocessableEntity, "JOB_DEFINITION_NOT_FOUND")
	e.Send("POST", jobRuns+"/bulk", `{"action":"cancel","filter":{}}`).Wants(http.StatusUnprocessableEntity, "REQ_SCHEMA")
	e.Send("POST", jobRuns+"/bulk", `{"action":"rerun","filter":{"definition":"job"}}`, "Idempotency-Key", "k").Wants(http.StatusUnprocessableEntity,
		"REQ_IDEMPOTENCY_KEY_REUSED")
}
