package app_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/skald-saga/skald/internal/testdb"
)

// canary is in every string that the tenant of aviary can say, and nowhere else.
const canary = "zqcanary"

// aviary is a node with two tenants: one whose every word is a canary, and a
// stranger, who listens.
type aviary struct {
	*node
	t                *testing.T
	owner, stranger  string // credentials of administrators
	heard            *syncBuffer
	participants     *httptest.Server
	sagaID, failedID string
	ids              map[string]string // path parameter → the owner's
}

func newAviary(t *testing.T) *aviary {
	t.Helper()
	root := newToken(t)
	a := &aviary{t: t, heard: &syncBuffer{}, ids: map[string]string{}}
	a.node = start(t, testdb.DSN(t), "a", bootstrapped(root), hasty)
	a.participants = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		text, _ := io.ReadAll(r.Body)
		switch {
		case strings.Contains(r.URL.Path, "heard"): // the stranger's webhook
			_, _ = fmt.Fprintln(a.heard, r.URL, r.Header, string(text))
		case strings.Contains(r.URL.Path, "refuse"):
			http.Error(w, `{"`+canary+`-why":"`+canary+`"}`, http.StatusConflict)
		default:
			_, _ = fmt.Fprintf(w, `{"%s-answer":"%s"}`, canary, canary)
		}
	}))
	t.Cleanup(a.participants.Close)
	key := func(name string) string {
		body := fmt.Sprintf(`{"name":%q,"role":"admin","tenant_id":%q}`, name, uuid.NewString())
		status, text := a.send(root, "POST", "/api/v1/api-keys", body)
		if status != 201 {
			t.Fatalf("key: %d %s", status, text)
		}
		return field(text, "key")
	}
	a.owner, a.stranger = key(canary), key("stranger")
	return a
}

// send makes a request and returns what came, headers and all.
func (a *aviary) send(credential, method, path, body string, header ...string) (int, string) {
	a.t.Helper()
	ctx, cancel := context.WithTimeout(a.t.Context(), 30*time.Second)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, method, a.url+path, strings.NewReader(body))
	if err != nil {
		a.t.Fatal(err)
	}
	req.Header.Set("X-API-Key", credential)
	if body != "" {
		req.Header.Set("Content-Type", "application/json")
	}
	for i := 0; i < len(header); i += 2 {
		req.Header.Set(header[i], header[i+1])
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		a.t.Fatalf("%s %s: %v", method, path, err)
	}
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	if err != nil {
		a.t.Fatal(err)
	}
	return res.StatusCode, string(text) + fmt.Sprint("\n", res.Header)
}

// field finds the first string member of a name, wherever it stands.
func field(text, name string) string {
	_, rest, _ := strings.Cut(text, `"`+name+`":"`)
	value, _, _ := strings.Cut(rest, `"`)
	return value
}

// says makes a request of the owner's that must succeed, and keeps the id that
// it answers as the path parameter of that name.
func (a *aviary) says(method, path, body, param, member string) string {
	a.t.Helper()
	status, text := a.send(a.owner, method, path, body, "Idempotency-Key", canary+uuid.NewString())
	if status >= 300 {
		a.t.Fatalf("%s %s %s: %d %s", method, path, body, status, text)
	}
	if param != "" {
		if a.ids[param] = field(text, member); a.ids[param] == "" {
			a.t.Fatalf("%s %s answers no %s: %s", method, path, member, text)
		}
	}
	return text
}

// sing has the owner say everything that it can say.
func (a *aviary) sing() {
	u := a.participants.URL
	step := func(name, undo string) string {
		return fmt.Sprintf(`{"name":"%s-%s","action":{"http":{"url":"%s/%s-%s","headers":{"X-Zqcanary":"%[1]s"}}},
			"compensation":{"http":{"url":"%[3]s/%[5]s-%[1]s"}},"compensation_retry":{"max_attempts":1},"retry":{"max_attempts":1}}`, canary, name, u, name, undo)
	}
	const workflow = `{"name":"%s-%s","description":"%[1]s","steps":[%[3]s,%[4]s]}`
	a.says("POST", "/api/v1/workflows", fmt.Sprintf(workflow, canary, "good", step("one", "undo"), step("two", "undo")), "name", "name")
	a.says("POST", "/api/v1/workflows", fmt.Sprintf(workflow, canary, "bad", step("one", "refuse"), step("refuse", "undo")), "", "")
	a.says("POST", "/api/v1/webhooks", fmt.Sprintf(`{"url":"%s/%s","description":"%[2]s","workflow_names":["%[2]s-good"]}`, u, canary), "webhook_id", "id")
	for _, kind := range []string{"good", "bad"} {
		id := uuid.NewString()
		a.says("POST", "/api/v1/sagas", fmt.Sprintf(`{"saga_id":"%s","workflow_name":"%s-%s","payload":{"%[2]s":"%[2]s"},"metadata":{"%[2]s":"%[2]s"},
			"business_key":"%[2]s-%[3]s","correlation_id":"%[2]s","name":"%[2]s","description":"%[2]s","initiated_by":"%[2]s","saga_type":"%[2]s"}`, id, canary, kind), "", "")
		a.untilEnded(id)
		a.sagaID, a.failedID = a.failedID, id
	}
	a.ids["saga_id"], a.ids["step"] = a.sagaID, "0"
	letters := a.says("POST", "/api/v1/dlq/messages", fmt.Sprintf(`{"original_topic":"%s-topic","error_message":"%[1]s","error_type":"%[1]s",
		"error_stack":"%[1]s","payload":{"%[1]s":"%[1]s"},"key":"%[1]s","correlation_id":"%[1]s","consumer_group":"%[1]s",
		"headers":[{"name":"%[1]s","value":"%[1]s"}]}`, canary), "message_id", "id")
	a.ids["topic"], a.ids["fingerprint"] = canary+"-topic", field(letters, "fingerprint")
	a.says("PATCH", "/api/v1/dlq/messages/"+a.ids["message_id"], `{"note":"`+canary+`"}`, "", "")
	a.says("POST", "/api/v1/dlq/redrives", fmt.Sprintf(`{"action":"DISCARD","ids":["%s"],"reason":"%s"}`, a.ids["message_id"], canary), "redrive_id", "id")
	a.says("POST", "/api/v1/job-definitions", fmt.Sprintf(`{"name":"%s","description":"%[1]s","type":"manual","command_name":"%[1]s",
		"default_args":{"%[1]s":"%[1]s"},"queue":"%[1]s","labels":{"%[1]s":"%[1]s"},"reason":"%[1]s"}`, canary), "definition", "id")
	a.says("POST", "/api/v1/job-definitions/"+canary+"/runs", fmt.Sprintf(`{"args":{"%s":"%[1]s"},"labels":{"%[1]s":"%[1]s"},"correlation_id":"%[1]s","reason":"%[1]s"}`, canary), "run_id", "id")
	a.says("POST", "/api/v1/workers", fmt.Sprintf(`{"name":"%s","node":"%[1]s","sdk":"%[1]s","labels":{"%[1]s":"%[1]s"},"queues":["%[1]s"],"commands":["%[1]s"]}`, canary), "worker_id", "worker_id")
	a.says("POST", "/api/v1/events", fmt.Sprintf(`{"event_type":"%s","payload":{"%[1]s":"%[1]s"},"dedupe_key":"%[1]s","correlation_id":"%[1]s"}`, canary), "event_id", "event_id")
	a.says("POST", "/api/v1/api-keys", `{"name":"`+canary+`","role":"auditor"}`, "key_id", "id")
	a.ids["fence_key"], a.ids["version"] = canary+"-fence", "1"
	for _, p := range []string{"delivery_id", "backfill_id", "bulk_id"} {
		a.ids[p] = "01234567-89ab-7def-8123-456789abcdef" // the owner has none
	}
}

func (a *aviary) untilEnded(id string) {
	a.t.Helper()
	for end := time.Now().Add(time.Minute); ; time.Sleep(50 * time.Millisecond) {
		_, text := a.send(a.owner, "GET", "/api/v1/sagas/"+id, "")
		if s := field(text, "status"); s == "COMPLETED" || s == "FAILED" {
			return
		} else if time.Now().After(end) {
			a.t.Fatalf("the saga is %s: %s", s, text)
		}
	}
}

// Invariant I14, traps T1 and X16: no byte of one tenant is in what another gets.
func TestNoWordOfATenantIsInWhatAnotherGets(t *testing.T) {
	t.Parallel()
	a := newAviary(t)
	stream := a.listen()
	a.quiet(a.send(a.stranger, "POST", "/api/v1/webhooks", `{"url":"`+a.participants.URL+`/heard","from":"beginning"}`))
	a.sing()
	if status, text := a.send(a.owner, "GET", "/api/v1/sagas/"+a.failedID, ""); status != 200 || strings.Count(text, canary) < 8 {
		t.Fatalf("the owner itself sees %d %s", status, text) // or the test would prove nothing
	}
	operations := contractOf(t, a.node).operations()
	if len(operations) < 140 {
		t.Fatalf("only %d operations", len(operations))
	}
	params := slices.Sorted(maps.Keys(a.ids))
	named := 0
	for i, op := range operations {
		theirs, nobodys := op.path, op.path
		for _, p := range params {
			theirs = strings.ReplaceAll(theirs, "{"+p+"}", a.ids[p])
			nobodys = strings.ReplaceAll(nobodys, "{"+p+"}", unknown(a.ids[p]))
		}
		if strings.HasSuffix(op.path, "/stream") { // listen has it
			continue
		}
		if strings.Contains(theirs, "{") {
			t.Errorf("%s %s: a path parameter that this test does not know", op.method, op.path)
			continue
		}
		id := fmt.Sprintf("stranger-%d", i)
		status, text := a.send(a.stranger, op.method, theirs, encoded(op.body), "X-Request-Id", id)
		said := text // what the stranger itself has said may come back
		for _, p := range params {
			if strings.Contains(op.path, "{"+p+"}") {
				said = strings.ReplaceAll(said, a.ids[p], "")
			}
		}
		a.quiet(status, said)
		if theirs == nobodys {
			continue
		}
		named++
		none, same := a.send(a.stranger, op.method, nobodys, encoded(op.body), "X-Request-Id", id)
		if none != status || status >= 300 && a.plain(text) != a.plain(same) {
			t.Errorf("%s %s: somebody's is\n%d %s\nand nobody's is\n%d %s", op.method, op.path, status, a.plain(text), none, a.plain(same))
		}
	}
	if named < 80 {
		t.Errorf("only %d operations name something", named)
	}
	a.takesTheSameNames()
	a.asksForWords()
	stream.quiet()
	a.quiet(200, a.heard.String())
	if !strings.Contains(a.heard.String(), "saga.") {
		t.Errorf("the stranger's webhook heard nothing: %q", a.heard)
	}
	for line := range strings.SplitSeq(a.logs.String(), "\n") {
		if strings.Contains(line, "stranger") {
			a.quiet(200, line)
		}
	}
	status, metrics := a.send("", "GET", "/metrics", "")
	a.quiet(status, metrics)
}

// unknown is an id or a name that nobody has, like the given one.
func unknown(of string) string {
	if id, err := uuid.Parse(of); err == nil && len(of) == 36 {
		id[15] ^= 0x55
		id[14] ^= 0xaa
		return id.String()
	}
	if strings.HasPrefix(of, canary) {
		return "nobody" + strings.TrimPrefix(of, canary)
	}
	if len(of) > 20 { // a fingerprint
		return of[:len(of)-2] + map[bool]string{true: "00", false: "11"}[of[len(of)-2:] != "00"]
	}
	return of
}

// plain is an answer without what must differ: ids that were asked for, and times.
func (a *aviary) plain(text string) string {
	var pairs []string
	longestFirst := func(x, y string) int { return len(y) - len(x) }
	for _, of := range slices.SortedFunc(maps.Values(a.ids), longestFirst) {
		if u := unknown(of); u != of {
			pairs = append(pairs, of, "ID", u, "ID")
		}
	}
	body, _, _ := strings.Cut(strings.NewReplacer(pairs...).Replace(text), "\nmap[")
	return strings.NewReplacer(canary, "NAME", "nobody", "NAME").Replace(body)
}

// quiet fails where an answer to the stranger has a canary in it.
func (a *aviary) quiet(status int, text string) {
	a.t.Helper()
	at := strings.Index(text, canary)
	if at >= 0 || status >= 500 && !strings.Contains(text, "UNAVAILABLE") {
		a.t.Errorf("%d: …%s…", status, text[max(0, at-300):min(len(text), max(at, 0)+200)])
	}
}

// takesTheSameNames has the stranger use what the owner has chosen, which must be
// free for it and stay the stranger's own.
func (a *aviary) takesTheSameNames() {
	mine := fmt.Sprintf(`{"name":"plain","steps":[{"name":"s","action":{"http":{"url":"%s/plain"}},"compensation":"none"}]}`, a.participants.URL)
	if status, text := a.send(a.stranger, "POST", "/api/v1/workflows", mine); status != 201 {
		a.t.Fatalf("%d %s", status, text)
	}
	for _, id := range []string{a.sagaID, a.failedID} {
		status, text := a.send(a.stranger, "POST", "/api/v1/sagas", `{"saga_id":"`+id+`","workflow_name":"plain"}`)
		if status != 201 || field(text, "saga_id") != id {
			a.t.Errorf("the owner's id: %d %s", status, text)
		}
		for end := time.Now().Add(time.Minute); field(text, "status") != "COMPLETED"; time.Sleep(50 * time.Millisecond) {
			if status, text = a.send(a.stranger, "GET", "/api/v1/sagas/"+id+"?include=running", ""); time.Now().After(end) {
				a.t.Fatalf("%d %s", status, text)
			}
		}
		own := strings.ReplaceAll(text, canary+"-answer", "") // the participant's answer, which is the stranger's by now
		a.quiet(status, strings.ReplaceAll(own, canary, ""))
		if n := strings.Count(text, `"step_name"`); n != 1 {
			a.t.Errorf("the stranger's saga has %d step logs, want its own one", n)
		}
		for _, more := range []string{"/step-logs", "/steps", "/events", "/explain", "/result"} {
			status, text := a.send(a.stranger, "GET", "/api/v1/sagas/"+id+more, "")
			if status != 200 || strings.Contains(text, canary+"-one") || strings.Contains(text, canary+"-good") || strings.Contains(text, canary+"-bad") {
				a.t.Errorf("%s: %d %s", more, status, text)
			}
		}
		if status, text := a.send(a.owner, "GET", "/api/v1/sagas/"+id, ""); status != 200 || !strings.Contains(text, canary+"-") || strings.Contains(text, `"plain"`) {
			a.t.Errorf("the owner's saga is now %d %s", status, text)
		}
	}
}

// asksForWords has the stranger look for what the owner says.
func (a *aviary) asksForWords() {
	for _, path := range []string{
		"/api/v1/sagas?view=full&correlation_id=", "/api/v1/sagas?business_key=", "/api/v1/sagas?workflow_name=", "/api/v1/saga-events?workflow_name=",
		"/api/v1/timeline?correlation_id=", "/api/v1/dlq/messages?view=full&topic=", "/api/v1/job-runs?label=" + canary + "%3D",
		"/api/v1/events?event_type=", "/api/v1/audit?subject=",
	} {
		status, text := a.send(a.stranger, "GET", path+canary, "")
		a.quiet(status, strings.ReplaceAll(text, path+canary, ""))
	}
}

// chirps is what the stranger's live stream of events says.
type chirps struct {
	a    *aviary
	text *syncBuffer
	stop context.CancelFunc
	done chan struct{}
}

func (a *aviary) listen() *chirps {
	ctx, cancel := context.WithCancel(a.t.Context())
	c := &chirps{a, &syncBuffer{}, cancel, make(chan struct{})}
	req, err := http.NewRequestWithContext(ctx, "GET", a.url+"/api/v1/saga-events/stream", nil)
	if err != nil {
		a.t.Fatal(err)
	}
	req.Header.Set("X-API-Key", a.stranger)
	res, err := http.DefaultClient.Do(req)
	if err != nil || res.StatusCode != 200 {
		a.t.Fatalf("stream: %v, %v", res, err)
	}
	go func() {
		defer close(c.done)
		defer res.Body.Close()
		for lines := bufio.NewScanner(res.Body); lines.Scan(); {
			_, _ = c.text.Write(append(lines.Bytes(), '\n'))
		}
	}()
	return c
}

// quiet waits for the stranger's own sagas in the stream, and ends it.
func (c *chirps) quiet() {
	for end := time.Now().Add(time.Minute); !strings.Contains(c.text.String(), "saga.completed"); time.Sleep(50 * time.Millisecond) {
		if time.Now().After(end) {
			c.a.t.Fatalf("the stream says %q", c.text)
		}
	}
	c.stop()
	<-c.done
	c.a.quiet(200, c.text.String())
}
