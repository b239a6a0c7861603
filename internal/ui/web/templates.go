package web

import (
	"fmt"
	"html/template"
	"io/fs"
	"net/url"
	"strings"
	"sync"
	"time"
)

// Templates adds the pages in the folder "templates" of a subject. There is one file for each page,
// which defines "content". Names are unique across subjects. A file whose name begins with "parts"
// defines parts for the pages in its own folder. A file whose name begins with "action-" is the
// form for an action that lays out its own fields.
func (k *Kit) Templates(own fs.FS) error {
	pages, err := k.parse(own)
	if err != nil {
		return fmt.Errorf("web UI: %w", err)
	}
	for name, t := range pages {
		if k.pages[name] != nil {
			return fmt.Errorf("web UI: two packages define the page %q", name)
		}
		k.pages[name] = t
	}
	return nil
}

// Prepare prepares every page for tests, because otherwise a page with a mistake fails only when it
// is requested.
func (k *Kit) Prepare() error {
	for name, p := range k.pages {
		if _, err := p.ready(); err != nil {
			return fmt.Errorf("page %s: %w", name, err)
		}
	}
	return nil
}

// parse reads the folder "templates" of a subject. A page is prepared when it is first shown.
// html/template copies and escapes the layout and the parts for each page, which takes more memory
// than the rest of the pages; a server whose pages are never viewed needs none of it.
func (k *Kit) parse(own fs.FS) (map[string]*parsed, error) {
	shared, err := k.shared()
	if err != nil {
		return nil, err
	}
	if parts, _ := fs.Glob(own, "templates/parts*.html"); len(parts) > 0 {
		if shared, err = shared.ParseFS(own, parts...); err != nil {
			return nil, err
		}
	}
	names, err := fs.Glob(own, "templates/*.html")
	if err != nil {
		return nil, err
	}
	pages := map[string]*parsed{}
	for _, n := range names {
		if strings.HasPrefix(n, "templates/parts") {
			continue
		}
		pages[strings.TrimSuffix(strings.TrimPrefix(n, "templates/"), ".html")] = &parsed{
			ready: sync.OnceValues(func() (*template.Template, error) { return pageOf(shared, own, n) }),
		}
	}
	return pages, nil
}

// shared parses the layout and the parts of all pages once; subjects get copies.
func (k *Kit) shared() (*template.Template, error) {
	if k.common == nil {
		t, err := template.New("").Funcs(k.functions()).ParseFS(files, "templates/parts*.html")
		if err != nil {
			return nil, err
		}
		if _, err := t.New("layout.html").Parse(layout); err != nil {
			return nil, err
		}
		k.common = t
	}
	return k.common.Clone()
}

// pageOf adds a page to a copy of the templates that it shares with others.
func pageOf(shared *template.Template, own fs.FS, name string) (*template.Template, error) {
	t, err := shared.Clone()
	if err != nil {
		return nil, err
	}
	if strings.HasPrefix(name, "templates/action-") {
		if t, err = t.ParseFS(files, "templates/action.html"); err != nil {
			return nil, err
		}
	}
	return t.ParseFS(own, name)
}

// functions are the functions that templates may call.
func (k *Kit) functions() template.FuncMap {
	return template.FuncMap{
		"ago": Ago, "moment": Moment,
		"duration": Duration, "ms": Milliseconds, "count": Count, "bytes": Bytes, "percent": Percent,
		"hourly": Hourly,
		"json":   Tree, "value": Value, "badge": BadgeOf, "sagabadge": SagaBadge,
		"bulkbadge": BulkBadge, "fillbadge": BackfillBadge,
		"short": Short, "clip": Clip, "clipped": Clipped,
		"words": Words, "prose": Prose, "capital": Capital, "named": Named,
		"stamp":     Stamp,
		"when":      When,
		"clock":     func(t time.Time) string { return t.UTC().Format("15:04:05") },
		"day":       func(t time.Time) string { return t.UTC().Format("2006-01-02 15:04:05") },
		"minute":    Minute,
		"deref":     deref,
		"base":      func() string { return k.Base },
		"segment":   url.PathEscape,
		"elsewhere": func(trace, correlation any) []Link { return k.Elsewhere(text(trace), text(correlation)) },
		"replace":   strings.ReplaceAll, "lower": strings.ToLower, "join": strings.Join,
		"add":  func(a, b int) int { return a + b },
		"data": dict,
		"list": func(all ...any) []any { return all },
	}
}

// dict makes a map of names and values, for parts that need several values.
func dict(pairs ...any) (map[string]any, error) {
	if len(pairs)%2 != 0 {
		return nil, fmt.Errorf("data: a name without a value")
	}
	m := map[string]any{}
	for i := 0; i < len(pairs); i += 2 {
		name, ok := pairs[i].(string)
		if !ok {
			return nil, fmt.Errorf("data: %v is not a name", pairs[i])
		}
		m[name] = pairs[i+1]
	}
	return m, nil
}
