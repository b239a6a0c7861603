package accesspages_test

import (
	"strings"
	"testing"

	"github.com/skald-saga/skald/internal/test/uitest"
)

func TestAuditAndSystemShowWhoChangedWhat(t *testing.T) {
	t.Parallel()
	const hostile = "<script>alert(1)</script>"
	s := uitest.Start(t)
	form := uitest.Form(pageOf(t, s, "/ui/system/settings/assign_ahead_seconds", 200, "assign_ahead_seconds"))
	form.Set("value", "no number")
	form.Set("reason", hostile)
	form.Set("do", "act")
	const setting = "/ui/system/settings/assign_ahead_seconds"
	if status, page, _ := s.Post(t, setting, form); !strings.Contains(page, "not a number") {
		t.Errorf("a value that is no number: %d\n%s", status, page)
	}
	form.Set("value", "120")
	if status, page, to := s.Post(t, setting, form); status != 303 || to != "/ui/system" {
		t.Fatalf("changing a setting: %d to %q\n%s", status, to, page)
	}
	if status, page, _ := s.Post(t, setting, form); status != 412 {
		t.Errorf("a change of what has changed since: %d\n%s", status, page)
	}
	key := map[string]any{"name": "a", "role": "auditor", "reason": hostile}
	if status, doc := s.Call(t, "POST", "/api-keys", key); status != 201 {
		t.Fatalf("a key: %d %v", status, doc)
	}
	for path, want := range map[string]string{
		"/ui/system":                     "&lt;script&gt;",
		"/ui/system/retention":           "sagas would be archived",
		"/ui/audit":                      "&lt;script&gt;",
		"/ui/audit?verb=no-such-verb":    "Clear filters",
		"/ui/audit?scope=deployment":     "assign_ahead_seconds",
		"/ui/audit/events":               "No saga has been started yet",
		"/ui/audit/verify?trail=actions": "Nothing that was checked has been tampered with",
		"/ui/audit/verify?hash=00":       "Audit",
		"/ui/access":                     "Revoke…",
		"/ui/access/sessions":            "Nobody is signed in",
		"/ui/access/permissions":         "createAPIKey",
	} {
		pageOf(t, s, path, 200, want)
	}
	pageOf(t, s, "/ui/audit?nothing=1", 400, "nothing")
	pageOf(t, s, "/ui/system/settings/none", 404, "no such page")
}

// pageOf returns a page that must say something, without text of a client as markup.
func pageOf(t *testing.T, s *uitest.Server, path string, status int, want string) string {
	t.Helper()
	got, page := s.Get(t, path)
	if got != status || !strings.Contains(page, want) {
		t.Errorf("%s: %d, without %q\n%s", path, got, want, page)
	}
	if strings.Contains(page, "<script>alert") || strings.Contains(page, " style=") {
		t.Errorf("%s contains text of a client as markup, or an inline style", path)
	}
	return page
}
