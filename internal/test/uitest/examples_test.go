package uitest_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"testing"

	"github.com/skald-saga/skald/internal/test/apitest"
	"github.com/skald-saga/skald/internal/test/patience"
	"github.com/skald-saga/skald/internal/test/uitest"
)

// shown makes requests that the contract's examples are taken from: the responses are checked
// against the contract and recorded.
type shown struct {
	*acting
	http *http.Client
}

// call makes a request, which must succeed; header is the name and value of a header, or empty for
// the API key.
func (s *shown) call(method, path string, body any, header ...string) {
	s.t.Helper()
	text, err := json.Marshal(body)
	if err != nil {
		s.t.Fatal(err)
	}
	req, err := http.NewRequestWithContext(s.t.Context(), method, s.URL+"/api/v1"+path, bytes.NewReader(text))
	if err != nil {
		s.t.Fatal(err)
	}
	if body == nil {
		req.Body, req.GetBody, req.ContentLength = nil, nil, 0
	} else {
		req.Header.Set("Content-Type", "application/json")
	}
	if len(header) == 0 {
		header = []string{"X-API-Key", s.Key}
	}
	req.Header.Set(header[0], header[1])
	res, err := s.http.Do(req)
	if err != nil {
		s.t.Fatal(err)
	}
	defer res.Body.Close()
	if res.StatusCode/100 != 2 {
		var problem any
		_ = json.NewDecoder(res.Body).Decode(&problem)
		s.t.Errorf("%s %s: %d %v", method, path, res.StatusCode, problem)
	}
}

// dry makes a dry run of an action.
func (s *shown) dry(path string, body any) {
	s.t.Helper()
	s.call("POST", path+"?dry_run=true", body)
}

func newShown(t *testing.T, name string) *shown {
	w := &acting{guarded(t), t, name}
	return &shown{w, &http.Client{Transport: apitest.Checked(t, http.DefaultTransport)}}
}

// TestWhatActionsOnASagaWouldChange makes a dry run of each action on a saga in a state in which
// the action is allowed.
func TestWhatActionsOnASagaWouldChange(t *testing.T) {
	t.Parallel()
	s := newShown(t, "order")
	call := func(at string) object { return object{"http": object{"url": s.Participant + at}} }
	steps := func(undo, pay string) []object {
		return []object{
			{"name": "reserve-stock", "action": call("/ok/reserve"), "compensation": call(undo)},
			{
				"name": "charge-card", "action": call(pay), "compensation": call("/ok/refund"),
				"retry": object{"max_attempts": 3, "initial_interval_ms": 3_600_000, "max_interval_ms": 3_600_000},
			},
		}
	}
	s.Call(t, "POST", "/workflows", object{"name": "order", "timeout_ms": 86_400_000,
		"steps": steps("/ok/release", "/503/charge")})
	s.Call(t, "POST", "/workflows", object{"name": "stuck", "steps": steps("/409/release", "/409/charge")})
	made := func(workflow, until string) string {
		t.Helper()
		id := s.Must(t, "POST", "/sagas", object{"workflow_name": workflow, "payload": object{"sku": "lamp"}})["saga_id"]
		at := fmt.Sprint("/sagas/", id)
		patience.Until(t, at+" is "+until, func() bool {
			saga := s.Must(t, "GET", at, nil)
			logs, _ := saga["step_logs"].([]any)
			return saga["state"] == until && len(logs) >= 2
		})
		return at
	}
	waits, held, failed := made("order", "running"), made("order", "running"), made("stuck", "failed")
	s.Must(t, "POST", held+"/suspend", object{"reason": "the card provider is down"})
	reason := object{"reason": "asked for by the customer"}
	s.dry(waits+"/cancel", reason)
	s.dry(waits+"/compensate", reason)
	s.dry(waits+"/suspend", object{"reason": "the card provider is down"})
	s.dry(held+"/resume", object{"reason": "the card provider is back"})
	s.dry(waits+"/extend-deadline", object{"reason": "the bank needs a day", "until": at(48)})
	s.dry(waits+"/force-complete", object{"reason": "charged by hand"})
	s.dry(waits+"/force-fail", object{"reason": "refunded by hand"})
	s.dry(waits+"/steps/charge-card/skip", object{"reason": "a gift"})
	s.dry(waits+"/steps/charge-card/complete", object{"reason": "charged by hand", "output": object{"charge": "c-1"}})
	s.dry(waits+"/steps/charge-card/fail", object{"reason": "the card was stolen"})
	s.dry(failed+"/acknowledge", object{"reason": "released by hand"})
}

// TestAnswersThatNoOtherTestOfTheAPIGets makes the requests for which the API tests have no short
// response with the same members in every run.
func TestAnswersThatNoOtherTestOfTheAPIGets(t *testing.T) {
	t.Parallel()
	s := newShown(t, "shown")
	letters(s.acting, 1)
	s.call("GET", "/dlq/groups/"+s.group(), nil)
	s.call("POST", "/dlq/groups/"+s.group()+"/discard", object{"reason": "the orders were withdrawn", "dry_run": true})

	job := object{"name": "nightly-report", "type": "manual", "command_name": "report", "queue": "reports"}
	s.dry("/job-definitions", job)
	s.Must(t, "POST", "/job-definitions", job)
	s.Must(t, "POST", "/job-definitions/nightly-report/runs", object{"correlation_id": "order-4711"})
	s.call("GET", "/scheduler/leader", nil)
	s.call("GET", "/events?correlation_id=order-4711&page_size=3", nil)

	hook := "/webhooks/" + idOf(s.Must(t, "POST", "/webhooks", object{"url": "https://127.0.0.1/hook",
		"event_types": []string{"saga.completed"}}))
	s.dry(hook+"/test", nil)
	s.dry("/webhooks", object{"url": "https://127.0.0.1/hook", "event_types": []string{"saga.completed"}})
	sent := idOf(s.Must(t, "POST", hook+"/test", nil))
	s.dry(hook+"/deliveries/"+sent+"/redeliver", nil)
	s.dry(hook+"/redeliver", object{"since": at(-24)})
	s.dry("/api-keys", object{"name": "reports", "role": "auditor"})
	s.call("DELETE", hook+"?dry_run=true", nil)

	s.Must(t, "POST", "/workflows", object{"name": "greet", "steps": []object{{
		"name": "hello", "action": object{"http": object{"url": s.Participant + "/ok"}}, "compensation": "none",
	}}})
	s.Must(t, "POST", "/sagas?wait=20s", object{"workflow_name": "greet", "payload": object{"to": "kim"},
		"correlation_id": "letter-81"})
	s.call("GET", "/timeline?correlation_id=letter-81&page_size=3", nil)
	s.call("POST", "/admin/erasures", object{"correlation_id": "letter-81", "reason": "request 7 of kim"})
	s.call("POST", "/workflows/simulate", object{"workflow_name": "greet", "payload": object{"to": "kim"},
		"answers": object{"hello": []object{{"fault": "timeout"}, {"status": 200}}}})

	for _, op := range operations() {
		if !slices.Contains([]string{"bulk-of-sagas", "bulk-of-runs", "backfill"}, op.name) {
			continue
		}
		of := &acting{s.Server, t, op.name}
		op.add(of, 3)
		path, body := op.ask(of)
		body["expected"] = 2
		id := idOf(of.Must(t, "POST", path, body))
		of.awaitState(&op, id, "HALTED")
		at := op.read + id
		s.dry(at+"/resume", object{"reason": "three are right"})
		s.dry(at+"/cancel", object{"reason": "two were meant"})
	}
	browser := signedIn(t, s.Server)
	s.call("GET", "/sessions/current", nil, "Cookie", browser)
	sessions := s.Must(t, "GET", "/sessions", nil)["sessions"].([]any)
	s.call("DELETE", fmt.Sprint("/sessions/", sessions[0].(object)["id"], "?dry_run=true"), nil)
}

// signedIn returns the cookie of a browser that is signed in with the server's key.
func signedIn(t *testing.T, s *uitest.Server) string {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, s.URL+"/ui/sign-in",
		bytes.NewBufferString(url.Values{"credential": {s.Key}}.Encode()))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	req.Header.Set("Sec-Fetch-Site", "same-origin")
	res, err := http.DefaultTransport.RoundTrip(req)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	for _, c := range res.Cookies() {
		if c.Name == "skald" && c.Value != "" {
			return c.Name + "=" + c.Value
		}
	}
	t.Fatalf("signing in: %d %v", res.StatusCode, res.Header)
	return ""
}
