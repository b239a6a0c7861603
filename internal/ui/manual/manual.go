// Package manual serves the pages of docs/ below /docs/, with a search and the API reference. The
// manual that a server links to therefore matches the server's own version, and is available
// without internet access.
//
// Files, each on top of those before it: render, spelling, search, contract, reference, manual.
package manual

import (
	"embed"
	"html/template"
	"net/http"
	"slices"
	"strings"
	"sync"

	"github.com/skald-saga/skald/docs"
	"github.com/skald-saga/skald/internal/ui/web"
)

//go:embed templates
var templates embed.FS

// manual contains all chapters.
type manual struct {
	chapters map[string]*chapter
	groups   []group
	words    func() vocabulary // created for the first search without results
}

// manuals returns the manual. It is rendered when its first page is requested, so that other nodes
// save the memory.
type manuals func() (*manual, error)

// group of chapters in the navigation.
type group struct {
	Title    string
	Chapters []*chapter
}

// order is the order of chapters in the navigation. Chapters that it does not list come last.
var order = []struct{ title, chapters string }{
	{"First steps", "start ui"},
	{"Sagas", "workflows simulation participants certification coming-from state-machines saga-jobs bulk"},
	{"Dead letters", "dlq redrives dlq-sagas kafka"},
	{"Jobs", "jobs schedules workers"},
	{"For other systems", "problems events webhooks stability"},
	{"Running Skald", "install configuration operations proxies alerts reliability security tenants lifecycle performance"},
	{"Inside", "architecture"},
}

// view is the data for the pages.
type view struct {
	Groups  []group
	Chapter *chapter // nil for the search
	Query   string
	Meant   string // the words that were searched for, if they differ from the query
	Hits    []hit
	Address string // address of this server
	Source  string // source of the program, which is the only link to another server
}

// Body returns the chapter with the address of this server in its commands.
func (p view) Body() template.HTML {
	//nolint:gosec // the address comes from the configuration or contains only characters valid in addresses
	return template.HTML(strings.ReplaceAll(string(p.Chapter.Body), written, p.Address))
}

// Register adds the manual to the kit. Its pages do not require signing in.
func Register(k *web.Kit) error {
	m := manuals(sync.OnceValues(func() (*manual, error) {
		all, err := read(docs.Files, k.Base)
		m := &manual{chapters: all, groups: grouped(all)}
		m.words = sync.OnceValue(func() vocabulary { return vocabularyOf(all) })
		return m, err
	}))
	if err := k.Templates(templates); err != nil {
		return err
	}
	api := &reference{base: k.Base}
	k.OpenPage("GET /docs/api", api.index)
	k.OpenPage("GET /docs/api/{topic}", api.topic)
	k.OpenPage("GET /docs/api/schemas/{name}", api.schema)
	k.Handle("GET /docs/images/{$}", http.NotFoundHandler()) // no list of files
	k.Handle("GET /docs/images/", http.StripPrefix("/docs/", http.FileServerFS(docs.Files)))
	k.OpenPage("GET /docs/{$}", m.home)
	k.OpenPage("GET /docs/{chapter}", m.show)
	return nil
}

func grouped(all map[string]*chapter) (groups []group) {
	rest := map[string]*chapter{}
	for name, c := range all {
		rest[name] = c
	}
	for _, o := range order {
		g := group{Title: o.title}
		for _, name := range strings.Fields(o.chapters) {
			if c := rest[name]; c != nil {
				g.Chapters = append(g.Chapters, c)
				delete(rest, name)
			}
		}
		groups = append(groups, g)
	}
	if len(rest) > 0 {
		more := group{Title: "More"}
		for _, c := range rest {
			more.Chapters = append(more.Chapters, c)
		}
		slices.SortFunc(more.Chapters, func(a, b *chapter) int { return strings.Compare(a.Title, b.Title) })
		groups = append(groups, more)
	}
	return groups
}

func (render manuals) home(v *web.Visit) (*web.Page, error) {
	m, err := render()
	if err != nil {
		return nil, err
	}
	query := v.URL.Query().Get("q")
	title := "Manual"
	if query != "" {
		title = "Search the manual"
	}
	data := view{Groups: m.groups, Query: query, Address: v.Address(), Source: repository}
	data.Hits, data.Meant = m.search(query)
	return &web.Page{Template: "manual", Title: title, Nav: "Manual", Data: data}, nil
}

func (render manuals) show(v *web.Visit) (*web.Page, error) {
	m, err := render()
	if err != nil {
		return nil, err
	}
	// Links in the repository end in .md, and people may also type such links.
	c := m.chapters[strings.TrimSuffix(v.PathValue("chapter"), ".md")]
	if c == nil {
		return nil, web.ErrNoPage
	}
	return &web.Page{Template: "manual", Title: c.Title, Nav: "Manual",
		Data: view{Groups: m.groups, Chapter: c, Address: v.Address(), Source: repository}}, nil
}
