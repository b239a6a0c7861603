package app_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/uuid"

	"github.com/skald-saga/skald/internal/config"
	"github.com/skald-saga/skald/internal/test/patience"
	"github.com/skald-saga/skald/internal/test/testdb"
)

// twin is one of two tenants whose sagas have the same ids.
type twin struct {
	*twins
	tenant uuid.UUID
	key    string // its administrator's
	name   string // only in its own payloads
}

// twins is a node with two tenants, and the services that both of them use.
type twins struct {
	t    *testing.T
	dsn  string
	root string
	*node
	services *httptest.Server
	a, b     *twin

	mu    sync.Mutex
	open  map[string]bool     // tenants and paths that get an answer; others get 503
	calls map[string][]string // tenant and path → the keys of the calls
	heard map[string]string   // path of a webhook → everything that was sent to it
}

func newTwins(t *testing.T) *twins {
	t.Helper()
	w := &twins{
		t:     t,
		dsn:   testdb.DSN(t),
		root:  newToken(t),
		open:  map[string]bool{},
		calls: map[string][]string{},
		heard: map[string]string{},
	}
	w.services = httptest.NewServer(http.HandlerFunc(w.serve))
	t.Cleanup(w.services.Close)
	w.a, w.b = &twin{twins: w, tenant: uuid.New(), name: "alder"}, &twin{twins: w, tenant: uuid.New(), name: "birch"}
	w.begin("first", uuid.New())
	for _, of := range []*twin{w.a, w.b} {
		_, doc := w.as(
			w.root,
			"POST",
			"/api/v1/api-keys",
			fmt.Sprintf(`{"name":"admin","role":"admin","tenant_id":%q}`, of.tenant),
		)
		of.key, _ = doc["key"].(string)
		for name, second := range map[string]string{"waits": "two", "strands": "refuse"} {
			of.does(
				"POST",
				"/workflows",
				fmt.Sprintf(`{"name":%q,"retry":{"max_attempts":9,"initial_interval_ms":600000,"max_interval_ms":600000,"jitter":0},
				"compensation_retry":{"max_attempts":1},"steps":[
				{"name":"one","action":{"http":{"url":"@/one"}},"compensation":{"http":{"url":"@/undo"}}},
				{"name":"two","action":{"http":{"url":"@/%s"}},"compensation":"none"}]}`, name, second),
			)
		}
	}
	return w
}

// begin starts the node, with a default tenant.
func (w *twins) begin(name string, tenant uuid.UUID) {
	w.t.Helper()
	w.node = start(w.t, w.dsn, name, bootstrapped(w.root), quickRetries,
		func(c *config.Config) { c.Tenant.DefaultID = tenant })
}

func (w *twins) serve(rw http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	w.mu.Lock()
	defer w.mu.Unlock()
	if strings.HasPrefix(r.URL.Path, "/hook/") {
		w.heard[r.URL.Path] += string(body) + "\n"
		return
	}
	at := r.Header.Get("X-Saga-Tenant") + r.URL.Path
	w.calls[at] = append(w.calls[at], r.Header.Get("Idempotency-Key"))
	switch {
	case r.URL.Path == "/refuse":
		rw.WriteHeader(http.StatusConflict)
	case r.URL.Path == "/one" || w.open[at]:
		fmt.Fprintf(rw, `{"answer to":%q}`, r.Header.Get("X-Saga-Tenant"))
	default:
		rw.WriteHeader(http.StatusServiceUnavailable)
	}
}

// opens makes a service answer one tenant from now on.
func (of *twin) opens(path string) {
	of.mu.Lock()
	defer of.mu.Unlock()
	of.open[of.tenant.String()+path] = true
}

// keys returns the keys of the calls that a service has received from one tenant.
func (of *twin) keys(path string) []string {
	of.mu.Lock()
	defer of.mu.Unlock()
	return slices.Clone(of.calls[of.tenant.String()+path])
}

func (of *twin) hears() string {
	of.mu.Lock()
	defer of.mu.Unlock()
	return of.heard["/hook/"+of.name]
}

func (w *twins) as(key, method, path, body string) (int, map[string]any) {
	w.t.Helper()
	status, text, err := w.request(key, method, path, body)
	var doc map[string]any
	if err == nil && len(text) > 0 {
		err = json.Unmarshal(text, &doc)
	}
	if err != nil {
		w.t.Fatalf("%s %s: %v", method, path, err)
	}
	return status, doc
}

func (w *twins) request(key, method, path, body string) (int, []byte, error) {
	req, err := http.NewRequestWithContext(
		w.t.Context(),
		method,
		w.url+path,
		strings.NewReader(strings.ReplaceAll(body, "@", w.services.URL)),
	)
	if err != nil {
		return 0, nil, err
	}
	req.Header.Set("X-API-Key", key)
	if body != "" {
		req.Header.Set("Content-Type", "application/json")
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return 0, nil, err
	}
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	return res.StatusCode, text, err
}

// does makes a request of the tenant that must succeed.
func (of *twin) does(method, path, body string) map[string]any {
	of.t.Helper()
	status, doc := of.as(of.key, method, "/api/v1"+path, body)
	if status >= 300 {
		of.t.Fatalf("%s: %s %s: %d %v", of.name, method, path, status, doc)
	}
	return doc
}

func (of *twin) saga(id string) map[string]any {
	of.t.Helper()
	return of.does("GET", "/sagas/"+id, "")
}

// until waits until is returns true for the tenant's saga.
func (of *twin) until(id string, is func(doc map[string]any) bool) map[string]any {
	of.t.Helper()
	var doc map[string]any
	patience.Until(of.t, "the saga of "+of.name+" gets there", func() bool {
		doc = of.saga(id)
		return is(doc)
	})
	return doc
}

func inState(state string) func(map[string]any) bool {
	return func(doc map[string]any) bool { return doc["state"] == state }
}

func waitsAtTwo(doc map[string]any) bool {
	return doc["current_step"] == 1.0 && doc["next_run_at"] != nil
}

// start creates a saga with the same id for each of the two.
func (w *twins) start(workflow string, ready func(map[string]any) bool) (id string) {
	w.t.Helper()
	id = uuid.NewString()
	for _, of := range []*twin{w.a, w.b} {
		of.does(
			"POST",
			"/sagas",
			fmt.Sprintf(
				`{"saga_id":%q,"workflow_name":%q,"payload":{"of":%q},"correlation_id":%[3]q,"business_key":%[1]q}`,
				id,
				workflow,
				of.name,
			),
		)
	}
	w.a.until(id, ready)
	w.b.until(id, ready)
	return id
}

// An action on a saga does not change the other tenant's saga with the same id.
func TestActionsOnATwinLeaveTheOtherAlone(t *testing.T) {
	t.Parallel()
	w := newTwins(t)
	for _, tt := range []struct {
		workflow, action, body, state string
	}{
		{"waits", "cancel", `{"reason":"r"}`, "failed"}, // its compensation is refused
		{"waits", "compensate", `{"reason":"r"}`, "failed"},
		{"waits", "suspend", `{"reason":"r"}`, "running"},
		{"waits", "extend-deadline", `{"reason":"r","timeout_ms":7200000}`, "running"},
		{"waits", "retry", `{"reason":"r"}`, "running"},
		{"waits", "steps/two/skip", `{"reason":"r"}`, "completed"},
		{"waits", "steps/two/complete", `{"reason":"r","output":{}}`, "completed"},
		{"waits", "steps/two/fail", `{"reason":"r"}`, "failed"},
		{"waits", "force-complete", `{"reason":"r"}`, "completed"},
		{"waits", "force-fail", `{"reason":"r"}`, "failed"},
		{"strands", "acknowledge", `{"reason":"r"}`, "failed"},
		{"strands", "resume-compensation", `{"reason":"r"}`, "failed"},
		{"strands", "steps/one/skip", `{"reason":"r"}`, "compensated"},
	} {
		t.Run(tt.workflow+" "+tt.action, func(t *testing.T) {
			ready := waitsAtTwo
			if tt.workflow == "strands" {
				ready = inState("failed")
			}
			id := w.start(tt.workflow, ready)
			before, mine := w.b.saga(id), w.a.saga(id)
			w.a.does("POST", "/sagas/"+id+"/"+tt.action, tt.body)
			w.a.until(id, func(doc map[string]any) bool {
				return doc["state"] == tt.state && doc["version"].(float64) > mine["version"].(float64) &&
					(tt.state != "running" || doc["suspended_at"] != nil || waitsAtTwo(doc))
			})
			if after := w.b.saga(id); !reflect.DeepEqual(before, after) {
				t.Errorf("the other tenant's saga was\n%v\nand is\n%v", before, after)
			}
			if tt.action == "suspend" {
				w.b.does("POST", "/sagas/"+id+"/suspend", `{}`)
				w.a.does("POST", "/sagas/"+id+"/resume", `{}`)
				if doc := w.b.saga(id); doc["suspended_at"] == nil {
					t.Errorf("resuming one has resumed the other: %v", doc)
				}
			}
			told := fmt.Sprint(w.b.does("GET", "/sagas/"+id+"/events", ""))
			if strings.Contains(told, w.a.name) || strings.Contains(told, "operator.") {
				t.Errorf("the events of the other tell of it: %s", told)
			}
		})
	}
}

// reply is the response to a request that waits.
type reply struct {
	status int
	doc    map[string]any
	err    error
}

// waits makes a request that is answered when its saga has ended.
func (of *twin) waits(method, path, body string) chan reply {
	done := make(chan reply, 1)
	go func() {
		status, text, err := of.request(of.key, method, "/api/v1"+path, body)
		r := reply{status: status, err: err}
		if err == nil {
			r.err = json.Unmarshal(text, &r.doc)
		}
		done <- r
	}()
	return done
}

// A request that waits for a saga is answered when that saga has ended, with its own result,
// not when the one with the same id has.
func TestWaitingForATwinIsNotAnsweredByTheOther(t *testing.T) {
	t.Parallel()
	w := newTwins(t)
	byGet := w.start("waits", waitsAtTwo)
	byCreate := uuid.NewString()
	var mine, theirs []chan reply
	for of, all := range map[*twin]*[]chan reply{w.a: &mine, w.b: &theirs} {
		*all = append(
			*all,
			of.waits("GET", "/sagas/"+byGet+"?wait=4m", ""),
			of.waits(
				"POST",
				"/sagas?wait=4m",
				fmt.Sprintf(`{"saga_id":%q,"workflow_name":"waits","payload":{"of":%q},"correlation_id":%[2]q}`, byCreate, of.name),
			),
		)
	}
	for _, of := range []*twin{w.a, w.b} {
		patience.Until(t, "the second steps are called", func() bool { return len(of.keys("/two")) >= 2 })
		of.until(byCreate, waitsAtTwo)
	}
	ends := func(of *twin, replies []chan reply) {
		t.Helper()
		of.opens("/two")
		for i, id := range []string{byGet, byCreate} {
			of.does("POST", "/sagas/"+id+"/retry", `{}`)
			r := patience.Receive(t, of.name+" is answered", replies[i])
			if r.err != nil || r.doc["status"] != "COMPLETED" || r.doc["correlation_id"] != of.name {
				t.Errorf("%s was answered %d %v, %v", of.name, r.status, r.doc, r.err)
			}
		}
	}
	ends(w.a, mine)
	for i, waiting := range theirs {
		select {
		case r := <-waiting:
			if r.doc["status"] == "COMPLETED" { // a wait may also expire
				t.Errorf("request %d of the other was answered %v", i, r.doc)
			}
			waiting <- reply{doc: map[string]any{"status": "COMPLETED", "correlation_id": w.b.name}}
		default:
		}
	}
	ends(w.b, theirs)
}

// A tenant's webhook gets all events of its own saga, and none of another tenant's saga with
// the same id.
func TestWebhooksGetOnlyTheEventsOfTheirTwin(t *testing.T) {
	t.Parallel()
	w := newTwins(t)
	for _, of := range []*twin{w.a, w.b} {
		of.does("POST", "/webhooks", fmt.Sprintf(`{"url":"@/hook/%s"}`, of.name))
	}
	id := w.start("waits", waitsAtTwo)
	w.a.opens("/two")
	w.a.does("POST", "/sagas/"+id+"/retry", `{"reason":"alder's"}`)
	w.b.does("POST", "/sagas/"+id+"/force-fail", `{"reason":"birch's"}`)
	w.a.until(id, inState("completed"))
	w.b.until(id, inState("failed"))
	for _, tt := range []struct {
		of              *twin
		hears, hearsNot []string
	}{
		{w.a, []string{"saga.started", "saga.completed"}, []string{"saga.failed", "birch", w.b.tenant.String()}},
		{w.b, []string{"saga.started", "saga.failed"}, []string{"saga.completed", "alder", w.a.tenant.String()}},
	} {
		patience.Until(t, tt.of.name+" hears of its saga", func() bool {
			return !slices.ContainsFunc(tt.hears, func(s string) bool { return !strings.Contains(tt.of.hears(), s) })
		})
		for _, s := range tt.hearsNot {
			if strings.Contains(tt.of.hears(), s) {
				t.Errorf("%s hears %s: %s", tt.of.name, s, tt.of.hears())
			}
		}
		if !strings.Contains(tt.of.hears(), id) {
			t.Errorf("%s hears nothing of %s: %s", tt.of.name, id, tt.of.hears())
		}
	}
}
