package workflowpages

import (
	"encoding/json"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/skald-saga/skald/api/client"
	"github.com/skald-saga/skald/internal/ui/web"
)

// workflowPage shows one workflow at one of its versions.
type workflowPage struct {
	*client.Workflow
	Steps    []step
	Graph    *graph
	Served   []*served // hosts that the steps call
	Versions []versionRow
	Older    []versionRow // older versions with unfinished sagas
	OlderSum int64
	More     string // URL of the page of older versions; empty: all are shown
	Counts   *counts
	Current  *figures
	Tab      string
	Tabs     []web.Tab
	Text     string          // the definition as YAML
	Raw      json.RawMessage // the definition as JSON, if requested
	Stays    string          // how long ended sagas stay live; empty: the server's default
	Retry    string          // for all steps that specify none
	UndoRe   string
	Against  int // the version to compare with; 0: none
	Changes  changes
	Diff     []web.DiffLine
	Timing   *timing
	Series   *series
	Actions  []web.Button
	Register *web.Button // button for registering a new version; nil: the pages are read-only
	Now      time.Time
}

type versionRow struct {
	client.Workflow
	*figures
	Previous int // the preceding version; 0: this is the first one
}

// SagasOf returns the URL of the list of a version's unfinished sagas.
func (d *workflowPage) SagasOf(version int) string {
	return "/ui/sagas?" + url.Values{
		"definition_id": {versionID(d.Name, version)}, "lifecycle": {"active", "compensating"},
	}.Encode()
}

// At returns the query of this page for a version, with other parameters given as pairs.
func (d *workflowPage) At(version int, more ...string) string {
	q := url.Values{"v": {strconv.Itoa(version)}}
	for i := 0; i+1 < len(more); i += 2 {
		q.Set(more[i], more[i+1])
	}
	return "?" + q.Encode()
}

var workflowTabs = []string{"Steps", "Performance", "Over time", "Definition", "Versions", "Changes", "Simulate"}

// simulatePath is not below the workflow's path, where it would hide a workflow with that name.
const simulatePath = "/ui/simulate-workflow"

// tabOf returns the value of the parameter tab.
func tabOf(name string) string { return strings.ReplaceAll(strings.ToLower(name), " ", "-") }

func (p *pages) workflow(v *web.Visit) (*web.Page, error) {
	name := v.PathValue("workflow")
	d := &workflowPage{Tab: v.URL.Query().Get("tab"), Now: v.Now}
	d.Register = p.registerButton(v, "New version", registerPath+"?"+url.Values{"name": {name}}.Encode())
	if d.Tab == "simulate" || !slices.ContainsFunc(workflowTabs, func(t string) bool { return tabOf(t) == d.Tab }) {
		d.Tab = "steps"
		if v.URL.Query().Has("diff") {
			d.Tab = "changes"
		}
	}
	versions, err := p.versionsOf(v, name, v.Query("cursor"))
	if err != nil {
		return nil, err
	}
	if len(versions.Workflows) == 0 {
		return nil, web.ErrNoPage
	}
	version := versions.Workflows[0].LatestVersion
	if asked := v.URL.Query().Get("v"); asked != "" {
		if version, err = number(asked); err != nil {
			return nil, err
		}
	}
	w, err := p.version(v, name, version)
	if err != nil {
		return nil, err
	}
	d.Workflow = w.Workflow
	if d.Counts, err = p.countsOf(v, &name, ""); err != nil {
		return nil, err
	}
	d.Current = d.Counts.Of(name, version)
	d.rows(versions)
	if d.Definition != nil {
		d.Steps = stepsOf(d.Definition)
		d.Graph = newGraph(d.Steps)
		d.Stays = retentionWords(d.Definition.Retention)
		d.Retry, d.UndoRe = policyWords(d.Definition.Retry), policyWords(d.Definition.CompensationRetry)
	}
	switch d.Tab {
	case "steps":
		if d.Definition != nil {
			d.Served, err = p.servedOf(v, d.Definition)
		}
	case "performance":
		d.Timing, err = p.timingOf(v, name, version)
	case "over-time":
		d.Series, err = p.seriesOf(v, name)
	case "definition":
		if v.URL.Query().Get("as") == "json" {
			d.Raw = w.raw
		} else {
			d.Text = asYAML(w.raw)
		}
	case "changes":
		err = p.compare(v, d, w.raw)
	}
	if err != nil {
		return nil, err
	}
	d.Tabs = p.tabsOf(w.Workflow, d.Tab, d.Counts.Refused)
	d.Actions = p.buttonsOf(v, w.Workflow)
	return &web.Page{Template: "workflow", Title: name, Nav: "Workflows", Refresh: 10, Data: d}, nil
}

// tabsOf returns the views of a version. uncounted means that the visitor may not see figures. If
// there is only one version, there is no view of changes.
func (p *pages) tabsOf(w *client.Workflow, current string, uncounted bool) (tabs []web.Tab) {
	base, version := p.kit.Base, strconv.Itoa(w.Version)
	for _, t := range workflowTabs {
		tab := tabOf(t)
		if uncounted && (tab == "performance" || tab == "over-time") || p.kit.ReadOnly && tab == "simulate" ||
			tab == "changes" && w.LatestVersion == 1 && current != tab {
			continue
		}
		at := base + pathOf(w.Name) + "?" + url.Values{"v": {version}, "tab": {tab}}.Encode()
		if tab == "simulate" {
			at = base + simulatePath + "?" + url.Values{"name": {w.Name}, "v": {version}}.Encode()
		}
		tabs = append(tabs, web.Tab{Name: t, URL: at, Current: tab == current})
	}
	return tabs
}

// number parses the version in the URL.
func number(s string) (int, error) {
	n, err := strconv.ParseInt(s, 10, 32)
	if err != nil || n < 1 {
		return 0, web.Malformed("The version must be a number from 1.")
	}
	return int(n), nil
}

func (p *pages) versionsOf(v *web.Visit, name string, cursor *string) (*client.WorkflowList, error) {
	res, err := p.kit.Client.ListWorkflowVersionsWithResponse(v.Context(), name,
		&client.ListWorkflowVersionsParams{PageSize: new(int32(50)), Cursor: cursor})
	if err != nil {
		return nil, err
	}
	return web.Got(res.JSON200, res.ApplicationProblemJSONDefault)
}

// stored is a version of a workflow as sent by the API.
type stored struct {
	*client.Workflow
	raw  json.RawMessage // the definition
	etag string          // ETag of the workflow
}

func (p *pages) version(v *web.Visit, name string, version int) (*stored, error) {
	res, err := p.kit.Client.GetWorkflowVersionWithResponse(v.Context(), name, int32(version),
		&client.GetWorkflowVersionParams{})
	if err != nil {
		return nil, err
	}
	w, err := web.Got(res.JSON200, res.ApplicationProblemJSONDefault)
	if err != nil {
		return nil, err
	}
	var sent struct {
		Definition json.RawMessage `json:"definition"`
	}
	if err := json.Unmarshal(res.Body, &sent); err != nil {
		return nil, err
	}
	return &stored{w, sent.Definition, res.HTTPResponse.Header.Get("ETag")}, nil
}

// latest returns the latest version of a workflow. It returns nil without an error if there is no
// such workflow.
func (p *pages) latest(v *web.Visit, name string) (*stored, error) {
	versions, err := p.versionsOf(v, name, nil)
	switch {
	case web.NotFound(err):
		return nil, nil
	case err != nil:
		return nil, err
	case len(versions.Workflows) == 0:
		return nil, nil
	}
	return p.version(v, name, versions.Workflows[0].LatestVersion)
}

// rows returns the versions with their figures.
func (d *workflowPage) rows(list *client.WorkflowList) {
	for i, w := range list.Workflows {
		row := versionRow{Workflow: w, figures: d.Counts.Of(w.Name, w.Version)}
		switch {
		case i+1 < len(list.Workflows):
			row.Previous = list.Workflows[i+1].Version
		case list.Pagination.NextCursor != nil:
			row.Previous = w.Version - 1
		}
		d.Versions = append(d.Versions, row)
	}
	for version, f := range d.Counts.versions[d.Name] {
		if version < d.LatestVersion && f.Live() > 0 {
			d.Older = append(d.Older, versionRow{Workflow: client.Workflow{Name: d.Name, Version: version}, figures: f})
			d.OlderSum += f.Live()
		}
	}
	slices.SortFunc(d.Older, func(a, b versionRow) int { return b.Version - a.Version })
	if next := list.Pagination.NextCursor; next != nil {
		d.More = d.At(d.Version, "tab", "versions", "cursor", *next)
	}
}

// compare compares the version with the one in the parameter diff or, by default, with the previous
// one.
func (p *pages) compare(v *web.Visit, d *workflowPage, raw json.RawMessage) (err error) {
	d.Against = d.Version - 1
	if asked := v.URL.Query().Get("diff"); asked != "" {
		if d.Against, err = number(asked); err != nil {
			return err
		}
	}
	if d.Against == 0 {
		return nil
	}
	before, err := p.version(v, d.Name, d.Against)
	if err != nil {
		return err
	}
	d.Diff = web.Diff(asYAML(before.raw), asYAML(raw))
	d.Changes, err = changesOf(before.raw, raw)
	return err
}
