package browser

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"

	"github.com/skald-saga/skald/internal/test/patience"
)

// Tab is a browser window of a new visitor: it has no cookies and an empty cache.
type Tab struct {
	testing.TB
	ctx context.Context

	mu      sync.Mutex
	own     string   // the host whose pages it may load
	allowed []string // substrings of the complaints that the test expects
	found   []string
	sent    int // number of requests
}

// Open opens a tab.
func Open(t testing.TB) *Tab {
	t.Helper()
	return open(chromium(t), t, chromedp.WithNewBrowserContext())
}

// Another opens another tab for the same person, with the same cookies, cache and connections.
func (b *Tab) Another(t testing.TB) *Tab {
	t.Helper()
	return open(b.ctx, t)
}

func open(parent context.Context, t testing.TB, options ...chromedp.ContextOption) *Tab {
	t.Helper()
	ctx, closeTab := chromedp.NewContext(parent, options...)
	b := &Tab{TB: t, ctx: ctx}
	err := errors.Join(chromedp.Listen(ctx, b.listen), command(ctx, network.Enable, network.EnableParams{}),
		command(ctx, log.Enable, cdp.Empty{}), command(ctx, runtime.Enable, cdp.Empty{}))
	if err != nil {
		t.Fatalf("chromium: %v", err)
	}
	t.Cleanup(func() {
		closeTab()
		b.mu.Lock()
		defer b.mu.Unlock()
		for _, c := range b.found {
			if !slices.ContainsFunc(b.allowed, func(a string) bool { return strings.Contains(c, a) }) {
				t.Errorf("the browser complains: %s", c)
			}
		}
	})
	return b
}

// Expect allows complaints that contain text, such as "412".
func (b *Tab) Expect(text string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.allowed = append(b.allowed, text)
}

func (b *Tab) listen(event any) {
	b.mu.Lock()
	defer b.mu.Unlock()
	complain := func(format string, args ...any) { b.found = append(b.found, fmt.Sprintf(format, args...)) }
	switch e := event.(type) {
	case *runtime.EventExceptionThrown:
		text, _ := json.Marshal(e.ExceptionDetails)
		complain("exception: %s", text)
	case *runtime.EventConsoleAPICalled:
		if e.Type == "error" || e.Type == "assert" {
			text, _ := json.Marshal(e.Args)
			complain("console: %s", text)
		}
	case *log.EventEntryAdded:
		if e.Entry.Level == "error" {
			complain("%s: %s %s", e.Entry.Source, e.Entry.Text, e.Entry.URL)
		}
	case *network.EventRequestWillBeSent:
		b.sent++
		u, err := url.Parse(e.Request.URL)
		if err == nil && (u.Scheme == "http" || u.Scheme == "https") && u.Host != b.own {
			complain("a request to another server: %s", e.Request.URL)
		}
	case *network.EventResponseReceived:
		if e.Response.Status >= 400 {
			complain("%d for %s", e.Response.Status, e.Response.URL)
		}
	}
}

// command sends a protocol command whose result isn't needed.
func command[P, R any](ctx context.Context, c cdp.Command[P, R], params P) error {
	_, err := chromedp.Call(ctx, c, params)
	return err
}

func (b *Tab) run(do func(context.Context) error) {
	b.Helper()
	ctx, cancel := context.WithTimeout(b.ctx, patience.Limit)
	defer cancel()
	if err := do(ctx); err != nil {
		b.Fatalf("the browser: %v\n%s", err, b.State())
	}
}

func (b *Tab) do(steps ...chromedp.Action[chromedp.Void]) {
	b.Helper()
	b.run(func(ctx context.Context) error { return chromedp.Do(ctx, steps...) })
}

// Go opens a page and waits until it has loaded.
func (b *Tab) Go(address string) {
	b.Helper()
	u, err := url.Parse(address)
	if err != nil {
		b.Fatal(err)
	}
	b.mu.Lock()
	b.own = u.Host
	b.mu.Unlock()
	b.do(chromedp.Navigate(address), chromedp.WaitReady("body"))
}

// Transferred returns the transferred size of the page's scripts and styles in bytes.
func (b *Tab) Transferred() (bytes int) {
	b.Helper()
	b.Eval(`performance.getEntriesByType("resource").filter(r => /[.](js|css)$/.test(r.name))
		.reduce((sum, r) => sum + r.encodedBodySize, 0)`, &bytes)
	return bytes
}

// Eval evaluates a JavaScript expression.
func (b *Tab) Eval(expression string, out any) {
	b.Helper()
	b.evaluate("JSON.stringify("+expression+") ?? 'null'", out)
}

// Await evaluates an expression and waits for the promise that it returns.
func (b *Tab) Await(expression string, out any) {
	b.Helper()
	b.evaluate("("+expression+").then(JSON.stringify)", out, chromedp.EvalAwaitPromise)
}

func (b *Tab) evaluate(expression string, out any, options ...chromedp.EvaluateOption) {
	b.Helper()
	b.run(func(ctx context.Context) error {
		text, err := chromedp.Run(ctx, chromedp.Evaluate[string](expression, options...))
		if err != nil {
			return err
		}
		return json.Unmarshal([]byte(text), out)
	})
}

// Until waits until an expression becomes true.
func (b *Tab) Until(what, expression string) {
	b.Helper()
	patience.Until(b.TB, "the page shows "+what, func() bool {
		ctx, cancel := context.WithTimeout(b.ctx, patience.Limit)
		defer cancel()
		// An error means that the page is navigating to another one.
		ok, err := chromedp.Run(ctx, chromedp.Evaluate[bool]("!!("+expression+")"))
		return ok && err == nil
	})
}

// loaded waits until the page's scripts have run: before that, an element that opens a dialog is
// still a link to a page.
func (b *Tab) loaded() {
	b.Helper()
	b.Until("the whole page", `document.readyState === "complete"`)
}

// See waits until the page shows a text.
func (b *Tab) See(text string) {
	b.Helper()
	b.Until(fmt.Sprintf("%q", text), fmt.Sprintf(
		"document.body && document.body.innerText.toLowerCase().includes(%s)", quote(strings.ToLower(text))))
}

// Click clicks on the first visible element that matches selector and contains text.
func (b *Tab) Click(selector, text string) {
	b.Helper()
	find := fmt.Sprintf(`[...document.querySelectorAll(%s)].find(e => e.checkVisibility() && !e.disabled &&
		(e.innerText || e.value || "").toLowerCase().includes(%s))`, quote(selector), quote(strings.ToLower(text)))
	b.loaded()
	b.Until(fmt.Sprintf("%s %q", selector, text), find)
	var at struct{ X, Y float64 }
	b.Eval(fmt.Sprintf(`(() => { const e = %s; e.scrollIntoView({block: "center", behavior: "instant"});
		const r = e.getClientRects()[0]; return {X: r.x + r.width / 2, Y: r.y + r.height / 2}; })()`, find), &at)
	b.do(chromedp.MouseClickXY(at.X, at.Y))
}

// Fill replaces the content of a field with a text.
func (b *Tab) Fill(selector, text string) {
	b.Helper()
	b.Until(selector, fmt.Sprintf("(e => e && (e.focus(), e.select(), true))(document.querySelector(%s))", quote(selector)))
	b.do(chromedp.KeyEvent(text))
}

// Choose chooses an option of a select by its value.
func (b *Tab) Choose(selector, value string) {
	b.Helper()
	b.Until(selector, fmt.Sprintf(`(e => e && (e.value = %s, e.value === %[1]s) && (e.dispatchEvent(new Event("input",
		{bubbles: true})), e.dispatchEvent(new Event("change", {bubbles: true})), true))(document.querySelector(%s))`,
		quote(value), quote(selector)))
}

// Front brings the tab to the front of its window.
func (b *Tab) Front() {
	b.Helper()
	b.run(func(ctx context.Context) error { return command(ctx, page.BringToFront, cdp.Empty{}) })
}

// TabTo presses the Tab key until the focused element matches selector and contains text.
func (b *Tab) TabTo(selector, text string) {
	b.Helper()
	b.loaded()
	for range 400 {
		b.Press(kb.Tab)
		var there bool
		b.Eval(fmt.Sprintf(`(e => e.matches(%s) && (e.innerText || "").toLowerCase().includes(%s))(document.activeElement)`,
			quote(selector), quote(strings.ToLower(text))), &there)
		if there {
			return
		}
	}
	b.Fatalf("the Tab key never reaches %s %q\n%s", selector, text, b.State())
}

// Press presses keys.
func (b *Tab) Press(keys string) {
	b.Helper()
	b.do(chromedp.KeyEvent(keys))
}

// WithoutScripts turns JavaScript off.
func (b *Tab) WithoutScripts() {
	b.Helper()
	b.run(func(ctx context.Context) error {
		return command(ctx, emulation.SetScriptExecutionDisabled, emulation.SetScriptExecutionDisabledParams{Value: true})
	})
}

// Header adds a header to every request of the tab.
func (b *Tab) Header(name, value string) {
	b.Helper()
	b.run(func(ctx context.Context) error {
		return command(ctx, network.SetExtraHTTPHeaders, network.SetExtraHTTPHeadersParams{
			Headers: network.Headers{name: value}})
	})
}

// Look changes the size of the window and the theme.
func (b *Tab) Look(width, height int64, theme string) {
	b.Helper()
	b.do(chromedp.EmulateViewport(width, height))
	b.prefer(&emulation.MediaFeature{Name: "prefers-color-scheme", Value: theme})
}

// LookInForcedColors emulates forced colors and reduced motion.
func (b *Tab) LookInForcedColors() {
	b.Helper()
	b.prefer(&emulation.MediaFeature{Name: "forced-colors", Value: "active"},
		&emulation.MediaFeature{Name: "prefers-reduced-motion", Value: "reduce"})
}

func (b *Tab) prefer(features ...*emulation.MediaFeature) {
	b.Helper()
	b.run(func(ctx context.Context) error {
		return command(ctx, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{Features: features})
	})
}

// Screenshot returns the whole page as PNG.
func (b *Tab) Screenshot() (png []byte) {
	b.Helper()
	b.run(func(ctx context.Context) (err error) {
		png, err = chromedp.Run(ctx, chromedp.FullScreenshot(100))
		return err
	})
	return png
}

// Path returns the page's path with its query.
func (b *Tab) Path() (path string) {
	b.Helper()
	b.Eval("location.pathname + location.search", &path)
	return path
}

// glance is how long a failure message waits for the page's content.
const glance = 5 * time.Second

// State returns the tab's address and text, for failure messages.
func (b *Tab) State() string {
	ctx, cancel := context.WithTimeout(b.ctx, glance)
	defer cancel()
	shown, err := chromedp.Run(ctx, chromedp.Evaluate[string](
		`location.href + "\n" + (document.body ? document.body.innerText.slice(0, 4000) : "")`))
	if err != nil {
		return err.Error()
	}
	return shown
}

func quote(s string) string {
	text, _ := json.Marshal(s) // a string can always be encoded
	return string(text)
}
