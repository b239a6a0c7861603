package httpapi

import (
	"net/http"
	"strings"

	"github.com/skald-saga/skald/internal/fault"
	"github.com/skald-saga/skald/internal/jobrun"
)

// Jobs is what the edge needs of job runs.
type Jobs struct {
	Definitions jobrun.Definitions
	Runs        jobrun.Runs
	Events      jobrun.Events
	Work        jobrun.Work
	Workers     jobrun.Workers
	Elections   jobrun.Elections
	Settings    jobrun.SettingsStore
}

// jobPaths begin the operations of job runs.
var jobPaths = []string{
	"/api/v1/job", "/api/v1/workers", "/api/v1/scheduler", "/api/v1/schedules", "/api/v1/settings", "/api/v1/events", "/api/v1/fences",
}

// ofJobs tells whether the path of an operation is one of job runs.
func ofJobs(path string) bool {
	for _, p := range jobPaths {
		if strings.HasPrefix(path, p) {
			return true
		}
	}
	return false
}

// jobsOpen refuses the operations of job runs where there are none.
func (s *server) jobsOpen(next http.Handler) http.Handler {
	if s.Jobs != nil {
		return next
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if s.contract.routeOf(r.Context(), r.Method).jobs {
			s.fail(w, r, fault.New(fault.Unavailable, jobrun.CodeUnavailable, "this server keeps everything in memory, and has no job runs: they need PostgreSQL"))
			return
		}
		next.ServeHTTP(w, r)
	})
}
