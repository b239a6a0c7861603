package web

import (
	"bytes"
	"encoding/json"
	"fmt"
	"html"
	"regexp"
	"strings"
	"testing"
)

var tags = regexp.MustCompile(`<[^>]*>`)

// textOf returns the text of a tree as a browser sees it.
func textOf(shown string) string {
	tree := shown[:strings.LastIndex(shown, `</div>`)]
	return html.UnescapeString(tags.ReplaceAllString(tree, ""))
}

// each concatenates the results of f for the numbers from 0.
func each(n int, f func(i int) string) string {
	all := make([]string, n)
	for i := range all {
		all[i] = f(i)
	}
	return strings.Join(all, ",")
}

// TestTheTextOfATreeIsTheDocument checks the text that people copy from a page, and on which the
// search and the paths are based.
func TestTheTextOfATreeIsTheDocument(t *testing.T) {
	for name, doc := range map[string]string{
		"empty":             `{}`,
		"scalar":            `12345678901234567890.10`,
		"string":            `"a \"quoted\": {"`,
		"empty members":     `{"a":{},"b":[],"c":null,"d":true}`,
		"markup":            `{"<b>&amp;</b>":"</div><script>alert(1)</script>"}`,
		"nested":            `{"a":{"b":{"c":{"d":[1,2,{"e":"f"}]}}}}`,
		"brackets in names": `{"a: {":"[","]":"}","c\\":"d\\\""}`,
		"many members":      `{"items":[` + each(250, func(i int) string { return fmt.Sprintf(`{"n":%d}`, i) }) + `]}`,
		"many scalars":      `[` + each(10_000, func(i int) string { return fmt.Sprint(i) }) + `]`,
		"many parts":        `[` + each(5000, func(i int) string { return `{"a":[{}],"b":[1]}` }) + `]`,
		"deep":              strings.Repeat(`[1,`, 300) + `2` + strings.Repeat(`]`, 300),
	} {
		var want bytes.Buffer
		if err := json.Indent(&want, []byte(doc), "", "  "); err != nil {
			t.Fatal(name, err)
		}
		shown := string(Tree(json.RawMessage(doc)))
		if got := strings.TrimSuffix(textOf(shown), "\n"); got != want.String() {
			t.Errorf("%s: the text is %.200q, want %.200q", name, got, want.String())
		}
		if open, closed := strings.Count(shown, "<details"), strings.Count(shown, "</details>"); open != closed {
			t.Errorf("%s: %d parts begin and %d end", name, open, closed)
		}
	}
}

// TestLongJSONStaysSmall checks that a browser receives at most the first 200 kB, in few elements,
// and folded below the second level.
func TestLongJSONStaysSmall(t *testing.T) {
	order := func(i int) string {
		return fmt.Sprintf(`{"id":%d,"sku":"lamp-%d","price":{"amount":12.50,"currency":"EUR"},"tags":["a","b"]}`, i, i)
	}
	for name, doc := range map[string]string{
		"objects":     `{"order":{"items":[` + each(6000, order) + `]}}`,
		"scalars":     `[` + each(100_000, func(i int) string { return fmt.Sprint(i) }) + `]`,
		"strings":     `{"a":[` + each(20_000, func(i int) string { return `"\"&<>\" twenty-five bytes"` }) + `]}`,
		"one string":  `{"text":"` + strings.Repeat("long ü ", 100_000) + `"}`,
		"one member":  `{"` + strings.Repeat("n", 600_000) + `":1}`,
		"empty ones":  `[` + each(200_000, func(int) string { return `{}` }) + `]`,
		"many levels": `{"a":[` + each(30_000, func(int) string { return `[[[1]]]` }) + `]}`,
	} {
		shown := string(Tree(json.RawMessage(doc)))
		elements := strings.Count(shown, "<") - strings.Count(shown, "</")
		if len(shown) > 900_000 || elements > 10_500 {
			t.Errorf("%s: %d bytes of JSON are %d of HTML with %d elements", name, len(doc), len(shown), elements)
		}
		if !strings.Contains(shown, "The first ") || strings.Count(shown, "<details") != strings.Count(shown, "</details>") {
			t.Errorf("%s: ends with %q", name, shown[len(shown)-200:])
		}
		if json.Valid([]byte(textOf(shown))) {
			t.Errorf("%s: all of it is there", name)
		}
	}
	shown := string(Tree(json.RawMessage(`{"order":{"items":[` + each(6000, order) + `]}}`)))
	if got := strings.Count(shown, "<details open>"); got != 3 {
		t.Errorf("%d parts are open, want two levels and the first hundred", got)
	}
	for _, want := range []string{`data-n=" … 6,000 ]"`, `data-n=" &#34;id&#34;: 7, … 4 }"`, `data-n="0 … 99"`, `data-n="100 … 199"`} {
		if !strings.Contains(shown, want) {
			t.Errorf("no %s", want)
		}
	}
	short := string(Tree(json.RawMessage(`{"a":{"b":{"c":{"d":1}}}}`)))
	if strings.Count(short, "<details") != 4 || strings.Count(short, "<details open>") != 4 {
		t.Errorf("a short one is folded: %s", short)
	}
}

// TestDirectionIsNotObeyed checks that characters that change the direction of text are shown by
// their numbers, except in what a form sends.
func TestDirectionIsNotObeyed(t *testing.T) {
	for _, r := range bidi {
		in := "order" + string(r) + "gnp.exe"
		if got := string(Tree(json.RawMessage(`"` + in + `"`))); !strings.Contains(got, fmt.Sprintf(`order\u%04xgnp`, r)) {
			t.Errorf("%U in JSON: %s", r, got)
		}
		page := `<p title="` + in + `">` + in + `</p><input name="a" value="` + in + `"><textarea name="b">` + in +
			`</textarea><p>after</p>`
		seen := fmt.Sprintf("order⟨U+%04X⟩gnp.exe", r)
		want := `<p title="` + seen + `">` + seen + `</p><input name="a" value="` + in + `"><textarea name="b">` + in +
			`</textarea><p>after</p>`
		if got := string(showDirections([]byte(page))); got != want {
			t.Errorf("%U: %s, want %s", r, got, want)
		}
	}
	const right = "<p>שלום עולם, naïve…</p>"
	if got := string(showDirections([]byte(right))); got != right {
		t.Errorf("%s has become %s", right, got)
	}
}
