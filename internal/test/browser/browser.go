// Package browser drives chromium over the pages for people. A test fails on anything that a person
// would see in the browser's console: errors, content security policy reports, requests to other
// servers, and responses with a status of 400 and above that the test has not announced.
//
// The files, each of which builds on those before it: axe, browser, tab, agrees, follows, layout,
// measure.
package browser

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"sync"
	"testing"

	"github.com/chromedp/chromedp"
)

var (
	once    sync.Once
	running context.Context
	failed  error
	stop    = func() {}
)

// Main runs the tests of a package with one chromium, which it stops afterwards.
func Main(m *testing.M) {
	code := m.Run()
	stop()
	os.Exit(code)
}

// chromium returns the context of the one browser.
func chromium(t testing.TB) context.Context {
	t.Helper()
	once.Do(func() {
		path, err := exec.LookPath("chromium")
		if err != nil {
			failed = fmt.Errorf("%w: make programs installs it", err)
			return
		}
		options := append(chromedp.DefaultExecAllocatorOptions[:], chromedp.ExecPath(path),
			// A test's chromium shows only pages of this machine; as root it can't use its sandbox.
			chromedp.NoSandbox, chromedp.Flag("disable-dev-shm-usage", true), chromedp.WindowSize(1280, 900))
		all, end := chromedp.NewExecAllocator(context.Background(), options...)
		ctx, endTab := chromedp.NewContext(all)
		stop = func() { endTab(); end() }
		running, failed = ctx, chromedp.Do(ctx, chromedp.Navigate("about:blank"))
	})
	if failed != nil {
		t.Fatalf("chromium: %v", failed)
	}
	return running
}
