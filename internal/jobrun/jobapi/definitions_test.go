package jobapi_test

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/skald-saga/skald/api/client"
	"github.com/skald-saga/skald/internal/httpapi"
	"github.com/skald-saga/skald/internal/jobrun"
	"github.com/skald-saga/skald/internal/test/apitest"
)

const nightly = `"type":"time","command_name":"report","schedule":{"type":"daily_at","value":"02:30","timezone":"Europe/Berlin"}`

func TestADefinitionIsStoredAsSent(t *testing.T) {
	t.Parallel()
	e := newJobEdge(t)
	r := e.Send("POST", definitions, `{"name":"nightly.report","description":"every night",`+nightly+`,
		"default_args":{"depth":1.50,"list":[1,null]},"args_schema":{"type":"object","properties":{"depth":{"type":"number"}}},
		"timeout_ms":60000,"retry":{"max_attempts":3},"queue":"slow","priority":7,"required_labels":{"gpu":"yes"},"labels":{"team":"a=b"},
		"concurrency_policy":"forbid","concurrency_key":"reports","misfire_policy":"catch_up","misfire_grace_ms":1000,"jitter_ms":5,"dead_letter":true,"reason":"asked for"}`)
	d := r.Definition(http.StatusCreated)
	stored := d
	stored.Version, stored.SpecVersion, stored.Enabled, stored.Paused = 1, 1, true, false
	if diff := cmp.Diff(stored, d); diff != "" || d.NextDueAt == nil || d.NextDueAt.Before(time.Now()) ||
		d.CreatedBy == nil {
		t.Errorf("stored as %s (-want +got):\n%s", r.Body, diff)
	}
	for _, want := range []string{
		`"default_args":{"list":[1,null],"depth":1.50}`, `"max_attempts":3,"initial_interval_ms":10000`, `"labels":{"team":"a=b"}`, `"required_labels":{"gpu":"yes"}`,
		`"catch_up_limit":100`, `"queue":"slow"`, `"concurrency_key":"reports"`, `"dead_letter":true`,
		`"concurrency_policy":"forbid"`, `"misfire_policy":"catch_up"`, `"misfire_grace_ms":1000`, `"jitter_ms":5`, `"timeout_ms":60000`, `"priority":7`,
	} {
		if got := strings.NewReplacer(" ", "").Replace(string(r.Body)); !strings.Contains(got, want) {
			t.Errorf("%s is not in %s", want, got)
		}
	}
	byName, byID := e.Send("GET", definitions+"/nightly.report", ""), e.Send("GET", definitions+"/"+d.ID.String(), "")
	if byName.Definition(200).ID != d.ID || byID.Definition(200).ID != d.ID {
		t.Error("it is not found by its name and id")
	}
	if not := e.Send("GET", definitions+"/nightly.report", "", "If-None-Match",
		byName.Header.Get("ETag")); not.Status != http.StatusNotModified {
		t.Errorf("unchanged: %d", not.Status)
	}
	e.Send("POST", definitions, `{"name":"nightly.report","type":"manual","command_name":"x"}`).Wants(http.StatusConflict, "JOB_NAME_TAKEN")
	e.Send("GET", definitions+"/nobody", "").Wants(http.StatusNotFound, "JOB_DEFINITION_NOT_FOUND")
	if n := e.ask(`SELECT count(*) FROM saga.audit_actions WHERE kind = 'job_definition' AND verb = 'create' AND reason = 'asked for' AND subject = $1`, d.ID.String()); n != 1 {
		t.Errorf("%d actions on record, want 1", n)
	}
}

func TestAnInvalidDefinitionIsRefusedWithAPointer(t *testing.T) {
	t.Parallel()
	e := newJobEdge(t)
	for _, tt := range []struct{ name, members, pointer string }{
		{"a name with a slash", `"name":"a/b","type":"manual","command_name":"x"`, "/name"},
		{"a name that is an id", `"name":"0193f0c8-0000-7000-8000-000000000000","type":"manual","command_name":"x"`, "/name"},
		{"a name of Skald's", `"name":"system.x","type":"manual","command_name":"x"`, "/name"},
		{"Skald's queue", `"name":"x","type":"manual","command_name":"x","queue":"system"`, "/queue"},
		{"no schedule", `"name":"x","type":"time","command_name":"x"`, "/schedule"},
		{"a schedule by hand", `"name":"x","type":"manual","command_name":"x","schedule":{"type":"cron","value":"* * * * *"}`, "/schedule"},
		{"a cron expression with a mistake", `"name":"x","type":"time","command_name":"x","schedule":{"type":"cron","value":"61 * * * *"}`, "/schedule/value"},
		{"a zone that is none", `"name":"x","type":"time","command_name":"x","schedule":{"type":"daily_at","value":"01:00","timezone":"Mars/Base"}`, "/schedule/timezone"},
		{"no event", `"name":"x","type":"event","command_name":"x"`, "/event"},
		{"a star in the middle", `"name":"x","type":"event","command_name":"x","event":{"event_type":"a*b"}`, "/event/event_type"},
		{"a match of an object", `"name":"x","type":"event","command_name":"x","event":{"event_type":"a","match":{"b":{}}}`, "/event/match/b"},
		{"a schema that is none", `"name":"x","type":"manual","command_name":"x","args_schema":{"type":7}`, "/args_schema"},
		{"a schema elsewhere", `"name":"x","type":"manual","command_name":"x","args_schema":{"$ref":"file:///etc/passwd"}`, "/args_schema"},
		{"default arguments that do not fit", `"name":"x","type":"manual","command_name":"x","args_schema":{"properties":{"n":{"type":"integer"}}},"default_args":{"n":"1"}`, "/default_args/n"},
		{"no default for what is due by itself", `"name":"x",` + nightly + `,"args_schema":{"required":["n"]}`, "/default_args"},
		{"a label of no name", `"name":"x","type":"manual","command_name":"x","labels":{"a b":"1"}`, "/labels/a b"},
		{"a key for any number at once", `"name":"x","type":"manual","command_name":"x","concurrency_key":"k"`, "/concurrency_key"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			p := e.Send("POST", definitions, "{"+tt.members+"}").Wants(http.StatusUnprocessableEntity, "JOB_INVALID")
			if len(p.Errors) == 0 || p.Errors[0].Pointer != tt.pointer {
				t.Errorf("errors %+v, want one at %s", p.Errors, tt.pointer)
			}
		})
	}
	e.Send("POST", definitions, `{"name":"x","type":"manual","command_name":"x","priority":1000}`).Wants(http.StatusUnprocessableEntity, "REQ_SCHEMA")
}

// TestNumbersOfARetryAreTakenAsTheyAre checks that a number that is out of range is refused, that
// zero does not mean the default, and that accepted values are shown unchanged.
func TestNumbersOfARetryAreTakenAsTheyAre(t *testing.T) {
	t.Parallel()
	e := newJobEdge(t)
	e.define("x", "")
	for member, values := range map[string][]string{
		"max_attempts": {"0", "-1", "1001", "1.5"}, "initial_interval_ms": {"0", "-1", "604800001"},
		"max_interval_ms": {"0", "-1", "604800001"}, "multiplier": {"0", "0.0", "-0", "0.5", "0.999", "-2", "100.1", "1e300"},
		"jitter": {"-0.1", "1.1"},
	} {
		for _, value := range values {
			retry := `"retry":{"` + member + `":` + value + `}`
			whole := `{"name":"x","type":"manual","command_name":"report",` + retry + `}`
			for _, r := range []apitest.Reply{
				e.Send("POST", definitions, strings.Replace(whole, `"x"`, `"y"`, 1)), e.Send("PUT", definitions+"/x", whole),
				e.Send("PATCH", definitions+"/x", `{`+retry+`}`),
			} {
				p := r.Wants(http.StatusUnprocessableEntity, "REQ_SCHEMA")
				if len(p.Errors) != 1 || p.Errors[0].Pointer != "/retry/"+member {
					t.Errorf("%s: %+v", retry, p.Errors)
				}
			}
		}
	}
	for _, value := range []string{"1", "1.5", "100"} {
		d := e.Send("PATCH", definitions+"/x", `{"retry":{"max_attempts":2,"multiplier":`+value+`,"jitter":0}}`).Definition(http.StatusOK)
		if got := fmt.Sprint(*d.Retry.Multiplier); got != value || *d.Retry.Jitter != 0 {
			t.Errorf("the multiplier %s is %s, the jitter %v", value, got, *d.Retry.Jitter)
		}
	}
}

func TestEachChangeOfADefinitionIsAVersion(t *testing.T) {
	t.Parallel()
	e := newJobEdge(t)
	d := e.define("job", `"labels":{"a":"1","b":"2"},"timeout_ms":1000`)
	path := definitions + "/" + d.ID.String()
	changed := e.Send("PATCH", path, `{"labels":{"c":"3"},"description":"new"}`, "If-Match", `"1"`).Definition(200)
	if changed.Version != 2 || changed.SpecVersion != 2 || len(*changed.Labels) != 1 || *changed.TimeoutMS != 1000 {
		t.Errorf("patched to %+v", changed)
	}
	e.Send("PATCH", path, `{"description":"late"}`, "If-Match", `"1"`).Wants(http.StatusPreconditionFailed,
		"JOB_VERSION_CONFLICT")
	if same := e.Send("PATCH", path, `{"description":"new"}`).Definition(200); same.Version != 2 {
		t.Errorf("a change of nothing makes version %d", same.Version)
	}
	replaced := e.Send("PUT", path, `{"name":"renamed","type":"manual","command_name":"report"}`, "If-Match", `"2"`).Definition(200)
	want := replaced
	want.Version, want.SpecVersion, want.Name, want.Labels, want.TimeoutMS = 3, 3, "renamed", nil, nil
	if diff := cmp.Diff(want, replaced); diff != "" {
		t.Errorf("replaced (-want +got):\n%s", diff)
	}
	if off := e.Send("PATCH", path, `{"enabled":false}`).Definition(200); off.Enabled || off.SpecVersion != 3 {
		t.Errorf("disabled: %+v", off)
	}
	var list client.JobDefinitionVersionList
	e.Send("GET", path+"/versions", "").Into(&list)
	if len(list.Versions) != 3 || list.Versions[0].SpecVersion != 3 || list.Versions[1].Description == nil ||
		*list.Versions[1].Description != "new" {
		t.Errorf("versions %+v", list.Versions)
	}
	e.Send("GET", definitions+"/job", "").Wants(http.StatusNotFound, "JOB_DEFINITION_NOT_FOUND")
}

func TestAChangedScheduleAppliesFromNowOn(t *testing.T) {
	t.Parallel()
	e := newJobEdge(t)
	d := e.Send("POST", definitions, `{"name":"x",`+nightly+`}`).Definition(201)
	path := definitions + "/x"
	e.db.SQL().ExecContext(t.Context(), `UPDATE jobs.job_definitions SET last_materialized_at = now() - interval '3 days', next_due_at = now() - interval '2 days'`) //nolint:errcheck // the checks below show its effect
	behind := func() int {
		return e.ask(`SELECT count(*) FROM jobs.job_definitions WHERE id = $1 AND last_materialized_at < now() - interval '1 day' AND next_due_at < now()`, d.ID)
	}
	e.Send("PATCH", path, `{"description":"only words"}`).Definition(200)
	if behind() != 1 {
		t.Error("slots that lie behind are forgotten with a change of words")
	}
	e.Send("PATCH", path, `{"schedule":{"type":"hourly_at_minute","value":"0"}}`).Definition(200)
	if behind() != 0 {
		t.Error("slots of another schedule are made up for")
	}
	if off := e.Send("PATCH", path, `{"enabled":false}`).Definition(200); off.NextDueAt != nil {
		t.Errorf("disabled, it is due at %v", off.NextDueAt)
	}
	if on := e.Send("PATCH", path, `{"enabled":true}`).Definition(200); on.NextDueAt == nil {
		t.Error("enabled, it is never due")
	}
}

func TestAPausedDefinition(t *testing.T) {
	t.Parallel()
	e := newJobEdge(t)
	e.Send("POST", definitions, `{"name":"x",`+nightly+`}`).Definition(201)
	path := definitions + "/x"
	e.Send("POST", path+"/pause", `{"until":"2020-01-01T00:00:00Z"}`).Wants(http.StatusUnprocessableEntity, "JOB_INVALID")
	until := time.Now().Add(time.Hour).UTC().Truncate(time.Microsecond)
	p := e.Send("POST", path+"/pause", `{"until":"`+until.Format(time.RFC3339Nano)+
		`","reason":"a freeze"}`).Definition(200)
	if !p.Paused || p.PausedUntil == nil || !p.PausedUntil.Equal(until) || *p.PauseReason != "a freeze" {
		t.Errorf("paused: %+v", p)
	}
	list := func(query string) int {
		var l client.JobDefinitionList
		e.Send("GET", definitions+"?paused="+query, "").Into(&l)
		return len(l.JobDefinitions)
	}
	if list("true") != 1 || list("false") != 0 {
		t.Error("the paused one is not listed as such")
	}
	// The definition can still be run manually.
	e.run("x", "")
	past := time.Now().Add(-time.Hour)
	e.db.SQL().ExecContext(t.Context(), `UPDATE jobs.job_definitions SET paused_at = now() - interval '2 hours', paused_until = now() - interval '1 hour'`) //nolint:errcheck // the checks below show its effect
	if p := e.Send("GET", path, "").Definition(200); p.Paused || p.PausedAt != nil || list("true") != 0 {
		t.Errorf("after its time it is paused: %+v", p)
	}
	if p := e.Send("POST", path+"/pause", "").Definition(200); !p.Paused || p.PausedUntil != nil ||
		p.PausedAt.Before(past) {
		t.Errorf("paused anew: %+v", p)
	}
	if p := e.Send("POST", path+"/resume", `{"reason":"over"}`).Definition(200); p.Paused {
		t.Errorf("resumed: %+v", p)
	}
}

// TestSlotsOfAPauseAreNotForgottenWhenItEnds resumes a definition for which no runs were created
// for a while, and checks that the missed slots are still recorded.
func TestSlotsOfAPauseAreNotForgottenWhenItEnds(t *testing.T) {
	t.Parallel()
	e := newJobEdge(t)
	e.Send("POST", definitions, `{"name":"often","type":"time","command_name":"x","schedule":{"type":"interval","value":"1s"}}`).Definition(http.StatusCreated)
	path := definitions + "/often"
	before := e.Send("POST", path+"/pause", "").Definition(http.StatusOK)
	after := e.Send("POST", path+"/resume", "").Definition(http.StatusOK)
	if after.Paused || !after.NextDueAt.Equal(*before.NextDueAt) {
		t.Errorf("resumed: paused %v, and the next slot is %v, not %v", after.Paused, after.NextDueAt, before.NextDueAt)
	}
	if n := e.ask(`SELECT count(*) FROM jobs.job_definitions WHERE name = 'often' AND paused_at <= paused_until AND paused_until <= clock_timestamp() AND last_materialized_at <= paused_at`); n != 1 {
		t.Error("its pause is forgotten, or its slots are taken for made")
	}
}

// TestTheDatabaseSaysWhatTimeItIs uses a node whose clock is an hour fast. Slots begin, and manual
// runs are due, by the clock of the database.
func TestTheDatabaseSaysWhatTimeItIs(t *testing.T) {
	t.Parallel()
	e := newJobEdge(t, func(c *httpapi.Config) {
		c.Now = func() time.Time { return time.Now().Add(time.Hour) }
		c.Jobs.Now = func(context.Context) (time.Time, error) { return time.Now(), nil }
	})
	soon := time.Now().Add(2 * time.Minute)
	e.Send("POST", definitions, `{"name":"often","type":"time","command_name":"x","schedule":{"type":"interval","value":"60s"},"concurrency_policy":"queue"}`)
	late := func(what string, due *time.Time) {
		t.Helper()
		if due == nil || due.After(soon) {
			t.Errorf("%s: the next slot is %v", what, due)
		}
	}
	late("made", e.Send("GET", definitions+"/often", "").Definition(http.StatusOK).NextDueAt)
	e.Send("PATCH", definitions+"/often", `{"schedule":{"type":"interval","value":"61s"}}`)
	late("changed", e.Send("GET", definitions+"/often", "").Definition(http.StatusOK).NextDueAt)
	if r := e.run("often", `{}`); r.ScheduledFor.After(soon) {
		t.Errorf("a run by hand is due at %v", r.ScheduledFor)
	}
}

func TestATopicIsRefusedWithoutKafka(t *testing.T) {
	t.Parallel()
	e := newJobEdge(t)
	e.define("plain", "")
	emit := `"emit":[{"event_type":"a","topic":"orders"}]`
	for _, refused := range []apitest.Reply{
		e.Send("POST", definitions, `{"name":"new","type":"manual","command_name":"c",`+emit+`}`),
		e.Send("PATCH", definitions+"/plain", `{`+emit+`}`),
	} {
		p := refused.Wants(http.StatusUnprocessableEntity, "JOB_INVALID")
		if len(p.Errors) != 1 || p.Errors[0].Pointer != "/emit/0/topic" {
			t.Errorf("it is refused at %+v", p.Errors)
		}
	}
}

func TestDefinitionsAreListedWithTheirLastRunsAndTheirNext(t *testing.T) {
	t.Parallel()
	e := newJobEdge(t)
	e.define("by-hand", "")
	e.hourly("hourly", "")
	e.hourly("off", `"enabled":false`)
	e.hourly("paused", "")
	e.Send("POST", definitions+"/paused/pause", `{"reason":"a freeze"}`).Definition(200)
	e.hourly("over", "")
	if _, err := e.db.SQL().ExecContext(t.Context(),
		`UPDATE jobs.job_definitions SET spec = jsonb_set(spec, '{schedule,end_at}', '"2026-01-01T00:00:00Z"') WHERE name = 'over'`); err != nil {
		t.Fatal(err)
	}
	var want []client.JobRunOutcome
	for i := range 23 {
		r := e.run("by-hand", "")
		_, offers := e.claim(1, true)
		var failure *jobrun.Error
		if i%2 == 0 {
			failure = &jobrun.Error{Code: "exit_1", Message: "no"}
		}
		e.finish(&offers[0], failure)
		r = e.Send("GET", jobRuns+"/"+r.ID.String(), "").Run(200)
		want = append([]client.JobRunOutcome{{RunID: r.ID, State: r.State, FinishedAt: *r.FinishedAt}}, want...)
	}
	e.run("by-hand", "") // it has not ended

	var list client.JobDefinitionList
	e.Send("GET", definitions+"?include=recent_runs&include=next_run_at&include=total", "").Into(&list)
	if len(list.JobDefinitions) != 5 || *list.Pagination.TotalCount != 5 {
		t.Fatalf("%+v", list)
	}
	for _, d := range list.JobDefinitions {
		ends, due := d.RecentRuns, d.NextRunAt
		if ends == nil || d.Name != "by-hand" && len(ends) > 0 || (due != nil) != (d.Name == "hourly") {
			t.Errorf("%s: runs %v, due at %v", d.Name, ends, due)
		}
		if d.Name == "by-hand" {
			if diff := cmp.Diff(want[:20], ends); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		}
		if due != nil && (due.Before(time.Now()) || time.Until(*due) > time.Hour || due.Minute() != 0) {
			t.Errorf("%s is due at %s", d.Name, due)
		}
		path, both := definitions+"/"+d.ID.String(), "?include=next_run_at&include=recent_runs"
		r := e.Send("GET", path+both, "", "If-None-Match", `"1", "2"`)
		if diff := cmp.Diff(d, r.Definition(200)); diff != "" {
			t.Errorf("%s alone (-list +alone):\n%s", d.Name, diff)
		}
		if d := e.Send("GET", path, "").Definition(200); d.RecentRuns != nil || d.NextRunAt != nil {
			t.Errorf("%s, not asked for: %v, %v", d.Name, d.RecentRuns, d.NextRunAt)
		}
	}
	e.Send("GET", definitions+"?include=everything", "").Wants(http.StatusBadRequest, "REQ_INVALID_PARAMETER")
}
