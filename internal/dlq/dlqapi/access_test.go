package dlqapi_test

import (
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"

	"github.com/skald-saga/skald/api/client"
	"github.com/skald-saga/skald/internal/dlq"
	"github.com/skald-saga/skald/internal/principal"
	"github.com/skald-saga/skald/internal/test/apitest"
)

func TestTheStoreInMemoryHasNoDeadLetterQueue(t *testing.T) {
	t.Parallel()
	e := apitest.NewEdge(t)
	n := 0
	for _, op := range apitest.Operations(t, strings.NewReplacer("{message_id}", uuid.NewString(), "{topic}", "orders")) {
		if !strings.HasPrefix(op.Path, "/api/v1/dlq/") {
			continue
		}
		r := e.Send(op.Method, op.Path, "")
		if p := r.Wants(503, "DLQ_UNAVAILABLE"); !strings.Contains(p.Detail, "PostgreSQL") ||
			r.Header.Get("Retry-After") == "" {
			t.Errorf("%s %s: %+v", op.Method, op.Path, p)
		}
		n++
	}
	if n < 20 {
		t.Errorf("only %d operations", n)
	}
	apitest.NewEdge(t, apitest.Guarded).Send("GET", letters, "").Wants(401, principal.CodeRequired)
}

func TestWithoutPayloadsReadALetterIsShownWithoutItsContent(t *testing.T) {
	t.Parallel()
	q := newQueue(t, apitest.Guarded)
	q.target.answer(500)
	l := q.push(q.toTarget(`"payload":{"a":"canary"},"key":"canary","error_stack":"at canary","headers":[{"name":"h","value":"canary"},{"name":"none"}],"max_retries":5`), apitest.As("operator")...)
	raw := q.push(`{"original_topic":"orders","error_message":"boom","payload_base64":"Y2FuYXJ5/w==","key_base64":"Y2FuYXJ5/w=="}`, apitest.As("operator")...)
	if r := q.Send("POST", at(l)+"/retry", `{"payload_patch":[{"op":"add","path":"/b","value":"canary"}],"headers_patch":[{"op":"set","name":"x","value":"canary"}],"key_base64":"Y2FuYXJ5"}`, apitest.As("operator")...); r.Status != 502 ||
		strings.Contains(string(r.Body), "canary") {
		t.Fatalf("%d %s", r.Status, r.Body)
	}
	for _, path := range []string{at(l), at(l) + "?include=raw&include=attempts&include=lineage", at(raw), letters + "?view=full", topicPath("orders") + "?view=full",
		at(l) + "/revisions", at(l) + "/attempts"} {
		open, covered := q.Send("GET", path, "", apitest.As("operator")...), q.Send("GET", path, "", apitest.As("auditor")...)
		if open.Status != 200 || covered.Status != 200 {
			t.Fatalf("%s: %d and %d", path, open.Status, covered.Status)
		}
		for _, secret := range []string{"canary", "Y2FuYXJ5"} {
			if strings.Contains(string(covered.Body), secret) {
				t.Errorf("%s shows an auditor %s", path, covered.Body)
			}
		}
		if strings.Contains(string(open.Body), "***") {
			t.Errorf("%s hides from an operator: %s", path, open.Body)
		}
	}
	got := q.Send("GET", at(l), "", apitest.As("auditor")...).Letter(200)
	hidden, want := new("***"), got
	want.Payload, want.ErrorMessage = client.AnyJSON(`"***"`), "boom"
	want.Key, want.KeyBase64, want.ErrorStack = hidden, hidden, hidden
	want.Headers = []client.DeadLetterHeader{{Name: "h", Value: hidden, ValueBase64: hidden}, {Name: "none"}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("what an auditor sees (-want +got):\n%s", diff)
	}
	for _, filter := range []string{"key=canary", "key_base64=AA%3D%3D", "header=h=canary", "payload=a=canary"} {
		for _, list := range []string{letters, "/api/v1/dlq/archive"} {
			if p := q.Send("GET", list+"?"+filter, "", apitest.As("auditor")...).Wants(403,
				principal.CodeForbidden); !strings.Contains(p.Detail, "payloads:read") {
				t.Errorf("%s: %s", filter, p.Detail)
			}
			if r := q.Send("GET", list+"?"+filter, "", apitest.As("operator")...); r.Status != 200 {
				t.Errorf("%s: %d %s", filter, r.Status, r.Body)
			}
		}
	}
}

// A client that polls with its current ETag must not keep showing content that has been hidden
// since.
func TestWhatAPolicyHidesIsPartOfTheETag(t *testing.T) {
	t.Parallel()
	q := newQueue(t)
	at := letters + "/" + q.push(q.toTarget(`"payload":{"n":1,"m":2}`)).ID.String()
	known := q.Send("GET", at, "").Header.Get("ETag")
	tags := []string{known}
	for _, redact := range [][]string{{"n"}, {"n", "m"}, nil} {
		q.policy.Redact = redact
		r := q.Send("GET", at, "", "If-None-Match", known)
		if known = r.Header.Get("ETag"); r.Status != http.StatusOK {
			t.Errorf("%q hidden: %d", redact, r.Status)
		}
		if again := q.Send("GET", at, "", "If-None-Match", known); again.Status != http.StatusNotModified {
			t.Errorf("%q hidden, and unchanged: %d", redact, again.Status)
		}
		tags = append(tags, known)
	}
	if tags[0] != tags[3] || tags[1] == tags[2] {
		t.Errorf("shown, hidden, more hidden, shown: %q", tags)
	}
	q.Send("PATCH", at, `{"note":"read while hidden"}`, "If-Match", tags[1]).Letter(http.StatusOK)
}

func TestRedactedMembersAreNeverShown(t *testing.T) {
	t.Parallel()
	q := newQueue(t)
	q.policy.Redact = []string{"card.number", "people.name", "gone.x"}
	l := q.push(q.toTarget(`"payload":{"card":{"number":"canary","kind":"V"},"people":[{"name":"canary","age":1.0},{"age":2}],"gone":7,"x\"<":[[],{}]}`))
	const masked = `{"card":{"number":"***","kind":"V"},"people":[{"name":"***","age":1.0},{"age":2}],"gone":7,"x\"<":[[],{}]}`
	if !jsonEqual(t, string(l.Payload), masked) {
		t.Errorf("pushed: %s", l.Payload)
	}
	text := q.push(`{"original_topic":"orders","error_message":"boom","payload_base64":"Y2FuYXJ5IHs="}`)
	if string(text.Payload) != `"***"` {
		t.Errorf("text: %s", text.Payload)
	}
	q.target.answer(500)
	q.Send("POST", at(l)+"/retry", `{"payload_patch":[{"op":"add","path":"/card/number","value":"canary2"}]}`).Wants(502, "DLQ_PROCESS_FAILED")
	for _, path := range []string{at(l) + "?include=raw", at(text) + "?include=raw", at(l) + "/revisions",
		letters + "?view=full"} {
		if r := q.Send("GET", path, ""); strings.Contains(string(r.Body), "canary") ||
			strings.Contains(string(r.Body), "Y2FuYX") || r.Status != 200 {
			t.Errorf("%s: %d %s", path, r.Status, r.Body)
		}
	}
	if got := q.target.last(t).body; !strings.Contains(got, `"number":"canary2"`) {
		t.Errorf("what is sent is redacted too: %s", got)
	}
}

func jsonEqual(t *testing.T, a, b string) bool {
	t.Helper()
	var x, y any
	apitest.Reply{T: t, Body: []byte(a)}.Into(&x)
	apitest.Reply{T: t, Body: []byte(b)}.Into(&y)
	return cmp.Equal(x, y)
}

// letterOperations lists the operations on single letters; letterBody is a valid body
// of each.
func letterOperations(t *testing.T, id string) []apitest.Operation {
	t.Helper()
	return slices.DeleteFunc(apitest.Operations(t, strings.NewReplacer("{message_id}", id)),
		func(op apitest.Operation) bool {
			return !strings.Contains(op.Path, id)
		})
}

func letterBody(op apitest.Operation) string {
	switch {
	case op.Method == http.MethodPatch:
		return `{"note":"x"}`
	case strings.HasSuffix(op.Path, "/ack"):
		return `{"generation":0,"outcome":"PROCESSED"}`
	case strings.HasSuffix(op.Path, "/discard"):
		return `{"reason":"r"}`
	}
	return ""
}

func TestEveryOperationOnALetterForEveryRole(t *testing.T) {
	t.Parallel()
	q := newQueue(t, apitest.Guarded)
	for role, may := range map[string][]string{
		"auditor": {"dlq:read"}, "operator": {"dlq:read", "dlq:write"}, "admin": {"dlq:read", "dlq:write", "dlq:admin"},
		"nobody": nil,
	} {
		l := q.push(q.toTarget(""), apitest.As("admin")...)
		ops := letterOperations(t, l.ID.String())
		if len(ops) < 12 {
			t.Fatalf("only %d operations", len(ops))
		}
		for _, op := range ops {
			r := q.Send(op.Method, op.Path, letterBody(op), apitest.As(role)...)
			switch allowed := slices.Contains(may, op.Permission); {
			case !allowed:
				r.Wants(403, principal.CodeForbidden)
			case r.Status >= 400 && r.Status != 404 && r.Status != 409:
				t.Errorf("%s %s as %s: %d %s", op.Method, op.Path, role, r.Status, r.Body)
			}
		}
	}
}

func TestALetterOfAnotherTenantDoesNotExist(t *testing.T) {
	t.Parallel()
	q := newQueue(t, apitest.Guarded)
	l := q.push(q.toTarget(`"payload":"canary","dedupe_key":"d","labels":["canary"]`), apitest.As("operator")...)
	none := uuid.Must(uuid.NewV7()).String()
	same := strings.NewReplacer(none, "ID", l.ID.String(), "ID")
	theirs, nobodys := letterOperations(t, l.ID.String()), letterOperations(t, none)
	for i, op := range theirs {
		id := append(apitest.As("foreign"), "X-Request-Id", "r")
		a, b := q.Send(op.Method, op.Path, letterBody(op), id...), q.Send(nobodys[i].Method, nobodys[i].Path,
			letterBody(op), id...)
		if a.Status != 404 || same.Replace(string(a.Body)) != same.Replace(string(b.Body)) {
			t.Errorf("%s %s: %d %s, and of nobody's %s", op.Method, op.Path, a.Status, a.Body, b.Body)
		}
	}
	for _, list := range []string{letters, letters + "?view=full&label=canary", "/api/v1/dlq/archive",
		letters + "?root_id=" + l.ID.String()} {
		if got := q.Send("GET", list, "", apitest.As("foreign")...).Messages(); len(got.Messages) > 0 ||
			*got.Pagination.TotalCount != 0 {
			t.Errorf("%s: %+v", list, got)
		}
	}
	q.Send("GET", topicPath("orders"), "", apitest.As("foreign")...).Wants(404, "DLQ_TOPIC_NOT_FOUND")
	if lines, _ := q.exported("", apitest.As("foreign")...); len(lines) > 0 {
		t.Errorf("exported: %v", lines)
	}
	if other := q.push(q.toTarget(`"dedupe_key":"d"`), apitest.As("foreign")...); other.ID == l.ID {
		t.Error("a dedupe key counts for all tenants")
	}
	if kept := q.Send("GET", at(l), "", apitest.As("operator")...).Letter(200); kept.Version != 1 ||
		kept.Status != client.DeadLetterStatusPENDING {
		t.Errorf("%+v", kept)
	}
}

// TestNoInputOfTheQueueIsAServerError sends inputs that users and fuzzers send.
func TestNoInputOfTheQueueIsAServerError(t *testing.T) {
	t.Parallel()
	q := newQueue(t)
	l := q.push(q.toTarget(`"payload":{"a":1},"max_retries":1000`))
	saga := q.store(dlq.Letter{Source: dlq.FromSaga, Target: dlq.Target{Kind: dlq.ToSaga}})
	bodies := []string{
		``, `{}`, `[]`, `null`, `0`, `"x"`, `{`, "\xff", `{"a":1,"a":2}`, `{"reason":null}`, `{"reason":1}`,
		`{"force":"yes"}`, `{"force":true}`, `{"payload":null}`, `{"payload":"\ud800"}`,
		`{"payload":1e400}`, `{"payload":[[[[[]]]]]}`, `{"payload_patch":[{}]}`, `{"payload_patch":[{"op":"test","path":"","value":1}]}`, `{"payload_patch":[{"op":"add","path":"/a/b/c","value":1e400}]}`,
		`{"payload_patch":[{"op":"copy","from":"/a","path":"/a/a"}]}`, `{"payload_patch":[{"op":"move","from":"","path":"/a"}]}`, `{"payload_patch":[{"op":"add","path":"/-","value":1}]}`,
		`{"headers_patch":[{"op":"set","name":"bad header\r\n","value":"x\r\ny"}]}`, `{"headers_patch":[{"op":"set","name":"host","value":"evil"}]}`, `{"headers_patch":[{"op":"set","name":"ö"}]}`,
		`{"target":{}}`, `{"target":{"url":""}}`, `{"target":{"url":"::"}}`, `{"target":{"url":"http://[::1%25eth0]:99999/"}}`, `{"target":{"partition":2147483647}}`, `{"target":{"topic":"\u0001"}}`,
		`{"generation":9223372036854775807,"outcome":"FAILED"}`, `{"generation":1.0,"outcome":"FAILED"}`, `{"generation":1e9,"outcome":"FAILED"}`, `{"max_retries":1e2}`, `{"max_retries":1000,"reset_retry_count":false}`,
		`{"labels":["\u0000"]}`, `{"labels":[" ",""]}`, `{"note":"\u0000"}`, `{"note":"\ufffe\u200b"}`, `{"next_retry_at":"9999-12-31T23:59:60Z"}`, `{"next_retry_at":"2026-02-30T00:00:00Z"}`, `{"next_retry_at":"9999-12-31T23:59:59.999999999-18:00"}`,
		`{"original_topic":"t","error_message":"e","headers":[{"name":""}]}`, `{"original_topic":" ","error_message":" ","payload":1e-400}`, `{"original_topic":"t","error_message":"e","payload":123456789012345678901234567890.5}`,
		`{"original_topic":"t","error_message":"e","key_base64":""}`, `{"original_topic":"t","error_message":"e","original_offset":1e15}`, `{"original_topic":"t","error_message":"e","original_timestamp":"9999-12-31T23:59:59Z"}`,
		`{"original_topic":"t","error_message":"e","target":{"kind":"http","url":"javascript:alert(1)"}}`, `{"original_topic":"t","error_message":"` + strings.Repeat(`\"`, 4096) + `"}`,
		`{"messages":[{"original_topic":"t","error_message":"e","payload":1e400}]}`, `{"messages":[null]}`, `{"messages":[{"original_topic":"t","error_message":"e","labels":["\u0007"]}]}`,
	}
	queries := []string{
		"", "?", "?page=2147483647", "?cursor=%00", "?cursor=" + strings.Repeat("A", 80), "?error_contains=%27%3B--",
		"?error_contains=%25", "?topic=%25*", "?topic=*", "?topic=**", "?topic=a*b", "?topic=%5C*", "?key=", "?header=a=",
		"?payload=a..b=1", "?payload=.=1", "?payload=a=%7B", "?payload=a=1e400", "?payload=a=null", "?payload=0=x",
		"?label=%27", "?assignee=%F0%9F%92%A9", "?retry_count_min=1000000&retry_count_max=0",
		"?created_from=9999-12-31T23:59:59.999999999Z", "?created_to=1970-01-01T00:00:00-23:59", "?include=exact_total&page_size=1", "?view=full&page_size=200", "?status=PENDING&status=PENDING", "?limit=1", "?force=maybe",
	}
	for _, op := range apitest.Operations(t, strings.NewReplacer("{message_id}", l.ID.String(), "{topic}", "%25*")) {
		if !strings.HasPrefix(op.Path, "/api/v1/dlq/") || strings.Contains(op.Path, "{") {
			continue
		}
		if op.Method == http.MethodGet {
			for _, query := range queries {
				if r := q.Send("GET", op.Path+query, ""); r.Status >= 500 {
					t.Errorf("GET %s%s: %d %s", op.Path, query, r.Status, r.Body)
				}
			}
			continue
		}
		if op.Method == http.MethodDelete || strings.HasSuffix(op.Path, "/retry-all") { // each retry-all waits
			continue
		}
		for _, path := range []string{op.Path, strings.ReplaceAll(op.Path, l.ID.String(), saga.ID.String())} {
			for _, body := range bodies {
				r := q.Send(op.Method, path, body)
				if r.Status < 500 {
					continue
				}
				switch code := r.Problem().Code; { // errors that a retry's target may cause
				case strings.HasSuffix(path, "/retry") && (code == "DLQ_NO_KAFKA" || code == "DLQ_PROCESS_FAILED"):
				default:
					t.Errorf("%s %s %s: %d %s", op.Method, path, body, r.Status, r.Body)
				}
			}
		}
	}
}
