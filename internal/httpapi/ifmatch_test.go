package httpapi_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/skald-saga/skald/internal/httpapi"
	"github.com/skald-saga/skald/internal/test/apitest"
)

func TestIfMatchIsRequiredWhereTheServerIsConfiguredTo(t *testing.T) {
	t.Parallel()
	e := apitest.NewEdge(t, func(c *httpapi.Config) { c.RequireIfMatch = true })
	e.Register("order", "pay")
	disable := apitest.WorkflowsPath + "/order/disable"
	r := e.Send("POST", disable, "")
	p := r.Wants(http.StatusPreconditionRequired, "REQ_IF_MATCH_REQUIRED")
	if !strings.Contains(p.Detail, "GET /api/v1/workflows/{name},") || len(p.Errors) != 1 ||
		p.Errors[0].Header != "If-Match" || p.Errors[0].Code != "required" {
		t.Errorf("told %+v", p)
	}
	if r := e.Send("GET", apitest.WorkflowsPath+"/order", ""); r.Header.Get("ETag") != `"1"` {
		t.Fatalf("refused, but changed to %s", r.Header.Get("ETag"))
	}
	e.Send("POST", disable, "", "If-Match", `"7"`).Wants(http.StatusPreconditionFailed, "WORKFLOW_VERSION_CONFLICT")
	if r := e.Send("POST", disable, "", "If-Match", `"1"`); r.Status != http.StatusOK {
		t.Errorf("with the ETag: %d %s", r.Status, r.Body)
	}
	if r := e.Send("POST", apitest.WorkflowsPath+"/order/enable", "", "If-Match", "*"); r.Status != http.StatusOK {
		t.Errorf("with *: %d %s", r.Status, r.Body)
	}
}
