package app_test

import (
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/skald-saga/skald/internal/config"
)

// TestPagesThatOnlyShowOfferNothing reads every page of an installation with ui.mode read_only, as administrators who
// may do everything: none has a form or a link that changes something, and whatever is sent nevertheless is refused.
func TestPagesThatOnlyShowOfferNothing(t *testing.T) {
	t.Parallel()
	a := newCanaryNode(t, nil)
	a.learn(contractOf(t, a.url))
	a.writeAll()
	shows := start(t, a.dsn, "shows", bootstrapped(a.root), func(c *config.Config) { c.UI.Mode = config.UIReadOnly })
	m := &rights{crawl: newCrawl(a, shows.url, 3), forms: formsOf(t), where: map[string][]string{}}
	owner, root := a.visitor("owner", a.owner), a.visitor("any tenant", a.root)
	pages := m.pages()
	if len(pages) < 150 {
		t.Errorf("only %d pages", len(pages))
	}
	shown := 0
	for _, path := range pages {
		for _, who := range []visitor{owner, root} {
			status, doc, _ := m.asked(http.MethodGet, path, who, nil)
			if status == http.StatusOK {
				shown++
			}
			o := &offers{enabled: map[string]string{}, disabled: map[string]bool{}}
			own, _, _ := strings.Cut(path, "?")
			m.offersIn(doc, own, nil, o)
			if len(o.enabled)+len(o.disabled) > 0 || formIn(doc) != nil {
				t.Errorf("%s offers %s %v %v", path, who.name, sorted(o.enabled), sorted(o.disabled))
			}
		}
	}
	if shown < len(pages) {
		t.Errorf("only %d of %d pages are shown", shown, len(pages))
	}
	for _, pattern := range patterns(t) {
		m.refused(pattern, owner)
	}
}

// refused sends a form to a pattern, with ids of what the owner has.
func (m *rights) refused(pattern string, who visitor) {
	m.a.t.Helper()
	method, path, both := strings.Cut(pattern, " ")
	if !both || method != http.MethodPost || strings.HasPrefix(path, "/ui/sign-") {
		return
	}
	for _, verb := range []string{"cancel", "retry", "resolve", "pause", "update"} {
		path = strings.NewReplacer("{verb}", verb, "{action}", verb, "{setting}", "assign_ahead_seconds").Replace(path)
		for _, to := range m.pathsOf("GET " + path) {
			status, _, text := m.asked(http.MethodPost, to, who, url.Values{"do": {"act"}, "reason": {"x"}, "key": {"k"}})
			if status != http.StatusForbidden || !strings.Contains(text, "ui.mode is read_only") {
				m.a.t.Errorf("POST %s: %d", to, status)
			}
			if status, _, _ := m.asked(http.MethodGet, to, who, nil); status != http.StatusNotFound {
				m.a.t.Errorf("the form %s: %d", to, status)
			}
		}
	}
}
