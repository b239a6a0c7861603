package browser_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/skald-saga/skald/internal/test/browser"
)

// keepToBudgets measures the response times that people notice. The test fails only at ten times
// the budget or more, because the machine may be busy; the measured times are in the test's log.
func keepToBudgets(t *testing.T, p *place) {
	p.Must(t, "POST", "/workflows", object{"name": "slow", "steps": []object{{"name": "wait", "compensation": "none",
		"action": object{"http": object{"url": p.Participant + "/503/wait"}}}}})
	saga := p.Must(t, "POST", "/sagas", object{"workflow_name": "slow", "payload": object{}})["saga_id"].(string)
	for _, page := range []string{"/ui/", "/ui/sagas/" + saga} {
		best := 1e9
		for range 3 {
			tab := browser.Open(t)   // with an empty cache
			tab.Go(p.URL + "/docs/") // so that the browser is warmed up
			tab.SlowCPU(4)
			tab.Go(p.URL + page)
			best = min(best, tab.FirstPaint())
			tab.SlowCPU(1) // a slowed tab would take CPU time from the following tabs
			tab.Go("about:blank")
		}
		t.Logf("%s: first paint after %.0f ms on a CPU four times slower (budget 500)", page, best)
		if best > 5000 {
			t.Errorf("%s: the first paint takes %.0f ms", page, best)
		}
	}
	askSeldom(t, p)
	openALargeLog(t, p)
}

// askSeldom counts the overview's requests in one minute, which a faster clock shortens to three
// seconds.
func askSeldom(t *testing.T, p *place) {
	t.Helper()
	tab := browser.Open(t)
	tab.OnEveryPage(`{
		const [later, again] = [setTimeout, setInterval];
		window.setTimeout = (f, ms, ...more) => later(f, ms / 20, ...more);
		window.setInterval = (f, ms, ...more) => again(f, ms / 20, ...more);
		Object.defineProperty(document, "hidden", { get: () => window.isAway === true });
	}`)
	tab.Go(p.URL + "/ui/")
	tab.Until("the overview", `document.querySelector("main h1")`)
	minute := func() int {
		before := tab.Requests()
		time.Sleep(3 * time.Second)
		return tab.Requests() - before
	}
	looked := minute()
	tab.Eval(`(window.isAway = true, document.dispatchEvent(new Event("visibilitychange")))`, new(bool))
	time.Sleep(500 * time.Millisecond) // until the requests in flight are answered
	away := minute()
	t.Logf("the overview asks %d times a minute (budget 12), %d in a hidden tab (budget 0)", looked, away)
	if looked > 12 || looked == 0 || away > 0 {
		t.Errorf("the overview asks %d times a minute, %d in a hidden tab", looked, away)
	}
}

func openALargeLog(t *testing.T, p *place) {
	t.Helper()
	run, _ := p.logged(t, true, 1_000_000, func(n int) string {
		return fmt.Sprintf("2026-01-01T00:00:00Z INFO row %07d was stored\n", n)
	})
	tab := browser.Open(t)
	tab.OnEveryPage(`addEventListener("DOMContentLoaded", () => {
		const look = () => {
			if (document.getElementById("log-lines")?.lastElementChild?.textContent.includes("row 0999999")) {
				window.tailAfter = performance.now();
			} else requestAnimationFrame(look);
		};
		look();
	})`)
	tab.Go(p.URL + "/ui/runs/" + run + "?tab=log")
	tab.Until("the end of the log", "window.tailAfter")
	var ms float64
	tab.Eval("window.tailAfter", &ms)
	mb := tab.Heap() / 1e6
	t.Logf("a log of 1,000,000 lines: its end after %.0f ms (budget 1,000), %.0f MB in the browser (budget 150)", ms, mb)
	if ms > 20_000 || mb > 150 {
		t.Errorf("the end of a large log is there after %.0f ms, with %.0f MB in the browser", ms, mb)
	}
}
