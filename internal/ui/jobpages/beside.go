package jobpages

import (
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/skald-saga/skald/api/client"
	"github.com/skald-saga/skald/internal/ui/web"
)

// beside contains what the page of a run shows about other runs and about the person who requested
// it.
type beside struct {
	Again   []runRow  // runs that repeat it
	Skipped *web.Link // runs that were skipped because of it; nil: none
	Usual   string    // usual duration of the job's runs if this run takes much longer; otherwise empty
	Reason  string    // the reason given by the person who requested it
}

// unusual is the ratio between a run's duration and the usual duration above which the page points
// it out.
const unusual = 5

func (p *pages) besideOf(v *web.Visit, r *client.JobRun, chain []runRow) (b beside, err error) {
	for i := range chain {
		if repeats(&chain[i].JobRun, r.ID) {
			b.Again = append(b.Again, chain[i])
		}
	}
	if r.ConcurrencyKey != nil && r.StartedAt != nil {
		if b.Skipped, err = p.skippedBy(v, r); err != nil {
			return b, err
		}
	}
	if r.StartedAt != nil && r.FinishedAt == nil && v.Now.Sub(*r.StartedAt) > 30*time.Second {
		if b.Usual, err = p.usual(v, r); err != nil {
			return b, err
		}
	}
	if r.Trigger == client.JobTriggerMANUAL {
		b.Reason, err = p.reasonOf(v, r)
	}
	return b, err
}

// skippedBy returns a link to the runs of the same job that were skipped because of r.
func (p *pages) skippedBy(v *web.Visit, r *client.JobRun) (*web.Link, error) {
	const most = 100
	job, size := r.JobDefinition.ID.String(), client.PageSize(most)
	list, err := p.listed(v.Context(), &client.ListJobRunsParams{
		Definition: &job, State: []client.JobRunState{client.JobRunStateSKIPPED}, FinishedFrom: r.StartedAt, PageSize: &size,
	})
	if err != nil {
		return nil, err
	}
	of := slices.DeleteFunc(list.JobRuns, func(s client.JobRun) bool {
		return s.SkipReason == nil || !strings.Contains(*s.SkipReason, r.ID.String())
	})
	switch n := len(of); n {
	case 0:
		return nil, nil
	case 1:
		return &web.Link{Name: "1 run was skipped", URL: "/ui/runs/" + of[0].ID.String()}, nil
	default:
		return &web.Link{Name: web.Count(n, n == most) + " runs were skipped", URL: "/ui/runs?" + url.Values{
			"definition": {r.JobDefinition.Name}, "state": {"SKIPPED"},
			"finished_from": {r.StartedAt.UTC().Format(time.RFC3339)},
		}.Encode()}, nil
	}
}

// usual returns the median duration of the latest successful runs, or "" unless r takes much
// longer.
func (p *pages) usual(v *web.Visit, r *client.JobRun) (string, error) {
	job, size := r.JobDefinition.ID.String(), client.PageSize(20)
	list, err := p.listed(v.Context(), &client.ListJobRunsParams{
		Definition: &job, State: []client.JobRunState{client.JobRunStateSUCCEEDED}, PageSize: &size,
	})
	if err != nil {
		return "", err
	}
	var all []time.Duration
	for _, s := range list.JobRuns {
		if s.StartedAt != nil && s.FinishedAt != nil {
			all = append(all, s.FinishedAt.Sub(*s.StartedAt))
		}
	}
	if len(all) < 3 {
		return "", nil
	}
	slices.Sort(all)
	if median := all[len(all)/2]; v.Now.Sub(*r.StartedAt) > unusual*median {
		return web.Duration(median), nil
	}
	return "", nil
}

// reasonOf reads the reason given by the person who requested a run, if the visitor may read the
// audit trail.
func (p *pages) reasonOf(v *web.Visit, r *client.JobRun) (string, error) {
	id, size := r.ID.String(), client.PageSize(100)
	res, err := p.kit.Client.ListActionsWithResponse(v.Context(), &client.ListActionsParams{Subject: &id, PageSize: &size})
	if err != nil || res.StatusCode() != http.StatusOK || res.JSON200 == nil || len(res.JSON200.Actions) == 0 {
		return "", err
	}
	first := res.JSON200.Actions[len(res.JSON200.Actions)-1] // the oldest one, which created the run
	if first.Reason == nil {
		return "", nil
	}
	return *first.Reason, nil
}
