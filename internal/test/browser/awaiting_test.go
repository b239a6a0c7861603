package browser_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/skald-saga/skald/internal/app/demo"
	"github.com/skald-saga/skald/internal/test/patience"
)

// awaiting starts a saga whose participant answers later. Once the saga waits for a report, it
// returns the path of its page.
func awaiting(t *testing.T, at demo.Place) string {
	t.Helper()
	call, later := fmt.Sprintf(`"http": {"url": "%s/visa/apply"}`, at.Participants), `"answer": {"later": "status < 300"}`
	status, text := ask(t, at, "POST", "/workflows", `{"name": "visa", "steps": [{"name": "apply", `+later+`,
		"action": {`+call+`}, "compensation": {`+call+`, `+later+`}}]}`)
	if status != http.StatusCreated {
		t.Fatalf("%d %s", status, text)
	}
	_, text = ask(t, at, "POST", "/sagas", `{"workflow_name": "visa"}`)
	var saga struct {
		ID string `json:"saga_id"`
	}
	if err := json.Unmarshal([]byte(text), &saga); err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	patience.Until(t, "it waits for a report", func() bool {
		_, text := ask(t, at, "GET", "/sagas/"+saga.ID+"/explain", "")
		return strings.Contains(text, `"waits_for":"report"`)
	})
	return "/ui/sagas/" + saga.ID
}
