package apitest

import (
	"slices"

	"github.com/skald-saga/skald/api/client"
)

// Run decodes a response as a run.
func (r Reply) Run(status int) client.JobRun {
	r.T.Helper()
	if r.Status != status {
		r.T.Fatalf("%d %s, want %d", r.Status, r.Body, status)
	}
	var run client.JobRun
	r.Into(&run)
	return run
}

func (r Reply) Definition(status int) client.JobDefinition {
	r.T.Helper()
	if r.Status != status {
		r.T.Fatalf("%d %s, want %d", r.Status, r.Body, status)
	}
	var d client.JobDefinition
	r.Into(&d)
	return d
}

// Ended decodes a response as a RunEnded.
func (r Reply) Ended(state string, replayed bool) client.EndedRun {
	r.T.Helper()
	var e client.EndedRun
	if r.Into(&e); r.Status != 200 || string(e.State) != state || (e.Replayed != nil) != replayed {
		r.T.Fatalf("%d %s, want %s", r.Status, r.Body, state)
	}
	return e
}

// Pointers returns the locations of the errors in a problem.
func (r Reply) Pointers(status int, code string) (at []string) {
	r.T.Helper()
	for _, f := range r.Wants(status, code).Errors {
		at = append(at, f.Place())
	}
	return slices.Compact(at)
}
