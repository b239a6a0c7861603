package app_test

import (
	"fmt"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/skald-saga/skald/internal/test/patience"
)

// definitionsOf are job definitions in which every text is set: by schedule, and by events.
func definitionsOf(suffix string) []string {
	const common = `"description":"#","command_name":"#","default_args":{"#":"#"},"args_schema":{"description":"#"},"queue":"#",
		"required_labels":{"#":"#"},"labels":{"#":"#"},"concurrency_key":"#","concurrency_policy":"queue","reason":"#"}`
	return []string{
		`{"name":"#-tick` + suffix + `","type":"time","schedule":{"type":"hourly_at_minute","value":"0"},` + common,
		`{"name":"#-heard` + suffix + `","type":"event","event":{"event_type":"#","match":{"#":"#"}},` + common,
	}
}

func (a *canaryNode) writeJobs() {
	for i, body := range definitionsOf("") {
		which := "definition:#-" + []string{"tick", "heard"}[i]
		a.does("createJobDefinition", body)
		a.does("replaceJobDefinition", body, which)
		a.does("updateJobDefinition", body, which)
	}
	a.does("createJobDefinition", `{"name":"#-gone","type":"manual","command_name":"#"}`)
	a.does("deleteJobDefinition", "", "definition:#-gone", "reason=#")
	a.does(
		"createJobDefinition",
		`{"name":"#-work","type":"manual","command_name":"#","queue":"#-work","dead_letter":true,"concurrency_policy":"allow"}`,
	)
	a.keeps("definition", canary+"-tick")
	a.does("holdJobQueue", `{"reason":"#"}`, "queue:#-work")
	a.does("releaseJobQueue", `{"reason":"#"}`, "queue:#-work")
	a.keeps("queue", canary+"-work")
	a.does("pauseJobDefinition", `{"reason":"#"}`)
	a.does("resumeJobDefinition", `{"reason":"#"}`)
	a.does("previewSchedule", `{"schedule":{"type":"hourly_at_minute","value":"0"}}`)
	hour := time.Now().UTC().Truncate(time.Hour)
	backfill := fmt.Sprintf(
		`{"from":%q,"to":%q,"max_active":1,"reason":"#"}`,
		hour.Add(-50*time.Hour).Format(time.RFC3339),
		hour.Format(time.RFC3339),
	)
	a.keeps("backfill_id", field(a.does("createBackfill", backfill), "id"))
	a.does("cancelBackfill", `{"reason":"#"}`)
	few := strings.Replace(backfill, `"max_active"`, `"expected":1,"max_active"`, 1)
	a.keeps("backfill_id", field(a.does("createBackfill", few), "id"))
	a.does("resumeBackfill", `{"reason":"#"}`)
	a.does("cancelBackfill", `{"reason":"#"}`)
	bulk := a.does(
		"createJobBulk",
		`{"action":"cancel","filter":{"definition":"#-tick","queue":"#","label":"#=#","correlation_id":"#","correlation_id_prefix":"#",
			"error_code":"#"},"reason":"#"}`,
	)
	a.keeps("bulk_id", field(bulk, "id"))
	a.exec(`UPDATE jobs.bulks SET state = 'HALTED', ended_at = NULL WHERE id = $1`, a.ids["bulk_id"])
	a.does("resumeJobBulk", `{"reason":"#"}`)
	patience.Until(a.t, "the bulk is canceled before the scheduler has ended it", func() bool {
		a.exec(`UPDATE jobs.bulks SET state = 'RUNNING', ended_at = NULL WHERE id = $1`, a.ids["bulk_id"])
		status, _ := a.send(a.owner, "POST", "/api/v1/job-runs/bulk/"+a.ids["bulk_id"]+"/cancel", `{"reason":"`+canary+`"}`,
			"Idempotency-Key", canary+uuid.NewString())
		return status < 300
	})
	a.said["cancelJobBulk"] = &written{bodies: []any{map[string]any{"reason": canary}},
		other: "\nidempotency-key=" + canary + "\n"}
	a.keeps(
		"event_id",
		field(
			a.does("publishJobEvent", `{"event_type":"#","payload":{"#":"#"},"dedupe_key":"#","correlation_id":"#"}`),
			"event_id",
		),
	)
	a.writeWork()
}

// fence claims a run and returns it with the fence with which the worker proves that it holds the run.
func (a *canaryNode) fence() (run, fence string) {
	a.t.Helper()
	a.does("createJobRun", `{"args":{"#":"#"},"labels":{"#":"#"},"correlation_id":"#","reason":"#"}`, "definition:#-work")
	var text string
	patience.Until(a.t, "a run is claimed", func() bool {
		text = a.does("claimRuns", `{"slots":1,"wait_ms":1000,"queues":["#-work"],"claim_id":"#-`+newToken(a.t)[:20]+`"}`)
		return field(text, "run_id") != ""
	})
	number := func(name string) string {
		_, rest, _ := strings.Cut(text, `"`+name+`":`)
		return rest[:strings.IndexAny(rest, ",}")]
	}
	a.ids["run_id"] = field(text, "run_id")
	a.ids["fencing"] = field(text, "fencing_token")
	return a.ids["run_id"], fmt.Sprintf(`"worker_id":%q,"attempt":%s,"lease_token":%q,"leader_epoch":%s`,
		a.ids["worker_id"], number("attempt"), field(text, "lease_token"), number("leader_epoch"))
}

// started is a run that the worker has started.
func (a *canaryNode) started() (run, fence string) {
	a.t.Helper()
	run, fence = a.fence()
	a.does("startRun", `{`+fence+`}`)
	return run, fence
}

const (
	emitted = `"result":{"#":"#"},"emit":[{"event":{"event_type":"#","payload":{"#":"#"},"dedupe_key":"#-%[1]s","correlation_id":"#"}},
		{"run":{"definition":"#-work","args":{"#":"#"},"idempotency_key":"#-%[1]s"}}]`
	broken = `"error":{"code":"#","type":"#","message":"#","stack":"#"}`
)

func (a *canaryNode) writeWork() {
	worker := a.does(
		"registerWorker",
		`{"name":"#","node":"#","sdk":"#","version":"#","labels":{"#":"#"},"queues":["#","#-work"],"commands":["#"],"max_runs":50}`,
	)
	a.keeps("worker_id", field(worker, "worker_id"))
	ofMany := func(run, fence string) string { // in lists an item names its run but not its worker
		_, fence, _ = strings.Cut(fence, ",")
		return fmt.Sprintf(`"run_id":%q,%s`, run, fence)
	}
	run, fence := a.started()
	a.does(
		"workerHeartbeat",
		`{"seq":1,"running":[{`+ofMany(
			run,
			fence,
		)+`,"progress":{"percent":1,"message":"#","counters":{"#":1}},"checkpoint":{"#":"#"}}]}`,
	)
	a.does("reportProgress", `{`+fence+`,"message":"#","counters":{"#":1},"checkpoint":{"#":"#"}}`)
	a.does("appendRunLog", `{`+fence+`,"seq":0,"stream":"#","chunk":"#"}`)
	a.does("appendRunLog", `{`+fence+`,"seq":1,"chunk_base64":"enFjYW5hcnkK"}`)
	a.does("confirmContinuation", `{`+fence+`}`)
	a.does("completeRun", `{`+fence+`,`+fmt.Sprintf(emitted, "one")+`}`)
	a.keeps("run_id", run)
	a.ids["fence_key"] = canary + "-fence"

	run, fence = a.started()
	a.does("failRun", `{`+fence+`,`+broken+`}`)
	a.more["run_id"] = append(a.more["run_id"], run)
	_, fence = a.started() // another, so that there are several to run again
	a.does("failRun", `{`+fence+`,`+broken+`}`)
	_, fence = a.fence()
	a.does("releaseRun", `{`+fence+`,"reason":"#"}`)
	run, fence = a.fence()
	a.does("startRuns", `{"runs":[{`+ofMany(run, fence)+`}]}`)
	a.does("completeRuns", `{"runs":[{`+ofMany(run, fence)+`,`+fmt.Sprintf(emitted, "many")+`}]}`)
	run, fence = a.started()
	a.does("exchangeRuns", `{"outcomes":[{`+ofMany(run, fence)+`,`+fmt.Sprintf(emitted, "exchange")+`}],"slots":1,"queues":["#"],
		"claim_id":"#"}`)
	run, fence = a.started()
	a.does("exchangeRuns", `{"outcomes":[{`+ofMany(run, fence)+`,`+broken+`}],"slots":1,"queues":["#"],"claim_id":"#2"}`)
	a.does("rerunJobRun", `{"args":{"#":"#"},"reason":"#"}`)
	run, fence = a.started()
	a.does("completeRuns", `{"runs":[{`+ofMany(run, fence)+`,`+broken+`}]}`)
	a.does("rerunJobRun", `{"args":{"#":"#"},"reason":"#"}`)
	_, fence = a.started()
	a.does("cancelJobRun", `{"reason":"#"}`)
	a.does("acknowledgeCancel", `{`+fence+`}`)
	a.started()
	a.does("reassignJobRun", `{"reason":"#","force":true}`)

	a.does("checkFence", `{"fencing_token":"`+a.ids["fencing"]+`"}`, "fence_key:#-reset")
	a.does("checkFence", `{"fencing_token":"`+a.ids["fencing"]+`"}`)
	a.does("resetFence", "", "fence_key:#-reset", "reason=#")
	delete(a.ids, "fencing")
	a.does("drainWorker", `{"reason":"#"}`)
	a.does("undrainWorker", `{"reason":"#"}`)
	gone := a.does("registerWorker", `{"name":"#-gone","queues":["#"]}`)
	a.does("detachWorker", `{"reason":"#"}`, "worker_id:"+field(gone, "worker_id"))
	a.does("undetachWorker", `{"reason":"#"}`, "worker_id:"+field(gone, "worker_id"))
}
