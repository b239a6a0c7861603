package app_test

import (
	"net/http"
	"strings"
	"testing"
	"time"
)

// linksBelow follows the links in responses of a server behind a proxy that adds base, from each
// operation that gives any: they begin with base, once, and lead somewhere.
func linksBelow(t *testing.T, server, base string) {
	t.Helper()
	api := base + "/api/v1"
	hour := time.Now().UTC().Truncate(time.Hour)
	span := `"from":"` + hour.Add(-2*time.Hour).Format(time.RFC3339) + `","to":"` + hour.Format(time.RFC3339) + `"`
	for _, tt := range []struct {
		method, path, body string
		status, least      int
	}{
		{"POST", "/sagas?wait=30s", `{"name":"linked","steps":[{"name":"a","action":{"http":{"url":"` + server + `/nowhere"}},"compensation":"none"}]}`, 201, 0},
		{"GET", "/saga-errors", "", 200, 1},
		{"POST", "/sagas/bulk", `{"action":"suspend","ids":["00000000-0000-4000-8000-000000000001"],"reason":"links"}`, 202, 2},
		{"GET", "/sagas/bulk", "", 200, 2},
		{"POST", "/job-definitions", `{"name":"linked","type":"time","command_name":"report","schedule":{"type":"hourly_at_minute","value":"0"}}`, 201, 3},
		{"GET", "/job-definitions", "", 200, 3},
		{"POST", "/job-definitions/linked/runs", "{}", 201, 3},
		{"GET", "/job-runs", "", 200, 3},
		{"POST", "/job-definitions/linked/backfills", `{` + span + `,"reason":"links"}`, 202, 3},
		{"POST", "/job-runs/bulk", `{"action":"cancel","filter":{"definition":"linked"},"reason":"links"}`, 202, 1},
		{"POST", "/dlq/redrives", `{"action":"retry","filter":{"topic":"none"},"reason":"links"}`, 202, 0},
		{"GET", "/search?q=linked", "", 200, 1},
		{"GET", "/overview", "", 200, 0},
	} {
		for _, at := range []string{server + api, server + "/api/v1"} { // the proxy keeps the base path, or removes it
			status, doc := call(t, tt.method, at+tt.path, tt.body)
			if status != tt.status {
				t.Errorf("%s %s: %d %v", tt.method, tt.path, status, doc)
			}
			found := links("", doc)
			if len(found) < tt.least && status < 300 {
				t.Errorf("%s %s has the links %q, want at least %d", tt.method, tt.path, found, tt.least)
			}
			for _, link := range found {
				if !strings.HasPrefix(link, api+"/") {
					t.Errorf("%s %s: the link %s", tt.method, tt.path, link)
				} else if res, err := http.Get(server + link); err != nil {
					t.Fatal(err)
				} else if _ = res.Body.Close(); res.StatusCode != http.StatusOK {
					t.Errorf("%s %s: the link %s: %d", tt.method, tt.path, link, res.StatusCode)
				}
			}
			if tt.method == "POST" {
				break
			}
		}
	}
}

// links returns the values of members named link, and the values in members named links.
func links(name string, v any) (found []string) {
	switch v := v.(type) {
	case map[string]any:
		for member, value := range v {
			if name == "links" {
				member = "link"
			}
			found = append(found, links(member, value)...)
		}
	case []any:
		for _, value := range v {
			found = append(found, links("", value)...)
		}
	case string:
		if name == "link" {
			found = append(found, v)
		}
	}
	return found
}
