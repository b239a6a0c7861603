package app_test

import (
	"fmt"
	"strings"
	"time"
)

// letterOf is a dead letter in which every text is set, as text or in Base64.
func letterOf(topic, target, key string) string {
	content := `"payload":{"#":"#"},"key":"#","headers":[{"name":"#","value":"#"}]`
	if strings.HasPrefix(key, "base64") {
		content = `"payload_base64":"enFjYW5hcnk=","key_base64":"enFjYW5hcnk=","headers":[{"name":"#","value_base64":"enFjYW5hcnk="}]`
	}
	if key != "" {
		content += `,"dedupe_key":"#-` + key + `"`
	}
	return fmt.Sprintf(
		`{"original_topic":"#-%s","error_message":"#","error_type":"#","error_stack":"#","consumer_group":"#","correlation_id":"#","trace_id":"#",
		"labels":["#"],"target":%s,%s}`,
		topic,
		target,
		content,
	)
}

const (
	toHTTP   = `{"kind":"http","url":"@/#"}`
	toKafka  = `{"kind":"kafka","topic":"#"}`
	toJob    = `{"kind":"job_run","job":"#-work"}`
	reasoned = `{"reason":"#"}`
)

// pushes makes the owner push a letter and returns its id.
func (a *canaryNode) pushes(topic string) string {
	a.t.Helper()
	return field(a.does("pushDeadLetter", letterOf(topic, toHTTP, "")), "id")
}

func (a *canaryNode) writeLetters() {
	a.keeps("topic", canary+"-topic")
	const policy = `{"max_retries":4,"auto_retry":false,"ordered":false,"retention_days":30,"archive_days":365,"max_generations":5,
		"backoff":{"initial_interval_ms":1000,"max_interval_ms":60000,"multiplier":2,"jitter":0},"alert":{"count":1},
		"redact":["#"],"keep_headers":["#"],"allowed_targets":["@/#","@/#-refuse","#"],"reason":"#"}`
	a.does("putTopicPolicy", policy)
	a.does("updateTopicPolicy", `{"max_retries":3,"redact":["#"],"keep_headers":["#"],"allowed_targets":["@/#","@/#-refuse","#"],"reason":"#"}`)
	a.does("putDefaultPolicy", policy)
	a.does("updateDefaultPolicy", `{"redact":["#"],"keep_headers":["#"],"allowed_targets":["@/#","@/#-refuse","#"],"reason":"#"}`)

	for i, target := range []string{toHTTP, toKafka, toJob} {
		a.does("pushDeadLetter", letterOf("kinds", target, fmt.Sprint("one", i)))
		a.does(
			"pushDeadLetters",
			`{"messages":[`+letterOf(
				"kinds",
				target,
				fmt.Sprint("many", i),
			)+`,`+letterOf(
				"kinds",
				target,
				fmt.Sprint("base64", i),
			)+`]}`,
		)
	}
	a.does("pushDeadLetter", letterOf("kinds", toHTTP, "base64"))
	id := "message_id:" + a.pushes("topic")
	a.does("updateDeadLetter", `{"labels":["#"],"assignee":"#","note":"#","reason":"#"}`, id)
	a.does(
		"retryDeadLetter",
		`{"target":{"url":"@/#-refuse"},"payload_patch":[{"op":"add","path":"/#","value":"#"}],"key_base64":"enFjYW5hcnk=",
		"headers_patch":[{"op":"set","name":"#","value":"#"}],"reason":"#"}`,
		id,
		"answers:502",
	)
	a.does(
		"retryDeadLetter",
		`{"payload":{"#":"#"},"headers_patch":[{"op":"set","name":"#","value_base64":"enFjYW5hcnk="}],"reason":"#"}`,
		id,
	)
	text := a.looks("dlq/messages/" + strings.TrimPrefix(id, "message_id:"))
	_, generation, _ := strings.Cut(text, `"generation":`)
	a.does(
		"acknowledgeDeadLetter",
		`{"generation":`+generation[:strings.IndexAny(generation, ",}")]+`,"outcome":"FAILED","reason":"#"}`,
		id,
	)
	id = "message_id:" + a.pushes("topic")
	a.does("retryDeadLetter", `{"payload_base64":"enFjYW5hcnk=","reason":"#"}`, id)
	id = "message_id:" + a.pushes("topic")
	a.does("discardDeadLetter", reasoned, id)
	a.does("requeueDeadLetter", reasoned, id)
	a.does("resolveDeadLetter", reasoned, id)
	a.does("deleteDeadLetter", "", id, "reason=#")
	for range 2 {
		id = "message_id:" + a.pushes("old")
		a.does("resolveDeadLetter", reasoned, id)
		a.keeps("message_id", strings.TrimPrefix(id, "message_id:"))
	}
	a.exec(
		`UPDATE dlq.dlq_messages SET created_at = created_at - interval '400 days', updated_at = updated_at - interval '400 days',
		terminal_at = terminal_at - interval '400 days' WHERE original_topic = $1`,
		canary+"-old",
	)
	a.exec(`CALL dlq.archive_old_dlq_messages()`)
	a.does("restoreDeadLetter", reasoned, id)
	a.keeps("message_id", a.pushes("topic"))
	a.keeps("fingerprint", field(a.looks("dlq/messages/"+a.ids["message_id"]), "fingerprint"))

	_, exported := a.send(a.owner, "GET", "/api/v1/dlq/export?topic="+canary+"-kinds", "")
	exported, _, _ = strings.Cut(exported, "\nmap[")
	a.does("importDeadLetters", strings.ReplaceAll(exported, canary+"-kinds", canary+"-import"))
}

func (a *canaryNode) writeRedrives() {
	print := field(a.looks("dlq/groups?topic="+canary+"-kinds"), "fingerprint")
	a.does("updateDeadLetterGroup", `{"state":"ACKNOWLEDGED","assignee":"#","note":"#","reason":"#"}`)
	a.does("retryDeadLetterGroup", reasoned, "fingerprint:"+print)
	a.pushes("all")
	a.does("retryAllDeadLetters", reasoned, "topic:#-all")
	a.does(
		"discardDeadLetterGroup",
		reasoned,
		"fingerprint:"+field(a.looks("dlq/messages/"+a.pushes("discards")), "fingerprint"),
	)

	const filter = `"filter":{"topic":"#-bulk","error_type":"#","error_contains":"#","consumer_group":"#","key":"#","header":["#=#"],"payload":["#=#"],
		"correlation_id":"#","trace_id":"#","label":["#"]}`
	create := func(more string) string {
		a.pushes("bulk")
		return field(a.does("createRedrive", `{"action":"retry","reason":"#",`+more+`}`), "id")
	}
	far := `"scheduled_for":"` + time.Now().UTC().Add(100*time.Hour).Format(time.RFC3339) + `"`
	id := "redrive_id:" + create(filter+`,"target":`+toHTTP+`,"transform":[{"op":"add","path":"/#","value":"#"}],`+far)
	a.does("updateRedrive", `{"rate_per_second":7,"reason":"#"}`, id)
	a.does("pauseRedrive", reasoned, id)
	a.does("resumeRedrive", reasoned, id)
	a.does("cancelRedrive", reasoned, id)
	a.does(
		"cancelRedrive",
		reasoned,
		"redrive_id:"+create(
			`"filter":{"topic":"#-bulk","key_base64":"enFjYW5hcnk=","assignee":"#"},"target":`+toKafka+`,`+far,
		),
	)
	id = "redrive_id:" + a.keeps("redrive_id", create(filter+`,"approval_required":true`))
	other := field(a.does("createAPIKey", `{"name":"#-second","role":"admin","reason":"#"}`), "key")
	a.does("approveRedrive", reasoned, id, "as:"+other)
}
