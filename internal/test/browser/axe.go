package browser

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"
)

// axeFile returns axe-core, which finds violations of the accessibility guidelines.
func axeFile(t testing.TB) string {
	t.Helper()
	dir, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	for ; ; dir = filepath.Dir(dir) {
		text, err := os.ReadFile(filepath.Join(dir, ".skald-axe", "axe.min.js"))
		if err == nil {
			return string(text)
		}
		if dir == filepath.Dir(dir) {
			t.Fatalf("axe-core: %v (make programs fetches it)", err)
		}
	}
}

// Violations returns the violations of WCAG 2.2, levels A and AA, on the page in its current state.
func (b *Tab) Violations() (found []string) {
	b.Helper()
	var there bool
	if b.Eval("!!window.axe", &there); !there {
		source := axeFile(b)
		b.run(func(ctx context.Context) error {
			_, err := chromedp.Run(ctx, chromedp.Evaluate[bool](source+";true"))
			return err
		})
	}
	var results []struct {
		ID, Help string
		Nodes    []struct {
			HTML           string
			FailureSummary string
		}
	}
	b.Await(`axe.run(document, {runOnly: ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa"],
		resultTypes: ["violations"]}).then(r => r.violations.map(v => ({ID: v.id, Help: v.help,
		Nodes: v.nodes.slice(0, 3).map(n => ({HTML: n.html.slice(0, 200), FailureSummary: n.failureSummary}))})))`, &results)
	for _, r := range results {
		var where []string
		for _, n := range r.Nodes {
			where = append(where, n.HTML+"\n      "+strings.ReplaceAll(n.FailureSummary, "\n", "\n      "))
		}
		found = append(found, fmt.Sprintf("%s (%s)\n    %s", r.Help, r.ID, strings.Join(where, "\n    ")))
	}
	return found
}
