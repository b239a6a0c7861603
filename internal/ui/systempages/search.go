package systempages

import (
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
	{"Define a job", "/ui/jobs/new", "new job definition schedule cron"},
	{"Start a redrive", "/ui/redrives/new", "new retry dead letters"},
	{"Sagas that need attention", "/ui/sagas?needs_attention=true", "failed stuck"},
	{"Manual", "/docs/", "help documentation docs"},
}

func (p *pages) search(v *web.Visit) (*web.Page, error) {
	d := found{Query: strings.TrimSpace(v.URL.Query().Get("q")), Now: v.Now}
	d.Places = places(d.Query)
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

// places are the pages and actions whose name or words contain every word of what was typed.
func places(text string) (out []place) {
	all := slices.Clone(actions)
	for _, e := range web.Navigation() {
		all = append(all, place{e.Name, e.Path, ""})
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
