package browser

import (
	"context"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/heapprofiler"
	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"
)

// SlowCPU slows the tab's processor down by this factor.
func (b *Tab) SlowCPU(times float64) {
	b.Helper()
	b.run(func(ctx context.Context) error {
		return command(ctx, emulation.SetCPUThrottlingRate, emulation.SetCPUThrottlingRateParams{Rate: times})
	})
}

// OnEveryPage runs a script before the page's own scripts on each page that is opened from now on.
func (b *Tab) OnEveryPage(script string) {
	b.Helper()
	b.run(func(ctx context.Context) error {
		_, err := chromedp.Call(ctx, page.AddScriptToEvaluateOnNewDocument,
			page.AddScriptToEvaluateOnNewDocumentParams{Source: script})
		return err
	})
}

// FirstPaint returns when the page first showed something, in milliseconds after it was requested.
func (b *Tab) FirstPaint() (ms float64) {
	b.Helper()
	b.Until("something painted", `performance.getEntriesByName("first-contentful-paint").length`)
	b.Eval(`performance.getEntriesByName("first-contentful-paint")[0].startTime`, &ms)
	return ms
}

// Heap returns how many bytes of memory the page's scripts use.
func (b *Tab) Heap() (bytes float64) {
	b.Helper()
	b.run(func(ctx context.Context) error {
		if err := command(ctx, heapprofiler.CollectGarbage, cdp.Empty{}); err != nil {
			return err
		}
		used, err := chromedp.Call(ctx, runtime.GetHeapUsage, cdp.Empty{})
		bytes = used.UsedSize
		return err
	})
	return bytes
}

// Requests returns how many requests the tab has sent.
func (b *Tab) Requests() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.sent
}
