package config

import (
	"net/url"
	"regexp"
	"strings"
)

// UI configures the pages for people.
type UI struct {
	Mode   UIMode   `key:"mode" validate:"oneof=full read_only off" doc:"With full, the pages show everything and offer the actions that the visitor is permitted to take. With read_only, they offer no actions. With off, there are no pages."`
	Title  string   `key:"title" validate:"max=60" doc:"Name of this installation, shown in a bar on every page, such as PRODUCTION; empty means no bar."`
	Colour string   `key:"colour" validate:"omitempty,oneof=red amber green blue" doc:"Colour of that bar; empty means grey."`
	Links  []string `key:"links" validate:"dive,ui_link" doc:"Links to other tools, shown next to a trace id or a correlation id: the name, =, and a URL that contains {trace_id} or {correlation_id}, such as Jaeger=https://jaeger.example/trace/{trace_id}. A comma in the URL is written %2C."`
}

// UIMode decides whether there are pages and what they offer.
type UIMode string

// The modes.
const (
	UIFull     UIMode = "full"
	UIReadOnly UIMode = "read_only"
	UIOff      UIMode = "off"
)

// Link is a template of a link to another tool.
type Link struct{ Name, URL string }

// linkOf reads an entry of ui.links.
func linkOf(entry string) (Link, bool) {
	name, to, _ := strings.Cut(entry, "=")
	l := Link{strings.TrimSpace(name), strings.TrimSpace(to)}
	u, err := url.Parse(strings.NewReplacer("{trace_id}", "x", "{correlation_id}", "x").Replace(l.URL))
	_, host, _ := strings.Cut(l.URL, "://")
	if end := strings.IndexAny(host, "/?#"); end >= 0 {
		host = host[:end]
	}
	// Clients choose correlation IDs, so these must not determine the server that a link leads to.
	ok := err == nil && !strings.ContainsAny(host, "{}") && u.Host != "" && (u.Scheme == "https" || u.Scheme == "http") &&
		l.Name != "" && len(l.Name) <= 60 &&
		(strings.Contains(l.URL, "{trace_id}") || strings.Contains(l.URL, "{correlation_id}"))
	return l, ok
}

func uiLink(entry string) bool {
	_, ok := linkOf(entry)
	return ok
}

// Templates returns the templates of the pages' links.
func (u UI) Templates() (all []Link) {
	for _, entry := range u.Links {
		if l, ok := linkOf(entry); ok {
			all = append(all, l)
		}
	}
	return all
}

var basePath = regexp.MustCompile(`^(/[A-Za-z0-9._~-]*[A-Za-z0-9_~-])+$`)

// publicURL reports whether s is a URL to which a path can be appended.
func publicURL(s string) bool {
	u, err := url.Parse(s)
	return err == nil && (u.Scheme == "https" || u.Scheme == "http") && u.Host != "" && u.User == nil &&
		u.RawQuery == "" && !u.ForceQuery && u.Fragment == "" && !strings.HasSuffix(s, "#") &&
		(u.Path == "" || basePath.MatchString(u.Path))
}
