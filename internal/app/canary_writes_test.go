package app_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/skald-saga/skald/internal/test/patience"
)

// does makes the owner send a request that must succeed, and returns the response. In body and
// in more, # stands for the canary and @ for the address of the participants. In more,
// "saga_id:…" is a parameter of the path (by default the owner's own, from a.ids), "reason=…"
// one of the query, "as:…" the credential, and "answers:…" the expected status if it is not a
// success. Each header that accepts free text gets one.
func (a *canaryNode) does(id, body string, more ...string) string {
	a.t.Helper()
	op, known := a.ops[id]
	if !known {
		a.t.Fatalf("the contract has no %s", id)
	}
	if a.said[id] == nil {
		a.said[id] = &written{other: "\n"}
	}
	said := a.said[id]
	words := strings.NewReplacer("#", canary, "@", a.participants.URL)
	body = words.Replace(body)
	path, query, as, want, header := op.path, "", a.owner, "", []string(nil)
	for _, m := range more {
		m = words.Replace(m)
		if name, value, is := strings.Cut(m, "="); is {
			query += "&" + name + "=" + url.QueryEscape(a.hostile.text(name, value))
			said.other += name + "=" + value + "\n"
		} else if name, value, _ := strings.Cut(m, ":"); name == "as" {
			as = value
		} else if name == "answers" {
			want = value
		} else {
			path = strings.ReplaceAll(path, "{"+name+"}", value)
		}
	}
	for name, value := range a.ids {
		path = strings.ReplaceAll(path, "{"+name+"}", value)
	}
	for _, p := range op.parameters {
		if p["in"] == "header" && p["name"] == "Idempotency-Key" &&
			(id != "pushDeadLetter" || !strings.Contains(body, "dedupe_key")) { // it accepts only one of them
			header = append(header, "Idempotency-Key", canary+uuid.NewString())
			said.other += "idempotency-key=" + canary + "\n"
		}
		if p["in"] == "header" && (p["name"] == "tracestate" || p["name"] == "baggage") {
			header = append(header, p["name"].(string), canary+"="+canary)
			said.other += p["name"].(string) + "=" + canary + "\n"
		}
		if p["in"] == "header" && p["name"] == "traceparent" { // without it there is no tracestate
			header = append(header, "traceparent", "00-"+strings.Repeat("a", 32)+"-"+strings.Repeat("b", 16)+"-01")
		}
	}
	var doc any
	switch err := json.Unmarshal([]byte(body), &doc); {
	case id == "importDeadLetters":
		header = append(header, "Content-Type", "application/x-ndjson")
		said.other += "application/x-ndjson=" + body + "\n"
	case err == nil:
		said.bodies = append(said.bodies, doc)
	case body != "":
		header = append(header, "Content-Type", "application/yaml")
		said.other += "application/yaml=" + body + "\n"
	}
	if op.method == "PUT" || op.method == "PATCH" {
		header = append(header, "If-Match", "*")
	}
	path += strings.Replace(query, "&", "?", 1)
	fits := func(status int) bool { return want == "" && status < 300 || want == fmt.Sprint(status) }
	if a.hostile != nil && doc != nil {
		if text, done := a.attack(id, as, path, doc, header, fits); done {
			return text
		}
	}
	status, text := a.send(as, op.method, path, body, header...)
	if !fits(status) {
		text, _, _ = strings.Cut(text, "\nmap[")
		a.t.Errorf("%s: %d %s\nto %s", id, status, text, body)
	}
	return text
}

// keeps stores an id of the owner under the name of a path parameter.
func (a *canaryNode) keeps(param, value string) string {
	a.t.Helper()
	if value == "" {
		a.t.Errorf("the answer has no %s", param)
	}
	if before := a.ids[param]; before != "" && before != value {
		a.more[param] = append(a.more[param], before)
	}
	a.ids[param] = value
	return value
}

func (a *canaryNode) looks(path string) string {
	a.t.Helper()
	_, text := a.send(a.owner, "GET", "/api/v1/"+path, "")
	return text
}

func (a *canaryNode) exec(query string, args ...any) {
	a.t.Helper()
	if _, err := a.db.ExecContext(a.t.Context(), query, args...); err != nil {
		a.t.Fatalf("%s: %v", query, err)
	}
}

// why is the body of most actions on sagas.
const whyNot = `{"reason":"#","requested_by":"#"}`

// writeAll makes the owner send everything that the owner can send.
func (a *canaryNode) writeAll() {
	a.writeJobs()
	a.writeWebhooks()
	a.writeSagas()
	a.writeLetters()
	a.writeRedrives()
	a.writeAccess()
}

// workflowOf is a workflow of two steps: the first has a compensation.
func workflowOf(name, second, undo string) string {
	return `"name":"#-` + name + `","description":"#","output":{"#":"${steps.#-one}"},` + stepsOf(second, undo)
}

func stepsOf(second, undo string) string {
	const patient = `"retry":{"max_attempts":9,"initial_interval_ms":600000,"max_interval_ms":600000,"jitter":0}`
	return fmt.Sprintf(`"steps":[{"name":"#-one","metadata":{"#":"#"},"action":{"http":{"url":"@/#-one","headers":{"X-#":"#"}}},
		"compensation":{"http":{"url":"@/#-%s","headers":{"X-#":"#"}}},"compensation_retry":{"max_attempts":1},%s},
		{"name":"#-two","metadata":{"#":"#"},"depends_on":["#-one"],"action":{"http":{"url":"@/#-%s"}},"compensation":"none",%[2]s}]`, undo, patient, second)
}

// jobSteps are executed by a worker, in both notations.
const jobSteps = `"steps":[{"name":"#-a","type":"job","job":"#-work","args":{"#":"#"},"compensation":{"job":"#-work","args":{"#":"#"}}},
	{"name":"#-b","action":{"job":"#-work","args":{"#":"#"}},"compensation":"none"}]`

const (
	rules = `"done":"status == 200 && body != '#'","refused":"body == '#'","not_applied":"body == '#'","unknown":"body == '#'",` +
		`"later":"body == '#'"`

	answers     = `"answer":{` + rules + `,"output":{"#":"#"}}`
	undoAnswers = `"answer":{` + rules + `}`
)

// mappedSteps have whole requests, rules for answers and schemas.
const mappedSteps = `"steps":[{"name":"#-one","when":"${payload != '#'}","output_schema":{"description":"#"},` + answers + `,
	"action":{"http":{"url":"@/#-one","body":{"#":"#"}}},"compensation":{"http":{"url":"@/#-undo","form":{"#":"#"}},` + undoAnswers + `}},
	{"name":"#-two","action":{"http":{"participant":"#-card","path":"/#-two","form":{"#":"#"}}},
	"compensation":{"http":{"participant":"#-card","path":"/#-undo?#=#","headers":{"X-#":"#"},"body":{"#":"#"}}}}]`

func (a *canaryNode) writeSagas() {
	for _, definition := range []string{
		`{` + workflowOf("waits", "later", "undo") + `}`, `{"name":"#-works","description":"#",` + jobSteps + `}`,
		`{"name":"#-maps","payload_schema":{"description":"#"},` + mappedSteps + `}`,
		`{"workflow_yaml":"name: #-yaml\nsteps: [{name: s, action: {http: {url: \"@/#\"}}, compensation: none}]"}`,
	} {
		a.does("simulateWorkflow", `{"payload":{"#":"#"},"definition":`+definition+`}`)
	}
	for _, op := range []string{"validateWorkflow", "registerWorkflow"} {
		a.does(op, `{"name":"#-maps","payload_schema":{"description":"#"},`+mappedSteps+`}`)
		a.does(op, `{`+workflowOf("waits", "later", "undo")+`}`)
		a.does(op, `{`+workflowOf("strands", "refuse", "refuse")+`}`)
		a.does(op, `{`+workflowOf("good", "two", "undo")+`}`)
		a.does(op, `{"name":"#-works","description":"#",`+jobSteps+`}`)
		a.does(op, `{"workflow_yaml":"name: #-yaml\nsteps: [{name: s, action: {http: {url: \"@/#\"}}, compensation: none}]"}`)
		a.does(op, "name: #-plainyaml\nsteps: [{name: s, action: {http: {url: \"@/#\"}}, compensation: none}]")
	}
	a.does("disableWorkflow", `{"reason":"#"}`, "name:#-yaml")
	a.does("enableWorkflow", `{"reason":"#"}`, "name:#-yaml")
	a.keeps("name", canary+"-good")
	a.ids["version"], a.ids["step"] = "1", "0"

	const common = `"payload":{"#":"#"},"metadata":{"#":"#"},"correlation_id":"#","initiated_by":"#","name":"#","description":"#","saga_type":"#"}`
	run := func(workflow, ready string) string {
		text := a.does("createSaga", `{"workflow_name":"#-`+workflow+`","business_key":"#-`+uuid.NewString()+`",`+common)
		id := a.keeps("saga_id", field(text, "saga_id"))
		patience.Until(a.t, "saga of "+workflow, func() bool {
			text := a.looks("sagas/" + id)
			return strings.Contains(text, `"state":"`+ready+`"`) &&
				(workflow != "waits" || strings.Contains(text, `"current_step":1`) && strings.Contains(text, `"next_run_at":"`))
		})
		return "saga_id:" + id
	}
	a.does("createSaga", `{`+stepsOf("two", "undo")+`,`+common)
	a.does("createSaga", `{`+jobSteps+`,`+common)
	a.does("createSaga", `{`+mappedSteps+`,`+common)
	a.does("simulateWorkflow", `{"workflow_name":"#-waits","payload":{"#":"#"},"business_key":"#","correlation_id":"#",
		"answers":{"#-one":[{"headers":{"#":"#"},"body":"#"}]},"cancel_at":"#-one"}`)
	waits := func() string { return run("waits", "running") }
	stranded := func() string { return run("strands", "failed") }
	a.does("cancelSaga", whyNot, waits())
	a.does("compensateSaga", whyNot, waits())
	a.does("retrySaga", whyNot, waits())
	id := waits()
	a.does("suspendSaga", whyNot, id)
	a.does("resumeSaga", whyNot, id)
	a.does("extendDeadline", `{"reason":"#","requested_by":"#","timeout_ms":7200000}`, id)
	a.does("skipStep", whyNot, id, "step:#-two")
	a.does("completeStep", `{"reason":"#","requested_by":"#","output":{"#":"#"}}`, waits(), "step:#-two")
	a.does("failStep", whyNot, waits(), "step:#-two")
	a.does("forceComplete", `{"reason":"#","requested_by":"#","result":{"#":"#"}}`, waits())
	a.does("forceFail", whyNot, waits())
	a.writeReports()
	a.does("updateSaga", `{"assignee":"#","note":"#","reason":"#"}`, stranded())
	a.does("acknowledgeSaga", whyNot, stranded())
	a.does("resumeCompensation", whyNot, stranded())
	a.does("retrySaga", `{"reason":"#","requested_by":"#","from_step":"#-two","input_patch":{"#":"#"}}`, stranded())
	a.does("createSagaBulk", `{"action":"retry","filter":{"workflow_name":"#-waits","correlation_id":"#",
		"initiated_by":"#","assignee":"#","trace_id":"#","business_key":"#","error_code":"#","step":"#","metadata":"{\"#\":\"#\"}",
		"business_key_prefix":"#","correlation_id_prefix":"#","waits_for":"#"},"reason":"#"}`)
	slow := a.does("createSagaBulk", `{"action":"suspend","ids":["`+uuid.NewString()+`","`+uuid.NewString()+`"],
		"rate_per_second":0.01,"reason":"#"}`)
	a.keeps("saga_bulk_id", field(slow, "id"))
	a.does("updateSagaBulk", `{"rate_per_second":0.02,"reason":"#"}`)
	a.does("cancelSagaBulk", `{"reason":"#"}`)
	a.keeps("saga_bulk_id", field(a.does("createSagaBulk", `{"action":"suspend","ids":["`+uuid.NewString()+`"],"expected":0,"reason":"#"}`), "id"))
	a.does("resumeSagaBulk", `{"reason":"#"}`)
	a.keeps("certification_id", field(a.does("certifyParticipant", `{"url":"http://127.0.0.1:9/#","compensation_url":"http://127.0.0.1:9/#",
		"effects_url":"http://127.0.0.1:9/#","step":"#","payload":{"#":"#"},"reason":"#"}`), "id"))
	a.does("cancelCertification", `{"reason":"#"}`)
	a.does("reportCertification", `{"reason":"#","report":{"url":"http://127.0.0.1:9/#","version":"#","certified":false,"played":["#"],
		"effects_counted":false,"findings":[{"code":"#","rule":"#","title":"#","why":"#","vector":"#","seen":"#","curl":["#"],
		"vectors":["#"]}],"warnings":[{"code":"#","text":"#"}],"not_tried":[{"vector":"#","reason":"#","inapplicable":true}]}}`)
	archived, restored := run("good", "completed"), run("good", "completed")
	a.does("runRetention", `{"older_than":"`+time.Now().UTC().Format(time.RFC3339Nano)+`"}`)
	if text := a.looks("sagas/" + strings.TrimPrefix(archived, "saga_id:")); !strings.Contains(text, `"archived":true`) {
		a.t.Errorf("the saga is not archived: %s", text)
	}
	a.does("restoreSaga", whyNot, restored)
	a.does("eraseContent", `{"business_key":"#-unknown","reason":"#"}`)
	a.does("eraseContent", `{"correlation_id":"#","reason":"#"}`, "answers:409")
	stranded()
	run("good", "completed")
}

// writeReports reports what participants say later, in all ways that have texts.
func (a *canaryNode) writeReports() {
	a.does("registerWorkflow", `{"name":"#-promises","steps":[{"name":"#-one","action":{"http":{"url":"@/#-promised"}},
		"answer":{"later":"status == 202"},"compensation":"none"}]}`)
	for _, report := range []string{`{"result":"refused","error":{"#":"#"}}`, `{"result":"done","output":{"#":"#"}}`} {
		a.does("createSaga", `{"workflow_name":"#-promises","payload":{"#":"#"}}`)
		at := patience.Receive(a.t, "the callback URL", a.callbacks)
		token := at[strings.LastIndex(at, "/")+1:]
		patience.Until(a.t, "the wait is stored", func() bool {
			status, _ := a.send("", "POST", "/api/v1/step-callbacks/"+token, `{"result":"heartbeat"}`)
			return status == http.StatusOK
		})
		a.does("reportStep", `{"result":"heartbeat","progress":{"message":"#"}}`, "token:"+token)
		a.does("reportStep", report, "token:"+token)
	}
}

func (a *canaryNode) writeParticipants() {
	card, name := `{"base_url":"@/#-card","headers":{"X-Canary":"#"},"reason":"#"}`, "name:#-card"
	a.keeps("participant", field(a.does("putParticipant", card, name), "name"))
	a.does("holdParticipant", `{"reason":"#"}`, name)
	a.does("releaseParticipant", `{"reason":"#"}`, name)
	a.does("deleteParticipant", "", name, "reason=#")
	a.does("putParticipant", card, name)
	a.does("holdParticipant", `{"reason":"#"}`, name)
}

func (a *canaryNode) writeWebhooks() {
	a.writeParticipants()
	create := func(path string) string {
		return field(
			a.does("createWebhook", `{"url":"@/#-`+path+`","description":"#","reason":"#","workflow_names":["#-good"]}`),
			"id",
		)
	}
	hook := a.keeps("webhook_id", create("hook"))
	a.does("updateWebhook", `{"url":"@/#-hook-refuse","description":"#","workflow_names":["#-good"],"reason":"#"}`)
	delivery := a.keeps("delivery_id", field(a.does("testWebhook", ""), "id"))
	patience.Until(
		a.t,
		"the delivery fails",
		func() bool { return field(a.looks("webhooks/"+hook+"/deliveries/"+delivery), "status") == "failed" },
	)
	a.does("redeliverFailed", `{"since":"2020-01-01T00:00:00Z"}`)
	a.does("redeliverWebhookDelivery", "")
	a.does("disableWebhook", `{"reason":"#"}`)
	a.does("enableWebhook", `{"reason":"#"}`)
	a.does("rotateWebhookSecret", `{"reason":"#"}`)
	a.does("deleteWebhook", "", "webhook_id:"+create("gone"), "reason=#")
}

func (a *canaryNode) writeAccess() {
	a.does(
		"createAPIKey",
		`{"name":"#","role":"auditor","tenant_id":"`+a.tenant+`","tenant_region":"#","reason":"#"}`,
		"as:"+a.root,
	)
	a.keeps("key_id", field(a.does("createAPIKey", `{"name":"#","role":"auditor","reason":"#"}`), "id"))
	a.does("createAPIKey", `{"name":"#","role":"worker","queues":["#"],"reason":"#"}`)
	a.does("revokeAPIKey", `{"reason":"#"}`)
	signedOut := field(a.does("createSession", ""), "id")
	a.does("deleteSession", "", "session_id:"+signedOut, "reason=#")
	a.keeps("session_id", field(a.does("createSession", ""), "id"))
	a.does("changeSettings", `{"values":{"assign_ahead_seconds":120},"reason":"#"}`, "as:"+a.root)
	a.does("stepDownLeader", `{"reason":"#"}`, "as:"+a.root)
}
