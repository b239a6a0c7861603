package app_test

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/skald-saga/skald/internal/test/patience"
)

// The ways of the attack: each creates a run of "fixed", or of the definitions triggered by
// events, with every document.

func (c *campaign) byHand(ended string) {
	c.each("MANUAL", func(doc string) {
		c.must(c.operator, "POST", "/api/v1/job-definitions/fixed/runs", `{"args":`+doc+`}`, 201)
	})
	c.each("MANUAL", func(doc string) {
		c.must(c.operator, "POST", "/api/v1/job-runs/"+ended+"/rerun", `{"args":`+doc+`}`, 201)
	})
}

func (c *campaign) byLetters() {
	const letter = `{"original_topic":"%s","error_message":"e","payload":%s,"target":{"kind":"job_run","job":"fixed"}}`
	// Retry letters unchanged, one by one.
	c.each("DLQ", func(doc string) {
		id := c.must(c.operator, "POST", "/api/v1/dlq/messages", fmt.Sprintf(letter, "one", doc), 201)["id"]
		c.must(c.operator, "POST", fmt.Sprintf("/api/v1/dlq/messages/%v/retry", id), ``, 202)
	})
	// Retry with different content.
	c.each("DLQ", func(doc string) {
		id := c.must(c.operator, "POST", "/api/v1/dlq/messages", fmt.Sprintf(letter, "other", `{}`), 201)["id"]
		c.must(c.operator, "POST", fmt.Sprintf("/api/v1/dlq/messages/%v/retry", id), `{"payload":`+doc+`}`, 202)
	})
	// Retry with patches, of one letter and of a redrive.
	c.each("DLQ", func(doc string) {
		id := c.must(c.operator, "POST", "/api/v1/dlq/messages", fmt.Sprintf(letter, "patched", `{"of":"one"}`), 201)["id"]
		c.must(
			c.operator,
			"POST",
			fmt.Sprintf("/api/v1/dlq/messages/%v/retry", id),
			`{"payload_patch":[{"op":"replace","path":"","value":`+doc+`}]}`,
			202,
		)
	})
	c.each("DLQ", func(doc string) {
		id := c.must(c.operator, "POST", "/api/v1/dlq/messages", fmt.Sprintf(letter, "transformed", `{"of":"many"}`),
			201)["id"]
		c.must(
			c.operator,
			"POST",
			"/api/v1/dlq/redrives",
			fmt.Sprintf(
				`{"action":"retry","ids":[%q],"reason":"x","transform":[{"op":"replace","path":"","value":%s}]}`,
				id,
				doc,
			),
			202,
		)
	})
	// Retry by group, and by an administrator who retries the topic.
	c.each("DLQ", func(doc string) {
		c.must(
			c.operator,
			"POST",
			"/api/v1/dlq/messages",
			strings.Replace(fmt.Sprintf(letter, "grouped", doc), `"e"`, `"of this group alone"`, 1),
			201,
		)
	})
	groups := c.must(c.operator, "GET", "/api/v1/dlq/groups?topic=grouped", "", 200)["groups"].([]any)
	for _, g := range groups {
		c.must(
			c.operator,
			"POST",
			fmt.Sprintf("/api/v1/dlq/groups/%v/retry", g.(map[string]any)["fingerprint"]),
			`{"max_messages":1000,"rate_per_second":1000,"reason":"x"}`,
			202,
		)
	}
	c.each("DLQ", func(doc string) {
		c.must(c.operator, "POST", "/api/v1/dlq/messages", fmt.Sprintf(letter, "topical", doc), 201)
	})
	c.must(c.admin, "POST", "/api/v1/dlq/topical/retry-all?wait=0s", `{"rate_per_second":1000,"reason":"x"}`, 202)
	// Retry in bulk.
	c.each("DLQ", func(doc string) {
		c.must(c.operator, "POST", "/api/v1/dlq/messages", fmt.Sprintf(letter, "many", doc), 201)
	})
	c.must(
		c.operator,
		"POST",
		"/api/v1/dlq/redrives",
		`{"action":"retry","filter":{"topic":"many"},"max_messages":1000,"rate_per_second":1000,"reason":"x"}`,
		202,
	)
}

func (c *campaign) bySagas() {
	objects := slices.DeleteFunc(
		slices.Clone(c.docs),
		func(doc string) bool { return doc[0] != '{' },
	) // because a template must be an object
	c.eachOf(objects, "SAGA", func(doc string) {
		c.must(
			c.operator,
			"POST",
			"/api/v1/sagas",
			`{"payload":`+doc+`,"steps":[{"name":"s","type":"job","job":"fixed","args":`+doc+`,"compensation":"none"}]}`,
			201,
		)
	})
	// The arguments of a job for which none are given.
	c.each("SAGA", func(doc string) {
		c.must(
			c.operator,
			"POST",
			"/api/v1/sagas",
			`{"payload":`+doc+`,"steps":[{"name":"s","type":"job","job":"fixed","compensation":"none"}]}`,
			201,
		)
	})
	// By a template with the saga's payload, and by a compensation.
	c.must(c.operator, "POST", "/api/v1/workflows", `{"name":"carries","steps":[
		{"name":"s","type":"job","job":"fixed","args":{"script":"${payload}","env":"${payload.env}"},"compensation":{"job":"fixed","args":{"argv":"${payload.argv}","x":"${payload}"}}},
		{"name":"f","type":"job","job":"none","compensation":"none"}]}`, 201)
	start := func(doc string) {
		c.must(c.operator, "POST", "/api/v1/sagas", `{"workflow_name":"carries","payload":`+doc+`}`, 201)
	}
	started := c.each("SAGA", start)
	c.wanted["SAGA"] += started // the compensations
}

// byClock creates runs of a schedule, of a backfill, by operators' requests, and by an
// administrator who reruns all of them.
func (c *campaign) byClock(fixed string) {
	c.must(
		c.admin,
		"POST",
		"/api/v1/job-definitions",
		fmt.Sprintf(
			`{"name":"ticks","queue":"shellq","command_name":"shell","type":"time","schedule":{"type":"interval","value":"1s"},
		"concurrency_policy":"allow","default_args":{"script":%q,"env":{"X":"y"},"dir":"/"}}`,
			says,
		),
		201,
	)
	runs := func() []map[string]any { // those that ran; a paused definition skips its slots
		return slices.DeleteFunc(
			c.ended("ticks", 1),
			func(r map[string]any) bool { return r["finished_at"] == nil || r["state"] == "SKIPPED" },
		)
	}
	until := func(what string, ok func(triggers map[string]int) bool) {
		patience.Until(c.t, what, func() bool {
			n := map[string]int{}
			for _, r := range runs() {
				n[r["trigger"].(string)]++
			}
			return ok(n)
		})
	}
	until("a schedule", func(n map[string]int) bool { return n["TIME"] >= 2 })
	first := runs()[0]["id"].(string)
	c.must(c.operator, "POST", "/api/v1/job-definitions/ticks/pause", ``, 200)
	now := time.Now().UTC().Truncate(time.Second)
	slots := fmt.Sprintf(
		`{"from":%q,"to":%q,"max_active":20,"reason":"x"}`,
		now.Add(-time.Hour).Format(time.RFC3339),
		now.Add(-time.Hour+10*time.Second).Format(time.RFC3339),
	)
	c.must(c.operator, "POST", "/api/v1/job-definitions/ticks/backfills", slots, 403)
	c.must(c.admin, "POST", "/api/v1/job-definitions/ticks/backfills", slots, 202)
	for _, doc := range c.docs {
		c.must(c.operator, "POST", "/api/v1/job-runs/"+first+"/rerun", `{"args":`+doc+`}`, 201)
	}
	many := `{"action":"rerun","filter":{"definition":"ticks","triggers":["MANUAL"],"states":["SUCCEEDED"]},"reason":"x"}`
	c.must(c.operator, "POST", "/api/v1/job-runs/bulk", many, 403)
	until(
		"the runs of an operator",
		func(n map[string]int) bool { return n["MANUAL"] == len(c.docs) && n["BACKFILL"] == 10 },
	)
	c.must(c.admin, "POST", "/api/v1/job-runs/bulk", many, 202)
	until("what is run once more", func(n map[string]int) bool { return n["MANUAL"] == 2*len(c.docs) })
	for _, r := range runs() {
		if text := c.log(r["id"].(string)); r["state"] != "SUCCEEDED" || text != fixed {
			c.t.Errorf("a run by %v is %v and says %q", r["trigger"], r["state"], text)
		}
	}
}

func (c *campaign) byEvents() {
	c.each("EVENT", func(doc string) {
		c.must(c.operator, "POST", "/api/v1/events", `{"event_type":"heard","payload":`+doc+`}`, 202)
	})
	c.wanted["EVENT"] += len(c.docs) // two definitions are triggered
}

// byWorkers makes a worker of the operator emit runs and events.
func (c *campaign) byWorkers() {
	worker := c.must(c.operator, "POST", "/api/v1/workers", `{"name":"w","node":"h","queues":["outside"],"max_runs":5}`, 201)["worker_id"].(string)
	for at := 0; at < len(c.docs); at += 50 {
		some := c.docs[at:min(at+50, len(c.docs))]
		c.must(c.operator, "POST", "/api/v1/job-definitions/outside/runs", ``, 201)
		var run map[string]any
		patience.Until(c.t, "a run is claimed", func() bool {
			claimed := c.must(
				c.operator,
				"POST",
				"/api/v1/workers/"+worker+"/claim",
				`{"slots":1,"wait_ms":1000,"start":true}`,
				200,
			)
			if runs := claimed["runs"].([]any); len(runs) > 0 {
				run = runs[0].(map[string]any)
			}
			return run != nil
		})
		emit := make([]string, 0, 2*len(some))
		for _, doc := range some {
			emit = append(
				emit,
				`{"run":{"definition":"fixed","args":`+doc+`}}`,
				`{"event":{"event_type":"heard","payload":`+doc+`}}`,
			)
		}
		c.must(
			c.operator,
			"POST",
			"/api/v1/job-runs/"+run["run_id"].(string)+"/complete",
			fmt.Sprintf(`{"worker_id":%q,"attempt":%v,"lease_token":%q,"leader_epoch":%v,"emit":[%s]}`,
				worker, run["attempt"], run["lease_token"], run["leader_epoch"], strings.Join(emit, ",")),
			200,
		)
	}
	c.wanted["EVENT"] += 3 * len(c.docs) // the runs, and two for each event
}

// failing makes runs fail, so that they are retried, and then retries their letters with other
// arguments.
func (c *campaign) failing(fixed string) {
	some := c.docs[:6]
	for _, doc := range some {
		c.must(c.operator, "POST", "/api/v1/job-definitions/failing/runs", `{"args":`+doc+`}`, 201)
	}
	runs := c.ended("failing", 2*len(some)) // each is retried once
	var letters []string
	patience.Until(c.t, fmt.Sprintf("there are letters of %d runs", len(runs)), func() bool {
		letters = letters[:0]
		for _, l := range c.must(c.operator, "GET", "/api/v1/dlq/messages?source=JOB", "", 200)["messages"].([]any) {
			letters = append(letters, l.(map[string]any)["id"].(string))
		}
		return len(letters) >= len(some)
	})
	for i, id := range letters {
		c.must(c.operator, "POST", "/api/v1/dlq/messages/"+id+"/retry", `{"payload":`+some[i]+`}`, 202)
	}
	for _, r := range c.ended("failing", 4*len(some)) {
		if text := c.log(r["id"].(string)); text != fixed || r["state"] != "FAILED" {
			c.t.Errorf("a run by %v is %v and says %q", r["trigger"], r["state"], text)
		}
	}
}
