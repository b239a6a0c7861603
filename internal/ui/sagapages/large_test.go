package sagapages

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/skald-saga/skald/api/client"
	"github.com/skald-saga/skald/internal/ui/web"
)

const largestID = "01a2091b-fa88-725f-9eff-1c3f0c31ac68"

// largest is a saga of 500 steps with four attempts each, as returned by the API. In the full view,
// each attempt has eight kilobytes of content. It counts the requests that it receives.
type largest struct {
	saga  client.Saga
	steps []client.StepView // with include=steps
	logs  []client.StepLog
	asked []string
	bytes int
}

func newLargest() *largest {
	id := uuid.MustParse(largestID)
	a := &largest{saga: client.Saga{
		SagaID: id, State: client.SagaStateRunning, Lifecycle: client.SagaLifecycleActive, TotalSteps: 500,
		WorkflowName: "large", WorkflowVersion: 1, CreatedAt: noon, UpdatedAt: noon, StartedAt: &noon,
	}}
	for i := range 500 {
		name := fmt.Sprintf("step-%03d", i)
		a.steps = append(a.steps, client.StepView{
			StepIndex: i, Name: name, StateName: client.StepStateNameCompleted, Attempts: 4, MaxAttempts: 5,
		})
		for n := range 4 {
			at := float64(i*10 + n)
			l := attemptAt(i, name, client.StepActionEXECUTE, n+1, at, at+0.5, client.StepLogStatusFAILED)
			l.RequestPayload = json.RawMessage(`{"step": "` + name + `", "lines": "` + strings.Repeat("lamp ", 800) + `"}`)
			l.ResponsePayload = json.RawMessage(`{"answer": "` + strings.Repeat("no ", 1300) + `"}`)
			a.logs = append(a.logs, l)
		}
	}
	return a
}

// brief returns the API's response with view=basic.
func (a *largest) brief() []client.StepLog {
	logs := slices.Clone(a.logs)
	for i := range logs {
		logs[i].RequestPayload, logs[i].ResponsePayload = nil, nil
	}
	return logs
}

func (a *largest) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	at, q := "/api/v1/sagas/"+largestID, r.URL.Query()
	a.asked = append(a.asked, r.URL.Path)
	logs := a.logs
	if q.Get("view") == "basic" {
		logs = a.brief()
	}
	var answer any
	switch r.URL.Path {
	case at:
		s := a.saga
		s.StepLogs, s.Steps = logs, a.steps
		answer = s
	case at + "/explain":
		answer = client.SagaExplanation{SagaID: a.saga.SagaID, State: a.saga.State, Summary: "It runs."}
	case at + "/step-logs":
		few := slices.DeleteFunc(slices.Clone(logs), func(l client.StepLog) bool {
			return !slices.Contains(q["id"], l.ID.String())
		})
		answer = client.StepLogList{StepLogs: few}
	case at + "/events":
		answer = client.AuditEventList{}
	case "/api/v1/whoami":
		answer = client.CallerIdentity{Development: true}
	default:
		w.Header().Set("Content-Type", "application/problem+json")
		w.WriteHeader(http.StatusNotFound)
		answer = client.Problem{Status: http.StatusNotFound}
	}
	if w.Header().Get("Content-Type") == "" {
		w.Header().Set("Content-Type", "application/json")
	}
	raw, err := json.Marshal(answer)
	if err != nil {
		panic(err) // our own answer
	}
	a.bytes += len(raw)
	_, _ = w.Write(raw)
}

func largestPages(t testing.TB, api http.Handler) *web.Kit {
	t.Helper()
	k, err := web.New(web.Config{
		API: api, Now: func() time.Time { return noon.Add(2 * time.Hour) }, NewID: uuid.NewString, Log: slog.Default(),
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := Register(k); err != nil {
		t.Fatal(err)
	}
	return k
}

// TestTheLargestSagaStaysReadable checks that the page of 500 steps and 2,000 attempts, which have
// 16 MB of content, is at most 400 kB on the wire and is made from a few responses without that
// content. BenchmarkTheLargestSaga measures how long it takes.
func TestTheLargestSagaStaysReadable(t *testing.T) {
	api := newLargest()
	k := largestPages(t, api)
	const attempt = "?step=step-250&attempt=execute-3"
	for _, tab := range []string{"", "?tab=attempts", attempt} {
		api.asked, api.bytes = nil, 0
		out := httptest.NewRecorder()
		k.ServeHTTP(out, httptest.NewRequest("GET", "/ui/sagas/"+largestID+tab, nil))
		var packed bytes.Buffer
		zip := gzip.NewWriter(&packed)
		_, _ = zip.Write(out.Body.Bytes()) // a buffer takes everything
		_ = zip.Close()
		t.Logf("%q: %d bytes, %d packed, of %d answers of %d bytes", tab, out.Body.Len(), packed.Len(), len(api.asked), api.bytes)
		if n := bytes.Count(out.Body.Bytes(), []byte("<tr")); out.Code != 200 || n < 500 {
			t.Errorf("%q: %d with %d rows", tab, out.Code, n)
		}
		if packed.Len() > 400_000 || out.Body.Len() > 2_000_000 {
			t.Errorf("%q: %d bytes, %d packed", tab, out.Body.Len(), packed.Len())
		}
		if len(api.asked) > 6 || api.bytes > 1_000_000 {
			t.Errorf("%q is made of %d bytes of %v", tab, api.bytes, api.asked)
		}
		if shown := strings.Contains(out.Body.String(), "lamp lamp"); shown != (tab == attempt) {
			t.Errorf("%q: what an attempt sent is shown: %v", tab, shown)
		}
	}
}

// BenchmarkTheLargestSaga renders the page without the API. On an idle core this takes a third of
// the 150 ms that are allowed for the page.
func BenchmarkTheLargestSaga(b *testing.B) {
	k := largestPages(b, newLargest())
	for b.Loop() {
		k.ServeHTTP(httptest.NewRecorder(), httptest.NewRequest("GET", "/ui/sagas/"+largestID, nil))
	}
}
