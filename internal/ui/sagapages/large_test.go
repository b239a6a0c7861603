package sagapages

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/skald-saga/skald/api/client"
	"github.com/skald-saga/skald/internal/ui/web"
)

// largest is a saga of 500 steps with four attempts each, as the API answers it.
func largest() http.Handler {
	id := uuid.MustParse("01a2091b-fa88-725f-9eff-1c3f0c31ac68")
	s := client.Saga{
		SagaID: id, State: client.SagaStateRunning, Lifecycle: client.SagaLifecycleActive, TotalSteps: 500,
		WorkflowName: "large", WorkflowVersion: 1, CreatedAt: noon, UpdatedAt: noon, StartedAt: &noon,
	}
	var steps []client.StepView
	for i := range 500 {
		name := fmt.Sprintf("step-%03d", i)
		steps = append(steps, client.StepView{
			StepIndex: i, Name: name, StateName: client.StepStateNameCompleted, Attempts: 4, MaxAttempts: 5,
			InputData: json.RawMessage(`{"sku": "lamp", "quantity": 2}`),
		})
		for n := range 4 {
			at := float64(i*10 + n)
			l := attemptAt(i, name, client.StepActionEXECUTE, n+1, at, at+0.5, client.StepLogStatusFAILED)
			l.RequestPayload = json.RawMessage(`{"step": "` + name + `", "payload": {"sku": "lamp", "quantity": 2}}`)
			s.StepLogs = append(s.StepLogs, l)
		}
	}
	answers := map[string]any{
		"/api/v1/sagas/" + id.String():              s,
		"/api/v1/sagas/" + id.String() + "/explain": client.SagaExplanation{SagaID: id, State: s.State, Summary: "It runs."},
		"/api/v1/sagas/" + id.String() + "/steps":   client.StepList{Steps: steps},
		"/api/v1/sagas/" + id.String() + "/events":  client.AuditEventList{},
		"/api/v1/whoami":                            client.CallerIdentity{Development: true},
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		answer, ok := answers[r.URL.Path]
		w.Header().Set("Content-Type", "application/json")
		if !ok {
			w.Header().Set("Content-Type", "application/problem+json")
			w.WriteHeader(http.StatusNotFound)
			answer = client.Problem{Status: http.StatusNotFound}
		}
		_ = json.NewEncoder(w).Encode(answer)
	})
}

// TestTheLargestSagaStaysReadable: the page of 500 steps and 2,000 attempts is at most 400 kB on the wire.
func TestTheLargestSagaStaysReadable(t *testing.T) {
	k, err := web.New(web.Config{
		API: largest(), Now: func() time.Time { return noon.Add(2 * time.Hour) }, NewID: uuid.NewString, Log: slog.Default(),
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := Register(k); err != nil {
		t.Fatal(err)
	}
	for _, tab := range []string{"", "?tab=attempts"} {
		began, out := time.Now(), httptest.NewRecorder()
		k.ServeHTTP(out, httptest.NewRequest("GET", "/ui/sagas/01a2091b-fa88-725f-9eff-1c3f0c31ac68"+tab, nil))
		took := time.Since(began)
		var packed bytes.Buffer
		zip := gzip.NewWriter(&packed)
		_, _ = zip.Write(out.Body.Bytes()) // a buffer takes everything
		_ = zip.Close()
		t.Logf("%q: %v, %d bytes, %d packed", tab, took, out.Body.Len(), packed.Len())
		if n := bytes.Count(out.Body.Bytes(), []byte("<tr")); out.Code != 200 || n < 500 {
			t.Errorf("%q: %d with %d rows", tab, out.Code, n)
		}
		if packed.Len() > 400_000 || out.Body.Len() > 2_000_000 {
			t.Errorf("%q: %d bytes, %d packed", tab, out.Body.Len(), packed.Len())
		}
	}
}
