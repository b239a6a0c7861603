package app_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/skald-saga/skald/internal/test/patience"
	"github.com/skald-saga/skald/internal/test/testdb"
)

// TestAHoldConcernsTheNextSaga: once a hold is answered, no call of a saga that is started afterwards is made, however
// soon after the registration it comes.
func TestAHoldConcernsTheNextSaga(t *testing.T) {
	t.Parallel()
	n := start(t, testdb.DSN(t), "a")
	var called atomic.Int64
	service := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { called.Add(1) }))
	t.Cleanup(service.Close)
	must := func(method, path, body string, want int) map[string]any {
		t.Helper()
		status, doc := call(t, method, n.url+"/api/v1"+path, strings.ReplaceAll(body, "@", service.URL))
		if status != want {
			t.Fatalf("%s %s: %d %v", method, path, status, doc)
		}
		return doc
	}
	var sagas []string
	for i := range 40 {
		name := fmt.Sprintf("card-%d", i)
		must("PUT", "/participants/"+name, `{"base_url":"@/`+name+`"}`, 200)
		must("POST", "/workflows", `{"name":"`+name+`","steps":[{"name":"a","action":{"http":{"participant":"`+name+
			`","path":"/x"}},"compensation":"none"}]}`, 201)
		must("POST", "/participants/"+name+"/hold", `{"reason":"maintenance"}`, 200)
		sagas = append(sagas, must("POST", "/sagas", `{"workflow_name":"`+name+`"}`, 201)["saga_id"].(string))
	}
	for _, id := range sagas {
		patience.Until(t, "the saga waits at the gate", func() bool {
			return must("GET", "/sagas/"+id+"/explain", "", 200)["waits_for"] == "participant" || called.Load() > 0
		})
	}
	if n := called.Load(); n > 0 {
		t.Errorf("%d calls were made though their participants were held", n)
	}
}
