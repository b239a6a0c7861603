package jobpages

import (
	"context"
	"encoding/json"
	"html/template"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/skald-saga/skald/api/client"
	"github.com/skald-saga/skald/internal/ui/web"
)

// usualFilters are the filters of a bulk operation that are always shown; the others are folded.
var usualFilters = []string{"queue", "error_code", "finished_from", "finished_to", "gave_up", "late_by_min"}

// newBulk is the form for an action on all runs that match a filter.
func (p *pages) newBulk(v *web.Visit) (*web.Action, error) {
	a := &web.Action{
		Label: "Start", Title: "Cancel or rerun many runs", Nav: "Jobs", Back: web.Link{Name: "Runs", URL: "/ui/runs"},
		Class: web.Changes, Needs: "jobs:admin", DryRun: web.DryRunInBody, Show: showBulk,
		Means: "Applies to the matching runs that exist now. If more runs match at the start than the preview counted, it halts " +
			"before changing any. The scheduler processes the runs in small batches; completed changes are kept if you cancel " +
			"the operation. If no states are given, a rerun applies to runs that failed or timed out.",
		Unready: bulkUnready,
		Fields: []web.Field{
			{Name: "action", Label: "Do this", Kind: "select", Options: web.Labelled(
				"", "choose…", "cancel", "Cancel: end them", "rerun", "Rerun: create new runs like them")},
			{Name: "filter.definition", Label: "Job", Group: "To all runs that match"},
			{Name: "filter.states", Label: "States, one per line", Kind: "lines", Hint: "failed"},
			{Name: "filter.triggers", Label: "Created by, one per line", Kind: "lines", Hint: "schedule"},
		},
		Send: func(ctx context.Context, body io.Reader, edit client.RequestEditorFn) (*http.Response, error) {
			return p.kit.Client.CreateJobBulkWithBody(ctx, &client.CreateJobBulkParams{}, web.JSON, body, edit)
		},
		Done: func(answer []byte) string {
			var b client.JobBulk
			if json.Unmarshal(answer, &b) != nil {
				return "/ui/run-bulks"
			}
			return "/ui/run-bulks/" + b.ID.String()
		},
		Body: func(_ web.Form, body map[string]any) error {
			filter, _ := body["filter"].(map[string]any)
			if filter == nil {
				filter = map[string]any{}
			}
			if text, is := filter["gave_up"].(string); is {
				filter["gave_up"] = text == "true"
			}
			for name, of := range map[string]func(string) string{"states": stateOf, "triggers": triggerOf} {
				if lines, is := filter[name].([]string); is {
					for i := range lines {
						lines[i] = of(lines[i])
					}
				}
			}
			body["filter"] = filter
			delete(body, allRuns)
			return nil
		},
	}
	for _, f := range runFilters {
		if f.Name == "definition" || f.Name == "trigger" {
			continue
		}
		field := web.Field{Name: "filter." + f.Name, Label: f.Label, Rare: !slices.Contains(usualFilters, f.Name)}
		switch {
		case f.Name == "late_by_min":
			field.Kind = "number"
		case f.Options != nil:
			field.Kind, field.Options = "select", append(web.Labelled("", "any"), f.Options...)
		}
		if at, ok := web.Relative(v.Now, v.Form.Get(field.Name)); ok && f.Time {
			v.Form.Set(field.Name, at.UTC().Format(time.RFC3339))
		}
		a.Fields = append(a.Fields, field)
		if f.Prefix != "" {
			a.Fields = append(a.Fields, web.Field{Name: "filter." + f.Prefix, Label: f.Label + " begins with", Rare: true})
		}
	}
	a.Fields = append(a.Fields, web.Field{Name: allRuns, Label: "All runs, without a filter", Kind: "check"})
	a.SendsCount(v)
	return a, nil
}

// allRuns is the field that confirms a bulk operation without a filter.
const allRuns = "all"

// bulkUnready describes what must still be chosen in the form for a bulk operation.
func bulkUnready(form web.Form) string {
	if form["action"] == "" {
		return "Choose what to do."
	}
	for name, value := range form {
		if strings.HasPrefix(name, "filter.") && strings.TrimSpace(value) != "" {
			return ""
		}
	}
	if form[allRuns] != "" {
		return ""
	}
	return "Choose which runs: fill in a filter, or tick “All runs”."
}

// stateOf converts a state typed by a person to the API's spelling.
func stateOf(typed string) string {
	return strings.ToUpper(strings.ReplaceAll(strings.TrimSpace(typed), " ", "_"))
}

func showBulk(answer []byte) (*web.Preview, error) {
	var dry client.JobBulkPreview
	if err := json.Unmarshal(answer, &dry); err != nil {
		return nil, err
	}
	match := "%s runs match."
	if dry.Matched == 1 {
		match = "%s run matches."
	}
	shown := &web.Preview{Count: &dry.Matched, Sentences: []template.HTML{
		web.Sentence(match, web.Count(dry.Matched, dry.MatchedIsCapped)),
	}}
	if int64(dry.Examined) < dry.Matched {
		shown.Sentences = append(shown.Sentences, web.Sentence("Of the first %s:", dry.Examined))
	}
	shown.Sentences = append(shown.Sentences, web.Planned(dry.Changes)...)
	return shown, nil
}

// bulkList is the page that lists the bulk operations.
type bulkList struct {
	*web.List
	*client.JobBulkList
}

var bulkViews = []web.View{
	{Name: "All"}, {Name: "Running", Filter: url.Values{"state": {"RUNNING"}}},
	{Name: "Halted", Filter: url.Values{"state": {"HALTED"}}},
	{Name: "Finished", Filter: url.Values{"state": {"COMPLETED"}}},
	{Name: "Canceled", Filter: url.Values{"state": {"CANCELED"}}},
}

func (p *pages) bulks(v *web.Visit) (*web.Page, error) {
	l, list, err := web.ListPage[client.JobBulkList](v, bulkViews, nil, p.kit.Client.ListJobBulks,
		"include", "total")
	if err != nil {
		return nil, err
	}
	return &web.Page{
		Template: "run-bulks", Title: "Bulk operations on runs", Nav: "Jobs", Refresh: 10, Data: bulkList{l, list},
	}, nil
}

// bulkPage shows the progress of a bulk operation.
type bulkPage struct {
	*client.JobBulk
	Actions []web.Button
	Now     time.Time
}

func (p *pages) bulk(v *web.Visit) (*web.Page, error) {
	b, err := p.gotBulk(v)
	if err != nil {
		return nil, err
	}
	d := bulkPage{JobBulk: b, Now: v.Now}
	page := &web.Page{Template: "run-bulk", Title: "Bulk " + string(b.Action), Nav: "Jobs", Data: &d}
	page.Refresh = 5
	if b.EndedAt == nil {
		page.Refresh = 1
		if !p.kit.ReadOnly {
			if b.State == client.BulkStateHALTED {
				d.Actions = []web.Button{v.Button("Resume", "/ui/run-bulks/"+b.ID.String()+"/resume", "jobs:admin",
					web.ContinuesWith(b.Found, "runs"), web.Changes)}
			}
			d.Actions = append(d.Actions, v.Button("Cancel", "/ui/run-bulks/"+b.ID.String()+"/cancel", "jobs:admin",
				"Completed changes are kept.", web.Changes))
		}
	}
	return page, nil
}

func (p *pages) gotBulk(v *web.Visit) (*client.JobBulk, error) {
	id, err := v.ID("bulk")
	if err != nil {
		return nil, err
	}
	res, err := p.kit.Client.GetJobBulkWithResponse(v.Context(), id)
	if err != nil {
		return nil, err
	}
	return web.Got(res.JSON200, res.ApplicationProblemJSONDefault)
}

// moves is the action that resumes or cancels a bulk operation or a backfill, whose page has the
// given path.
func moves(verb, what, path string, state web.Badge, means string,
	send func(context.Context, io.Reader, client.RequestEditorFn) (*http.Response, error)) *web.Action {
	return &web.Action{
		Label: verb + " the " + what, Title: verb + " a " + what, Nav: "Jobs",
		Back: web.Link{Name: "The " + what, URL: path}, Class: web.Changes, Needs: "jobs:admin",
		State: state.Word, DryRun: web.DryRunInQuery, Means: means, Send: send,
		Done: func([]byte) string { return path },
	}
}

func (p *pages) resumeBulk(v *web.Visit) (*web.Action, error) {
	b, err := p.gotBulk(v)
	if err != nil {
		return nil, err
	}
	return moves("Resume", "bulk operation", pathOfBulk(b), web.BulkBadge(b.State), web.ContinuesWith(b.Found, "runs"),
		func(ctx context.Context, body io.Reader, edit client.RequestEditorFn) (*http.Response, error) {
			return p.kit.Client.ResumeJobBulkWithBody(ctx, b.ID, &client.ResumeJobBulkParams{}, web.JSON, body, edit)
		}), nil
}

func (p *pages) cancelBulk(v *web.Visit) (*web.Action, error) {
	b, err := p.gotBulk(v)
	if err != nil {
		return nil, err
	}
	return moves("Cancel", "bulk operation", pathOfBulk(b), web.BulkBadge(b.State),
		"No further runs are changed. Completed changes are kept.",
		func(ctx context.Context, body io.Reader, edit client.RequestEditorFn) (*http.Response, error) {
			return p.kit.Client.CancelJobBulkWithBody(ctx, b.ID, &client.CancelJobBulkParams{}, web.JSON, body, edit)
		}), nil
}

func pathOfBulk(b *client.JobBulk) string { return "/ui/run-bulks/" + b.ID.String() }
