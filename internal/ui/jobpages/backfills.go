package jobpages

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"time"

	"github.com/skald-saga/skald/api/client"
	"github.com/skald-saga/skald/internal/ui/web"
)

func (p *pages) backfill(v *web.Visit) (*web.Action, error) {
	d, _, _, err := p.got(v)
	if err != nil {
		return nil, err
	}
	a := p.actionOn(d, "", "Start", "Backfill "+d.Name, "jobs:admin", web.Changes)
	a.Means = "Runs past slots that never ran or were skipped, at a lower priority than scheduled runs."
	midnight := v.Now.UTC().Truncate(24 * time.Hour)
	a.Fields = []web.Field{
		{Name: "from", Label: "From", Required: true, Value: midnight.Format(time.RFC3339)},
		{Name: "to", Label: "To (exclusive)", Required: true, Value: v.Now.UTC().Format(time.RFC3339)},
		{Name: "reprocess", Label: "Slots that ran before", Kind: "select", Options: reprocessOptions},
		{Name: "order", Label: "Order", Kind: "select",
			Options: web.Labelled("oldest", "oldest first", "newest", "newest first")},
		{Name: "max_active", Label: "Maximum runs at a time", Kind: "number", Hint: "5"},
		{Name: "overlap", Label: "Overlap between its runs", Kind: "select", Options: web.Labelled(
			"", "one at a time, unless the job allows overlap", "allow", "they may overlap",
			"queue", "one at a time")},
	}
	a.DryRun, a.Show = web.DryRunInBody, showBackfill
	a.Send = func(ctx context.Context, body io.Reader, edit client.RequestEditorFn) (*http.Response, error) {
		return p.kit.Client.CreateBackfillWithBody(ctx, d.ID.String(), &client.CreateBackfillParams{}, web.JSON, body, edit)
	}
	a.Done = func(answer []byte) string {
		var b client.Backfill
		if json.Unmarshal(answer, &b) != nil {
			return definitionPath(d) + "?tab=backfills"
		}
		return "/ui/backfills/" + b.ID.String()
	}
	a.SendsCount(v)
	return a, nil
}

// reprocessOptions describe what happens to slots that already ran.
var reprocessOptions = web.Labelled(
	"none", "do not run again", "failed", "run again if they did not succeed", "completed", "run again")

// slotsShown is the number of slots shown in a backfill's preview.
const slotsShown = 50

func showBackfill(answer []byte) (*web.Preview, error) {
	var dry client.BackfillPreview
	if err := json.Unmarshal(answer, &dry); err != nil {
		return nil, err
	}
	runs := 0
	shown := &web.Preview{Count: new(int64(dry.SlotsTotal)), Heads: []string{"Slot (UTC)", "Effect"}}
	for i, s := range dry.Slots {
		becomes := "unchanged"
		if s.Runs {
			runs++
			becomes = "runs"
		}
		if i < slotsShown {
			shown.Rows = append(shown.Rows, []string{s.At.UTC().Format("Mon 2006-01-02 15:04:05"), becomes})
		}
	}
	of := fmt.Sprintf("%d of %s slots", runs, web.Count(dry.SlotsTotal))
	if dry.Truncated {
		of = fmt.Sprintf("%d of the first %d slots", runs, len(dry.Slots))
	}
	shown.Sentences = web.Planned(dry.Changes)
	shown.Ends = web.Sentence("%s would run.", of)
	if len(dry.Slots) > slotsShown {
		shown.Ends += web.Sentence(" The first %s:", slotsShown)
	}
	return shown, nil
}

// backfillPage shows the progress of a backfill.
type backfillPage struct {
	*client.Backfill
	Job     *client.JobDefinition
	JobURL  string
	Made    string  // the runs that it created
	Again   string  // what happens to slots that already ran
	Pace    string  // how many runs may be active at a time
	Reaches float64 // progress in percent, both of its time range and of the runs created for it
	Runs    []runRow
	Actions []web.Button
	Now     time.Time
}

func (p *pages) backfillProgress(v *web.Visit) (*web.Page, error) {
	b, err := p.gotBackfill(v)
	if err != nil {
		return nil, err
	}
	d := backfillPage{Backfill: b, Now: v.Now}
	ctx := v.Context()
	of := b.DefinitionID.String()
	job, err := p.kit.Client.GetJobDefinitionWithResponse(ctx, of, &client.GetJobDefinitionParams{})
	if err != nil {
		return nil, err
	}
	title := "Backfill"
	if job.JSON200 != nil { // otherwise the definition was deleted
		d.Job, d.JobURL = job.JSON200, definitionPath(job.JSON200)
		title += " of " + d.Job.Name
	}
	switch whole := b.To.Sub(b.From); {
	case b.State == client.BulkStateCOMPLETED:
		d.Reaches = 100
	case b.Reached != nil && whole > 0:
		done := b.Reached.Sub(b.From)
		if b.Order == client.BackfillOrderNewest {
			done = b.To.Sub(*b.Reached)
		}
		d.Reaches = min(100, max(0, 100*float64(done)/float64(whole)))
		if b.Active != nil && b.Created > 0 { // a run that was created is not necessarily done
			d.Reaches *= max(0, 1-float64(*b.Active)/float64(b.Created))
		}
	}
	d.Pace = paceOf(b, d.Job)
	if err := p.made(v, &d); err != nil {
		return nil, err
	}
	size := client.PageSize(50)
	runs, err := p.listed(ctx, &client.ListJobRunsParams{BackfillID: &b.ID, PageSize: &size})
	if err != nil {
		return nil, err
	}
	d.Runs = p.rowsOf(v, runs.JobRuns)
	page := &web.Page{Template: "backfill", Title: title, Nav: "Jobs", Data: &d, Refresh: 5}
	if b.EndedAt == nil {
		page.Refresh = 1
		if !p.kit.ReadOnly {
			if b.State == client.BulkStateHALTED {
				d.Actions = []web.Button{v.Button("Resume", "/ui/backfills/"+b.ID.String()+"/resume", "jobs:admin",
					web.ContinuesWith(b.Found, "slots"), web.Changes)}
			}
			d.Actions = append(d.Actions, v.Button("Cancel", "/ui/backfills/"+b.ID.String()+"/cancel", "jobs:admin",
				"No more runs are created.", web.Changes))
		}
	}
	return page, nil
}

// paceOf describes how many runs of a backfill may be active at a time. A backfill without its own
// policy uses that of its job, which is nil if the job was deleted.
func paceOf(b *client.Backfill, job *client.JobDefinition) string {
	overlap := client.JobConcurrencyPolicyAllow
	switch {
	case b.Overlap != nil:
		overlap = *b.Overlap
	case job != nil:
		overlap = job.ConcurrencyPolicy
	}
	if overlap == client.JobConcurrencyPolicyAllow || b.MaxActive == 1 {
		return fmt.Sprintf("At most %d at a time", b.MaxActive)
	}
	return fmt.Sprintf("One run at a time, with at most %d unfinished runs", b.MaxActive)
}

// made describes how many runs a backfill has created, and how many of them the overlap policy has
// skipped since then; skipped runs did nothing.
func (p *pages) made(v *web.Visit, d *backfillPage) error {
	for _, o := range reprocessOptions {
		if o.Value == string(d.Reprocess) {
			d.Again = o.Label
		}
	}
	d.Made = web.Count(d.Created) + " runs created"
	if d.Created == 1 {
		d.Made = "1 run created"
	}
	if d.Created == 0 {
		return nil
	}
	one := client.PageSize(1)
	list, err := p.listed(v.Context(), &client.ListJobRunsParams{
		BackfillID: &d.ID, State: []client.JobRunState{client.JobRunStateSKIPPED},
		Include: client.IncludeTotal{"total"}, PageSize: &one,
	})
	if err != nil {
		return err
	}
	switch n := list.Pagination.TotalCount; {
	case n == nil || *n == 0:
	case d.Created == 1:
		d.Made += " and skipped"
	default:
		capped := list.Pagination.TotalIsCapped
		d.Made += ", " + web.Count(*n, capped != nil && *capped) + " of them skipped"
	}
	return nil
}

func (p *pages) gotBackfill(v *web.Visit) (*client.Backfill, error) {
	id, err := v.ID("backfill")
	if err != nil {
		return nil, err
	}
	res, err := p.kit.Client.GetBackfillWithResponse(v.Context(), id)
	if err != nil {
		return nil, err
	}
	return web.Got(res.JSON200, res.ApplicationProblemJSONDefault)
}

func (p *pages) resumeBackfill(v *web.Visit) (*web.Action, error) {
	b, err := p.gotBackfill(v)
	if err != nil {
		return nil, err
	}
	return moves("Resume", "backfill", pathOfBackfill(b), web.BackfillBadge(b.State), web.ContinuesWith(b.Found, "slots"),
		func(ctx context.Context, body io.Reader, edit client.RequestEditorFn) (*http.Response, error) {
			return p.kit.Client.ResumeBackfillWithBody(ctx, b.ID, &client.ResumeBackfillParams{}, web.JSON, body, edit)
		}), nil
}

func (p *pages) cancelBackfill(v *web.Visit) (*web.Action, error) {
	b, err := p.gotBackfill(v)
	if err != nil {
		return nil, err
	}
	return moves("Cancel", "backfill", pathOfBackfill(b), web.BackfillBadge(b.State),
		"No more runs are created, and those that have not started are canceled. Runs in progress continue.",
		func(ctx context.Context, body io.Reader, edit client.RequestEditorFn) (*http.Response, error) {
			return p.kit.Client.CancelBackfillWithBody(ctx, b.ID, &client.CancelBackfillParams{}, web.JSON, body, edit)
		}), nil
}

func pathOfBackfill(b *client.Backfill) string { return "/ui/backfills/" + b.ID.String() }
