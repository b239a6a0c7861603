package app_test

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"
	"github.com/google/uuid"

	"github.com/skald-saga/skald/internal/test/patience"
)

// beside is what clients do beside the orders while a primary is lost: they write with If-Match (I12), start sagas
// whose deadline passes meanwhile (I13), belong to another tenant (I14), and suspend sagas (I15).
type beside struct {
	t     *testing.T
	nodes []*node
	other string // the other tenant

	mu      sync.Mutex
	late    []string // sagas whose only call is answered after their deadline
	halted  []string // sagas that are suspended after their first step
	foreign []string // of the other tenant
	calls   map[string]int
	history []porcupine.Operation
	unknown atomic.Int64 // writes
	leaked  string       // an answer to the first tenant that names the second's

	goOn    chan struct{} // the first steps of halted sagas are answered
	tooLate chan struct{} // the steps of late sagas are answered
	stopped atomic.Bool
	all     sync.WaitGroup
}

// foreignWord occurs in the contents of the other tenant and nowhere else.
const foreignWord = "foreignWord-5f1c"

// mostUnknown is after how many writes without an answer nothing is written any more: the time to judge a history grows
// exponentially with them.
const mostUnknown = 10

var besideFlows = []string{
	`{"name": "late", "timeout_ms": 1500, "steps": [{
		"name": "a", "timeout_ms": 60000, "action": {"http": {"url": "URL/late"}},
		"compensation": {"http": {"url": "URL/undo"}}}]}`,
	`{"name": "halt", "steps": [
		{"name": "a", "timeout_ms": 600000, "action": {"http": {"url": "URL/first"}}, "compensation": "none"},
		{"name": "b", "action": {"http": {"url": "URL/second"}}, "compensation": "none"}]}`,
	besideFlow("idle"),
}

func besideFlow(name string) string {
	return `{"name": "` + name + `", "steps": [{
		"name": "a", "action": {"http": {"url": "URL/none"}}, "compensation": "none"}]}`
}

// goBeside begins, and returns once halted sagas are suspended and the other tenant has sagas.
func goBeside(t *testing.T, nodes []*node) *beside {
	t.Helper()
	b := &beside{
		t: t, nodes: nodes, other: uuid.NewString(), calls: map[string]int{},
		goOn: make(chan struct{}), tooLate: make(chan struct{}),
	}
	participant := httptest.NewServer(http.HandlerFunc(b.serve))
	t.Cleanup(participant.Close)
	register := func(flow, tenant string) {
		b.ask(0, "POST", "/workflows", strings.ReplaceAll(flow, "URL", participant.URL), tenant)
	}
	for _, flow := range besideFlows {
		register(flow, "")
	}
	register(besideFlow(foreignWord), b.other)
	for i := range 4 {
		b.halted = append(b.halted, b.order(i, "halt", ""))
		b.foreign = append(b.foreign, b.order(i, foreignWord, b.other))
	}
	for i, id := range b.halted {
		b.ask(i, "POST", "/sagas/"+id+"/suspend", `{"reason": "to be quiet"}`, "")
	}
	b.all.Go(b.writeGuarded)
	b.all.Go(b.searchAnswers)
	return b
}

// serve answers the calls of the steps.
func (b *beside) serve(w http.ResponseWriter, r *http.Request) {
	_, _ = io.Copy(io.Discard, r.Body)
	b.mu.Lock()
	b.calls[r.URL.Path+" "+r.Header.Get("X-Saga-Id")]++
	b.mu.Unlock()
	switch r.URL.Path {
	case "/late":
		select {
		case <-b.tooLate:
		case <-r.Context().Done():
		}
	case "/first":
		select {
		case <-b.goOn:
		case <-r.Context().Done():
		}
	}
	_, _ = io.WriteString(w, `{}`)
}

func (b *beside) called(path, saga string) int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.calls[path+" "+saga]
}

// ask repeats a request to one of the nodes, with the same key, until the answer is something other
// than a 503.
func (b *beside) ask(node int, method, path, body, tenant string) map[string]any {
	b.t.Helper()
	key := uuid.NewString()
	var status int
	var doc map[string]any
	patience.Until(b.t, method+" "+path+" is answered", func() bool {
		req, err := http.NewRequest(method, b.nodes[node%len(b.nodes)].url+"/api/v1"+path, strings.NewReader(body))
		if err != nil {
			b.t.Fatal(err)
		}
		req.Header.Set("Content-Type", "application/json")
		if method == http.MethodPost {
			req.Header.Set("Idempotency-Key", key)
		}
		if tenant != "" {
			req.Header.Set("X-Tenant-Id", tenant)
		}
		var res *http.Response
		if res, doc, err = answerOf(req); err != nil {
			b.t.Error(err)
			return true
		}
		status = res.StatusCode
		return status != http.StatusServiceUnavailable
	})
	if status/100 != 2 {
		b.t.Errorf("%s %s: %d %v", method, path, status, doc)
	}
	return doc
}

func (b *beside) order(node int, workflow, tenant string) (id string) {
	b.t.Helper()
	body := fmt.Sprintf(`{"workflow_name": %q, "payload": {"of": %q}}`, workflow, workflow)
	return fmt.Sprint(b.ask(node, "POST", "/sagas", body, tenant)["saga_id"])
}

// strike starts sagas whose deadlines pass while the primary is lost, and lets the suspended ones be answered.
func (b *beside) strike() {
	for i := range 4 {
		b.late = append(b.late, b.order(i, "late", ""))
	}
	close(b.goOn)
}

// writeGuarded reads and writes a workflow's state alternately on both nodes until it is stopped.
func (b *beside) writeGuarded() {
	begun := time.Now()
	var clients sync.WaitGroup
	for client := range 4 {
		clients.Go(func() {
			for n, last := 0, (seen{}); ; n++ {
				if b.stopped.Load() {
					return
				}
				time.Sleep(20 * time.Millisecond)
				in := request{}
				at := b.nodes[client%len(b.nodes)].url + "/api/v1/workflows/idle"
				if last.version != "" && n%2 == 0 && b.unknown.Load() < mostUnknown {
					in = request{write: true, match: last.version, value: fmt.Sprint(n%4 == 0)}
					at += map[string]string{"true": "/enable", "false": "/disable"}[in.value]
				}
				from := time.Since(begun)
				out, known := b.guarded(at, in)
				op := porcupine.Operation{
					ClientId: client, Input: in, Output: out, Call: int64(from), Return: int64(time.Since(begun)),
				}
				if last = out; out.refused || out.unknown {
					last = seen{}
				}
				switch {
				case !known && !in.write:
					continue // it changes nothing
				case !known:
					b.unknown.Add(1)
					// It may happen at any later time, beside the client's next requests.
					op.Return = int64(time.Hour)
					op.ClientId = -1
				}
				b.mu.Lock()
				b.history = append(b.history, op)
				b.mu.Unlock()
			}
		})
	}
	clients.Wait()
}

// guarded makes one request; known means that the answer says what happened.
func (b *beside) guarded(at string, in request) (out seen, known bool) {
	method := http.MethodGet
	if in.write {
		method = http.MethodPost
	}
	req, err := http.NewRequest(method, at, nil)
	if err != nil {
		b.t.Error(err)
		return seen{refused: true}, true
	}
	if in.write {
		req.Header.Set("If-Match", in.match)
	}
	res, doc, err := answerOf(req)
	switch {
	case err != nil:
		b.t.Error(err)
	case res.StatusCode == http.StatusServiceUnavailable:
		return seen{unknown: true}, false
	case res.StatusCode == http.StatusPreconditionFailed:
		return seen{refused: true}, true
	case res.StatusCode/100 == 2:
		return seen{register: register{res.Header.Get("ETag"), fmt.Sprint(doc["enabled"])}}, true
	default:
		b.t.Errorf("%s %s: %d %v", method, at, res.StatusCode, doc)
	}
	return seen{refused: true}, true
}

// searchAnswers looks for the other tenant's contents in what the first one is shown, until it is stopped.
func (b *beside) searchAnswers() {
	for n := 0; ; n++ {
		if b.stopped.Load() {
			return
		}
		time.Sleep(50 * time.Millisecond)
		path := []string{
			"/sagas?limit=100&include=payload", "/workflows?limit=100", "/audit/events?limit=100",
			"/sagas/" + b.foreign[n%len(b.foreign)],
		}[n%4]
		res, err := http.Get(b.nodes[n%len(b.nodes)].url + "/api/v1" + path)
		if err != nil {
			b.t.Error(err)
			return
		}
		text, _ := io.ReadAll(res.Body)
		_ = res.Body.Close()
		found := res.StatusCode == http.StatusOK && strings.HasPrefix(path, "/sagas/")
		if found || strings.Contains(string(text), foreignWord) {
			b.mu.Lock()
			b.leaked = path + ": " + string(text)
			b.mu.Unlock()
		}
	}
}

// sagas returns the number of sagas other than the orders.
func (b *beside) sagas() int { return len(b.late) + len(b.halted) + len(b.foreign) }

// lateSaga is a saga whose only call is answered after its deadline, as it ended.
type lateSaga struct {
	status           string
	deadline, turned time.Time // turned: when it was turned back; zero: never
	calls, undone    int       // of its step and of its compensation
}

// right reports whether the deadline was kept: not before its time, and with nothing left of what was done after it.
func (l lateSaga) right() bool {
	return l.status == "FAILED" && !l.deadline.IsZero() && !l.turned.Before(l.deadline) && (l.calls == 0 || l.undone > 0)
}

func TestTheJudgeOfDeadlines(t *testing.T) {
	t.Parallel()
	at := time.Now()
	for what, l := range map[string]lateSaga{
		"completed":         {"COMPLETED", at, at.Add(time.Second), 1, 1},
		"turned back early": {"FAILED", at, at.Add(-time.Millisecond), 1, 1},
		"never turned back": {"FAILED", at, time.Time{}, 1, 1},
		"an effect is left": {"FAILED", at, at.Add(time.Second), 1, 0},
		"no deadline":       {"FAILED", time.Time{}, at, 1, 1},
	} {
		if l.right() {
			t.Errorf("%s: it is right", what)
		}
	}
	for _, l := range []lateSaga{{"FAILED", at, at, 2, 1}, {"FAILED", at, at.Add(time.Hour), 0, 0}} {
		if !l.right() {
			t.Errorf("%+v is wrong", l)
		}
	}
}

// judge is called when the primary has been replaced and all orders are placed.
func (b *beside) judge() {
	b.t.Helper()
	b.stopped.Store(true)
	b.all.Wait()
	if result, info := porcupine.CheckOperationsVerbose(registers, b.history, patience.Limit); result != porcupine.Ok {
		b.t.Errorf("I12: the history of guarded writes is not linearizable: %s\n%v", result, info.PartialLinearizationsOperations())
	}
	for i, id := range b.late {
		patience.Until(b.t, "the deadline of "+id+" is recorded", func() bool {
			doc := b.ask(i, "GET", "/sagas/"+id, "", "")
			return b.t.Failed() || doc["timed_out_at"] != nil
		})
	}
	close(b.tooLate)
	for i, id := range b.late {
		doc := b.ask(i, "GET", "/sagas/"+id+"?wait=4m", "", "")
		events := b.ask(i, "GET", "/sagas/"+id+"/events", "", "")
		deadline, _ := time.Parse(time.RFC3339, fmt.Sprint(doc["timeout_at"]))
		var turned time.Time
		for _, e := range events["events"].([]any) {
			if e := e.(map[string]any); e["event_type"] == "compensation.started" || e["event_type"] == "saga.timed_out" {
				turned, _ = time.Parse(time.RFC3339, fmt.Sprint(e["timestamp"]))
				break
			}
		}
		l := lateSaga{fmt.Sprint(doc["status"]), deadline, turned, b.called("/late", id), b.called("/undo", id)}
		if !l.right() {
			b.t.Errorf("I13: saga %s is %+v", id, l)
		}
	}
	if b.leaked != "" {
		b.t.Errorf("I14: the other tenant's content is shown: %s", b.leaked)
	}
	for i, id := range b.foreign {
		if doc := b.ask(i, "GET", "/sagas/"+id+"?wait=4m", "", b.other); doc["status"] != "COMPLETED" {
			b.t.Errorf("I0, I14: a saga of the other tenant is %v", doc["state"])
		}
	}
	for i, id := range b.halted {
		if n := b.called("/second", id); n > 0 {
			b.t.Errorf("I15: %d calls of a suspended saga", n)
		}
		b.ask(i, "POST", "/sagas/"+id+"/resume", `{"reason": "go on"}`, "")
		if doc := b.ask(i, "GET", "/sagas/"+id+"?wait=4m", "", ""); doc["status"] != "COMPLETED" {
			b.t.Errorf("I15: a saga that was resumed is %v", doc["state"])
		}
	}
	b.t.Logf("beside: %d guarded reads and writes, %d sagas past their deadlines, %d suspended, %d of another tenant",
		len(b.history), len(b.late), len(b.halted), len(b.foreign))
}
