package jobpages

import (
	"context"
	"encoding/json"
	"html/template"
	"strings"

	"github.com/google/uuid"

	"github.com/skald-saga/skald/api/client"
	"github.com/skald-saga/skald/internal/ui/web"
)

// startsAnyway is the label of the field that makes a run ignore the concurrency policy.
const startsAnyway = "Start it even if another run has not ended"

// waysOut describes in a form which run blocks a new run, and what can be done about it.
func (p *pages) waysOut(v *web.Visit) func(context.Context, *client.Problem) []template.HTML {
	return func(ctx context.Context, problem *client.Problem) []template.HTML {
		if problem.Code != "JOB_CONCURRENCY_FORBID" {
			return nil
		}
		for _, part := range web.Named(problem.Detail) {
			id, err := uuid.Parse(part.ID)
			if err != nil {
				continue
			}
			res, err := p.kit.Client.GetJobRunWithResponse(ctx, id, &client.GetJobRunParams{})
			if err != nil || res.JSON200 == nil {
				return nil // the problem already names the run
			}
			return p.waysPast(ctx, v, res.JSON200)
		}
		return nil
	}
}

// waysPast describes r, the run that blocks the new one, and the two ways to proceed.
func (p *pages) waysPast(ctx context.Context, v *web.Visit, r *client.JobRun) []template.HTML {
	is := web.Sentence(" of %s, due %s", r.JobDefinition.Name, stamp(r.ScheduledFor))
	how, cancel := web.Sentence(", has not started yet."), "It ends immediately without having done any work."
	if r.StartedAt != nil && r.State == client.JobRunStateRUNNING {
		how = web.Sentence(", has been running for %s.", web.Duration(v.Now.Sub(*r.StartedAt)))
		if line := p.lastLine(ctx, v, r.ID); line != "" {
			how += web.Sentence(" Its log ends with %s.", line)
		}
		cancel = "Its worker is asked to stop; its work then stays undone unless you rerun it too."
	}
	return []template.HTML{
		"Another run blocks this one: " + p.runLink(r.ID, web.Sentence("run %s", web.Short(r.ID))) + is + how,
		p.runLink(r.ID, "Cancel that run") + " first, then start this one. " + web.Sentence(cancel),
		"Or tick “" + web.Sentence(startsAnyway) + "”: both runs are then active at the same time, which the job's " +
			"definition normally forbids.",
	}
}

// beside names the runs of a job that a new run would run concurrently with, if its form allows
// that.
func (p *pages) beside(ctx context.Context, v *web.Visit, job string, body []byte) (said []template.HTML, err error) {
	var form struct {
		Respect *bool `json:"respect_concurrency"`
	}
	if json.Unmarshal(body, &form) != nil || form.Respect == nil || *form.Respect {
		return nil, nil
	}
	const most = 5
	size := client.PageSize(most)
	list, err := p.listed(ctx, &client.ListJobRunsParams{Definition: &job, State: held, PageSize: &size})
	if err != nil {
		return nil, err
	}
	for i := range list.JobRuns {
		r := &list.JobRuns[i]
		said = append(said, "It runs at the same time as "+p.runLink(r.ID, web.Sentence("run %s", web.Short(r.ID)))+
			web.Sentence(", due %s, which is %s.", stamp(r.ScheduledFor), web.BadgeOf(r.State).Word))
	}
	if list.Pagination.HasNext {
		said = append(said, "Other runs are active too.")
	}
	return said, nil
}

func (p *pages) runLink(id uuid.UUID, words template.HTML) template.HTML {
	return p.kit.Anchor("/ui/runs/"+id.String(), words)
}

// lastLine returns the last line of a run's log. It is empty if there is no log or the visitor may
// not read it.
func (p *pages) lastLine(ctx context.Context, v *web.Visit, run uuid.UUID) string {
	if !v.May("payloads:read") {
		return ""
	}
	format, tail := client.GetRunLogParamsFormatText, int32(2000)
	res, err := p.kit.Client.GetRunLogWithResponse(ctx, run, &client.GetRunLogParams{Format: &format, TailBytes: &tail})
	if err != nil || res.ApplicationProblemJSONDefault != nil {
		return ""
	}
	lines := strings.Split(strings.TrimSpace(string(res.Body)), "\n")
	const most = 200
	last := []rune(strings.TrimSpace(plain(lines[len(lines)-1])))
	if len(last) > most {
		return string(last[:most]) + "…"
	}
	return string(last)
}
