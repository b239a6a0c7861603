package app_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/skald-saga/skald/internal/config"
	"github.com/skald-saga/skald/internal/jobrun"
	"github.com/skald-saga/skald/internal/principal"
	"github.com/skald-saga/skald/internal/test/patience"
	"github.com/skald-saga/skald/internal/test/testdb"
)

// newRights starts a node on which an operator's redrive may affect two letters.
func newRights(t *testing.T) *campaign {
	t.Helper()
	c := &campaign{t: t, admin: newToken(t)}
	c.node = start(t, testdb.DSN(t), "rights", bootstrapped(c.admin), func(cfg *config.Config) {
		cfg.DLQ.BulkLimit, cfg.Jobs.WorkerQueues = 2, []string{"system", "other"}
	})
	c.operator = fmt.Sprint(c.must(c.admin, "POST", "/api/v1/api-keys", `{"name":"op","role":"operator"}`, 201)["key"])
	for range 4 {
		c.must(
			c.operator,
			"POST",
			"/api/v1/dlq/messages",
			`{"original_topic":"bulk","error_message":"e","payload":{},"target":{"kind":"job_run","job":"none"}}`,
			201,
		)
	}
	return c
}

// over waits until a run has ended.
func (c *campaign) over(id any) map[string]any {
	c.t.Helper()
	if id == nil {
		c.t.Fatal("there is no run")
	}
	var doc map[string]any
	patience.Until(c.t, "the run ends", func() bool {
		doc = c.must(c.operator, "GET", fmt.Sprintf("/api/v1/job-runs/%v", id), "", 200)
		return doc["finished_at"] != nil
	})
	return doc
}

// newest waits for n runs of a trigger of a definition and returns one that has ended.
func (c *campaign) newest(definition, trigger string, n int) map[string]any {
	c.t.Helper()
	var runs []any
	patience.Until(c.t, fmt.Sprintf("%d runs of %s by %s", n, definition, trigger), func() bool {
		doc := c.must(c.operator, "GET", "/api/v1/job-runs?definition="+definition+"&trigger="+trigger, "", 200)
		runs = doc["job_runs"].([]any)
		return len(runs) >= n
	})
	return c.over(runs[0].(map[string]any)["id"])
}

func refused(run map[string]any) bool {
	failure, _ := run["error"].(map[string]any)
	return run["state"] == "FAILED" && failure["code"] == "NOT_ALLOWED"
}

func TestABuiltInRunRequiresThePermissionForWhatItDoes(t *testing.T) {
	t.Parallel()
	c := newRights(t)
	for _, b := range jobrun.BuiltIns {
		need, asked := principal.ForJob(b.Name, jobrun.Beyond(b.Name, nil, 2))
		if !asked {
			t.Errorf("%s needs nothing", b.Name)
		}
		want := 403
		if principal.Operator.Allows(need) {
			want = 201
		}
		status, doc := c.try(c.operator, "POST", "/api/v1/job-definitions/"+b.Name+"/runs", ``)
		if status != want || want == 403 && !strings.Contains(fmt.Sprint(doc["detail"]), string(need)) {
			t.Errorf("an operator runs %s, which needs %s: %d %v", b.Name, need, status, doc)
		}
		if b.Name == jobrun.SystemRedrive {
			continue
		}
		if want == 201 {
			c.over(doc["id"])
		}
		run := c.over(c.must(c.admin, "POST", "/api/v1/job-definitions/"+b.Name+"/runs", ``, 201)["id"])
		if run["state"] != "SUCCEEDED" || run["initiated_by"] != "key:*:bootstrap" {
			t.Errorf("%s of an administrator: %v", b.Name, run)
		}
		if got, _ := c.try(c.operator, "POST", fmt.Sprintf("/api/v1/job-runs/%v/rerun", run["id"]), ``); got != want {
			t.Errorf("an operator runs %s once more: %d", b.Name, got)
		}
	}
	// Skald's built-in command under another name requires the same permission.
	c.must(
		c.admin,
		"POST",
		"/api/v1/job-definitions",
		`{"name":"mine","type":"manual","command_name":"system.dlq.archive"}`,
		201,
	)
	c.must(c.operator, "POST", "/api/v1/job-definitions/mine/runs", ``, 403)
}

func TestARedriveByAJobIsBoundedAndNamesItsPrincipal(t *testing.T) {
	t.Parallel()
	c := newRights(t)
	runs := "/api/v1/job-definitions/" + jobrun.SystemRedrive + "/runs"
	for _, args := range []string{`{}`, `{"topic":"bulk"}`, `{"topic":"bulk","max_messages":3}`} {
		if doc := c.must(c.operator, "POST", runs, `{"args":`+args+`}`, 403); !strings.Contains(
			fmt.Sprint(doc["detail"]),
			"at most 2 letters: set max_messages",
		) {
			t.Errorf("%s: %v", args, doc)
		}
	}
	mine := c.over(
		c.must(c.operator, "POST", runs, `{"args":{"topic":"bulk","max_messages":2,"rate_per_second":100},"reason":"x"}`, 201)["id"],
	)
	result, _ := mine["result"].(map[string]any)
	if mine["state"] != "SUCCEEDED" || result["matched"] != float64(2) || mine["initiated_by"] != "key:op" {
		t.Fatalf("the run is %v", mine)
	}
	trail := c.must(c.admin, "GET", fmt.Sprintf("/api/v1/audit?kind=redrive&subject=%v", result["redrive_id"]), "", 200)
	if text := fmt.Sprint(trail); !strings.Contains(text, "actor:key:op") ||
		!strings.Contains(text, fmt.Sprint(mine["id"])) {
		t.Errorf("the trail says %v", trail)
	}
	if r := c.must(c.admin, "GET", fmt.Sprintf("/api/v1/dlq/redrives/%v", result["redrive_id"]), "",
		200); !strings.Contains(
		fmt.Sprint(r),
		"key:op",
	) {
		t.Errorf("the redrive is %v", r)
	}
	c.must(c.operator, "POST", fmt.Sprintf("/api/v1/job-runs/%v/rerun", mine["id"]), `{"args":{"max_messages":3}}`, 403)
	all := c.must(c.admin, "POST", runs, `{"args":{"topic":"bulk","rate_per_second":100}}`, 201)
	if run := c.over(all["id"]); run["state"] != "SUCCEEDED" {
		t.Errorf("of an administrator: %v", run)
	}
	c.must(c.operator, "POST", fmt.Sprintf("/api/v1/job-runs/%v/rerun", all["id"]), ``, 403) // with its arguments
}

// A link that an operator can use has the rights of an operator, regardless of its creator.
func TestALinkGivesNoMoreThanAnOperatorsRights(t *testing.T) {
	t.Parallel()
	c := newRights(t)
	const archive, redrive = jobrun.SystemArchive, jobrun.SystemRedrive
	// Dead letters.
	push := func(key, job, payload string) any {
		return c.must(key, "POST", "/api/v1/dlq/messages", `{"original_topic":"link","error_message":"e","payload":`+payload+`,"target":{"kind":"job_run","job":"`+job+`"}}`, 201)["id"]
	}
	for i, l := range []any{push(c.operator, archive, `{}`), push(c.admin, archive, `{}`)} {
		c.must(c.operator, "POST", fmt.Sprintf("/api/v1/dlq/messages/%v/retry", l), ``, 202)
		if run := c.newest(archive, "DLQ", i+1); !refused(run) || run["initiated_by"] != "key:op" {
			t.Errorf("by a letter: %v", run)
		}
	}
	l := push(c.operator, redrive, `{"topic":"bulk"}`)
	c.must(c.operator, "POST", fmt.Sprintf("/api/v1/dlq/messages/%v/retry", l), ``, 202)
	if run := c.newest(redrive, "DLQ", 1); !refused(run) {
		t.Errorf("by a letter: %v", run)
	}
	// Steps of sagas.
	saga := func(job, args string) {
		t.Helper()
		c.must(
			c.operator,
			"POST",
			"/api/v1/sagas",
			`{"payload":{},"initiated_by":"key:boss","steps":[{"name":"s","type":"job","job":"`+job+`","args":`+args+`,"compensation":"none"}]}`,
			201,
		)
	}
	saga(archive, `{}`)
	if run := c.newest(archive, "SAGA", 1); !refused(run) || run["initiated_by"] != "key:op" {
		t.Errorf("by a saga: %v", run)
	}
	saga(redrive, `{"topic":"bulk","max_messages":3}`)
	if run := c.newest(redrive, "SAGA", 1); !refused(run) {
		t.Errorf("by a saga: %v", run)
	}
	saga(redrive, `{"topic":"bulk","max_messages":2,"rate_per_second":100}`)
	if run := c.newest(redrive, "SAGA", 2); run["state"] != "SUCCEEDED" {
		t.Errorf("within what an operator may do, by a saga: %v", run)
	}
	// Events.
	c.must(
		c.admin,
		"POST",
		"/api/v1/job-definitions",
		`{"name":"heard","type":"event","event":{"event_type":"e","args_from":"payload"},"command_name":"`+redrive+`","queue":"other"}`,
		201,
	)
	c.must(c.operator, "POST", "/api/v1/events", `{"event_type":"e","payload":{"topic":"bulk"}}`, 202)
	if run := c.newest("heard", "EVENT", 1); !refused(run) || run["initiated_by"] != "key:op" {
		t.Errorf("by an event: %v", run)
	}
	// Events and runs that workers emit.
	c.must(
		c.admin,
		"POST",
		"/api/v1/job-definitions",
		`{"name":"outside","queue":"outside","command_name":"outside","type":"manual"}`,
		201,
	)
	worker := c.must(c.operator, "POST", "/api/v1/workers", `{"name":"w","node":"h","queues":["outside"],"max_runs":5}`, 201)["worker_id"]
	c.must(c.operator, "POST", "/api/v1/job-definitions/outside/runs", ``, 201)
	claimed := c.must(c.operator, "POST", fmt.Sprintf("/api/v1/workers/%v/claim", worker), `{"slots":1,"wait_ms":20000,"start":true}`, 200)["runs"].([]any)
	if len(claimed) != 1 {
		t.Fatalf("claimed: %v", claimed)
	}
	r := claimed[0].(map[string]any)
	c.must(
		c.operator,
		"POST",
		fmt.Sprintf("/api/v1/job-runs/%v/complete", r["run_id"]),
		fmt.Sprintf(`{"worker_id":%q,"attempt":%v,"lease_token":%q,"leader_epoch":%v,
		"emit":[{"run":{"definition":%q}}]}`, worker, r["attempt"], r["lease_token"], r["leader_epoch"], archive),
		409,
	)
	// A schedule has the rights of an administrator.
	c.must(c.admin, "PATCH", "/api/v1/job-definitions/"+archive, `{"schedule":{"type":"interval","value":"1s"}}`, 200)
	var run map[string]any // slots are created ahead, and skipped while another one runs
	patience.Until(t, "a run by its schedule succeeds", func() bool {
		runs := c.must(c.operator, "GET", "/api/v1/job-runs?trigger=TIME&state=SUCCEEDED&definition="+archive, "", 200)["job_runs"].([]any)
		if len(runs) > 0 {
			run = runs[0].(map[string]any)
		}
		return run != nil
	})
	if run["state"] != "SUCCEEDED" || run["initiated_by"] != "key:*:bootstrap" {
		t.Errorf("by its schedule: %v", run)
	}
}
