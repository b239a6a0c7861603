package app_test

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/google/uuid"

	"github.com/skald-saga/skald/internal/config"
	"github.com/skald-saga/skald/internal/saga/cache"
	"github.com/skald-saga/skald/internal/tenant"
)

// This test is not parallel: there is one cache per process, and each node that starts replaces it.
func TestTheMemoryStoreServesSagasAndSaysWhatItLacks(t *testing.T) {
	participant := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/two" {
			w.WriteHeader(http.StatusConflict)
		}
	}))
	defer participant.Close()
	n := start(t, "", "a", func(c *config.Config) { c.Store = config.Memory })
	if !strings.Contains(n.logs.String(), "ALL DATA IS IN MEMORY") {
		t.Errorf("no warning:\n%s", n.logs)
	}
	if status, doc := call(t, "POST", n.url+"/api/v1/workflows",
		strings.ReplaceAll(twoSteps, "URL", participant.URL)); status != 201 {
		t.Fatalf("register: %d %v", status, doc)
	}
	_, doc := call(t, "POST", n.url+"/api/v1/sagas?wait=4m", `{"workflow_name": "pair"}`)
	if doc["state"] != "compensated" || doc["clean"] != true {
		t.Errorf("ended as %v", doc)
	}
	id, err := uuid.Parse(doc["saga_id"].(string))
	if err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]int{
		"/api/v1/sagas/" + id.String() + "/events":  200,
		"/api/v1/sagas/" + id.String() + "/explain": 200,
		"/api/v1/statistics/sagas":                  200,
		"/api/v1/audit/verify":                      200,
		"/api/v1/admin/storage":                     200,
		"/api/v1/webhooks":                          200,
		"/api/v1/api-keys":                          200,
		"/readyz":                                   200,
	} {
		if status, doc := call(t, "GET", n.url+path, ""); status != want {
			t.Errorf("GET %s: %d %v", path, status, doc)
		}
	}
	tenantID := config.Default(config.Test).Tenant.DefaultID
	// The process's cache (seed 4) is the node's store.
	s, found := cache.Current().GetById(cache.WithTenant(t.Context(), tenant.Tenant{ID: tenantID}), id)
	if !found || s.Status != cache.Completed {
		t.Errorf("in the cache: %v %+v", found, s)
	}
}
