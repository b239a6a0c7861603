package systempages

import (
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/skald-saga/skald/api/client"
	"github.com/skald-saga/skald/internal/ui/web"
)

// overview lists what needs a person's attention.
type overview struct {
	*client.Overview
	Heading string
	Causes  []cause // the most urgent ones
	Less    int     // number of causes that are not shown
	Figures []glanced
	Traffic []flow
	Hour    *hour // nil: not counted
	Omitted []string
	Now     time.Time
}

// mostCauses is the number of causes shown unless all are requested (?causes=all). A longer list is
// of little use to work through, and each of fifty open overviews would redraw it whenever one
// cause changes.
const mostCauses = 25

// cause is an entry in the list of what needs a person's attention.
type cause struct {
	client.OverviewCause
	Badge web.Badge
	URL   string // URL of the page with the items
	Act   string // URL that the button opens: that page, or the form for applying the step to all items
	Step  string // label of the button
	Many  string // number of items, if the button leads to a list of them
	Needs string // the permission that the visitor lacks
	Right string // describes what requires that permission
	See   bool   // the items are shown before the step is taken
}

// glanced is a figure with a link to the page behind it.
type glanced struct {
	Value, Label, URL string
}

func (p *pages) overview(v *web.Visit) (*web.Page, error) {
	sees := v.Who.TenantID.String() + " " + strings.Join(v.Who.Permissions, " ")
	o, err := p.answered(v, sees)
	if err != nil {
		return nil, err
	}
	page := &web.Page{Template: "overview", Title: "Overview", Nav: "Overview", Refresh: 10,
		Attention: int64(len(o.Causes)), Scripts: []string{"overview.js"}, State: o.state, Sees: sees,
		Times: renewed(o.Overview)}
	if page.State == v.Had() {
		page.Data = web.Unchanged{}
		return page, nil
	}
	d := overview{Overview: o.Overview, Now: p.kit.Now(), Heading: heading(len(o.Causes)), Figures: figures(&o.Counts)}
	causes := o.Causes
	if v.URL.Query().Get("causes") != "all" && len(causes) > mostCauses {
		d.Less = len(causes) - mostCauses
		causes = causes[:mostCauses]
	}
	for _, c := range causes {
		line := cause{OverviewCause: c, Badge: signs[c.Kind], URL: pageOf(c.Link), Step: steps[c.Next.Operation]}
		line.Act = line.URL
		if letters := lettersOf(&c); letters != nil {
			if !p.kit.ReadOnly {
				line.Act, line.Step, line.See = web.Redrive("retry", letters), "Retry", true
			}
			if c.Count > 1 {
				line.Many = web.Count(c.Count, c.IsCapped) + " letters"
			}
		} else if c.ID == nil && c.Count > 1 {
			line.Many = strings.TrimSuffix(web.Count(c.Count, c.IsCapped)+" "+nouns[c.Part], " ")
			line.Act, line.Step = p.forAll(&c, line.URL, line.Step)
		}
		line.Needs, line.Right = v.Lacks(needed(&c, line.Act), false), rights[c.Next.Operation]
		d.Causes = append(d.Causes, line)
	}
	for _, part := range o.Omitted {
		why := "requires another role"
		if part.Because == client.OverviewOmittedBecauseStore {
			why = "not available in this store"
		}
		d.Omitted = append(d.Omitted, web.Words(part.Part)+" ("+why+")")
	}
	d.Traffic, d.Hour = traffic(o.Traffic), lastHour(o.Minutes)
	page.Data = d
	return page, nil
}

// answer is an overview as returned by the API, with the state that its ETag names.
type answer struct {
	*client.Overview
	state string
}

// answered requests the overview from the API on behalf of those who may see what sees names. Pages
// that are already open share a response, because encoding and decoding it for each of them took
// two fifths of their cost.
func (p *pages) answered(v *web.Visit, sees string) (answer, error) {
	ask := func() (answer, error) {
		res, err := p.kit.Client.GetOverviewWithResponse(v.Context(), &client.GetOverviewParams{})
		if err != nil {
			return answer{}, err
		}
		o, err := web.Got(res.JSON200, res.ApplicationProblemJSONDefault)
		return answer{Overview: o, state: strings.Trim(res.HTTPResponse.Header.Get("ETag"), `W/"`)}, err
	}
	if v.Had() == "" {
		return ask()
	}
	return p.answers.Get(sees, p.kit.Now(), ask)
}

// renewed returns the times that advance while nothing needs attention.
func renewed(o *client.Overview) map[string]time.Time {
	all := map[string]time.Time{"checked-at": o.CheckedAt, "found-nothing-at": o.CheckedAt}
	if o.SealedAt != nil {
		all["sealed-at"] = *o.SealedAt
	}
	if o.Leader != nil && o.Leader.SweptAt != nil {
		all["swept-at"] = *o.Leader.SweptAt
	}
	return all
}

// flow is an entry of the current traffic.
type flow struct{ Label, Rate, Failed, URL string }

// traffic returns the entries that the visitor may read.
func traffic(t *client.OverviewTraffic) (lines []flow) {
	if t == nil {
		return nil
	}
	for _, f := range []struct {
		of              *client.OverviewFlow
		label, bad, url string
	}{
		{t.Sagas, "sagas started", "failed or undone", "/ui/sagas?created_from=-5m"},
		{t.Letters, "dead letters", "", "/ui/dlq/letters?created_from=-5m"},
		{t.Runs, "job runs ended", "failed", "/ui/runs?finished_from=-5m"},
	} {
		if f.of == nil {
			continue
		}
		line := flow{Label: f.label, Rate: perMinute(f.of), URL: f.url}
		if n := f.of.Failed; n != nil && *n > 0 {
			line.Failed = web.Count(*n) + " of " + web.Count(f.of.Count) + " " + f.bad
		}
		lines = append(lines, line)
	}
	return lines
}

// perMinute formats a rate in words.
func perMinute(f *client.OverviewFlow) string {
	switch n := f.PerMinute; {
	case f.Count == 0:
		return "none in 5 min"
	case n < 10:
		return strconv.FormatFloat(n, 'f', 1, 64) + " a minute"
	default:
		return web.Count(int(n+0.5)) + " a minute"
	}
}

// heading counts what needs a person's attention.
func heading(n int) string {
	words := []string{"Nothing needs action", "One thing needs", "Two things need", "Three things need",
		"Four things need", "Five things need", "Six things need", "Seven things need",
		"Eight things need", "Nine things need"}
	switch {
	case n == 0:
		return words[0]
	case n < len(words):
		return words[n] + " action"
	}
	return web.Count(n) + " things need action"
}

// signs are the marks of causes: those that ended badly, those that came back or are waiting, and
// those that concern this installation.
var signs = map[client.OverviewCauseKind]web.Badge{
	client.OverviewCauseKindSagasNeedAttention: {Shape: "▲", Word: "gave up", Tone: "bad"},
	client.OverviewCauseKindSagasStuck:         {Shape: "◷", Word: "stuck", Tone: "bad"},
	client.OverviewCauseKindGroupNew:           {Shape: "✱", Word: "new error", Tone: "undo"},
	client.OverviewCauseKindGroupRegressed:     {Shape: "↻", Word: "came back", Tone: "undo"},
	client.OverviewCauseKindRedriveHalted:      {Shape: "■", Word: "halted", Tone: "undo"},

	client.OverviewCauseKindRedriveAwaitingApproval: {Shape: "○", Word: "waits for approval", Tone: "wait"},

	client.OverviewCauseKindRunsFailed:         {Shape: "▲", Word: "failed", Tone: "bad"},
	client.OverviewCauseKindRunsLate:           {Shape: "◷", Word: "late", Tone: "undo"},
	client.OverviewCauseKindQueueWithoutWorker: {Shape: "■", Word: "no worker", Tone: "run"},
	client.OverviewCauseKindWorkerLost:         {Shape: "◌", Word: "silent", Tone: "undo"},
	client.OverviewCauseKindWebhookDisabled:    {Shape: "■", Word: "disabled", Tone: "bad"},
	client.OverviewCauseKindWebhookFailing:     {Shape: "▲", Word: "failing", Tone: "undo"},
	client.OverviewCauseKindParticipantHeld:    {Shape: "■", Word: "held", Tone: "bad"},
	client.OverviewCauseKindQueueHeld:          {Shape: "■", Word: "held", Tone: "run"},
	client.OverviewCauseKindNoLeader:           {Shape: "■", Word: "no leader", Tone: "bad"},
	client.OverviewCauseKindSweepLate:          {Shape: "◷", Word: "late", Tone: "bad"},
}

// steps are the labels on the button of a cause, by the operation that helps.
var steps = map[string]string{
	"resumeCompensation": "Resume", "acknowledgeSaga": "Acknowledge", "explainSaga": "See why", "explainJobRun": "See why",
	"retryDeadLetterGroup": "See", "createRedrive": "See", "retrySaga": "Retry",
	"resumeRedrive": "Open redrive", "approveRedrive": "Open redrive",
	"rerunJobRun": "Rerun", "detachWorker": "Open worker", "enableWebhook": "Open webhook",
	"testWebhook": "Open webhook", "getLeader": "See leader",
	"getParticipant": "Open participant", "releaseParticipant": "Open participant",
	"releaseJobQueue": "Open queue",
}

// rights describe what requires a permission that the visitor may lack, by the operation that
// helps.
var rights = map[string]string{
	"resumeCompensation": "resuming it", "acknowledgeSaga": "acknowledging it", "retrySaga": "retrying it",
	"retryDeadLetterGroup": "retrying it", "createRedrive": "retrying them", "resumeRedrive": "resuming it",
	"approveRedrive": "approving it", "rerunJobRun": "rerunning it", "detachWorker": "detaching it",
	"enableWebhook": "enabling it", "testWebhook": "testing it", "releaseParticipant": "releasing it",
	"releaseJobQueue": "releasing it",
}

// bulkSteps maps operations that help with one saga to bulk actions.
var bulkSteps = map[string]string{"resumeCompensation": "resume-compensation", "acknowledgeSaga": "acknowledge",
	"retrySaga": "retry"}

// nouns name what causes count, by the part of the system.
var nouns = map[client.OverviewPart]string{
	client.OverviewPartSagas: "sagas", client.OverviewPartDeadLetters: "letters", client.OverviewPartJobRuns: "runs",
}

// lettersOf returns the filter of a redrive that selects the letters of a cause, or nil if the
// cause is not an error of letters.
func lettersOf(c *client.OverviewCause) url.Values {
	switch c.Next.Operation {
	case "retryDeadLetterGroup":
		return url.Values{"fingerprint": {*c.ID}}
	case "createRedrive":
		return url.Values{"topic": {*c.Name}, "error_type": {*c.Code}}
	}
	return nil
}

// forAll returns the page that the button for a cause with many items opens, and the button's
// label. The page is either the form for a bulk operation that applies the step to all items, or
// the list of items.
func (p *pages) forAll(c *client.OverviewCause, list, step string) (page, label string) {
	if p.kit.ReadOnly {
		return list, "See"
	}
	filters, of := strings.CutPrefix(list, "/ui/sagas?")
	if action := bulkSteps[c.Next.Operation]; action != "" && of {
		return "/ui/sagas/bulk/new?" + filters + "&action=" + action, step
	}
	if filters, of := strings.CutPrefix(list, "/ui/runs?"); of && c.Next.Operation == "rerunJobRun" {
		if runs, err := url.ParseQuery(filters); err == nil {
			return web.RunBulk("rerun", runs), step
		}
	}
	return list, step
}

// needed returns the permission required for the action behind the button of a cause. An action on
// many runs requires a higher permission than one on a single run.
func needed(c *client.OverviewCause, act string) string {
	if strings.HasPrefix(act, "/ui/run-bulks/") {
		return "jobs:admin"
	}
	return c.Next.Permission
}

// pageOf returns the page that shows what an operation returns. Lists have the same parameters in
// the API and on the pages.
func pageOf(link string) string {
	if page, ok := known(link); ok {
		return page
	}
	return "/ui/search?" + url.Values{"q": {link}}.Encode()
}

// pagesOf maps operations to pages, longest paths first. Archived letters have the same page as
// live ones.
var pagesOf = []struct{ api, ui string }{
	{"/api/v1/sagas/bulk/", "/ui/sagas/bulk/"}, {"/api/v1/sagas", "/ui/sagas"}, {"/api/v1/workflows", "/ui/workflows"},
	{"/api/v1/participants", "/ui/participants"},
	{"/api/v1/job-runs/bulk", "/ui/run-bulks"}, {"/api/v1/job-runs", "/ui/runs"}, {"/api/v1/workers", "/ui/workers"},
	{"/api/v1/job-queues", "/ui/queues"}, {"/api/v1/job-definitions", "/ui/jobs"}, {"/api/v1/webhooks", "/ui/webhooks"},
	{"/api/v1/dlq/groups/", "/ui/dlq/groups/"}, {"/api/v1/dlq/groups", "/ui/dlq"},
	{"/api/v1/dlq/redrives", "/ui/redrives"},
	{"/api/v1/dlq/messages", "/ui/dlq/letters"}, {"/api/v1/dlq/archive/", "/ui/dlq/letters/"},
	{"/api/v1/dlq/archive", "/ui/dlq/archive"}, {"/api/v1/dlq/topics", "/ui/dlq/topics"},
	{"/api/v1/scheduler/leader", "/ui/workers"}, {"/api/v1/timeline", "/ui/timeline"},
}

// known returns the page for the path and query of an operation, if there is one.
func known(link string) (string, bool) {
	for _, page := range pagesOf {
		rest, ok := strings.CutPrefix(link, page.api)
		if ok && (rest == "" || strings.HasSuffix(page.api, "/") || strings.ContainsRune("/?", rune(rest[0]))) {
			return page.ui + rest, true
		}
	}
	return "", false
}

// singular returns the singular form of a figure's label.
var singular = strings.NewReplacer(
	"sagas need ", "saga needs ", "sagas ", "saga ", "letters ", "letter ", "runs ", "run ", "jobs ", "job ")

// figures returns the counts at the top of the page, except those that the visitor may not read.
func figures(c *client.OverviewCounts) (out []glanced) {
	for _, f := range []struct {
		of         *client.OverviewCount
		label, url string
	}{
		{c.SagasActive, "sagas active", "/ui/sagas?active=true"},
		{c.SagasNeedAttention, "sagas need attention", "/ui/sagas?needs_attention=true"},
		{c.LettersOpen, "dead letters open", "/ui/dlq"},
		{c.RunsFailed, "runs failed permanently, 24 h", "/ui/runs?state=FAILED&state=TIMED_OUT&gave_up=true&finished_from=-24h"},
		{c.RunsSkipped, "runs skipped, 24 h", "/ui/runs?state=SKIPPED&finished_from=-24h"},
		{c.RunsLate, "runs late", "/ui/runs?state=PENDING&late_by_min=1"},
		{c.DefinitionsPaused, "jobs paused", "/ui/jobs?paused=true"},
	} {
		if f.of != nil {
			label := f.label
			if f.of.Count == 1 {
				label = singular.Replace(label)
			}
			out = append(out, glanced{web.Count(f.of.Count, f.of.IsCapped), label, f.url})
		}
	}
	return out
}
