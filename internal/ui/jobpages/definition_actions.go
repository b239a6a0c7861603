package jobpages

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"time"

	"github.com/skald-saga/skald/api/client"
	"github.com/skald-saga/skald/internal/ui/web"
)

// actionOn returns an action on a definition without its fields and its request.
func (p *pages) actionOn(
	d *client.JobDefinition, tag, label, title, needs string, class web.Class,
) *web.Action {
	path := definitionPath(d)
	return &web.Action{
		Label: label, Title: title, Nav: "Jobs", Back: web.Link{Name: d.Name, URL: path}, Class: class, Needs: needs,
		ETag: tag, Subject: d.ID.String(), State: definitionState(d), DryRun: web.DryRunInQuery,
		Done: func([]byte) string { return path },
	}
}

// definitionState describes in words whether a definition creates runs.
func definitionState(d *client.JobDefinition) string {
	switch {
	case d.Paused && d.PausedUntil != nil:
		return "paused until " + utc(*d.PausedUntil)
	case d.Paused:
		return "paused"
	}
	return "active"
}

// utc formats a time as shown in previews.
func utc(t time.Time) string { return t.UTC().Format("2006-01-02 15:04:05 UTC") }

func (p *pages) pause(v *web.Visit) (*web.Action, error) {
	d, tag, _, err := p.got(v)
	if err != nil {
		return nil, err
	}
	a := p.actionOn(d, tag, "Pause", "Pause "+d.Name, "jobs:write", web.Changes)
	a.Means = "No runs are created automatically; slots are recorded as skipped. Existing runs continue, and the job can " +
		"still be run manually."
	a.Fields = []web.Field{{Name: "until", Label: "Until (empty: until it is resumed)", Hint: "2027-01-04T08:00:00Z"}}
	a.Foresee = func(ctx context.Context, body []byte) (*web.Preview, error) {
		var in client.JobPauseInput
		if err := json.Unmarshal(body, &in); err != nil {
			return nil, web.Malformed("Until must be a time such as 2027-01-04T08:00:00Z.")
		}
		return p.slotsSkipped(ctx, d, in)
	}
	a.Send = func(ctx context.Context, body io.Reader, edit client.RequestEditorFn) (*http.Response, error) {
		return p.kit.Client.PauseJobDefinitionWithBody(
			ctx, d.ID.String(), &client.PauseJobDefinitionParams{}, web.JSON, body, edit,
		)
	}
	return a, nil
}

// slotsSkipped describes which of the next slots a pause would skip.
func (p *pages) slotsSkipped(
	ctx context.Context, d *client.JobDefinition, in client.JobPauseInput,
) (*web.Preview, error) {
	if d.Schedule == nil {
		return &web.Preview{Ends: "Events that arrive in the meantime create no runs."}, nil
	}
	count := 10
	res, err := p.kit.Client.ListNextJobRunsWithResponse(ctx, d.ID.String(), &client.ListNextJobRunsParams{Count: &count})
	if err != nil {
		return nil, err
	}
	list, err := web.Got(res.JSON200, res.ApplicationProblemJSONDefault)
	if err != nil {
		return nil, err
	}
	shown := &web.Preview{Ends: "The next slots:", Heads: []string{list.Timezone, "UTC", "Effect"}}
	for _, t := range list.Ticks {
		becomes := "skipped"
		if in.Until != nil && !t.At.Before(*in.Until) {
			becomes = "due"
		}
		shown.Rows = append(shown.Rows, []string{localTime(t), t.At.UTC().Format("2006-01-02 15:04:05"), becomes})
	}
	return shown, nil
}

func (p *pages) resume(v *web.Visit) (*web.Action, error) {
	d, tag, _, err := p.got(v)
	if err != nil {
		return nil, err
	}
	a := p.actionOn(d, tag, "Resume", "Resume "+d.Name, "jobs:write", web.Changes)
	a.Means = "Slots apply again from now on; slots that were skipped stay skipped."
	a.Send = func(ctx context.Context, body io.Reader, edit client.RequestEditorFn) (*http.Response, error) {
		return p.kit.Client.ResumeJobDefinitionWithBody(
			ctx, d.ID.String(), &client.ResumeJobDefinitionParams{}, web.JSON, body, edit,
		)
	}
	return a, nil
}

func (p *pages) remove(v *web.Visit) (*web.Action, error) {
	d, tag, _, err := p.got(v)
	if err != nil {
		return nil, err
	}
	a := p.actionOn(d, tag, "Delete", "Delete "+d.Name, "jobs:admin", web.Dangerous)
	a.Means = "Its runs are kept, and its name can be reused."
	a.Warning = "A deleted definition cannot be restored, and creates no more runs."
	a.Confirm, a.About = lastSix(d.ID.String()), "the end of the definition's id, which is on its page"
	a.Fields = []web.Field{{Name: "force", Kind: "check", Label: "Cancel unfinished runs and ask their workers " +
		"to stop. Otherwise, a definition with unfinished runs is not deleted."}}
	a.NoKey, a.Done = true, func([]byte) string { return "/ui/jobs" }
	a.Foresee = func(ctx context.Context, _ []byte) (*web.Preview, error) { return p.unfinished(ctx, d) }
	a.Send = func(ctx context.Context, body io.Reader, edit client.RequestEditorFn) (*http.Response, error) {
		var in client.DeleteJobDefinitionParams
		if err := json.NewDecoder(body).Decode(&in); err != nil {
			return nil, err
		}
		return p.kit.Client.DeleteJobDefinition(ctx, d.ID.String(), &in, edit)
	}
	return a, nil
}

// unfinished counts the runs of a definition that have not ended.
func (p *pages) unfinished(ctx context.Context, d *client.JobDefinition) (*web.Preview, error) {
	of, size := d.ID.String(), client.PageSize(1)
	shown := &web.Preview{Ends: "It has no unfinished runs."}
	var rows [][]string
	for _, state := range []client.JobRunState{
		client.JobRunStatePENDING, client.JobRunStateASSIGNED, client.JobRunStateRUNNING, client.JobRunStateORPHANED,
	} {
		list, err := p.listed(ctx, &client.ListJobRunsParams{
			Definition: &of, State: []client.JobRunState{state}, PageSize: &size, Include: []string{"total"},
		})
		if err != nil {
			return nil, err
		}
		if n := list.Pagination.TotalCount; n != nil && *n > 0 {
			capped := list.Pagination.TotalIsCapped
			rows = append(rows, []string{web.BadgeOf(state).Word, web.Count(*n, capped != nil && *capped)})
		}
	}
	if rows != nil {
		shown.Ends, shown.Heads, shown.Rows = "Unfinished runs:", []string{"State", "Runs"}, rows
	}
	return shown, nil
}

func (p *pages) run(v *web.Visit) (*web.Action, error) {
	d, _, raw, err := p.got(v)
	if err != nil {
		return nil, err
	}
	a := p.actionOn(d, "", "Run", "Run "+d.Name, "jobs:write", web.Safe)
	a.Means = "Creates a run now. " + policyWords(d)[0]
	a.Fields = filled([]web.Field{{Name: "default_args", Kind: "json"}}, raw)
	if !v.May("payloads:read") {
		a.Fields[0].Value = "" // the arguments are hidden, and an empty value keeps them
	}
	a.Fields = []web.Field{
		{Name: "args", Label: "Arguments", Kind: "json", Value: a.Fields[0].Value},
		{Name: "scheduled_for", Label: "Due (empty: now; passed to the worker; may be in the past)", Hint: "2027-01-04T08:00:00Z"},
		{Name: "priority", Label: "Priority (empty: from the definition)", Kind: "number"},
		{Name: "correlation_id", Label: "Correlation"},
	}
	if d.ConcurrencyPolicy != client.JobConcurrencyPolicyAllow {
		a.Fields = append(a.Fields, web.Field{Name: "overlap", Kind: "check", Label: startsAnyway})
	}
	a.Body = overlapping
	a.Foresee = func(ctx context.Context, body []byte) (*web.Preview, error) {
		shown, err := p.unfinished(ctx, d)
		if err == nil {
			shown.Sentences, err = p.beside(ctx, v, d.ID.String(), body)
		}
		return shown, err
	}
	a.Send = func(ctx context.Context, body io.Reader, edit client.RequestEditorFn) (*http.Response, error) {
		return p.kit.Client.CreateJobRunWithBody(ctx, d.ID.String(), &client.CreateJobRunParams{}, web.JSON, body, edit)
	}
	a.Done, a.Ways = runAnswered, p.waysOut(v)
	return a, nil
}

// overlapping converts the field "overlap" to the form in the contract.
func overlapping(form web.Form, body map[string]any) error {
	if delete(body, "overlap"); form["overlap"] != "" {
		body["respect_concurrency"] = false
	}
	return nil
}

// runAnswered returns the path of the page for the run in a response.
func runAnswered(answer []byte) string {
	var r client.JobRun
	if json.Unmarshal(answer, &r) != nil {
		return "/ui/runs"
	}
	return "/ui/runs/" + r.ID.String()
}

// lastSix returns the last six characters of an id, which a person must type to confirm a dangerous
// action.
func lastSix(id string) string { return id[max(0, len(id)-6):] }
