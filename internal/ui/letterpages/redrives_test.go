package letterpages_test

import (
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/skald-saga/skald/internal/test/uitest"
)

// TestAGroupIsRedrivenWithACanary covers journey 3, from the group to a redrive that halts, is
// resumed, changes its rate and ends.
func TestAGroupIsRedrivenWithACanary(t *testing.T) {
	s := start(t)
	s.target.answer(http.StatusServiceUnavailable)
	const letters = 60
	var id string
	for range letters {
		id = s.push(t, map[string]any{"payload": map[string]any{"id": uint64(9007199254740993), "text": hostile}})
	}
	_, doc := s.Call(t, "GET", "/dlq/messages/"+id, nil)
	group := doc["fingerprint"].(string)
	page := s.page(t, "/ui/dlq/groups/"+group, "canary.count=10")
	_, from, _ := strings.Cut(page, `href="/ui/redrives/new?`)
	from, _, _ = strings.Cut(from, `"`)
	form := "/ui/redrives/new?" + strings.ReplaceAll(from, "&amp;", "&")

	s.page(t, "/ui/redrives", "No redrives yet")
	if page := s.page(t, "/ui/redrives/new", "Rate and safeguards", "Choose which letters", `value="act" disabled>Create`); strings.
		Contains(page, "/action is required") {
		t.Error("the first look at the form finds fault with a field that is filled in")
	}
	s.page(t, "/ui/redrives/new?all=true", "letters match") // without an action: they are retried
	s.page(t, form, "<code>60</code> letters match", group, `value="10"`,
		"The status of 60 letters changes from <code>pending</code> to <code>retrying</code>.")
	patch := url.QueryEscape(`[{"op":"replace","path":"/id","value":9007199254740995}]`)
	s.page(t, form+"&transform="+patch, "replace /id", "9007199254740993", "9007199254740995")
	s.page(t, form+"&transform="+url.QueryEscape(`[{"op":"remove","path":"/none"}]`), "The patch does not apply")
	wrong := url.Values{"do": {"act"}, "reason": {"x"}, "rate_per_second": {"-1"}}
	if status, page, _ := s.Post(t, form, wrong); status == 303 || !strings.Contains(page, "rate_per_second") {
		t.Errorf("a negative rate: %d\n%s", status, page)
	}

	filled := []string{"action", "retry", "filter.fingerprint", group, "rate_per_second", "1000",
		"reason", "billing is back", "canary.count", "10", "stop_on.failures", "5",
		"filter.status", "PENDING, DEAD", "force", "true"}
	redrive := s.act(t, form, filled...)
	api := strings.Replace(redrive, "/ui/", "/dlq/", 1)
	await := func(state string) {
		t.Helper()
		if _, doc := s.Call(t, "GET", api+"?wait=60s", nil); doc["state"] != state {
			t.Fatalf("the redrive is not %s: %v", state, doc)
		}
	}
	await("HALTED")
	s.page(t, redrive, "halted automatically", "the counters start again at zero", "the canary counts as passed",
		"answered 503", "billing is back")
	s.page(t, redrive+"?state=FAILED", `<a href="?state=FAILED" aria-current="true">`)
	s.page(t, "/ui/redrives?state=HALTED&state=AWAITING_APPROVAL&state=PAUSED", redrive)

	s.act(t, redrive+"/actions/update", "rate_per_second", "500", "concurrency", "4")
	s.page(t, redrive, `value="500"`)
	stale := uitest.Form(s.page(t, redrive+"/actions/update"))
	stale.Set("etag", `"1"`)
	stale.Set("rate_per_second", "7")
	if status, page, _ := s.Post(t, redrive+"/actions/update", stale); status != http.StatusPreconditionFailed ||
		!strings.Contains(page, "has changed since") || !strings.Contains(page, "to <code>7</code>.") {
		t.Errorf("an old version: %d\n%s", status, page)
	}
	s.target.answer(http.StatusOK)
	if page := s.page(t, redrive+"/actions/resume", "It continues immediately with the <code>"); strings.Contains(page, "pending") {
		t.Errorf("the preview of resuming says that the redrive is pending\n%s", page)
	}
	s.act(t, redrive+"/actions/resume", "reason", "up again", "stop_on.failures", "50")
	await("COMPLETED")
	_, doc = s.Call(t, "GET", api, nil)
	s.page(t, redrive, "It has ended", "<code>"+doc["done"].(interface{ String() string }).String()+"</code> of")
	if page := s.page(t, redrive); strings.Contains(page, `id="rate"`) {
		t.Error("the rate of a redrive that has ended can be changed")
	}
}

func TestSelectedLettersAreDiscardedOnceTheirNumberIsTyped(t *testing.T) {
	s := start(t)
	first, second := s.push(t, map[string]any{}), s.push(t, map[string]any{})
	s.push(t, map[string]any{})
	path := "/ui/redrives/new?action=discard&ids=" + first + "&ids=" + second
	form := uitest.Form(s.page(t, path, first, second, "Type <code>2</code>"))
	form.Set("ids", first+"\n"+second)
	form.Set("reason", "test data")
	if status, page, _ := s.Post(t, path, form); status != http.StatusBadRequest || !strings.Contains(page, "to confirm") {
		t.Errorf("without the number: %d\n%s", status, page)
	}
	form.Set("confirm", "2")
	status, page, to := s.Post(t, path, form)
	if status != http.StatusSeeOther {
		t.Fatalf("%d\n%s", status, page)
	}
	s.Call(t, "GET", strings.Replace(to, "/ui/", "/dlq/", 1)+"?wait=60s", nil)
	s.page(t, "/ui/dlq/letters?status=DEAD", "2 letters")
	s.page(t, to, "2 selected letters")
}

func TestARedriveIsNotApprovedByItsRequester(t *testing.T) {
	s := start(t)
	id := s.push(t, map[string]any{})
	planned := map[string]any{"next_retry_at": "2027-11-23T12:00:00Z"}
	if status, doc := s.Call(t, "PATCH", "/dlq/messages/"+id, planned); status != 200 {
		t.Fatalf("%d %v", status, doc)
	}
	s.page(t, "/ui/dlq/letters/"+id+"/actions/retry", "the automatic retry planned for <code>2027-11-23 12:00:00 UTC</code>")
	to := s.act(t, "/ui/redrives/new?action=retry&filter.topic=orders&approval_required=true",
		"filter.topic", "orders", "approval_required", "true", "reason", "test")
	s.page(t, to, "someone other than", "needs someone other than its requester", "not yet")
	also := `<a href="` + to + `">redrive <code>`
	s.page(t, "/ui/redrives/new?action=retry&filter.topic=orders", "<code>1</code> letter is also in "+also,
		"which awaits approval: this redrive does not wait for the approval and takes them first.")
	s.page(t, "/ui/dlq/letters/"+id+"/actions/retry", "The letter is also in "+also, "a retry now does not wait for the approval")
	s.page(t, to+"/actions/cancel", "The state changes from <code>awaiting approval</code> to <code>canceled</code>.")
	s.act(t, to+"/actions/cancel", "reason", "test")
	s.page(t, to, "It was canceled")
	if page := s.page(t, "/ui/redrives/new?action=retry&filter.topic=orders", "1</code> letter"); strings.Contains(page, also) {
		t.Errorf("a redrive that is over has letters of another\n%s", page)
	}
}

// The page sends the number that it showed. Whatever the action, letters that arrived after it
// was opened are not touched until a person has seen them.
func TestARedriveIsForAsManyLettersAsThePageHasShown(t *testing.T) {
	s := start(t)
	for _, action := range []string{"retry", "discard", "resolve", "delete"} {
		topic := action
		more := func() { s.push(t, map[string]any{"original_topic": topic}) }
		more()
		more()
		path := "/ui/redrives/new?action=" + action + "&filter.topic=" + topic
		form := uitest.Form(s.page(t, path, "<code>2</code> letters match"))
		more()
		for name, value := range map[string]string{"confirm": "2", "reason": "test data", "do": "act"} {
			form.Set(name, value)
		}
		status, page, to := s.Post(t, path, form)
		if status != http.StatusSeeOther {
			t.Fatalf("%s: %d\n%s", action, status, page)
		}
		s.Call(t, "GET", strings.Replace(to, "/ui/", "/dlq/", 1)+"?wait=60s", nil)
		s.page(t, to, "it found more letters", "There are <code>3</code> letters, more than the maximum of <code>2</code>. None were changed.",
			"the redrive processes all 3 letters")
		s.act(t, to+"/actions/resume", "reason", "seen")
		s.Call(t, "GET", strings.Replace(to, "/ui/", "/dlq/", 1)+"?wait=60s", nil)
		s.page(t, to, "It has ended", "<code>3</code>")
	}
}
