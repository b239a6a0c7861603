package browser_test

import (
	"crypto/rand"
	"encoding/base64"
	"strings"
	"testing"

	"github.com/skald-saga/skald/internal/config"
	"github.com/skald-saga/skald/internal/test/browser"
	"github.com/skald-saga/skald/internal/test/uitest"
)

// TestPeopleSignIn goes through journeys of people who must authenticate.
func TestPeopleSignIn(t *testing.T) {
	if !all() {
		return // make test-ui
	}
	var secret [32]byte
	if _, err := rand.Read(secret[:]); err != nil {
		t.Fatal(err)
	}
	admin := "skald_abcdefgh_" + base64.RawURLEncoding.EncodeToString(secret[:])
	s := uitest.Start(t, func(c *config.Config) { c.Auth.BootstrapAdminKey = config.Secret(admin) })
	s.Key = admin
	s.Must(t, "PATCH", "/dlq/policy", object{"auto_retry": false, "reason": "people decide here"})
	s.Must(t, "POST", "/workflows", object{"name": "slow", "steps": []object{{"name": "wait", "compensation": "none",
		"action": object{"http": object{"url": s.Participant + "/503/wait"}},
		"retry":  object{"max_attempts": 100, "initial_interval_ms": 60_000, "max_interval_ms": 60_000}}}})
	saga := s.Must(t, "POST", "/sagas", object{
		"workflow_name": "slow", "payload": object{"card": "4111111111111111"},
	})["saga_id"].(string)
	t.Run("an auditor sees what happens, and changes nothing", func(t *testing.T) { auditor(t, s, saga) })
	t.Run("a person of another tenant finds nothing of it", func(t *testing.T) { anotherTenant(t, s, saga) })
	t.Run("a session ends in mid-dialog", func(t *testing.T) { endOfASession(t, s, saga) })
}

// signIn creates a key with a role and signs a person in with it.
func signIn(t *testing.T, s *uitest.Server, role string) (*browser.Tab, string) {
	t.Helper()
	key := s.Must(t, "POST", "/api-keys", object{"name": role, "role": role})["key"].(string)
	tab := browser.Open(t)
	signInAs(tab, s.URL+"/ui/sign-in", key)
	tab.Until("the overview", `location.pathname === "/ui/"`)
	return tab, key
}

func signInAs(tab *browser.Tab, page, key string) {
	tab.Go(page)
	tab.Fill("input[name=credential]", key)
	tab.Click("button.first", "Sign in")
}

func auditor(t *testing.T, s *uitest.Server, saga string) {
	letter := s.Must(t, "POST", "/dlq/messages", object{
		"original_topic": "payments", "error_message": "Timeout", "payload": object{"card": "4111111111111111"},
		"target": object{"kind": "http", "url": s.Participant + "/accept"},
	})["id"].(string)
	tab, _ := signIn(t, s, "auditor")
	for _, path := range []string{
		"/ui/sagas/" + saga, "/ui/sagas/" + saga + "?tab=data", "/ui/sagas/" + saga + "?tab=json",
		"/ui/dlq/letters/" + letter,
		"/ui/dlq", "/ui/sagas", "/ui/jobs", "/ui/workflows",
	} {
		tab.Go(s.URL + path)
		tab.Until("the page", `document.querySelector("main h1")`)
		violations(t, tab, path+", as an auditor")
		var enabled []string
		tab.Eval(`[...document.querySelectorAll("main a, main form[method=post] button:enabled")]
			.filter(e => e.checkVisibility() && (e.textContent.trim().endsWith("…") || e.matches("[data-action], button")))
			.map(e => e.textContent)`, &enabled)
		if len(enabled) > 0 {
			t.Errorf("%s offers an auditor %q", path, enabled)
		}
		var text string
		if tab.Eval("document.documentElement.innerHTML", &text); strings.Contains(text, "4111") {
			t.Errorf("%s shows an auditor what is paid with", path)
		}
	}
	tab.Go(s.URL + "/ui/sagas/" + saga)
	tab.Until("disabled actions that say what they need", `document.querySelector("main .actions button:disabled[title^='needs sagas:']")`)
	tab.Go(s.URL + "/ui/sagas/" + saga + "?tab=data")
	tab.See("payloads:read")

	// An action that the page doesn't offer can't be sent from the page either.
	tab.Expect("403")
	for _, path := range []string{"/ui/access", "/ui/sagas/" + saga + "/actions/cancel"} {
		tab.Go(s.URL + path)
		violations(t, tab, path+", forbidden")
	}
	for _, path := range []string{
		"/ui/sagas/" + saga + "/actions/cancel", "/ui/dlq/letters/" + letter + "/actions/discard",
	} {
		var status int
		tab.Await(`fetch("`+path+`", {method: "POST", body: new URLSearchParams({do: "act", reason: "forged", key: "forged-1"})})
			.then(r => r.status)`, &status)
		if status != 403 {
			t.Errorf("a forged %s: %d", path, status)
		}
	}
	if state := s.Must(t, "GET", "/sagas/"+saga, nil)["state"]; state != "running" {
		t.Errorf("the saga is %s", state)
	}
}

// anotherTenant: people of another tenant don't see the first tenant's sagas in lists, nor can they
// find out that they exist by using their ids.
func anotherTenant(t *testing.T, s *uitest.Server, saga string) {
	key := s.Must(t, "POST", "/api-keys", object{
		"name": "elsewhere", "role": "operator", "tenant_id": "0198a5b0-0000-7000-8000-00000000000b",
	})["key"].(string)
	tab := browser.Open(t)
	signInAs(tab, s.URL+"/ui/sign-in?next=/ui/sagas", key)
	tab.See("No sagas yet")
	tab.Go(s.URL + "/ui/search?q=" + saga)
	tab.Until("the search", `document.querySelector("main h1")`)
	tab.Expect("404")
	for _, path := range []string{"/ui/sagas/" + saga, "/ui/sagas/" + saga + "/actions/cancel", "/api/v1/sagas/" + saga} {
		var status int
		if tab.Await(`fetch("`+path+`").then(r => r.status)`, &status); status != 404 {
			t.Errorf("%s: %d for a person of another tenant", path, status)
		}
	}
	var links int
	if tab.Eval(`document.querySelectorAll("main a[href*='`+saga+`']").length`, &links); links > 0 {
		t.Error("the search of another tenant finds the saga")
	}
}

func endOfASession(t *testing.T, s *uitest.Server, saga string) {
	tab, key := signIn(t, s, "operator")
	tab.Go(s.URL + "/ui/sagas/" + saga)
	tab.Click("a[data-action]", "Suspend")
	tab.Fill("dialog input[name=reason]", "the customer has called")
	for _, x := range s.Must(t, "GET", "/sessions", nil)["sessions"].([]any) {
		if session := x.(object); strings.Contains(session["subject"].(string), "operator") {
			s.Must(t, "DELETE", "/sessions/"+session["id"].(string), nil)
		}
	}
	tab.Expect("401")
	tab.Click("dialog button.first", "")
	tab.See("You are signed out. Your form is kept")
	var reason string
	if tab.Eval(`document.querySelector("dialog input[name=reason]").value`, &reason); reason != "the customer has called" {
		t.Errorf("the reason that was typed is %q", reason)
	}
	other := tab.Another(t)
	signInAs(other, s.URL+"/ui/sign-in?next=/ui/signed-in", key)
	other.See("You are signed in")
	tab.Front()
	tab.Click("dialog button.first", "")
	tab.See("Accepted")
	tab.See("suspended")
}
