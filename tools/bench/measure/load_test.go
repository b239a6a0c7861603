package measure

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// fakeServer accepts sagas: every failEvery-th request (0: none) gets a 503.
type fakeServer struct {
	failEvery int64
	status    string // of the sagas in its answers

	requests, rejected atomic.Int64
	lock               sync.Mutex
	ids                map[string]bool
	problems           []string
}

func (f *fakeServer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	var body struct {
		WorkflowName string `json:"workflow_name"`
		Payload      map[string]any
	}
	raw, err := io.ReadAll(r.Body)
	if err == nil {
		err = json.Unmarshal(raw, &body)
	}
	n := f.requests.Add(1)
	f.lock.Lock()
	defer f.lock.Unlock()
	if err != nil || body.WorkflowName != "bench-ok" || body.Payload == nil || r.URL.Path != "/api/v1/sagas" {
		f.problems = append(f.problems, fmt.Sprintf("%s %s: %v", r.URL, raw, err))
	}
	if f.failEvery > 0 && n%f.failEvery == 0 {
		f.rejected.Add(1)
		http.Error(w, `{"code":"SAGA_BUSY"}`, http.StatusServiceUnavailable)
		return
	}
	id := fmt.Sprintf("0198a000-0000-7000-8000-%012d", n)
	f.ids[id] = true
	w.WriteHeader(http.StatusCreated)
	fmt.Fprintf(w, `{"saga_id":"%s","status":"%s"}`, id, f.status)
}

// loadAgainst runs a short load and checks that the generator's accepted ids are exactly those
// that the server returned.
func loadAgainst(t *testing.T, f *fakeServer, cfg LoadConfig) LoadResult {
	t.Helper()
	f.ids = map[string]bool{}
	server := httptest.NewServer(f)
	defer server.Close()
	cfg.Target, cfg.Workflow, cfg.Duration = server.URL, "bench-ok", 50*time.Millisecond
	result, err := Load(context.Background(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	if len(f.problems) > 0 {
		t.Errorf("%d bad requests, the first: %s", len(f.problems), f.problems[0])
	}
	if len(result.Accepted) != len(f.ids) || len(f.ids) == 0 {
		t.Errorf("%d ids reported; want the %d that were given out, at least one", len(result.Accepted), len(f.ids))
	}
	for _, id := range result.Accepted {
		if !f.ids[id] {
			t.Errorf("reported id %q was never given out", id)
		}
	}
	return result
}

func TestLoad(t *testing.T) {
	t.Run("all accepted sagas are timed and reported", func(t *testing.T) {
		got := loadAgainst(t, &fakeServer{status: "STARTED"}, LoadConfig{Mode: Submit, Clients: 4})
		if got.Errors != 0 || got.Answers.Count != len(got.Accepted) {
			t.Errorf("%d errors (%s), %d timed; want 0 and %d", got.Errors, got.FirstError, got.Answers.Count, len(got.Accepted))
		}
	})
	t.Run("rejected sagas are errors and not reported", func(t *testing.T) {
		f := &fakeServer{status: "STARTED", failEvery: 2}
		got := loadAgainst(t, f, LoadConfig{Mode: Submit, Clients: 2})
		if int64(got.Errors) != f.rejected.Load() || got.Errors == 0 || !strings.Contains(got.FirstError, "503") {
			t.Errorf("%d errors (%s); want %d with status 503", got.Errors, got.FirstError, f.rejected.Load())
		}
	})
	t.Run("a waiting client is content with the status it wants", func(t *testing.T) {
		got := loadAgainst(t, &fakeServer{status: "FAILED"}, LoadConfig{Mode: Wait, Clients: 1, WantStatus: "FAILED"})
		if got.Errors != 0 {
			t.Errorf("%d errors (%s); want 0", got.Errors, got.FirstError)
		}
	})
	t.Run("a saga that ended otherwise is an error but still reported", func(t *testing.T) {
		got := loadAgainst(t, &fakeServer{status: "RUNNING"}, LoadConfig{Mode: Wait, Clients: 1, WantStatus: "COMPLETED"})
		if got.Errors != len(got.Accepted) || got.Answers.Count != 0 {
			t.Errorf("%d errors, %d timed; want %d and 0", got.Errors, got.Answers.Count, len(got.Accepted))
		}
	})
}

func TestLoadEndsEarlyWithItsContext(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	server := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { cancel() }))
	defer server.Close()
	_, err := Load(ctx, LoadConfig{Target: server.URL, Mode: Submit, Clients: 1, Duration: time.Hour})
	if err == nil {
		t.Error("an interrupted load gave no error")
	}
}

func TestSagaID(t *testing.T) {
	const id = "0198a000-0000-7000-8000-000000000001"
	for _, tt := range []struct {
		name, answer, want string
	}{
		{"first in the answer", `{"saga_id":"` + id + `","status":"STARTED"}`, id},
		{"behind other fields", `{"current_step":0,"saga_id":"` + id + `"}`, id},
		{"missing", `{"code":"SAGA_BUSY"}`, ""},
		{"cut off", `{"saga_id":"0198a000-0000`, ""},
		{"too long", `{"saga_id":"` + id + `0"}`, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got, ok := sagaID([]byte(tt.answer))
			if got != tt.want || ok != (tt.want != "") {
				t.Errorf("sagaID = %q, %t; want %q", got, ok, tt.want)
			}
		})
	}
}

func TestSagaRequestHoldsAPayloadOfTheSizeThatIsAskedFor(t *testing.T) {
	for size, about := range map[int]int{0: 100, 1000: 1010, 100_000: 100_010} {
		var body struct {
			WorkflowName string `json:"workflow_name"`
			Payload      json.RawMessage
		}
		if err := json.Unmarshal(sagaRequest("bench-undo", "A-10023", size), &body); err != nil {
			t.Fatal(err)
		}
		if n := len(body.Payload); body.WorkflowName != "bench-undo" || n < about-10 || n > about+10 {
			t.Errorf("workflow %q with %d bytes of payload; want bench-undo with about %d", body.WorkflowName, n, about)
		}
	}
}

func TestOrdersOfAnotherServer(t *testing.T) {
	const body = `{"gid":"` + orderPlace + `","payloads":["` + orderPlace + `"]}`
	var lock sync.Mutex
	seen := map[string]bool{}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var order struct {
			Gid      string
			Payloads []string
		}
		err := json.NewDecoder(r.Body).Decode(&order)
		lock.Lock()
		defer lock.Unlock()
		if err != nil || len(order.Payloads) != 1 || order.Payloads[0] != order.Gid || seen[order.Gid] {
			t.Errorf("got %+v, %v; want a new id in both places", order, err)
		}
		if seen[order.Gid] = true; len(seen)%2 == 0 {
			fmt.Fprint(w, "later")
			return
		}
		fmt.Fprint(w, "SUCCESS")
	}))
	defer server.Close()
	got, err := Load(t.Context(), LoadConfig{Clients: 3, Duration: 50 * time.Millisecond, Orders: OrderRequest{
		URL: server.URL, Body: body, Want: []OrderAnswer{{http.StatusConflict, "FAILURE"}, {http.StatusOK, "SUCCESS"}},
	}})
	if err != nil {
		t.Fatal(err)
	}
	if len(got.Accepted)+got.Errors != len(seen) || got.Errors != len(seen)/2 || len(got.Accepted) != got.Answers.Count {
		t.Errorf("%d accepted, %d errors, %d timed of %d orders; every other one failed", len(got.Accepted), got.Errors,
			got.Answers.Count, len(seen))
	}
	for _, id := range got.Accepted {
		if !seen[id] {
			t.Errorf("%s was accepted, but not sent", id)
		}
	}
	if _, err := Load(t.Context(), LoadConfig{Clients: 1, Orders: OrderRequest{URL: server.URL, Body: "{}"}}); err == nil {
		t.Error("a body without a place for the id gave no error")
	}
}
