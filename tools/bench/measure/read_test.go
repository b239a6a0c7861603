package measure

import (
	"database/sql"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// pages is a server whose lists all have three pages. Each response takes a millisecond of the
// given clock, and sixty for a slow query.
func pages(t *testing.T, clock *time.Time, slow ...string) string {
	t.Helper()
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		*clock = clock.Add(time.Millisecond)
		if slices.ContainsFunc(slow, func(suffix string) bool { return strings.HasSuffix(r.URL.RequestURI(), suffix) }) {
			*clock = clock.Add(59 * time.Millisecond)
		}
		switch next := map[string]string{"": "a", "a": "b"}[r.URL.Query().Get("cursor")]; next {
		case "":
			fmt.Fprint(w, `{"pagination": {}}`)
		default:
			fmt.Fprintf(w, `{"pagination": {"next_cursor": %q}}`, next)
		}
	}))
	t.Cleanup(s.Close)
	return s.URL
}

func TestReadAsksEverythingAndTellsWhatMissedItsTarget(t *testing.T) {
	cfg := generated(t)
	pool, err := sql.Open("postgres", cfg.DatabaseURL)
	if err != nil {
		t.Fatal(err)
	}
	defer pool.Close()
	for _, tt := range []struct {
		name         string
		slow, missed []string
	}{
		{"all in time", nil, nil},
		{"some are slow", []string{"/step-logs", "/sagas?page_size=20&state=timed_out", "/statistics/sagas", "page_size=20&trace_id=none&view=full"}, []string{"state timed_out", "the step logs of a saga"}},
		{"deep in a list", []string{"/sagas?cursor=b&page_size=20"}, []string{"all sagas"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var out strings.Builder
			clock := time.Now()
			r := reader{
				ReadConfig: ReadConfig{Data: cfg, Samples: 2, Depth: 2 * walkSize, Out: &out},
				db:         pool,
				url:        pages(t, &clock, tt.slow...),
				client:     http.DefaultClient,
				now:        func() time.Time { return clock },
			}
			if err := r.measure(t.Context()); (err != nil) != (tt.missed != nil) {
				t.Errorf("measure = %v", err)
			}
			var missed []string
			names := map[string]bool{}
			for line := range strings.Lines(out.String()) {
				name := strings.TrimSpace(line[:min(62, len(line)-1)])
				names[name] = true
				if strings.HasSuffix(line, "MISSED\n") {
					missed = append(missed, name)
				}
			}
			if diff := cmp.Diff(tt.missed, missed); diff != "" {
				t.Errorf("missed (-want +got):\n%s\n%s", diff, &out)
			}
			for _, name := range []string{"all sagas", "a rare workflow, status FAILED", "the steps of a saga", "statistics", "failed_sagas, 20"} {
				if !names[name] {
					t.Errorf("%s was not asked for", name)
				}
			}
		})
	}
}

func TestReadStopsAtAnErrorResponse(t *testing.T) {
	s := httptest.NewServer(http.NotFoundHandler())
	defer s.Close()
	r := reader{url: s.URL, client: http.DefaultClient}
	if err := r.get(t.Context(), "/api/v1/sagas", nil); err == nil || !strings.Contains(err.Error(), "404") {
		t.Errorf("get = %v", err)
	}
}
