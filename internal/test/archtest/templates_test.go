package archtest

import (
	"os"
	"regexp"
	"strings"
	"testing"
)

// scrolling matches the elements that the style sheets allow to scroll sideways: tables, and
// preformatted text that is not wrapped the way JSON is.
var scrolling = regexp.MustCompile(`<div[^>]*class="table[ "][^>]*>|<pre[^>]*>`)

// TestWhatScrollsCanBeReachedByKeyboard: on a narrow screen, any of these elements may be wider
// than the page, and the keyboard can only scroll an element that can have the focus (WCAG 2.1.1;
// axe: scrollable-region-focusable).
func TestWhatScrollsCanBeReachedByKeyboard(t *testing.T) {
	found := 0
	for _, page := range proseFiles(t) {
		if !strings.HasPrefix(page, "internal/ui/") || !strings.HasSuffix(page, ".html") {
			continue
		}
		text, err := os.ReadFile("../../../" + page)
		if err != nil {
			t.Fatal(err)
		}
		for _, tag := range scrolling.FindAllString(string(text), -1) {
			if strings.Contains(tag, `class="json"`) {
				continue
			}
			found++
			if !strings.Contains(tag, `tabindex="0"`) {
				t.Errorf("%s: %s has no tabindex", page, tag)
			}
		}
	}
	if found < 60 {
		t.Errorf("only %d of them were found", found)
	}
}
