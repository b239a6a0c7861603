package jobpages

import (
	"context"
	"slices"
	"time"

	"github.com/google/uuid"

	"github.com/skald-saga/skald/api/client"
	"github.com/skald-saga/skald/internal/ui/web"
)

// runRow is a run in a list.
type runRow struct {
	client.JobRun
	Took  string      // duration, up to now if it has not ended; empty: it has not started
	Rerun *web.Button // set if the run did not do its work and no other run repeats it
}

// CreatedBy describes what created the run.
func (r runRow) CreatedBy() string { return createdBy(r.Trigger) }

// didNothing lists the states in which a run has ended without doing its work.
var didNothing = []client.JobRunState{
	client.JobRunStateFAILED, client.JobRunStateTIMEDOUT, client.JobRunStateSKIPPED, client.JobRunStateCANCELED,
}

const meansRerun = "Creates a new run from the current definition, linked to this one, with its own failure budget. It " +
	"is due now."

// runVerbPath returns the path of the form for an action on a run.
func runVerbPath(r *client.JobRun, verb client.JobRunVerb) string {
	return "/ui/runs/" + r.ID.String() + "/actions/" + string(verb)
}

// listed reads the first page of the runs that a query selects.
func (p *pages) listed(ctx context.Context, of *client.ListJobRunsParams) (*client.JobRunList, error) {
	res, err := p.kit.Client.ListJobRunsWithResponse(ctx, of)
	if err != nil {
		return nil, err
	}
	return web.Got(res.JSON200, res.ApplicationProblemJSONDefault)
}

// repeats reports whether r is a retry or a rerun of another run.
func repeats(r *client.JobRun, other uuid.UUID) bool {
	return r.RetryOfRunID != nil && *r.RetryOfRunID == other
}

func (p *pages) rowsOf(v *web.Visit, runs []client.JobRun) []runRow {
	rows, repeated := make([]runRow, len(runs)), map[uuid.UUID]bool{}
	for i := range runs {
		if of := runs[i].RetryOfRunID; of != nil {
			repeated[*of] = true
		}
	}
	for i := range runs {
		r := &runs[i]
		rows[i] = runRow{JobRun: *r, Took: took(r, v.Now)}
		if repeated[r.ID] || p.kit.ReadOnly || !slices.Contains(didNothing, r.State) ||
			!slices.Contains(r.AllowedActions, client.JobRunVerbRerun) {
			continue
		}
		b := v.Button("Rerun", runVerbPath(r, client.JobRunVerbRerun), "jobs:write", meansRerun, web.Changes)
		rows[i].Rerun = &b
	}
	return rows
}

// took returns how long a run has been with its worker.
func took(r *client.JobRun, now time.Time) string {
	if r.StartedAt == nil {
		return ""
	}
	end := now
	if r.FinishedAt != nil {
		end = *r.FinishedAt
	}
	return web.Duration(end.Sub(*r.StartedAt))
}
