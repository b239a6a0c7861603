package browser_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/chromedp/chromedp/kb"

	"github.com/skald-saga/skald/internal/app/demo"
)

// TestThePages goes through user journeys on the pages of one demo. TEST_UI=all adds the slow ones.
func TestThePages(t *testing.T) {
	at := startDemo(t)
	for _, j := range []struct {
		name string
		long bool
		take func(*testing.T, demo.Place)
	}{
		{"a saga whose undo gave up is compensated", false, resumeCompensation},
		{"the main pages can be used by everybody", false, checkMainPages},
		{"last night's job did not run, and is run", false, lastNight},
		{"a letter with a wrong amount is corrected and sent", false, wrongAmount},
		{"with the keyboard", false, withTheKeyboard},
		{"without scripts", false, withoutScripts},
		{"pages say what the API says after each change", false, sayWhatTheAPISays},
		{"the step was undone by hand", true, resolveTheLetter},
		{"two people act on one saga", true, twoPeople},
		{"every page can be used by everybody", true, checkEveryPage},
	} {
		if !j.long || all() {
			t.Run(j.name, func(t *testing.T) { j.take(t, at) })
		}
	}
}

// resumeCompensation starts at the overview and ends with the compensated saga, without reloading a
// page.
func resumeCompensation(t *testing.T, at demo.Place) {
	tab := signOn(t, at, "kim")
	tab.Go(at.URL + "/ui/")
	tab.See("the compensation of reserve-stock gave up")
	tab.Click("#causes a[href*=late-order]", "")
	tab.Click("td a", "late-0")
	tab.See("gave up")
	tab.Click("a[data-action]", "Resume compensation")
	tab.See("What it would do")
	violations(t, tab, "the dialog of an action")
	tab.Fill("dialog input[name=reason]", "stock answers again")
	tab.Click("dialog button.first", "")
	tab.See("Accepted")
	tab.Eval("window.loaded = 'once'", new(string))
	tab.Until("the saga compensated", badge("compensated"))
	tab.Follows()
	var loaded string
	if tab.Eval("window.loaded ?? 'again'", &loaded); loaded != "once" {
		t.Errorf("the page was loaded %s", loaded)
	}
}

// badge returns an expression that is true when the badge beside the title shows this state.
func badge(state string) string {
	return `document.querySelector("h1 .badge")?.innerText.includes("` + state + `")`
}

// sayWhatTheAPISays uses the API to change what open pages show, and waits until the pages follow.
func sayWhatTheAPISays(t *testing.T, at demo.Place) {
	tab := signOn(t, at, "kim")
	do := func(method, path, body string) (answer object) {
		t.Helper()
		status, text := ask(t, at, method, path, body)
		if status/100 != 2 || json.Unmarshal([]byte(text), &answer) != nil {
			t.Fatalf("%s %s: %d %s", method, path, status, text)
		}
		return answer
	}
	// This saga is suspended, so it can't have ended by the time the test gets here.
	saga := do("GET", "/sagas?business_key=shipment-1", "")["sagas"].([]any)[0].(object)["saga_id"]
	run := do("POST", "/job-definitions/render/runs", `{}`)["id"]
	for _, step := range []struct{ page, change string }{
		{"/ui/", "/job-definitions/on-order/pause"},
		{"/ui/sagas?workflow_name=shipment", fmt.Sprintf("/sagas/%v/cancel", saga)},
		{"/ui/dlq/letters?topic=customers", ""},
		{"/ui/jobs/render", fmt.Sprintf("/job-runs/%v/cancel", run)},
		{"/ui/runs?definition=render", ""},
	} {
		tab.Go(at.URL + step.page)
		tab.Until("the page", `document.querySelector("main h1")`)
		if step.page == "/ui/" {
			tab.Until("the charts", `document.querySelectorAll("main .hour svg.spark rect").length >= 60`)
		}
		if step.change != "" {
			do("POST", step.change, `{"reason": "stocktaking"}`)
		}
		tab.Follows()
	}
	hook := do("GET", "/webhooks", "")["webhooks"].([]any)[0].(object)["id"]
	tab.Go(fmt.Sprintf("%s/ui/webhooks/%v", at.URL, hook))
	tab.Until("the tools of the list", `document.querySelector(".list-tools button")`)
	var over bool
	tab.Eval(`(() => {
		const news = document.querySelector(".news"), box = e => e.getBoundingClientRect();
		Object.assign(news, {hidden: false, textContent: "4 new: show"});
		return box(news).top < box(document.querySelector(".list-tools")).bottom;
	})()`, &over)
	if over {
		t.Error("the number of new rows lies over the tools of their list")
	}
	bulk := do("POST", "/sagas/bulk", fmt.Sprintf(`{"action": "cancel", "ids": [%q], "reason": "no more"}`, saga))["id"]
	worker := do("GET", "/workers?state=ACTIVE", "")["workers"].([]any)[0].(object)["worker_id"]
	redrive := do("GET", "/dlq/redrives?state=HALTED", "")["redrives"].([]any)[0].(object)["id"]
	for _, page := range []string{
		fmt.Sprintf("sagas/bulk/%v", bulk), fmt.Sprintf("workers/%v", worker), fmt.Sprintf("redrives/%v", redrive),
	} {
		tab.Go(at.URL + "/ui/" + page)
		tab.Until("the page", badge(""))
		tab.Follows()
	}
	// A disagreement must be found.
	tab.Eval(`(document.querySelector("main h1").textContent = "nothing of the kind")`, new(string))
	if found := tab.Disagreements(); len(found) == 0 {
		t.Error("a page that says something else than the API is not found")
	}
}

// lastNight acts as a newcomer who knows only the demo's output: last night's settlement did not
// run.
func lastNight(t *testing.T, at demo.Place) {
	tab := signOn(t, at, "kim")
	tab.Click("header nav a", "Jobs")
	tab.Click("td a", "nightly-settlement")
	tab.Click("tr:has(.badge) td:nth-child(2) a[href*='/ui/runs/']", "02:30:00")
	tab.Until("that it was skipped", badge("skipped"))
	tab.See("was still running")
	tab.Click("main .actions a", "Rerun")
	tab.See("Another run blocks this one")
	tab.See("Its log ends with the bank has no statement")
	tab.Click("dialog .box a", "run")
	tab.Until("the run that is in its way", badge("running"))
	tab.See("the bank has no statement")
	tab.Click("main .actions a", "Cancel")
	tab.Fill("input[name=reason]", "the statement of that night is lost")
	tab.Click("button.first", "")
	tab.Until("it canceled", badge("canceled"))
	tab.Click("main p a", "1 run was skipped")
	tab.Until("the skipped run", badge("skipped"))
	tab.Click("main .actions a", "Rerun")
	tab.See("the same due time as in this run")
	tab.Fill("input[name=reason]", "last night's was skipped")
	tab.Click("button.first", "")
	tab.Until("the run, which succeeded", badge("succeeded"))
	tab.Click("main nav.tabs a", "Log") // until a run begins, its page shows its decisions
	tab.See("1,204 payments settled")
	tab.See("rerun of")
	tab.Follows()
}

// wrongAmount acts as a newcomer who knows only that a letter of the topic refunds has a wrong
// amount.
func wrongAmount(t *testing.T, at demo.Place) {
	tab := signOn(t, at, "kim")
	tab.Click("header nav a", "Dead letters")
	tab.Click("#groups td.error > a", "exceeds")
	tab.Click("main td a[href*='/dlq/letters/']", "")
	tab.See("599.00 exceeds the 59.90 that were paid")
	tab.Click("main .actions a", "Edit and retry")
	tab.Until("the content", `document.querySelector("[name=payload_json]")?.value.includes("599.00")`)
	tab.Fill("[name=payload_json]", `{"refund": "R-2041", "order": "order-4711", "paid": 59.90, "amount": 59.90}`)
	tab.See("amount: 599.00 → 59.90")
	tab.Fill("input[name=reason]", "a decimal point was lost")
	tab.Click("button.first", "")
	tab.Until("the letter resolved", badge("resolved"))
	tab.See("The target answered 200 at")
	tab.Follows()
	tab.Click("main nav.tabs a", "Attempts")
	tab.See("the target accepted it")
	tab.Go(at.Participants + "/") // where the refund has arrived
	tab.See("refunds/book")
	tab.See(`"amount":59.90`)
}

func withTheKeyboard(t *testing.T, at demo.Place) {
	tab := signOn(t, at, "kim")
	tab.Go(at.URL + "/ui/sagas?needs_attention=true")
	tab.TabTo("td a", "late-1")
	tab.Press(kb.Enter)
	tab.Until("the saga", badge("failed"))
	tab.TabTo("a[data-action]", "Resume compensation")
	tab.Press(kb.Enter)
	tab.Until("the dialog with the focus in it", `document.activeElement.closest("dialog[open]")`)
	tab.Press(kb.Escape)
	tab.Until("the dialog closed, and the focus back", `!document.querySelector("dialog[open]") &&
		document.activeElement.matches("a[data-action]")`)
	tab.Press(kb.Enter)
	tab.See("What it would do")
	tab.Until("the focus in the dialog", `document.activeElement.closest("dialog[open]")`)
	var there bool
	if tab.Eval(`document.activeElement.name === "reason"`, &there); !there {
		tab.TabTo("input[name=reason]", "")
	}
	tab.Press("stock answers again")
	tab.TabTo("dialog button.first", "")
	tab.Press(kb.Enter)
	tab.See("Accepted")
	tab.Until("the saga compensated", badge("compensated"))
}

func withoutScripts(t *testing.T, at demo.Place) {
	tab := signOn(t, at, "kim")
	tab.WithoutScripts()
	tab.Go(at.URL + "/ui/sagas?needs_attention=true")
	tab.Click("td a", "late-2")
	tab.Click("a[data-action]", "Resume compensation")
	tab.See("What it would do")
	tab.Fill("input[name=reason]", "stock answers again")
	tab.Click("button.first", "")
	tab.See("Accepted")
	saga, _, _ := strings.Cut(tab.Path(), "?")
	settled(t, at, strings.TrimPrefix(saga, "/ui"))
	tab.Go(at.URL + saga)
	tab.Until("the saga compensated", badge("compensated"))
}

// ask sends a request to the demo's API as its visitor.
func ask(t *testing.T, at demo.Place, method, path, body string) (status int, text string) {
	t.Helper()
	req, err := http.NewRequest(method, at.URL+"/api/v1"+path, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("X-API-Key", at.Key)
	req.Header.Set("Content-Type", "application/json")
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	all, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	return res.StatusCode, string(all)
}

// settled waits until the saga at an API path has ended.
func settled(t *testing.T, at demo.Place, path string) {
	t.Helper()
	for range 60 {
		if _, text := ask(t, at, "GET", path+"?wait=5s", ""); strings.Contains(text, `"state":"compensated"`) {
			return
		}
	}
	t.Fatalf("%s is not compensated", path)
}

func resolveTheLetter(t *testing.T, at demo.Place) {
	tab := signOn(t, at, "kim")
	tab.Go(at.URL + "/ui/sagas?needs_attention=true")
	tab.Click("td a", "late-3")
	tab.Until("the saga", badge("failed"))
	saga := tab.Path()
	tab.Click("main a[href*='/dlq/letters/']", "")
	tab.Click("a[data-action], a.button", "Resolve")
	tab.Fill("input[name=reason]", "undone by hand")
	tab.Click("button.first", "")
	tab.See("It counts as handled.")
	tab.Go(at.URL + saga)
	tab.Until("the saga compensated", badge("compensated"))
}

// twoPeople: two people act on the same saga; the second learns that it has changed and decides
// again.
func twoPeople(t *testing.T, at demo.Place) {
	// This saga waits longer than the whole test takes, because the service is down.
	if status, text := ask(t, at, "POST", "/sagas", `{"business_key": "for two", "steps": [{"name": "write",
		"action": {"http": {"url": "`+at.Participants+`/invoices/accept"}}, "compensation": "none",
		"retry": {"max_attempts": 9, "initial_interval_ms": 600000, "max_interval_ms": 600000}}]}`); status != http.StatusCreated {
		t.Fatalf("a saga: %d %s", status, text)
	}
	tab := signOn(t, at, "kim")
	tab.Go(at.URL + "/ui/sagas?business_key=for+two")
	tab.Click("td a", "for two")
	tab.Click("a[data-action]", "Suspend")
	tab.Until("the form", `document.querySelector("dialog[open] form.act")`)
	path, _, _ := strings.Cut(strings.TrimPrefix(tab.Path(), "/ui"), "?")
	for _, action := range []string{"suspend", "resume"} {
		if status, text := ask(t, at, "POST", path+"/"+action, `{"reason": "first"}`); status != http.StatusAccepted {
			t.Fatalf("%s: %d %s", action, status, text)
		}
	}
	tab.Expect("412")
	tab.Fill("dialog input[name=reason]", "second")
	tab.Click("dialog button.first", "")
	tab.See("has changed since you opened the form")
	tab.See("saga suspend by key:kim, because: first")
	tab.See("saga resume by key:kim, because: first")
	tab.Click("dialog button.first", "")
	tab.See("Accepted")
	tab.See("suspended")
	tab.Follows()
}
