package app_test

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/skald-saga/skald/internal/test/testdb"
)

// TestTimesDoNotTellForeignFromMissing asks for what another tenant has and for what does
// not exist, in turns. A machine that is busy delays both alike; it may look uneven in
// one round, but not in each of them.
func TestTimesDoNotTellForeignFromMissing(t *testing.T) {
	t.Parallel()
	root := newToken(t)
	n := start(t, testdb.DSN(t), "a", bootstrapped(root))
	key := func(tenant string) string {
		body := fmt.Sprintf(`{"name":"k","role":"admin","tenant_id":%q}`, tenant)
		return do(t, jsonRequest(t, "POST", n.url+"/api/v1/api-keys", body), root)["key"].(string)
	}
	owner, stranger := key(uuid.NewString()), key(uuid.NewString())
	step := `{"name":"a","action":{"http":{"url":"http://127.0.0.1:9/"}},"compensation":"none"}`
	saga := do(t, jsonRequest(t, "POST", n.url+"/api/v1/sagas", `{"steps":[`+step+`]}`), owner)["saga_id"].(string)
	took := func(id string) float64 {
		req := jsonRequest(t, "GET", n.url+"/api/v1/sagas/"+id, "")
		req.Header.Set("Authorization", "Bearer "+stranger)
		begin := time.Now()
		res, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		defer res.Body.Close()
		if res.StatusCode != http.StatusNotFound {
			t.Fatalf("%s: %d", id, res.StatusCode)
		}
		return time.Since(begin).Seconds()
	}
	const samples, rounds = 1000, 8
	var uneven []string
	for range rounds {
		var foreign, missing []float64
		for i := range samples {
			if i%2 == 0 {
				foreign = append(foreign, took(saga))
			}
			missing = append(missing, took(uuid.NewString()))
			if i%2 == 1 {
				foreign = append(foreign, took(saga))
			}
		}
		slices.Sort(foreign)
		slices.Sort(missing)
		ratio := foreign[samples/2] / missing[samples/2]
		if ratio > 0.95 && ratio < 1.05 {
			return
		}
		uneven = append(uneven, fmt.Sprintf("%.3f", ratio))
	}
	t.Errorf("median time of a foreign id to that of a missing one, in each of %d rounds: %v", rounds, uneven)
}

func jsonRequest(t *testing.T, method, url, body string) *http.Request {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/json")
	return req
}
