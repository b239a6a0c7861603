package browser_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/skald-saga/skald/api/worker"
	"github.com/skald-saga/skald/internal/test/browser"
	"github.com/skald-saga/skald/internal/test/uitest"
)

type object = map[string]any

// place is a server of its own with a participant that the journeys control.
type place struct {
	*uitest.Server
	partner string       // the URL to which letters are sent
	down    atomic.Bool  // the partner answers 503
	took    atomic.Int64 // number of letters received

	mu   sync.Mutex
	last string // the body received last
}

func newPlace(t *testing.T, s *uitest.Server) *place {
	t.Helper()
	p := &place{Server: s}
	partner := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body) // a body that can't be read doesn't match what the journey expects
		if p.down.Load() {
			http.Error(w, "the bank is closed", http.StatusServiceUnavailable)
			return
		}
		p.took.Add(1)
		p.mu.Lock()
		p.last = string(body)
		p.mu.Unlock()
	}))
	t.Cleanup(partner.Close)
	p.partner = partner.URL
	return p
}

// TestWorkThroughThePages goes through journeys of people who operate letters and jobs, all on one
// server.
func TestWorkThroughThePages(t *testing.T) {
	p := newPlace(t, uitest.Start(t))
	p.Must(t, "PATCH", "/dlq/policy", object{"auto_retry": false, "reason": "people decide here"})
	p.Must(t, "PATCH", "/settings", object{"values": object{ // so that no run is lost while the test takes its time
		"run_lease_seconds": 3600, "continuation_confirm_seconds": 3600,
	}})
	for _, j := range []struct {
		name string
		long bool
		take func(*testing.T, *place)
	}{
		{"a letter is edited and retried", false, editAndRetry},
		{"3,000 letters are retried with a canary", true, redriveAll},
		{"a job is defined, run, followed and canceled", true, runAJob},
		{"a log is read", true, readALog},
		{"the pages keep to their budgets", true, keepToBudgets},
		{"seven tabs", true, sevenTabs},
	} {
		if !j.long || all() {
			t.Run(j.name, func(t *testing.T) { j.take(t, p) })
		}
	}
}

// letters pushes letters that all failed in the same way.
func (p *place) letters(t *testing.T, n int, topic string) {
	t.Helper()
	for sent := 0; sent < n; {
		var batch []object
		for ; sent < n && len(batch) < 500; sent++ {
			batch = append(batch, object{
				"original_topic": topic, "error_type": "SocketTimeoutException", "error_message": "Timeout while calling the bank",
				"error_class": "TRANSIENT", "payload": object{"order": 9007199254740993 + int64(sent), "amount": 59.90},
				"target": object{"kind": "http", "url": p.partner + "/accept"},
			})
		}
		p.Must(t, "POST", "/dlq/messages/batch", object{"messages": batch})
	}
}

// editAndRetry: everything that a person doesn't edit reaches the participant unchanged to the
// digit.
func editAndRetry(t *testing.T, p *place) {
	p.letters(t, 1, "invoices")
	tab := browser.Open(t)
	tab.Go(p.URL + "/ui/dlq/letters?topic=invoices")
	tab.Click("#letters td a[href*='/dlq/letters/']", "")
	tab.Until("the letter", badge("pending"))
	tab.Click("main .actions a", "Edit and retry")
	tab.Until("the digits in the form", `document.querySelector("[name=payload_json]")?.value.includes("9007199254740993")`)
	tab.Fill("[name=payload_json]", `{"order": 9007199254740993, "amount": 61.20, "next": 18446744073709551615}`)
	tab.See("61.20")
	tab.Fill("input[name=reason]", "the amount was wrong")
	tab.Click("button.first", "")
	tab.See("The target answered")
	tab.Until("the letter resolved", badge("resolved"))
	letter, _, _ := strings.Cut(strings.TrimPrefix(tab.Path(), "/ui/dlq/letters/"), "?")
	attempts := p.Must(t, "GET", "/dlq/messages/"+letter+"?include=attempts", nil)["attempts"].([]any)
	revisions := p.Must(t, "GET", "/dlq/messages/"+letter+"/revisions", nil)["revisions"].([]any)
	tab.Until("as many attempts and revisions as the API has", fmt.Sprintf(`["Attempts %d", "Revisions %d"].every(t =>
		[...document.querySelectorAll("nav.tabs a")].some(a => a.innerText === t))`, len(attempts), len(revisions)))
	tab.Follows()
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, want := range []string{"9007199254740993", "18446744073709551615", "61.2"} {
		if !strings.Contains(p.last, want) {
			t.Errorf("the participant got %s, which lacks %s", p.last, want)
		}
	}
}

// redriveAll: the canary fails and the redrive halts; it then continues slowly, then quickly, to
// the end.
func redriveAll(t *testing.T, p *place) {
	const all = 3000
	p.letters(t, all, "payments")
	p.down.Store(true)
	tab := browser.Open(t)
	tab.Go(p.URL + "/ui/dlq?topic=payments")
	tab.Click("#groups td.error > a", "Timeout")
	tab.Click("main .actions a", "Retry")
	tab.Until("the canary of ten", `document.querySelector("[name='canary.count']")?.value === "10"`)
	tab.See("3,000 letters match")
	tab.Fill("[name='stop_on.failures']", "5")
	tab.Fill("input[name=reason]", "the bank answers again")
	tab.Click("button.first", "Create")
	tab.Until("the redrive halted", badge("halted"))
	tab.See("the number of failed letters has reached its limit")
	redrive := strings.TrimPrefix(strings.Split(tab.Path(), "?")[0], "/ui/redrives/")
	p.down.Store(false)
	tab.Click("a[data-action]", "Resume")
	tab.See("the counters start again at zero")
	tab.Fill("dialog input[name=reason]", "now it does")
	tab.Click("dialog button.first", "")
	tab.Until("the redrive on its way", badge("running"))
	tab.Until("the rate of 50", `document.querySelector("#rate [name=rate_per_second]")?.value === "50"`)
	tab.Fill("#rate [name=rate_per_second]", "500")
	tab.Click("#rate button", "Change")
	tab.See("now 500 a second")
	tab.Until("the redrive completed", badge("completed"))
	doc := p.Must(t, "GET", "/dlq/redrives/"+redrive, nil)
	count := func(member string) int64 {
		n, err := doc[member].(json.Number).Int64()
		if err != nil {
			t.Errorf("%s: %v", member, err)
		}
		return n
	}
	done, failed := count("done"), count("failed")
	if done+failed != all || failed < 5 || count("matched") != all {
		t.Errorf("of %d letters %d are done and %d have failed", count("matched"), done, failed)
	}
	tab.See(fmt.Sprintf("It has ended: %s of 3,000 done, %d failed, 0 skipped", thousands(done), failed))
	tab.Follows()
	if got := p.took.Load(); got < done {
		t.Errorf("the bank took %d letters, of which %d are done", got, done)
	}
}

func thousands(n int64) string {
	if n < 1000 {
		return fmt.Sprint(n)
	}
	return fmt.Sprintf("%d,%03d", n/1000, n%1000)
}

// runAJob: a person defines a job for Sundays in March, sees the effect of the clock change on it,
// and runs it manually.
func runAJob(t *testing.T, p *place) {
	work(t, p.URL)
	tab := browser.Open(t)
	tab.Go(p.URL + "/ui/jobs")
	tab.Click("main .actions a, main a.button", "New job")
	tab.Fill("[name=name]", "spring-cleaning")
	tab.Fill("[name=command_name]", "clean")
	tab.Choose("[name='schedule.type']", "cron")
	tab.Fill("[name='schedule.value']", "30 2 * 3 0")
	tab.Fill("[name='schedule.timezone']", "Europe/Berlin")
	tab.Until("what the clock does", `document.getElementById("preview").innerText.includes("skipped by the clock change")`)
	tab.Click("button.first", "Create")
	tab.Until("the job", `document.querySelector("h1")?.innerText.includes("spring-cleaning")`)
	tab.Click("main .actions a", "Run now")
	tab.Fill("input[name=reason]", "once before the season")
	tab.Click("button.first", "")
	tab.Until("the run", badge("running"))
	tab.Click("nav[aria-label=Views] a", "Log")
	tab.See("Following the log")
	tab.See("room 3 is clean")
	tab.Click("main .actions a", "Cancel")
	tab.Fill("input[name=reason]", "the season is over")
	tab.Click("button.first", "")
	tab.Until("the run canceled", badge("canceled"))
	tab.See("The log is complete")
	tab.See("put the bucket away")
	tab.Follows()
}

// work runs a worker whose command "clean" writes log lines until it is canceled.
func work(t *testing.T, url string) {
	t.Helper()
	w, err := worker.New(worker.Config{
		URL: url, Name: "cleaner", Concurrency: 2, Drain: -1, ReportFor: time.Second, Log: slog.New(slog.DiscardHandler),
	})
	if err != nil {
		t.Fatal(err)
	}
	w.Handle("clean", func(ctx context.Context, r *worker.Run) (any, error) {
		next := time.NewTicker(200 * time.Millisecond)
		defer next.Stop()
		for n := 1; ; n++ {
			fmt.Fprintf(r.Stdout(), "room %d is \x1b[32mclean\x1b[0m\n", n)
			select {
			case <-ctx.Done():
				fmt.Fprintln(r.Stderr(), "put the bucket away")
				return nil, context.Cause(ctx)
			case <-next.C:
			}
		}
	})
	ctx, ended := t.Context(), make(chan error, 1) // it is canceled before the cleanups run
	go func() { ended <- w.Run(ctx) }()
	t.Cleanup(func() {
		if err := <-ended; err != nil {
			t.Errorf("the worker ended with %v", err)
		}
	})
}

// sevenTabs: one person has seven tabs open, and each of them responds.
func sevenTabs(t *testing.T, p *place) {
	work(t, p.URL)
	p.Must(t, "POST", "/job-definitions", object{"name": "endless", "type": "manual", "command_name": "clean"})
	run := p.Must(t, "POST", "/job-definitions/endless/runs", object{})["id"].(string)
	first := browser.Open(t)
	tabs := []*browser.Tab{first}
	for len(tabs) < 7 {
		tabs = append(tabs, first.Another(t))
	}
	for _, tab := range tabs {
		tab.Go(p.URL + "/ui/runs/" + run + "?tab=log")
		tab.See("room 1 is clean")
	}
	for _, tab := range tabs {
		tab.Front()
		tab.Click("header nav a", "Sagas")
		tab.Until("the sagas", `document.querySelector("header [aria-current]")?.innerText === "Sagas"`)
	}
	p.Must(t, "POST", "/job-runs/"+run+"/cancel", object{"reason": "enough"})
}
