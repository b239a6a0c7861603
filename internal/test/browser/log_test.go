package browser_test

import (
	"bytes"
	"fmt"
	"strings"
	"testing"

	"github.com/chromedp/chromedp/kb"

	"github.com/skald-saga/skald/internal/test/browser"
)

// logged creates a run and writes its log in chunks of up to 250 KiB. A run that has already ended
// can't be lost while a long log is being written: its last lines are still accepted.
func (p *place) logged(t *testing.T, ended bool, lines int, line func(int) string) (run string, write func(string)) {
	t.Helper()
	queue := fmt.Sprintf("by-hand-%d", lines)
	p.Must(t, "POST", "/job-definitions", object{"name": queue, "type": "manual", "command_name": "log", "queue": queue})
	p.Must(t, "POST", "/job-definitions/"+queue+"/runs", object{})
	worker := p.Must(t, "POST", "/workers", object{
		"name": "hand", "node": "desk", "sdk": "test", "queues": []string{queue}, "max_runs": 1,
	})["worker_id"]
	claim := object{"slots": 1, "wait_ms": 30000, "start": true}
	claimed := p.Must(t, "POST", fmt.Sprintf("/workers/%s/claim", worker), claim)
	r := claimed["runs"].([]any)[0].(object)
	run = r["run_id"].(string)
	fence := object{
		"worker_id": worker, "attempt": r["attempt"], "lease_token": r["lease_token"], "leader_epoch": r["leader_epoch"],
	}
	if ended {
		p.Must(t, "POST", "/job-runs/"+run+"/complete", fence)
	}
	seq := 0
	write = func(text string) {
		fence["seq"], fence["chunk"] = seq, text
		p.Must(t, "POST", "/job-runs/"+run+"/logs", fence)
		seq++
	}
	var chunk bytes.Buffer
	for n := range lines {
		chunk.WriteString(line(n))
		if chunk.Len() > 250_000 || n == lines-1 {
			write(chunk.String())
			chunk.Reset()
		}
	}
	return run, write
}

// inTheLog returns how many lines of the log the page contains.
func inTheLog(tab *browser.Tab) (n int) {
	tab.Eval(`document.querySelectorAll("#log-lines .log-line").length`, &n)
	return n
}

// readALog tries everything that the page of a log offers.
func readALog(t *testing.T, p *place) {
	run, write := p.logged(t, false, 30_000, func(n int) string {
		text := fmt.Sprintf("\x1b[31mrow %d\x1b[0m of the import was stored\n", n)
		if n%10_000 == 17 {
			return "a needle in " + text
		}
		return text
	})
	tab := browser.Open(t)
	tab.Go(p.URL + "/ui/runs/" + run + "?tab=log")
	tab.See("row 29999 of the import")
	tab.Until("colours", `document.querySelector("#log-lines .a-1")?.textContent.startsWith("row ")`)
	tab.Until("the end", `(e => e.scrollHeight - e.scrollTop - e.clientHeight < 30)(document.getElementById("log-lines"))`)

	// The page follows the log; wrapping and times are remembered.
	write("a line without an end")
	tab.See("a line without an end")
	write(", and its end\n")
	tab.See("a line without an end, and its end")
	tab.Click("#log label", "wrap")
	tab.Until("wrapped lines", `getComputedStyle(document.querySelector("#log-lines .log-line")).whiteSpace === "pre-wrap"`)
	tab.Click("#log label", "times")
	tab.Until("times", `document.querySelector("#log-lines .log-time").checkVisibility()`)
	tab.Go(p.URL + "/ui/runs/" + run + "?tab=log")
	tab.See("and its end")
	tab.Until("wrapped lines again", `document.querySelector("#log-lines.wrap.times")`)
	tab.Click("#log label", "wrap")

	// Scrolling up pauses following and loads older lines.
	tab.Eval(`(e => { e.scrollTop -= 500; return 1 })(document.getElementById("log-lines"))`, new(int))
	tab.Until("that it is paused", `(window.paused ??= document.getElementById("log-lines").scrollTop) > 0`)
	write("news\nmore news\n")
	tab.See("paused: 2 new lines")
	tab.Until("the first line, scrolling up all the time", `(e => { e.scrollTop = e.scrollTop ? 0 : 1;
		return e.firstElementChild.textContent.includes("row 0 ") })(document.getElementById("log-lines"))`)
	if n := inTheLog(tab); n > 12_000 {
		t.Errorf("the page has %d lines", n)
	}
	tab.Click("#log-new", "paused")
	tab.See("more news")

	// Enter moves from one match to the next and wraps around.
	tab.Fill("#log input[name=find]", "needle")
	tab.Until("how many were found", `document.getElementById("log-found").textContent === "3 lines"`)
	for _, want := range []string{"1 of 3", "2 of 3", "3 of 3", "1 of 3"} {
		tab.Press(kb.Enter)
		tab.Until(want, fmt.Sprintf(`document.getElementById("log-found").textContent.startsWith(%q) &&
			document.querySelector("#log-lines .hit.at")?.textContent.includes("needle")`, want))
	}
	var at string
	if tab.Eval(`document.querySelector("#log-lines .hit.at").textContent`, &at); !strings.Contains(at, "row 17 ") {
		t.Errorf("the first line found is %q", at)
	}
}
