package httpapi_test

import (
	"slices"

	"github.com/skald-saga/skald/api/client"
)

// run reads an answer as a run.
func (r reply) run(status int) client.JobRun {
	r.t.Helper()
	if r.status != status {
		r.t.Fatalf("%d %s, want %d", r.status, r.body, status)
	}
	var run client.JobRun
	r.into(&run)
	return run
}

func (r reply) definition(status int) client.JobDefinition {
	r.t.Helper()
	if r.status != status {
		r.t.Fatalf("%d %s, want %d", r.status, r.body, status)
	}
	var d client.JobDefinition
	r.into(&d)
	return d
}

// ended reads a RunEnded.
func (r reply) ended(state string, replayed bool) client.EndedRun {
	r.t.Helper()
	var e client.EndedRun
	if r.into(&e); r.status != 200 || string(e.State) != state || (e.Replayed != nil) != replayed {
		r.t.Fatalf("%d %s, want %s", r.status, r.body, state)
	}
	return e
}

// pointers are where the mistakes of a problem are.
func (r reply) pointers(status int, code string) (at []string) {
	r.t.Helper()
	for _, f := range r.wants(status, code).Errors {
		at = append(at, f.Pointer)
	}
	return slices.Compact(at)
}
