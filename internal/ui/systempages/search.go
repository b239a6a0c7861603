package systempages

import (
	"cmp"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/skald-saga/skald/api/client"
	"github.com/skald-saga/skald/internal/ui/web"
)

// found is the page with the results of a search.
type found struct {
	Query   string
	Kinds   []hits // results by kind
	Actions []place
	Places  []place
	Omitted []string
	Now     time.Time
}

// hits contains the results of one kind. Kinds are in the order of their first hits.
type hits struct {
	Name string
	Hits []hit
}

// kindNames contains the plurals of the kinds of hits.
var kindNames = map[client.SearchHitKind]string{
	client.SearchHitKindSaga: "Sagas", client.SearchHitKindWorkflow: "Workflows", client.SearchHitKindTopic: "Topics",
	client.SearchHitKindDeadLetter: "Dead letters", client.SearchHitKindDeadLetterGroup: "Groups of dead letters",
	client.SearchHitKindRedrive: "Redrives", client.SearchHitKindJobDefinition: "Jobs", client.SearchHitKindJobRun: "Runs",
	client.SearchHitKindWebhook: "Webhooks", client.SearchHitKindWorker: "Workers",
}

// add adds a hit to the others of its kind.
func (d *found) add(h client.SearchHit) {
	name := cmp.Or(kindNames[h.Kind], web.Capital(web.Words(h.Kind)))
	i := slices.IndexFunc(d.Kinds, func(k hits) bool { return k.Name == name })
	if i < 0 {
		i, d.Kinds = len(d.Kinds), append(d.Kinds, hits{Name: name})
	}
	d.Kinds[i].Hits = append(d.Kinds[i].Hits, hit{h, pageOf(h.Link)})
}

// hit is one search result.
type hit struct {
	client.SearchHit
	URL string
}

// place is a page, or the form for an action, that people find by name.
type place struct {
	Name, Path, words string
	needs             string // the permission that an action requires; empty: it is a page
	deployment        bool   // it concerns all tenants
	Lacks             string // what else the visitor needs
}

// actions are forms that people find by name or by other words that they may use.
var actions = []place{
	{Name: "Register a workflow", Path: "/ui/register-workflow", words: "new definition upload", needs: "workflows:write"},
	{Name: "Start a saga", Path: "/ui/sagas/new", words: "new create run", needs: "sagas:write"},
	{Name: "Act on many sagas", Path: "/ui/sagas/bulk/new", words: "bulk cancel retry resume acknowledge", needs: "sagas:write"},
	{Name: "Sagas by error", Path: "/ui/sagas/errors", words: "group cluster failed"},
	{Name: "Define a job", Path: "/ui/jobs/new", words: "new job definition schedule cron", needs: "jobs:admin"},
	{Name: "Runs", Path: "/ui/runs", words: "jobs executions"},
	{Name: "Cancel or rerun many runs", Path: "/ui/run-bulks/new", words: "bulk", needs: "jobs:admin"},
	{Name: "Calendar of jobs", Path: "/ui/jobs/calendar", words: "schedule due slots"},
	{Name: "Publish an event", Path: "/ui/jobs/events/publish", words: "start runs", needs: "jobs:write"},
	{Name: "Start a redrive", Path: "/ui/redrives/new", words: "new retry dead letters", needs: "dlq:write"},
	{Name: "Letters", Path: "/ui/dlq/letters", words: "dead messages"},
	{Name: "Import dead letters", Path: "/ui/dlq/import", words: "upload ndjson", needs: "dlq:admin"},
	{Name: "Default policy of dead letters", Path: "/ui/dlq/policy", words: "hold all auto retry", needs: "dlq:admin"},
	{Name: "Create a webhook", Path: "/ui/webhooks/new", words: "new endpoint", needs: webhookAdmin},
	{Name: "Create an API key", Path: "/ui/access/keys/new", words: "new token", needs: "access:admin"},
	{Name: "Verify the audit trail", Path: "/ui/audit/verify", words: "check chain seal"},
	{Name: "Make the scheduler step down", Path: "/ui/scheduler/step-down", words: "leader", needs: "jobs:admin",
		deployment: true},
	{Name: "Sagas that need attention", Path: "/ui/sagas?needs_attention=true", words: "failed stuck"},
	{Name: "Manual", Path: "/docs/", words: "help documentation docs"},
}

func (p *pages) search(v *web.Visit) (*web.Page, error) {
	d := found{Query: strings.TrimSpace(v.URL.Query().Get("q")), Now: v.Now}
	d.Places = pasted(d.Query)
	for _, one := range p.places(v, d.Query) {
		if one.needs != "" {
			d.Actions = append(d.Actions, one)
		} else {
			d.Places = append(d.Places, one)
		}
	}
	page := &web.Page{Template: "search", Title: "Go to anything"}
	if d.Query != "" {
		res, err := p.kit.Client.SearchWithResponse(v.Context(), &client.SearchParams{Q: resource(d.Query)})
		if err != nil {
			return nil, err
		}
		list, err := web.Got(res.JSON200, res.ApplicationProblemJSONDefault)
		if err != nil {
			return nil, err
		}
		for _, h := range list.Hits {
			d.add(h)
		}
		for _, o := range list.Omitted {
			d.Omitted = append(d.Omitted, web.Words(o.Part))
		}
	}
	page.Data = d
	return page, nil
}

// resource returns the id that a pasted URL of the API or of a page names after its list. Any other
// text is searched for unchanged.
func resource(text string) string {
	path, _, _ := strings.Cut(text, "?")
	for _, root := range []string{"/api/v1/", "/ui/"} {
		_, rest, ok := strings.Cut(path, root)
		if !ok {
			continue
		}
		parts := strings.Split(rest, "/")
		if parts[0] == "dlq" && len(parts) > 1 {
			parts = parts[1:]
		}
		if len(parts) > 1 && parts[1] != "" {
			return parts[1]
		}
	}
	return text
}

// pasted returns the page for a URL of the API or of a page: the page of a list with its filters,
// or the page of the item that an id names.
func pasted(text string) []place {
	u, err := url.Parse(text)
	if err != nil {
		return nil
	}
	if _, rest, ok := strings.Cut(u.Path, "/ui/"); ok {
		return []place{{Name: "The page for this URL", Path: (&url.URL{Path: "/ui/" + rest, RawQuery: u.RawQuery}).String()}}
	}
	_, rest, ok := strings.Cut(u.EscapedPath(), "/api/v1/")
	if !ok {
		return nil
	}
	for parts := strings.Split(rest, "/"); len(parts) > 0; parts = parts[:len(parts)-1] {
		page, ok := known("/api/v1/" + strings.Join(parts, "/"))
		// An item has a single page, without separate pages for its parts.
		if ok && strings.Count(page, "/") <= deepest(page) {
			if len(parts) == strings.Count(rest, "/")+1 && u.RawQuery != "" {
				page += "?" + u.RawQuery
			}
			return []place{{Name: "The page for this URL", Path: page}}
		}
	}
	return nil
}

// deepest returns the number of slashes in the path of a page for one item.
func deepest(page string) int {
	for _, p := range pagesOf {
		if ui := strings.TrimSuffix(p.ui, "/"); page == ui || strings.HasPrefix(page, ui+"/") {
			return strings.Count(ui, "/") + 1
		}
	}
	return 0
}

// places returns the pages and actions whose name or words contain every typed word.
func (p *pages) places(v *web.Visit, text string) (out []place) {
	all := slices.Clone(actions)
	for _, e := range web.Navigation() {
		if !slices.ContainsFunc(actions, func(a place) bool { return a.Path == e.Path }) {
			all = append(all, place{Name: e.Name, Path: e.Path})
		}
	}
	words := strings.Fields(strings.ToLower(text))
	for _, one := range all {
		fits, has := true, strings.ToLower(one.Name+" "+one.words)
		for _, w := range words {
			fits = fits && strings.Contains(has, w)
		}
		if fits && (one.needs == "" || !p.kit.ReadOnly) {
			one.Lacks = v.Lacks(one.needs, one.deployment)
			out = append(out, one)
		}
	}
	return out
}
