package systempages

import (
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/skald-saga/skald/api/client"
	"github.com/skald-saga/skald/internal/ui/web"
)

// found is the page of a search.
type found struct {
	Query   string
	Hits    []hit
	Places  []place
	Omitted []string
	Now     time.Time
}

// hit is a line of what was found.
type hit struct {
	client.SearchHit
	URL string
}

// place is a page, or the form of an action, that people go to by name.
type place struct{ Name, Path, words string }

// actions are forms that people ask for by name, with other words that they may use.
var actions = []place{
	{"Register a workflow", "/ui/register-workflow", "new definition upload"},
	{"Start a saga", "/ui/sagas/new", "new create run"},
	{"Act on many sagas", "/ui/sagas/bulk/new", "bulk cancel retry resume acknowledge"},
	{"Sagas by error", "/ui/sagas/errors", "group cluster failed"},
	{"Define a job", "/ui/jobs/new", "new job definition schedule cron"},
	{"Runs", "/ui/runs", "jobs executions"},
	{"Cancel or rerun many runs", "/ui/run-bulks/new", "bulk"},
	{"Calendar of jobs", "/ui/jobs/calendar", "schedule due slots"},
	{"Publish an event", "/ui/jobs/events/publish", "start runs"},
	{"Start a redrive", "/ui/redrives/new", "new retry dead letters"},
	{"Letters", "/ui/dlq/letters", "dead messages"},
	{"Import dead letters", "/ui/dlq/import", "upload ndjson"},
	{"Default policy of dead letters", "/ui/dlq/policy", "hold all auto retry"},
	{"Create a webhook", "/ui/webhooks/new", "new endpoint"},
	{"Create an API key", "/ui/access/keys/new", "new token"},
	{"Verify the audit trail", "/ui/audit/verify", "check chain seal"},
	{"Make the scheduler step down", "/ui/scheduler/step-down", "leader"},
	{"Sagas that need attention", "/ui/sagas?needs_attention=true", "failed stuck"},
	{"Manual", "/docs/", "help documentation docs"},
}

func (p *pages) search(v *web.Visit) (*web.Page, error) {
	d := found{Query: strings.TrimSpace(v.URL.Query().Get("q")), Now: v.Now}
	d.Places = append(pasted(d.Query), places(d.Query)...)
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
			d.Hits = append(d.Hits, hit{h, pageOf(h.Link)})
		}
		for _, o := range list.Omitted {
			d.Omitted = append(d.Omitted, web.Words(o.Part))
		}
	}
	page.Data = d
	return page, nil
}

// resource is what a pasted URL of the API or of a page names: the id behind its list. Anything else is looked for as
// it is.
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

// pasted is the page of a URL of the API or of a page: that of a list with its filters, or of what the id names.
func pasted(text string) []place {
	u, err := url.Parse(text)
	if err != nil {
		return nil
	}
	if _, rest, ok := strings.Cut(u.Path, "/ui/"); ok {
		return []place{{Name: "The page of this URL", Path: (&url.URL{Path: "/ui/" + rest, RawQuery: u.RawQuery}).String()}}
	}
	_, rest, ok := strings.Cut(u.EscapedPath(), "/api/v1/")
	if !ok {
		return nil
	}
	for parts := strings.Split(rest, "/"); len(parts) > 0; parts = parts[:len(parts)-1] {
		page, ok := known("/api/v1/" + strings.Join(parts, "/"))
		// Of what an id names there is one page, without those of its parts.
		if ok && strings.Count(page, "/") <= deepest(page) {
			if len(parts) == strings.Count(rest, "/")+1 && u.RawQuery != "" {
				page += "?" + u.RawQuery
			}
			return []place{{Name: "The page of this URL", Path: page}}
		}
	}
	return nil
}

// deepest is how many slashes the path of a page of one item has.
func deepest(page string) int {
	for _, p := range pagesOf {
		if ui := strings.TrimSuffix(p.ui, "/"); page == ui || strings.HasPrefix(page, ui+"/") {
			return strings.Count(ui, "/") + 1
		}
	}
	return 0
}

// places are the pages and actions whose name or words contain every word of what was typed.
func places(text string) (out []place) {
	all := slices.Clone(actions)
	for _, e := range web.Navigation() {
		if !slices.ContainsFunc(actions, func(a place) bool { return a.Path == e.Path }) {
			all = append(all, place{e.Name, e.Path, ""})
		}
	}
	words := strings.Fields(strings.ToLower(text))
	for _, one := range all {
		fits, has := true, strings.ToLower(one.Name+" "+one.words)
		for _, w := range words {
			fits = fits && strings.Contains(has, w)
		}
		if fits {
			out = append(out, one)
		}
	}
	return out
}
