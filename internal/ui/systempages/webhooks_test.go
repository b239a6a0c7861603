package systempages_test

import (
	"net/url"
	"strings"
	"testing"

	"github.com/skald-saga/skald/internal/test/patience"
	"github.com/skald-saga/skald/internal/test/uitest"
)

const hostile = `<script>alert(1)</script>`

// webhooksTest walks through the pages of a server.
type webhooksTest struct {
	*testing.T
	*uitest.Server
}

// has checks that a page contains all of these texts, and no text from a client as markup.
func (t webhooksTest) has(path string, status int, page string, want int, texts ...string) {
	t.Helper()
	if status != want || !strings.Contains(page, "</html>") {
		t.Errorf("%s: answered %d, want %d", path, status, want)
	}
	for _, text := range texts {
		if !strings.Contains(page, text) {
			t.Errorf("%s does not say %q:\n%s", path, text, page)
		}
	}
	for _, never := range []string{hostile, " style=", "<script>", "onclick"} {
		if strings.Contains(page, never) {
			t.Errorf("%s contains %q", path, never)
		}
	}
}

func (t webhooksTest) get(path string, want int, texts ...string) string {
	t.Helper()
	status, page := t.Get(t, path)
	t.has(path, status, page, want, texts...)
	return page
}

// act fills in the form at a path and sends it.
func (t webhooksTest) act(path string, fields url.Values, want int, texts ...string) (page, to string) {
	t.Helper()
	form := uitest.Form(t.get(path, 200))
	for name, values := range fields {
		form[name] = values
	}
	form.Set("do", "act")
	status, page, to := t.Post(t, path, form)
	if want == 303 {
		if status != 303 {
			t.Fatalf("%s: answered %d:\n%s", path, status, page)
		}
		return page, to
	}
	t.has(path, status, page, want, texts...)
	return page, to
}

// TestAWebhookFromItsCreationToItsDeletion creates a webhook through the form, sends it a test that fails, sends that
// again, rotates the secret, and deletes it.
func TestAWebhookFromItsCreationToItsDeletion(t *testing.T) {
	s := webhooksTest{t, uitest.Start(t)}
	s.get("/ui/webhooks", 200, "No webhooks yet", "curl -X POST")
	s.act("/ui/webhooks/new", url.Values{"url": {"no url"}}, 422, "WEBHOOK_INVALID")
	page, _ := s.act("/ui/webhooks/new", url.Values{
		"url": {s.Participant + "/503/hook?" + url.QueryEscape(hostile)}, "description": {hostile},
		"event_types": {"saga.completed\r\nsaga.failed"}, "workflow_names": {"nobody"}, "reason": {hostile},
	}, 200, "whsec_", "removeprefix", "webhooks.Verify", "openssl dgst", "<code>nobody</code>")
	_, doc := s.Call(t, "GET", "/webhooks", nil)
	hook := doc["webhooks"].([]any)[0].(map[string]any)
	one := "/ui/webhooks/" + hook["id"].(string)
	if !strings.Contains(page, one) {
		t.Errorf("the secret does not lead to the webhook %s:\n%s", one, page)
	}
	s.get("/ui/webhooks", 200, one, "saga.failed", "1 webhook,")
	s.get(one, 200, "Nothing has been sent yet", "/503/hook", "saga.completed, saga.failed")
	s.get(one+"?status=no-such-status", 400)
	s.get("/ui/webhooks/nothing", 404)
	s.get("/ui/webhooks/00000000-0000-4000-8000-000000000000", 404)

	_, delivery := s.act(one+"/test", nil, 303)
	if !strings.HasPrefix(delivery, one+"/deliveries/") {
		t.Fatalf("a test leads to %s", delivery)
	}
	patience.Until(t, "the test has an answer", func() bool {
		_, page = s.Get(t, delivery)
		return strings.Contains(page, "answered <strong>503</strong>")
	})
	s.get(delivery, 200, "failed", "io.skald.webhook.ping", "Redeliver")
	s.get(one+"/deliveries/nothing", 404)
	s.get(one+"/deliveries/00000000-0000-4000-8000-000000000000", 404)
	s.get(one+"?status=failed", 200, delivery, "1 delivery,")
	if _, to := s.act(delivery+"/redeliver", nil, 303); to != delivery {
		t.Errorf("a redelivery leads to %s", to)
	}
	s.act(one+"/redeliver", url.Values{"since": {"yesterday"}}, 422, "/since")
	if _, to := s.act(one+"/redeliver", url.Values{"since": {"-1h"}}, 303); !strings.Contains(to, "redelivered=") {
		t.Errorf("a redelivery leads to %s", to)
	}
	s.get(one+"?redelivered=7&more=true", 200, "7 deliveries are due again", "There are more")

	s.act(one+"/edit", url.Values{"workflow_names": {"nobody"}, "event_types": {""}, "description": {""}}, 303)
	if _, doc = s.Call(t, "GET", strings.TrimPrefix(one, "/ui"), nil); len(doc["event_types"].([]any)) != 0 ||
		doc["description"] != "" || doc["workflow_names"].([]any)[0] != "nobody" {
		t.Errorf("edited: %v", doc)
	}
	page, _ = s.act(one+"/rotate-secret", url.Values{"reason": {"left the company"}}, 200, "whsec_", "24 hours")
	if secret, _, _ := strings.Cut(page[strings.Index(page, "whsec_"):], "<"); strings.Contains(s.get(one, 200), secret) {
		t.Error("the secret is shown again")
	}
	s.get(one+"/disable", 200, "The state changes from <code>enabled</code> to <code>disabled</code>.")
	s.act(one+"/disable", url.Values{"reason": {hostile}}, 303)
	s.get(one, 200, "disabled", "Nothing is sent")
	s.act(one+"/enable", url.Values{"from": {"now"}}, 303)

	stale := uitest.Form(s.get(one+"/delete", 200, "will never be sent"))
	s.Call(t, "POST", strings.TrimPrefix(one, "/ui")+"/disable", nil) // another person, in the meantime
	stale.Set("reason", "moved")
	stale.Set("confirm", one[len(one)-6:])
	status, page, _ := s.Post(t, one+"/delete", stale)
	s.has("a stale form", status, page, 412, "changed since you opened the form",
		"The state changes from <code>enabled</code> to <code>disabled</code>.", ": webhook disable by anonymous",
		"It changes from <code>live</code> to <code>deleted</code>.")
	s.act(one+"/delete", url.Values{"reason": {"moved"}, "confirm": {"wrong"}}, 400, "Not confirmed")
	confirmed := url.Values{"reason": {"moved"}, "confirm": {one[len(one)-6:]}}
	if _, to := s.act(one+"/delete", confirmed, 303); to != "/ui/webhooks" {
		t.Errorf("a deletion leads to %s", to)
	}
	s.get(one, 404)
}
